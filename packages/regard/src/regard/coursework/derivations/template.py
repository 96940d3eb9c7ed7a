"""The file to begin with: what is given, what is to be shown, which lemmas may be used; never the proof."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from regard.coursework.derivations.problem import Problem, read_problem
from regard.coursework.derivations.report import require_problem
from regard.files import check_target, write_new_file
from regard.results import Result

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
