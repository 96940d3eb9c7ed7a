"""Questions found by set and label, with the claims that answer them, their checklists, and the verdicts for that set;
and what the two published solutions assert, sentence by sentence: each holds, holds with a gap, or is false, and why.

>>> from regard.coursework.catalogue import claims
>>> found = claims.of("cs224n", "1-4")
>>> [(one.label, one.claims[0].name) for one in found.questions]
[('1-4i', 'two-heads-average'), ('1-4ii', 'two-heads-steady')]
>>> [(one.verdict, one.claim) for one in assertions_of("cs224n-w25-a4", "1-3i")]
[('holds', 'small-noise-keeps-the-average'), ('gap', 'small-noise-keeps-the-average')]
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from regard.coursework.checklists import Checklist, WrittenAnswer
from regard.coursework.claim import Claim
from regard.coursework.problem_sets import SETS, ProblemSet, QuestionText, label_parts
from regard.coursework.verdict import WIDTH, ClaimReport, MarkedResult, Proof, wrap_text
from regard.errors import InputError
from regard.notation import readable
from regard.progress import Progress
from regard.toml import package_table

VERDICTS = {"holds": "HOLDS", "gap": "HOLDS WITH A GAP", "false": "FALSE"}


@dataclass(frozen=True, kw_only=True, eq=False)
class SetQuestion(MarkedResult):
    """One question of a set: the claims that answer it and what a complete written answer contains."""

    set: str
    label: str
    claims: tuple[Claim, ...]
    checklist: Checklist

    def note(self, claim: Claim) -> str:
        """What the set says of this claim in particular."""
        source = claim.source_in(self.set)
        return source.note if source else ""

    def is_aside(self, claim: Claim) -> bool:
        """Whether the set says it in passing only, beside what is asked here."""
        source = claim.source_in(self.set)
        return source is not None and source.aside

    @property
    def text(self) -> QuestionText:
        """What is asked, in which form, for how many points."""
        return SETS[self.set].question(self.label)

    def __str__(self) -> str:
        return self.open_page()

    def open_page(self, shown: Collection[Claim] = ()) -> str:
        """The question, its claims (without those that are shown already), and its checklist."""
        words = f"regard claims {self.set} {shell_label(self.label)}"
        keys = f"Write your answer first, then mark it: {words} --words mine.txt. Ours: {words} --proof."
        said = [str(claim) if claim not in shown else f"{claim.name}: as above" for claim in self.claims]
        asks = wrap_text(f"{self.label}: {self.text}")
        return "\n\n".join([asks, *said, f"{self.checklist}\n{wrap_text(keys, indent=2)}"])

    def marked_dict(self) -> dict[str, Any]:
        claims = [{**claim.marked_dict(), "here": self.note(claim)} for claim in self.claims]
        items = [{"text": item.text, "points": item.points} for item in self.checklist.items]  # keys come with --proof
        asked = {"asks": self.text.asks, "also": self.text.also, "form": self.text.form, "worth": self.text.points}
        return {"label": self.label, **asked, "claims": claims, "checklist": items, "points": self.checklist.points}


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionSelection(MarkedResult):
    """The questions that were asked for, in the order of their set: a list of all, or some of them opened."""

    set: ProblemSet
    questions: tuple[SetQuestion, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of these questions, each once, in the order of the set."""
        return tuple({claim.name: claim for one in self.questions for claim in one.claims}.values())

    @property
    def central(self) -> tuple[Claim, ...]:
        """These claims without what the set says in passing only."""
        return tuple(claim for claim in self.claims if not any(one.is_aside(claim) for one in self.questions))

    def only_claim(self, doing: str, *, checkable: bool = False) -> Claim:
        """The one claim that an option such as --proof can be about."""
        fitting = [claim for claim in self.claims if claim.is_checkable or not checkable]
        central = [claim for claim in fitting if claim in self.central]
        if len(central or fitting) == 1:
            return (central or fitting)[0]
        labels = ", ".join(one.label for one in self.questions)
        if not fitting:
            raise InputError(
                f"{self.set.name}, {labels} asks for words; "
                f"regard claims {self.set.name} {shell_label(labels)} lists what a "
                "complete answer contains."
            )
        names = ", ".join(claim.name for claim in fitting)
        raise InputError(f"{doing} needs one claim, but {self.set.name}, {labels} has {names}: name one of them.")

    def write(self, text: str) -> WrittenAnswer:
        """Your answer in words to the one question that was asked for, beside its checklist: ``.tick(1, 3)`` marks it.

        >>> from regard.coursework.catalogue import claims
        >>> claims.of("cse151b-hw4", "1A.ii").write("k_j.q exceeds every other k_i.q by far.").tick(1).points
        2
        """
        first, *others = (label_parts(one.label) for one in self.questions)
        if any(other[: len(first)] != first for other in others):  # else the first was named in full, as (c) is
            labels = ", ".join(one.label for one in self.questions)
            raise InputError(
                f"An answer in words is for one question, but {self.set.name} has {labels}: name one of them."
            )
        return self.questions[0].checklist.write(text)

    def check(self, *, progress: Progress | None = None, **parameters: float) -> SetReport:
        """Every claim of these questions, decided by this set's premises."""
        if parameters:
            self.only_claim("A parameter").resolve_parameters(**parameters)
        checked: dict[str, ClaimReport] = {}
        for done, claim in enumerate(self.claims):
            if progress is not None:
                progress(done, len(self.claims))
            checked[claim.name] = claim.check(**parameters).for_set(self.set.name)
        rows = [(one.label, tuple(checked[claim.name] for claim in one.claims)) for one in self.questions]
        return SetReport(set=self.set, rows=tuple(rows))

    def proof(self, **parameters: float) -> SetProofs:
        """Our proofs, and what each item of the checklists should come to."""
        if parameters:
            # refused here, before the first of several claims is worked out
            self.only_claim("A parameter").resolve_parameters(**parameters)
        proofs = tuple(claim.proof(**parameters) for claim in self.claims)
        said = {one.label: assertions_of(self.set.name, one.label) for one in self.questions}
        lists = tuple(one.checklist for one in self.questions)
        return SetProofs(set=self.set, proofs=proofs, checklists=lists, published=said)

    def solution(self, **parameters: float) -> SetProofs:
        """The verdicts for this set, and the proofs."""
        return replace(self.proof(**parameters), checked=self.check(progress=None, **parameters))

    def __str__(self) -> str:
        if len(self.questions) < len(self.set.labels):  # some were named: they are opened
            label = f", {self.questions[0].label}" if len(self.questions) == 1 else ""
            pages, shown = [f"{self.set.name}{label}: {self.set}"], list[Claim]()
            for one in self.questions:
                pages.append(one.open_page(shown))
                shown += one.claims
            return "\n\n".join(pages)
        widest = max(len(one.label) for one in self.questions)
        lines = [f"{self.set.name}: {self.set}"]
        for one in self.questions:
            lines += [self._line(one, claim, widest) for claim in one.claims]
        first = self.questions[0].label
        opens = f"regard claims {self.set.name} {shell_label(first)}"
        return "\n".join([*lines, "", f"Next: {opens} opens a question; add --check for the verdicts."])

    @staticmethod
    def _line(one: SetQuestion, claim: Claim, widest: int) -> str:
        note = one.note(claim)
        said = claim.statement + (f" ({note})" if note else "")
        head = f"  {one.label:<{widest}}  {claim.name:<30}"
        return head + textwrap.shorten(readable(said), WIDTH - len(head), placeholder=" ...")

    def marked_dict(self) -> dict[str, Any]:
        questions = [one.marked_dict() for one in self.questions]
        return {"set": self.set.name, "title": self.set.title, "term": self.set.term, "questions": questions}


@dataclass(frozen=True, kw_only=True, eq=False)
class SetReport(MarkedResult):
    """The verdicts for one set. Of a single question the answer is no where a claim in it is refuted for this set."""

    set: ProblemSet
    rows: tuple[tuple[str, tuple[ClaimReport, ...]], ...]  # label, and what was checked under it

    @property
    def answer(self) -> bool:
        """A table of several questions is a report; one question can be answered with no."""
        return len(self.rows) > 1 or all(checked.answer for _, several in self.rows for checked in several)

    def __str__(self) -> str:
        if len(self.rows) == 1:
            label, several = self.rows[0]
            return "\n\n".join([f"{self.set.name}, {label}: {self.set}", *map(str, several)])
        widest = max(len(label) for label, _ in self.rows)
        lines = [f"{self.set.name}: {self.set}"]
        for label, several in self.rows:
            for checked in several:
                head = (
                    f"{label:<{widest}}  {checked.status.value:<12} {checked.claim}: {checked.deciding_reading.reading}"
                )
                lines.append(wrap_text(head, indent=2, hang=widest + 15))
        return "\n".join([*lines, "", "Each by the premise of this set; add a question for what supports its verdict."])

    def marked_dict(self) -> dict[str, Any]:
        rows = [{"label": label, "claims": [one.marked_dict() for one in several]} for label, several in self.rows]
        return {"set": self.set.name, "questions": rows}


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """One sentence of a published solution, our verdict on it, and what shows it: a reading of a claim, or Python."""

    says: str
    verdict: str
    why: str
    shows: str = ""  # a claim with its settings | a reading of it | what its check says
    python: str = ""  # lines; the last of them is true

    @property
    def claim(self) -> str:
        """The claim whose check shows it; empty where Python does."""
        return self.shows.partition(" ")[0]

    @property
    def evidence(self) -> str:
        """What to type: a command and the line of its output to look at; empty where it is Python."""
        if not self.shows:
            return ""
        asked, reading, status = self.shows.split(" | ")
        name, *settings = asked.split()
        options = "".join(f" --set {one}" for one in settings)
        return f"regard claims {name} --check{options} ({reading}: {status})"

    def __str__(self) -> str:
        lines = [wrap_text(f'"{self.says}" {VERDICTS[self.verdict]}. {self.why}', indent=2, hang=2)]
        lines += [f"    {self.evidence}"] if self.shows else [f"    >>> {line}" for line in self.python.splitlines()]
        return "\n".join(lines)


def assertions_of(set: str, question: str) -> tuple[Assertion, ...]:
    """The sentences of the published solution to one question, by the names of set and question; () without one."""
    return published_solutions().get((set, question), ())


@cache
def published_solutions() -> dict[tuple[str, str], tuple[Assertion, ...]]:
    """All of them, by set and question, in order; they are in published_solutions.toml, in our own words."""
    solutions = package_table("regard.coursework", "published_solutions.toml")["solution"]
    return {(one["set"], one["question"]): tuple(Assertion(**each) for each in one["assertions"]) for one in solutions}


@dataclass(frozen=True, kw_only=True, eq=False)
class SetProofs(MarkedResult):
    """What earns the marks of some questions, verdicts if asked for, proofs, and what a published solution says."""

    set: ProblemSet
    proofs: tuple[Proof, ...]
    checklists: tuple[Checklist, ...]
    published: dict[str, tuple[Assertion, ...]]  # what a published solution says, by question
    checked: SetReport | None = None

    @property
    def answer(self) -> bool:
        return self.checked is None or self.checked.answer

    def __str__(self) -> str:
        marks = [one.text(keys=True) for one in self.checklists]
        checked = [] if self.checked is None else [str(self.checked)]
        said = [
            "\n".join(
                [f"The published solution to {self.set.name}, {label}, sentence by sentence:", *map(str, sentences)]
            )
            for label, sentences in self.published.items()
            if sentences
        ]
        return "\n\n".join([*marks, *checked, *map(str, self.proofs), *said])

    def marked_dict(self) -> dict[str, Any]:
        proofs = [{"claim": one.claim, "parameters": one.parameters, "text": one.text} for one in self.proofs]
        lists = [one.marked_dict() for one in self.checklists]
        said = {label: [vars(one) for one in sentences] for label, sentences in self.published.items() if sentences}
        checked = {} if self.checked is None else self.checked.marked_dict()
        return {**checked, "set": self.set.name, "proofs": proofs, "checklists": lists, "published": said}


def shell_label(label: str) -> str:
    """A label as a shell takes it, without quotes where that is possible.

    >>> shell_label("1B.ii"), shell_label("3(a)i"), shell_label("Attention (b)")
    ('1B.ii', '3ai', 'Attention b')
    """
    return label.replace("(", "").replace(")", "")
