"""A small class to try grading on: an assignment, a list of students, and what they handed in, right and wrong."""

from __future__ import annotations

import ast
import json
import textwrap
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from regard.errors import InputError
from regard.files import make_folder, write_file
from regard.results import Result
from regard.toml import parse_toml

CLASS = resources.files("regard.grading.assignments") / "example_class"  # the assignment, and the list of students
HANDED_IN = {  # which of our answers to questions 1, 2 and 3
    "ada": ("copying_condition", "average_of_two", "weights_are_a_distribution"),
    "ben": ("copying_condition__forgets_n", "average_of_two__forgets_n", "weights_are_a_distribution"),
    "eva": ("copying_condition", "average_of_two__only_in_order", "weights_are_a_distribution__overflows"),
    "fay": ("copying_condition__forgets_n", "average_of_two", "weights_are_a_distribution"),
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
    programs = {student: answers(names) for student, names in HANDED_IN.items()}
    programs["gus"] = "def copying_condition(n, eps)\n    return n\n"
    for student, text in programs.items():
        written = f"\n\n# Your answer to 4:\n{textwrap.indent(words[student].strip(), '# ')}\n"
        write_file(base / "submissions" / f"{student}.py", (text + written).encode())
    write_file(base / "submissions" / "chi.ipynb", _notebook(words["chi"]).encode())
    return ExampleWritten(folder=folder)


def answers(names: tuple[str, ...]) -> str:
    """A file with these answers of ours, each under the name that the assignment asks for."""
    text = "".join(
        (resources.files("regard.grading.solutions") / file).read_text(encoding="utf-8")
        for file in ("right.py", "wrong.py")
    )
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    parts = ["import math", "import numpy as np"]
    for name in names:
        node = functions[name]
        node.name, node.returns = name.partition("__")[0], None
        for argument in node.args.args:
            argument.annotation = None
        parts.append(ast.unparse(node))
    return "\n\n\n".join(parts) + "\n"


def _notebook(words: str) -> str:
    code = answers(("copying_condition", "average_of_two", "weights_are_a_distribution__not_normalised")).split(
        "\n\n\n"
    )
    cells = [
        ("code", "%matplotlib inline\n" + "\n".join(code[:2])),
        *(("code", text) for text in code[2:]),
        ("markdown", f"## 4\n\n{words.strip()}"),
    ]
    written: list[dict[str, object]] = [
        {
            "cell_type": kind,
            "metadata": {},
            "source": text,
            **({"outputs": [], "execution_count": None} if kind == "code" else {}),
        }
        for kind, text in cells
    ]
    return json.dumps({"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
