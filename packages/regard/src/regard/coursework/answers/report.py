"""What checking your own answer finds: holds so far, or a counterexample to paste; and the file to fill in first."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.coursework.question import Instance, Question, Setting
from regard.coursework.verdict import format_parameters, wrap_text
from regard.errors import CouldNotFindOut
from regard.files import write_new_file
from regard.notation import without_marks
from regard.results import Result

TOO_LONG = 4  # times the best on every instance: ln(n/eps) with a careless factor stays below 3
MOST_SHOWN = 400  # numbers of a counterexample that are printed; JSON has them all


@dataclass(frozen=True, kw_only=True, eq=False)
class Counterexample(Result):
    """An instance at which the function fails, and why."""

    said: str
    setting: Setting
    given: dict[str, Any]
    hidden: dict[str, Any]  # what the judge used besides
    again: dict[str, Any] | None  # the arguments of a second call, where two were compared
    returned: Any
    function: str
    file: str

    @property
    def code(self) -> str:
        """Python that makes the instance and calls the function: paste it."""
        lines = ["import numpy as np"]
        if Path(self.file).stem.isidentifier():
            lines.append(f"from {Path(self.file).stem} import {self.function}")
        lines += [f"{name} = {literal(value)}" for name, value in {**self.hidden, **self.given}.items()]
        lines.append(f"{self.function}({', '.join(self.given)})  # returned {literal(self.returned, digits=6)}")
        if self.again is not None:
            lines += [
                f"{name} = {literal(value)}" for name, value in self.again.items() if value is not self.given[name]
            ]
            lines.append(f"{self.function}({', '.join(self.again)})")
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [
            wrap_text(f"Because {self.said}.", indent=2),
            f"  The smallest counterexample found: {format_parameters(self.setting)}.",
        ]
        return "\n".join([*lines, *(f"    {line}" for line in self.code.splitlines())])

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "code": self.code}


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance(Result):
    """The answer against the best possible: the ratio, over some instances, and where it was largest."""

    measure: str
    least: float
    most: float
    yours: float
    best: float
    setting: Setting
    instances: int

    def __str__(self) -> str:
        where = format_parameters(self.setting)
        count = f"on {self.instances} instance{'s' * (self.instances != 1)}"
        if max(abs(self.most - 1), abs(self.least - 1)) < 1e-6:
            return f"How far from the best: {self.measure.format('1 times')}, {count}."
        span = f"{self.least:.4g} to {self.most:.4g}" if self.most > self.least * 1.0005 else f"{self.most:.4g}"
        return (
            f"How far from the best: {self.measure.format(f'{span} times')}, {count}; at {where} it is "
            f"{self.yours:.6g} against {self.best:.6g}."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerReport(Result):
    """Your answer, checked: ``answer`` is False where a counterexample was found. Trials never prove."""

    claim: str
    function: str
    seed: int
    instances: int
    pressed: int
    limit: float
    decided: str
    counterexample: Counterexample | None
    distance: Distance | None
    jail: str = "none"  # what kept the code in: none, bubblewrap or landlock
    confined: str = ""  # the same in words; nothing for a function of this process
    printed: str = ""

    @property
    def answer(self) -> bool:
        return self.counterexample is None

    @property
    def too_long(self) -> bool:
        """Whether it passes because it is far larger than it need be, on every instance: a constant, say."""
        return self.distance is not None and self.distance.least > TOO_LONG

    @property
    def status(self) -> str:
        """In words: "holds so far", "holds, but too long" or "fails"."""
        return "fails" if not self.answer else "holds, but too long" if self.too_long else "holds so far"

    def with_run_details(self, confined: str, *, tier: str, printed: str) -> Self:
        """The same, with what kept the code in and what it printed."""
        return dataclasses.replace(self, confined=confined, jail=tier, printed=printed)

    def __str__(self) -> str:
        lines = [self._head()]
        if self.counterexample is not None:
            lines.append(str(self.counterexample))
        lines += [wrap_text(text, indent=2) for text in (self.decided, str(self.distance or "")) if text]
        if self.confined:
            lines.append(wrap_text(f"It ran {self.confined}.", indent=2))
        if self.printed:
            first, *more = self.printed.splitlines()
            lines.append(f"  Your code printed: {first[:70]}{' ...' * bool(more or first[70:])}")
        return "\n".join(lines)

    def _head(self) -> str:
        count = f"{self.instances} instance{'s' * (self.instances != 1)}, seed {self.seed}"
        if not self.answer:
            return f"{self.claim}: {self.function} fails ({count})."
        if self.too_long and self.distance is not None:
            times = f"{self.distance.least:.3g}"
            return (
                f"{self.claim}: {self.function} is right on every instance tried, and {times} times too long: the "
                + (f"question asks for an expression ({count}).")
            )
        more = f"The adversary found no counterexample either, in {self.pressed} moves. This is not a proof."
        return f"{self.claim}: {self.function} holds so far ({count}).\n{wrap_text(more, indent=2)}"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "status": self.status}


class IncompleteCheckError(CouldNotFindOut):
    """Nothing was found against an answer, but time ended the search: being slow is no way to pass."""

    def __init__(
        self, *, claim: str, function: str, instances: tuple[int, int], moves: tuple[int, int], limit: float
    ) -> None:
        self.instances, self.moves = instances, moves  # done, and wanted
        done = max(instances[0] + moves[0], 1)
        enough = float(f"{1.5 * limit * (instances[1] + moves[1]) / done:.1g}")
        super().__init__(
            f"{claim}: {function} took all of its {limit:g} s for {instances[0]} of {instances[1]} instances and "
            f"{moves[0]} of {moves[1]} moves of the adversary; no counterexample was found, but that is too little "
            f"to say that it holds: make it quicker, or give it more time, as with --limit {enough:g}."
        )


def literal(value: Any, *, digits: int = 17) -> str:
    """A Python expression for a number or an array.

    >>> literal(np.eye(3)), literal(np.array([0.5, 2.0])), literal(0.1)
    ('np.eye(3)', 'np.array([0.5, 2.0])', '0.1')
    """
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return repr(float(array)) if digits > 16 else f"{float(array):.{digits}g}"
    if array.size > MOST_SHOWN:
        return f"...  # {' x '.join(map(str, array.shape))} numbers: to_json() has them"
    if array.ndim == 2 and len(array) > 1 and np.array_equal(array, np.eye(*array.shape)):
        return f"np.eye({array.shape[0]}" + (f", {array.shape[1]})" if array.shape[0] != array.shape[1] else ")")
    rounded = (
        array if digits > 16 or array.dtype.kind in "iu" else np.vectorize(lambda x: float(f"{x:.{digits}g}"))(array)
    )
    return f"np.array({(rounded + 0).tolist()})"


def describe_instance(instance: Instance) -> str:
    """Which instance, in a few words, for the end of a sentence."""
    small = {name: value for name, value in instance.given.items() if not isinstance(value, np.ndarray)}
    shapes = [f"{n} of shape {v.shape}" for n, v in instance.given.items() if isinstance(v, np.ndarray)]
    return ", ".join([*shapes[:2], *(f"{name} = {value:.6g}" for name, value in small.items())])


# The file to fill in: a function with the statement, its arguments and what it must return; never the answer.


WIDTH = 92


@dataclass(frozen=True, kw_only=True, eq=False)
class Template(Result):
    """A template, and the file that it was written to."""

    claim: str
    path: str
    signature: str
    text: str

    @property
    def check(self) -> str:
        """The line that checks it."""
        return f"regard claims {self.claim} --answer {self.path}:{self.signature.partition('(')[0]}"

    def __str__(self) -> str:
        return f"Wrote {self.path}: fill in {self.signature}, then run\n  {self.check}"


def write_function_template(
    claim: str, statement: str, question: Question, path: str | os.PathLike[str] | None
) -> Template:
    """Write the template to a new file; one that exists is never overwritten."""
    target = Path(path if path is not None else f"{claim.replace('-', '_')}.py")
    made = Template(
        claim=claim,
        path=os.fspath(target),
        signature=question.signature,
        text=template_text(claim, statement, question, target),
    )
    write_new_file(target, made.text, endings=(".py",))
    return made


def template_text(claim: str, statement: str, question: Question, target: Path) -> str:
    """The template itself."""
    head = [
        f'"""{_fold(f"{claim}: {question.statement or without_marks(statement)}")}',
        "",
        f"{'Keys are counted from 0. ' * bool({'keys', 'means'} & set(question.arguments))}Check it with",
        "",
        f"    regard claims {claim} --answer {target}:{question.function}",
        '"""',
        "",
        "import numpy as np",
        "",
        "",
    ]
    return "\n".join([*head, function_frame(question, without_marks(question.task), fold=_fold), ""])


def function_frame(question: Question, task: str, *, fold: Callable[..., str], calls: Sequence[str] = ()) -> str:
    """The function to fill in: its arguments, what it must return, and how it is called."""
    inside = [fold(task), ""]
    inside += [fold(f"{name}: {meaning}" if meaning else name, hang=4) for name, meaning in question.arguments.items()]
    inside += ["", fold(f"Return {question.returns}.")]
    if calls:
        inside += ["", "It is called like this, and with many other arguments:", *(f"    {line}" for line in calls)]
    body = textwrap.indent('"""' + "\n".join(inside).replace("\\", "\\\\") + '\n"""', "    ")
    return f'def {question.signature}:\n{body}\n    raise NotImplementedError("write your answer here")'


def _fold(line: str, *, hang: int = 0) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=" " * hang, break_on_hyphens=False)
