"""A claim: a statement in words and formula, its sources, its readings with their checks, a proof, a picture.

Its words stand in ``claims/NAME.toml``, its functions in the module beside it; :func:`read_claim` joins the two.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.arrays import check_target
from regard.coursework.problem_sets import SETS, Source
from regard.coursework.question import Parameter, Question, checked_parameters
from regard.coursework.verdict import ClaimReport, MarkedResult, Proof, Reading, ReadingVerdict, wrap_text
from regard.errors import InputError
from regard.pictures import ENDINGS, axes, figure, save, set_formulas
from regard.progress import Progress
from regard.rigor import check_arithmetic
from regard.toml import package_table
from regard.written_numbers import in_full

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.coursework.answers.report import AnswerReport, Template
    from regard.coursework.checker.check import TransformerReport
    from regard.coursework.derivations.report import DerivationReport, DerivationTemplate
    from regard.sandbox.jail import Tier

_VALUE = re.compile(r"`(\w+)` \([^)]*\)")  # as statements have it: `factor` (1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim(MarkedResult):
    """A statement of the coursework. Its name is the name of its file.

    ``prove`` returns the proof as text, with the instance's numbers in it; ``draw`` fills a matplotlib figure; both
    take the parameters by name, as the readings' checks do. The first reading is the statement's own. ``question`` is
    what a reader can construct and have checked; None where the claim asks for words or for a model in code.
    """

    name: str
    topic: str
    statement: str
    formula: str
    sources: tuple[Source, ...]
    parameters: tuple[Parameter, ...]
    readings: tuple[Reading, ...]
    prove: Callable[..., str]
    draw: Callable[..., None]
    question: Question | None = None
    asks_for_code: bool = False  # a whole model, checked by regard.coursework.checker

    def check(self, /, **parameters: float) -> ClaimReport:
        """Decide every reading for these parameters; the others keep their defaults."""
        check_arithmetic()
        chosen = self.resolve_parameters(**parameters)
        other = [p.name for p in self.parameters if chosen[p.name] != p.default]
        judged = [
            ReadingVerdict(
                reading=one.name,
                statement=_with_values(one.statement, chosen),
                verdict=one.check(**chosen),
                ignored=tuple(name for name in other if name in one.ignores),
            )
            for one in self.readings
        ]

        def draw(figure: Any) -> None:
            self.draw_into(figure, **chosen)

        return ClaimReport(claim=self.name, parameters=chosen, judged=tuple(judged), sources=self.sources, _draw=draw)

    def proof(self, /, **parameters: float) -> Proof:
        """The proof, with the numbers of this instance."""
        chosen = self.resolve_parameters(**parameters)
        return Proof(claim=self.name, parameters=chosen, text=self.prove(**chosen))

    def source_in(self, name: str) -> Source | None:
        """Its place in the set of this name; None if the set does not contain it."""
        return next((source for source in self.sources if source.name == name), None)

    @property
    def is_checkable(self) -> bool:
        """Whether a reader can have an answer of their own checked."""
        return self.question is not None or self.asks_for_code

    @property
    def function(self) -> str:
        """The name of what a reader writes, in the template: a function or a class; empty where words are asked for."""
        if self.asks_for_code:
            return "TransformerTranslator"
        return self.question.function if self.question is not None else ""

    def solution(self, /, **parameters: float) -> ClaimReport:
        """The verdicts and the proof together."""
        return replace(self.check(**parameters), proof=self.proof(**parameters))

    def plot(self, path: str | os.PathLike[str], **parameters: float) -> None:
        """Write the picture to an .svg, .png or .pdf file (needs ``regard[plots]``)."""
        chosen, made = self.resolve_parameters(**parameters), figure()
        target = check_target(path, ENDINGS)  # before the drawing, which can take seconds
        self.draw_into(made, **chosen)
        save(made, target)

    def draw_into(self, figure: Any, /, **chosen: float) -> None:
        """The picture in a matplotlib figure, the formulas of its texts set as in a book."""
        self.draw(figure, **chosen)
        set_formulas(figure)

    def check_answer(
        self,
        function: str | Callable[..., Any],
        /,
        *,
        seed: int = 0,
        limit: float = 10.0,
        jail: bool | Tier = False,
        hints: int = 0,
        progress: Progress | None = None,
        sizes: Mapping[str, object] | None = None,
        **parameters: float,
    ) -> AnswerReport | TransformerReport:
        """Check your own answer on fresh instances and against the adversary.

        ``function`` is "my.py:query", which is run in a process of its own for at most ``limit`` seconds, in a jail if
        you say so, or a function, which is called in this process and cannot be stopped. Parameters fix the
        instances' sizes; ``sizes`` takes them as a mapping, for names that come from elsewhere.
        """
        if self.asks_for_code:
            from regard.coursework.checker.check import check_transformer

            # for its refusals only: a model in code has no sizes to choose
            self.resolve_parameters(**{**(sizes or {}), **parameters})
            return check_transformer(
                function, claim=self.name, seed=seed, limit=limit, hints=hints, jail=jail, progress=progress
            )
        from regard.coursework.answers.answer_check import check_answer

        given = {**(sizes or {}), **parameters}
        return check_answer(
            self.name,
            self._require_question(),
            function,
            seed=seed,
            limit=limit,
            jail=jail,
            given=given,
            progress=progress,
        )

    def check_derivation(self, text: str, /, *, hints: int = 0) -> DerivationReport:
        """Check the text of your own derivation, line by line: Markdown, LaTeX or plain text."""
        from regard.coursework.derivations.report import check_derivation

        return check_derivation(self.name, text, hints=hints)

    def template(self, path: str | os.PathLike[str] | None = None) -> Template | DerivationTemplate:
        """Write the function to fill in to a new file, by default named after the claim."""
        is_proof = path is not None and os.fspath(path).endswith((".md", ".tex", ".txt", ".ipynb"))
        if path is not None and is_proof and not self.asks_for_code:
            from regard.coursework.derivations.report import write_derivation_template

            return write_derivation_template(self.name, path)
        if self.asks_for_code:
            from regard.coursework.checker.template import write_class_template as written_class

            return written_class(self.name, path)
        from regard.coursework.answers.report import write_function_template

        return write_function_template(self.name, self.statement, self._require_question(), path)

    def _require_question(self) -> Question:
        if self.question is None:
            raise InputError(
                f"{self.name} asks for words, not for something to construct; "
                f"regard claims {self.name} --check --proof shows ours."
            )
        return self.question

    def resolve_parameters(self, /, **parameters: object) -> dict[str, float]:
        """The defaults with these replaced, checked against their ranges."""
        return checked_parameters(self.parameters, parameters, self.name)

    def __str__(self) -> str:
        lines = [self.name, wrap_text(self.statement, indent=2), wrap_text(self.formula, indent=6)]
        lines += [
            "  Where:",
            *(wrap_text(f"{source}: {SETS[source.name]}", indent=4, hang=2) for source in self.sources),
        ]
        lines += ["  Read as:", *(wrap_text(f"{r.name}: {r.statement}", indent=4, hang=2) for r in self.readings)]
        if self.parameters:
            lines += ["  Parameters:"]
            lines += [
                wrap_text(f"{p.name} = {p.default:g}: {p.meaning}, {p.rule()}", indent=4, hang=2)
                for p in self.parameters
            ]
        if self.question is not None:
            lines += ["  Your own answer:", f"    {self.question.signature}, by --template and --answer FILE.py"]
        if self.asks_for_code:
            lines += ["  Your own code:", "    a class TransformerTranslator, by --template and --answer FILE.py:NAME"]
        return "\n".join([*lines, f"  Next: regard claims {self.name} --check, --proof, --plot picture.svg"])

    def marked_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic": self.topic,
            "statement": self.statement,
            "formula": self.formula,
            "sources": [
                {"set": s.name, "question": s.where, "questions": list(s.labels), "note": s.note} for s in self.sources
            ],
            "readings": [{"name": r.name, "statement": r.statement} for r in self.readings],
            "parameters": [
                {"name": p.name, "default": p.default, "meaning": p.meaning, "rule": p.rule()} for p in self.parameters
            ],
            "question": None if self.question is None else self.question.signature,
        }


def read_claim(module: str) -> Claim:
    """The claim of claims/NAME.toml, joined with the functions of the module beside it, which says ``__name__``.

    A reading names the function that decides it. ``draw`` makes the picture: on axes that have the words of
    ``[picture]`` already, or on an empty figure where there are none. ``QUESTION`` is what a reader can construct. The
    proof is a text with places for numbers: the parameters, and what ``proof_numbers`` computes from them.
    """
    functions, name = vars(sys.modules[module]), module.rpartition(".")[2].replace("_", "-")
    words = package_table("regard.coursework.claims", f"{name}.toml")

    def prove(**chosen: float) -> str:
        numbers = functions["proof_numbers"](**chosen) if "proof_numbers" in functions else {}
        return str(words["proof"]["text"]).format(**chosen, **numbers)

    def draw(figure: Any, **chosen: float) -> None:
        with _words_around(figure, words["picture"], chosen) if "picture" in words else nullcontext(figure) as place:
            functions["draw"](place, **chosen)

    return Claim(
        name=name,
        topic=words["topic"],
        statement=words["statement"],
        formula=words["formula"],
        sources=tuple(Source(**source) for source in words["sources"]),
        parameters=tuple(Parameter(name=one, **rule) for one, rule in words.get("parameters", {}).items()),
        readings=tuple(
            Reading(**{**one, "check": functions[one["check"]], "ignores": tuple(one.get("ignores", ()))})
            for one in words["readings"]
        ),
        prove=prove,
        draw=draw,
        question=functions.get("QUESTION"),
        asks_for_code=words.get("asks_for_code", False),
    )


@contextmanager
def _words_around(figure: Figure, words: Mapping[str, Any], chosen: Mapping[str, float]) -> Iterator[Axes]:
    """Axes with their title and labels, for these parameters; and the legend, once what it names has been drawn."""
    said = {name: one.format(**chosen) if isinstance(one, str) else one for name, one in words.items()}
    legend: Any = said.pop("legend", {})
    made = axes(figure, **said)
    yield made
    if made.get_legend_handles_labels()[1]:
        made.legend(frameon=False, loc=legend.get("loc", "best"), fontsize=legend.get("fontsize"))


def _with_values(statement: str, chosen: Mapping[str, float]) -> str:
    """A statement that names a parameter with its default, as `factor` (1), with the value that was chosen.

    >>> _with_values("at most `factor` (1) times n", {"factor": 2.0, "n": 3})
    'at most `factor` (2) times n'
    """
    return _VALUE.sub(lambda found: f"`{found[1]}` ({in_full(chosen[found[1]])})", statement)
