"""The five assignments that ship: every question of a problem set, in its order and form, with the set's own points.

A small class to try grading on: an assignment, a list of students, and what they handed in, right and wrong.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from regard.coursework.catalogue import claims
from regard.coursework.checklists import Item, of
from regard.coursework.claim import Claim
from regard.coursework.derivations.problem import problem_names
from regard.coursework.problem_sets import SETS, QuestionText
from regard.errors import InputError
from regard.files import make_folder, write_file, write_new_file
from regard.grading.assignments.assignment_check import RIGHT, our_functions
from regard.grading.assignments.template import notebook_cell, notebook_text
from regard.notation import without_marks
from regard.results import Result
from regard.toml import parse_toml


@dataclass(frozen=True, kw_only=True, eq=False)
class AssignmentWritten(Result):
    """A new assignment in its file."""

    path: str
    questions: int
    written: int

    def __str__(self) -> str:
        marked = f", {self.written} of them marked by a person" if self.written else ""
        return (
            f"Wrote {self.path}: {self.questions} questions{marked}. Look through it, then run\n"
            f"  regard assignment check {self.path}"
        )


def new_assignment(name: str, path: str | None = None) -> AssignmentWritten:
    """Write the assignment of a problem set to a new file."""
    if name not in SETS:
        raise InputError(f"There is no problem set {name!r}; the sets are {', '.join(SETS)}.")
    target = Path(path if path is not None else f"{name}.toml")
    questions = [lines for one in SETS[name].questions for lines in _questions(name, one)]
    head = _file("new_assignment.toml").replace("FILE", target.name)
    head = head.replace("NAME", _toml_string(name)).replace("TITLE", _toml_string(str(SETS[name])))
    remarks = ", ".join(one.label for one in SETS[name].questions if one.form == "remark")
    whose = f"# Points: {SETS[name].points}." + (f" Not asked, so not in here: {remarks}." if remarks else "")
    text = "\n".join([head, f"{whose}\n", *("\n".join([*lines, ""]) for lines in questions)])
    write_new_file(target, text, endings=(".toml",))
    written = sum('kind = "written"' in lines for lines in questions)
    return AssignmentWritten(path=str(target), questions=len(questions), written=written)


def _questions(name: str, one: QuestionText) -> Iterator[list[str]]:
    """A question of a set as the file has it: a function and its argument in words, a proof, words, or a model.

    Where two things are asked for, each has half of the points.
    """
    asked = claims.of(name, one.label)
    claim = next(claim for claim in asked.central if one.label in claim.source_in(name).labels)  # type: ignore[union-attr]
    items = [item for item in of(name, one.label).items if item.points]
    if one.form == "construction":
        yield [*_head(one.label, claim, one.points / 2, one.asks), *_function_lines(claim)]
        yield _words_question(f"{one.label}, why", claim, one.points / 2, f"The argument. {one.asks}", items[1:])
    elif one.form == "code":
        lines = ['function = "TransformerTranslator"   # a class; graded where torch is installed', _hint(claim)]
        yield [*_head(one.label, claim, one.points, one.asks), *lines]
    elif one.also:
        first, second = ([item for item in items if bool(item.part) is part] for part in (False, True))
        yield _words_question(one.label, claim, one.points / 2, one.asks, first, proof=one.form == "proof")
        yield _words_question(f"{one.label}, why", claim, one.points / 2, one.also, second)
    elif one.form != "remark":
        yield _words_question(one.label, claim, one.points, one.asks, items, proof=one.form == "proof")


def _head(id: str, claim: Claim, points: float, text: str) -> list[str]:
    said = [f"id = {_toml_string(id)}", f"claim = {_toml_string(claim.name)}", f"points = {points:g}"]
    return ["[[question]]", *said, f"text = {_toml_string(text)}"]


def _function_lines(claim: Claim) -> list[str]:
    if claim.question is None:
        raise InputError(f"{claim.name} asks for words, not for something to construct.")
    name, arguments = claim.name.replace("-", "_"), ", ".join(claim.question.arguments)
    sizes = ", ".join(size.name for size in claim.question.sizes)
    return [
        f"function = {_toml_string(name)}   # called with ({arguments})",
        f"# set = {{...}}   # fixes sizes of the instances: {sizes}",
        _hint(claim),
    ]


def _hint(claim: Claim) -> str:
    return f"hint = {_toml_string(hints()[claim.name])}"


def _words_question(
    id: str, claim: Claim, points: float, text: str, items: list[Item], *, proof: bool = False
) -> list[str]:
    """A question that a person marks, with a comment that says where a program could; a proof is marked by one."""
    derived = proof and claim.name in problem_names()
    by = 'kind = "derivation"   # its lines are checked; where it is in a PDF only, a person marks it by the checklist'
    lines = [*_head(id, claim, points, text), by if derived else 'kind = "written"']
    if claim.question is not None and not derived and not id.endswith(", why"):
        signature = f"{claim.name.replace('-', '_')}({', '.join(claim.question.arguments)})"
        lines += [f"# without kind, text and checklist a program marks it: a function {signature}"]
    lines += ["checklist = [   # key: what it should come to, for the person who marks"]
    for one in items:
        said = f"text = {_toml_string(one.text)}, points = {one.points}, key = {_toml_string(one.key)}"
        lines.append(f"  {{{said}}},")
    return [*lines, "]"]


@cache
def hints() -> dict[str, str]:
    """What is told beside a lost point, by claim."""
    return parse_toml(_file("hints.toml"))


def _file(name: str) -> str:
    return resources.files("regard.grading.assignments").joinpath(name).read_text(encoding="utf-8")


def _toml_string(text: str) -> str:
    return json.dumps(without_marks(text), ensure_ascii=False)  # a string of JSON is one of TOML


CLASS = resources.files("regard.grading.assignments") / "example_class"  # the assignment, and the list of students
ASKED = ("copying-condition", "average-of-two", "weights-are-a-distribution")
HANDED_IN = {  # which of our answers to questions 1, 2 and 3
    "ada": (RIGHT, RIGHT, RIGHT),
    "ben": ("forgets n", "forgets n", RIGHT),
    "eva": (RIGHT, "only in order", "overflows"),
    "fay": ("forgets n", RIGHT, RIGHT),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleWritten(Result):
    """A class to try things on."""

    folder: str

    def __str__(self) -> str:
        grade = f"{self.folder}/submissions --assignment {self.folder}/hw.toml --students {self.folder}/students.csv"
        return (
            f"Wrote {self.folder}: an assignment (hw.toml), seven students, and what six of them handed in. Try\n"
            f"  regard assignment secret {self.folder}/secret.txt\n"
            f"  regard grade {grade} --secret {self.folder}/secret.txt --out {self.folder}/grades"
        )


def write_example(folder: str) -> ExampleWritten:
    """Write the example to a new folder."""
    base = Path(folder)
    if base.exists():
        raise InputError(f"{folder} exists and is not overwritten; name another folder.")
    make_folder(base / "submissions")
    for name in ("hw.toml", "students.csv"):
        write_file(base / name, (CLASS / name).read_bytes())
    words = parse_toml((CLASS / "words.toml").read_text(encoding="utf-8"))
    programs = {student: answers(dict(zip(ASKED, ours, strict=True))) for student, ours in HANDED_IN.items()}
    programs["gus"] = "def copying_condition(n, eps)\n    return n\n"
    for student, text in programs.items():
        written = f"\n\n# Your answer to 4:\n{textwrap.indent(words[student].strip(), '# ')}\n"
        write_file(base / "submissions" / f"{student}.py", (text + written).encode())
    write_file(base / "submissions" / "chi.ipynb", _notebook(words["chi"]).encode())
    return ExampleWritten(folder=folder)


def answers(chosen: Mapping[str, str]) -> str:
    """A file with these answers of ours, by claim, each under the name that the assignment asks for."""
    parts = ["import math", "import numpy as np"]
    for claim, said in chosen.items():
        (node,) = ast.parse(our_functions(claim)[said]).body
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
        parts.append(ast.unparse(node))
    return "\n\n\n".join(parts) + "\n"


def _notebook(words: str) -> str:
    code = answers(dict(zip(ASKED, (RIGHT, RIGHT, "not normalised"), strict=True)))
    *imports, first, second, third = code.split("\n\n\n")
    cells = ["\n".join(["%matplotlib inline", *imports]), first, second, third]
    return notebook_text(
        [*(notebook_cell("code", text) for text in cells), notebook_cell("markdown", f"## 4\n\n{words.strip()}")]
    )
