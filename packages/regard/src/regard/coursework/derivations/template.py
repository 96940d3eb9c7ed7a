"""The file to begin with: what is given, what is to be shown, which lemmas may be used; never the proof."""

from __future__ import annotations

import os
from dataclasses import dataclass

from regard.arrays import check_target
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.report import require_problem
from regard.errors import InputError
from regard.results import Result

ENDINGS = (".md", ".tex", ".txt")


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivationTemplate(Result):
    """A template, and the file that it was written to."""

    claim: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"Wrote {self.path}: write your derivation under its last line, then run\n  regard claims {self.claim} --derivation {self.path}"


def write_derivation_template(claim: str, path: str | os.PathLike[str]) -> DerivationTemplate:
    """Write the template to a new file; one that exists is never overwritten."""
    target = check_target(path, ENDINGS)
    made = DerivationTemplate(claim=claim, path=os.fspath(target), text=template_text(require_problem(claim)))
    try:
        with open(made.path, "x", encoding="utf-8") as stream:
            stream.write(made.text)
    except FileExistsError:
        raise InputError(f"{made.path} exists and is not overwritten; name another file.") from None
    except OSError as error:
        raise InputError(f"Cannot write {made.path!r}: {error.strerror or error}.") from None
    return made


def template_text(problem: Problem) -> str:
    """The template; formulas in it stand in a comment, so that nobody hands them in as a step."""
    symbols = [
        f"  {name}: {' x '.join(one.shape) if one.shape != ('1', '1') else 'number'}{', ' + one.says if one.says else ''}"
        for name, one in problem.symbols.items()
    ]
    defined = [f"  {one}" for one in problem.table.definitions]
    given = [f"  {one.text}" for one in problem.given] + [f"  {fact.text} for {where}" for fact, where in problem.order]
    lemmas = [f"  {one.name}: {one.text}" for one in problem.lemmas]
    choose = [f"  {name}, from {', '.join(parts)}" for name, parts in problem.choose.items()]
    parts = [
        ("Names", symbols),
        ("Definitions", defined),
        ("Given", given),
        ("Lemmas that may be used", lemmas),
        ("Yours to choose", choose),
        ("To be shown", [f"  {one.text}" for one in problem.goal]),
    ]
    body = "\n".join(f"{title}:\n" + "\n".join(lines) for title, lines in parts if lines)
    permuted = (
        "\nQ_p, Q', Q(P X) and \\tilde Q are Q of the permuted input P X; so for the others.\n"
        if problem.words.input
        else ""
    )
    return f"<!-- {problem.name}: {problem.table.title}\n\n{body}\n{permuted}-->\n\n"
