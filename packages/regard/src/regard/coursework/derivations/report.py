"""What is said of a derivation: every line with its mark, then the whole."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from typing import Any

from regard.coursework.derivations.checking import CheckedLine, Checker, Mark, read_text, run_checker
from regard.coursework.derivations.problem import Problem, find_problem, problem_names, read_problem
from regard.errors import InputError
from regard.results import Result

SIGNS = {Mark.FOLLOWS: "+", Mark.TRUE: "?", Mark.FALSE: "x", Mark.NOT_READ: "-", Mark.DEFINES: "="}
COLOURS = {
    Mark.FOLLOWS: "#117733",
    Mark.TRUE: "#996600",
    Mark.FALSE: "#aa2222",
    Mark.NOT_READ: "#666666",
    Mark.DEFINES: "#335588",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivationReport(Result):
    """A derivation, marked. ``complete``: every line follows, and every goal is reached."""

    claim: str
    lines: tuple[CheckedLine, ...]
    goals: tuple[str, ...]
    missing: tuple[str, ...]  # goals that no line reaches
    unused: tuple[str, ...]  # given facts that no line needed
    said: tuple[str, ...]  # how letters and indices were read
    hint: str = ""

    @property
    def first_false(self) -> CheckedLine | None:
        return next((line for line in self.lines if line.mark is Mark.FALSE), None)

    @property
    def complete(self) -> bool:
        return (
            bool(self.lines)
            and not self.missing
            and all(line.mark in (Mark.FOLLOWS, Mark.DEFINES) for line in self.lines)
        )

    @property
    def answer(self) -> bool:
        return self.complete

    @property
    def exit_code(self) -> int:
        """0: complete and proved; 1: a false line; 3: no false line, but not all is read, proved or reached."""
        return 1 if self.first_false is not None else 0 if self.complete else 3

    def __str__(self) -> str:
        said = [f"{self.claim}: {self._summary()}"]
        for line in self.lines:
            said += format_line(line)
        said += [f"  Read: {one}." for one in self.said]
        said += [f"  Not reached: {goal}." for goal in self.missing]
        if self.unused and self.lines:
            said.append(f"  Given, and never used: {', '.join(self.unused)}.")
        return "\n".join([*said, *([f"  Hint: {self.hint}"] if self.hint else [])])

    def _summary(self) -> str:
        if not self.lines:
            return "no relation was found in the text; write formulas between $ signs, or one per line."
        counts = {mark: sum(line.mark is mark for line in self.lines) for mark in Mark}
        said = ", ".join(f"{count} {mark.value}" for mark, count in counts.items() if count)
        if self.first_false is not None:
            return f"line {self.first_false.line} is false ({said})."
        return f"complete and proved ({said})." if self.complete else f"no false line, but not complete ({said})."

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "complete": self.complete, "exit_code": self.exit_code}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{line.line}</td><td><code>{html.escape(line.text)}</code></td>"
            f"<td style='color:{COLOURS[line.mark]}'>{line.mark.value}</td><td>{html.escape(reason(line))}</td></tr>"
            for line in self.lines
        )
        rest = html.escape(
            "\n".join([f"Not reached: {goal}" for goal in self.missing] + [f"Read: {one}" for one in self.said])
        )
        return f"<p>{html.escape(self.claim)}: {html.escape(self._summary())}</p><table>{rows}</table><pre>{rest}</pre>"


def reason(line: CheckedLine) -> str:
    """Why a line has its mark."""
    if line.mark is Mark.FALSE:
        where = f"on {line.instance}: " if line.instance else ""
        return f"{where}left {line.values[0]}, right {line.values[1]}" + (f"; {line.remark}" if line.remark else "")
    return line.remark or ", ".join(line.rules)


def format_line(line: CheckedLine) -> list[str]:
    said = [f"  {SIGNS[line.mark]} line {line.line}: {line.text}"]
    if line.caret >= 0 and line.mark is Mark.NOT_READ:
        first = line.text.split("\n")[0]
        said = [
            f"  - line {line.line}: {first}",
            " " * (len(f"  - line {line.line}: ") + min(line.caret, len(first))) + "^",
        ]
    why = reason(line)
    return [*said, f"      {line.mark.value}{': ' if why else ''}{why}"]


def check_derivation(claim: str, text: str, *, problem: Problem | None = None, hints: int = 0) -> DerivationReport:
    """Check the text of a derivation, for a claim or for a teacher's own problem."""
    problem = problem if problem is not None else require_problem(claim)
    return make_report(problem, run_checker(problem, text), hints)


def check_file(
    claim: str, path: str | os.PathLike[str], *, problem: str | None = None, hints: int = 0
) -> DerivationReport:
    """Check the derivation in a file; ``problem`` is a teacher's own TOML file."""
    own = read_problem(problem) if problem is not None else None
    return check_derivation(claim, read_text(path), problem=own, hints=hints)


def require_problem(claim: str) -> Problem:
    """The problem of a claim; where there is none, the claims that have one are named."""
    found = find_problem(claim)
    if found is None:
        raise InputError(f"{claim} has no derivation that is checked; these have: {', '.join(problem_names())}.")
    return found


def make_report(problem: Problem, checker: Checker, hints: int) -> DerivationReport:
    missing = tuple(goal.text for goal in problem.goal if goal.name not in checker.reached)
    rules = {rule for line in checker.lines for rule in line.rules}
    unused = tuple(fact.name for fact in (*problem.lemmas,) if fact.name not in rules)
    said = tuple(dict.fromkeys([*checker.known.words.said, *checker.said]))
    return DerivationReport(
        claim=problem.name,
        lines=tuple(checker.lines),
        goals=tuple(goal.text for goal in problem.goal),
        missing=missing,
        unused=unused,
        said=said,
        hint=_hint(problem, checker, missing, hints),
    )


def _hint(problem: Problem, checker: Checker, missing: tuple[str, ...], hints: int) -> str:
    """Once: where the next step goes; twice: which rule."""
    if not hints:
        return ""
    wrong = next((line for line in checker.lines if line.mark not in (Mark.FOLLOWS, Mark.DEFINES)), None)
    if wrong is not None:
        where = f"look at line {wrong.line} first: {wrong.text}."
    elif missing and checker.lines:
        where = f"go on from {checker.lines[-1].text} towards {missing[0]}."
    else:
        where = problem.hints[0] if problem.hints else "begin with what is given."
    if hints == 1:
        return where
    return f"{where} Rules: {problem.hints[-1]}." if problem.hints else where
