"""What is said of a derivation: every line with its mark, then the whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from regard.coursework.derivations.checking import Checker, run_checker
from regard.coursework.derivations.problem import Problem, find_problem, problem_names, read_problem
from regard.coursework.derivations.verdicts import LineVerdict, Mark
from regard.errors import InputError
from regard.files import check_target, read_file, write_new_file
from regard.markup import element, join
from regard.results import Result
from regard.strict_json import parse_json

SIGNS = {Mark.FOLLOWS: "+", Mark.TRUE: "?", Mark.FALSE: "x", Mark.NOT_READ: "-", Mark.DEFINES: "="}
LARGEST = 2_000_000  # bytes; a notebook carries its pictures
# as far from black as from white: a notebook's page may be either
COLOURS = dict(zip(Mark, ("#1a8548", "#a16a00", "#d23c3c", "#757575", "#3f78ad"), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivationReport(Result):
    """A derivation, marked. ``complete``: every line follows, and every goal is reached."""

    claim: str
    lines: tuple[LineVerdict, ...]
    goals: tuple[str, ...]
    missing: tuple[str, ...]  # goals that no line reaches
    unused: tuple[str, ...]  # given facts that no line needed
    said: tuple[str, ...]  # how letters and indices were read
    supposed: tuple[str, ...] = ()  # what the writer supposes, and nobody gives
    hint: str = ""

    @property
    def begins_at_given(self) -> bool:
        return bool(self.lines) and self.lines[0].mark in (Mark.FOLLOWS, Mark.DEFINES)

    @property
    def first_false(self) -> LineVerdict | None:
        return next((line for line in self.lines if line.mark is Mark.FALSE), None)

    @property
    def complete(self) -> bool:
        return (
            bool(self.lines)
            and not self.missing
            and not self.supposed
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
        lines = [text for line in self.lines for text in format_line(line)]
        return "\n".join([f"{self.claim}: {self.summary()}", *lines, *(f"  {one}" for one in self.remarks())])

    def remarks(self) -> list[str]:
        """What is said of the whole: how it was read, where it begins, what it reaches, what it rests on."""
        said = [f"Read: {one}." for one in self.said]
        if self.lines and not self.begins_at_given:
            said.append("It does not begin at what is given: the first line is neither proved nor a definition.")
        said += [f"Not reached: {goal}." for goal in self.missing]
        said += [f"Supposed, and not given: {one}." for one in self.supposed]
        if self.unused and self.lines:
            said.append(f"Given, and never used: {', '.join(self.unused)}.")
        return [*said, *([f"Hint: {self.hint}"] if self.hint else [])]

    def summary(self) -> str:
        if not self.lines and self.said:
            return "no line was found that leads to what is to be shown."
        if not self.lines:
            return "no relation was found in the text; write formulas between $ signs, or one per line."
        counts = {mark: sum(line.mark is mark for line in self.lines) for mark in Mark}
        said = ", ".join(f"{count} {mark.value}" for mark, count in counts.items() if count)
        if self.first_false is not None:
            return f"line {self.first_false.line} is false ({said})."
        return f"complete and proved ({said})." if self.complete else f"no false line, but not complete ({said})."

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "complete": self.complete,
            "begins_at_given": self.begins_at_given,
            "exit_code": self.exit_code,
        }

    def _repr_html_(self) -> str:
        rows = [
            element(
                "tr",
                element("td", line.line),
                element(
                    "td",
                    f"{SIGNS[line.mark]} {line.mark.value}",
                    style=f"white-space:nowrap;color:{COLOURS[line.mark]}",
                ),
                element("td", element("pre", "\n".join(line.text_and_caret), style="margin:0;text-align:left")),
                element("td", reason(line)),
            )
            for line in self.lines
        ]
        rest = [element("p", text) for text in self.remarks()]
        return join(element("p", element("b", f"{self.claim}: {self.summary()}")), element("table", *rows), *rest)


def reason(line: LineVerdict) -> str:
    """Why a line has its mark."""
    if line.mark is Mark.FALSE and line.values != ("", ""):
        where = f"on {line.instance}: " if line.instance else ""
        return f"{where}left {line.values[0]}, right {line.values[1]}" + (f"; {line.remark}" if line.remark else "")
    return line.remark or ", ".join(line.rules)


def format_line(line: LineVerdict) -> list[str]:
    head, why = f"  {SIGNS[line.mark]} line {line.line}: ", reason(line)
    first, *caret = line.text_and_caret
    return [
        head + first,
        *(" " * len(head) + one for one in caret),
        f"      {line.mark.value}{': ' if why else ''}{why}",
    ]


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


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a derivation's file; of a notebook, what its cells of words have."""
    name = os.fspath(path)
    try:
        text = read_file(path, most=LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"There is no file {name!r}; --template proof.md writes one to begin with.") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is no text in UTF-8; write the derivation as Markdown, LaTeX or plain text."
        ) from None
    return words_of_notebook(text, name) if name.endswith(".ipynb") else text


def words_of_notebook(text: str, name: str) -> str:
    """The Markdown cells of a notebook, one after another."""
    try:
        cells = parse_json(text)["cells"]
        words = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
        return "\n\n".join(one if isinstance(one, str) else "".join(one) for one in words)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{name} is no notebook; save it from Jupyter, or write Markdown.") from None


def require_problem(claim: str) -> Problem:
    """The problem of a claim; where there is none, the claims that have one are named."""
    found = find_problem(claim)
    if found is None:
        raise InputError(f"{claim} has no derivation that is checked; these have: {', '.join(problem_names())}.")
    return found


def make_report(problem: Problem, checker: Checker, hints: int) -> DerivationReport:
    missing = tuple(goal.text for goal in problem.goal if goal.name not in checker.reached)
    rules = {rule for line in checker.lines for rule in line.rules}
    facts = [fact for fact in (*problem.lemmas, *problem.given) if fact.left.op != "T"]  # S^T = S goes unnamed
    unused = tuple(fact.name for fact in facts if fact.name not in rules and fact.text not in rules)
    return DerivationReport(
        claim=problem.name,
        lines=tuple(checker.lines),
        goals=tuple(goal.text for goal in problem.goal),
        missing=missing,
        unused=unused,
        said=tuple(dict.fromkeys([*checker.context.words.said, *checker.said])),
        supposed=tuple(checker.supposed),
        hint=make_hint(problem, checker, missing, hints),
    )


def make_hint(problem: Problem, checker: Checker, missing: tuple[str, ...], hints: int) -> str:
    """Once: where the next step goes; twice: which rule."""
    if not hints:
        return ""
    wrong = next((line for line in checker.lines if line.mark not in (Mark.FOLLOWS, Mark.DEFINES)), None)
    first = problem.table.hints[0] if problem.table.hints else "begin with what is given."
    if wrong is not None:
        where = f"look at line {wrong.line} first: {wrong.text}."
    elif missing and checker.lines:
        where = f"go on from {checker.lines[-1].text} towards {missing[0]}."
    else:
        where = first if missing else "nothing is missing."
    return f"{where} Rules: {problem.table.hints[-1]}." if hints > 1 and problem.table.hints and missing else where


# The file to begin with: what is given, what is to be shown, which lemmas may be used; never the proof.


ENDINGS = (".md", ".tex", ".txt", ".ipynb")


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivationTemplate(Result):
    """A template, and the file that it was written to."""

    claim: str
    path: str
    text: str
    problem: str = ""  # a teacher's own file

    def __str__(self) -> str:
        check = f"regard claims {self.claim} --derivation {self.path}" + f" --problem {self.problem}" * bool(
            self.problem
        )
        return f"Wrote {self.path}: write your derivation under its last line, then run\n  {check}"


def write_derivation_template(claim: str, path: str | os.PathLike[str], *, problem: str = "") -> DerivationTemplate:
    """Write the template to a new file, as its ending says; one that exists is never overwritten."""
    target = os.fspath(check_target(path, ENDINGS))  # before the problem is read
    ending = os.path.splitext(target)[1]
    own = read_problem(problem) if problem else require_problem(claim)
    made = DerivationTemplate(claim=claim, path=target, text=template_text(own, ending), problem=problem)
    write_new_file(target, made.text, endings=ENDINGS)
    return made


def template_text(problem: Problem, ending: str = ".md") -> str:
    """The template; formulas in it stand in a comment, so that nobody hands them in as a step."""
    text = problem_text(problem)
    if ending in (".tex", ".txt"):
        sign = "%" if ending == ".tex" else "#"
        return "\n".join(f"{sign} {line}".rstrip() for line in text.split("\n")) + "\n\n"
    comment = f"<!--\n{text}\n-->\n\n"
    if ending == ".md":
        return comment
    cells = [{"cell_type": kind, "metadata": {}, "source": one} for kind, one in (("raw", text), ("markdown", ""))]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1) + "\n"


def problem_text(problem: Problem) -> str:
    """What is given, what may be used and what is to be shown, in plain letters."""
    symbols = []
    for name, one in problem.symbols.items():
        shape = "number" if one.shape == ("1", "1") else " x ".join(one.shape)
        symbols.append(", ".join(filter(None, (f"{name}: {shape}", one.says or one.kind))))
    symbols += [f"{name} >= {least}" for name, least in problem.table.least.items()]
    given = [fact.text for fact in (*problem.given, *problem.suppose)]
    given += [" for ".join([fact.text, *map(str, where)]) for fact, where in problem.order]
    parts = [
        ("Names", symbols),
        ("Definitions", problem.table.definitions),
        ("Given", given),
        ("Lemmas that may be used", [f"{one.name}: {one.text}" for one in problem.lemmas]),
        ("Yours to choose", [f"{name}, from {', '.join(parts)}" for name, parts in problem.choose.items()]),
        ("What your choice must have", [one.text for one in problem.require]),
        ("To be shown", [one.text for one in problem.goal]),
    ]
    body = "\n".join("\n".join([f"{title}:", *(f"  {line}" for line in lines)]) for title, lines in parts if lines)
    permuted = "\nQ_p, Q', Q(P X) and \\tilde Q are Q of the permuted input P X; so for the others."
    return f"{problem.name}: {problem.table.title}\n\n{body}{permuted if problem.words.input else ''}"
