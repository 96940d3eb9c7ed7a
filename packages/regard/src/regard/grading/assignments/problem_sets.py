"""The five assignments that ship, made from the catalogue: every claim of a problem set, in its order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from regard.arrays import check_target
from regard.coursework.catalogue import claims
from regard.coursework.checklists import of
from regard.coursework.claim import Claim
from regard.coursework.problem_sets import SETS
from regard.errors import InputError
from regard.files import write_file
from regard.grading.assignments.hints import HINTS
from regard.results import Result

BOUNDS = ("copying-condition", "copying-output", "singular-tail")  # where a huge number would be a right answer
HEAD = """\
# An assignment for regard grade. Change what you like; regard assignment check {file} says whether it fits together.
name = {name}
title = {title}
# deadline = 2026-11-20T23:59:00+01:00   # with its zone; without a deadline nothing is late

# What a student is told of a lost point: "mark", "reason" (and why), or "counterexample" (the smallest instance found).
# A hint is always shown. Can be said for one question, too.
reveal = "counterexample"

# Part of the points, step by step: shares of the points for each kind of instance, given as far as none fails.
# partial = "all or nothing" is the other rule; both can be said for one question, too.
partial = {{plain = 0.2, traps = 0.1, ends = 0.2, random = 0.3, adversary = 0.2}}

[late]
per_day = 0.1        # share of the points that each day begun costs
most_days = 5        # after so many days nothing is left; 0: no end
grace_minutes = 15

[limits]             # work, which is the same on every machine; seconds only stop what hangs, and that is never a zero
instances = 60
moves = 40           # of the adversary, from each of the three tightest instances
seconds = 60
"""


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
    target = check_target(path if path is not None else f"{name}.toml", (".toml",))
    if target.exists():
        raise InputError(f"{target} exists and is not overwritten; name another file.")
    write_file(target, assignment_text(name, target.name).encode())
    asked = claims_of_set(name)
    words = sum(claim.question is None and not claim.asks_for_code for _, claim in asked)
    return AssignmentWritten(path=str(target), questions=len(asked), written=words)


def claims_of_set(name: str) -> list[tuple[str, Claim]]:
    """The claims of a set, each with its number there, in the order of the set; the same number gets a letter."""
    labels = SETS[name].labels
    placed = sorted(
        (min(labels.index(one.question) for one in claim.sources if one.name == name), claim.name)
        for claim in claims.values()
        if any(source.name == name for source in claim.sources)
    )
    numbers = [labels[place] for place, _ in placed]
    named = []
    for place, (number, (_, claim)) in enumerate(zip(numbers, placed, strict=True)):
        letter = f" {'abcdefgh'[numbers[:place].count(number)]}" if numbers.count(number) > 1 else ""
        named.append((f"{number}{letter}", claims[claim]))
    return named


def assignment_text(name: str, file: str) -> str:
    """The file: every key with a comment."""
    parts = [HEAD.format(file=file, name=_toml_string(name), title=_toml_string(str(SETS[name])))]
    parts += [_question(number, claim, name) for number, claim in claims_of_set(name)]
    return "\n".join(parts)


def _question(number: str, claim: Claim, set_: str) -> str:
    lines = ["[[question]]", f"id = {_toml_string(number)}", f"claim = {_toml_string(claim.name)}"]
    if claim.question is not None:
        arguments = ", ".join(claim.question.arguments)
        sizes = ", ".join(size.name for size in claim.question.sizes)
        name = claim.name.replace("-", "_")
        lines += ["points = 4", f"function = {_toml_string(name)}   # called with ({arguments})"]
        if claim.name in BOUNDS:
            lines += ["within = 2   # times the best possible: a bound that is true but huge does not get all points"]
        lines += [f"# set = {{...}}   # fixes sizes of the instances: {sizes}"]
    elif claim.asks_for_code:
        lines += ["points = 10", 'function = "TransformerTranslator"   # a class; graded where torch is installed']
    else:
        items = of(set_, re.sub(r" [a-h]$", "", number)).items
        lines += [f"points = {sum(item.points for item in items)}", f"text = {_toml_string(claim.statement)}"]
        lines += ["checklist = [   # key: what it should come to, for the person who marks"]
        lines += [
            f"  {{text = {_toml_string(one.text)}, points = {one.points}, key = {_toml_string(one.key)}}},"
            for one in items
        ]
        lines += ["]"]
    if claim.name in HINTS:
        lines.append(f"hint = {_toml_string(HINTS[claim.name])}")
    return "\n".join([*lines, ""])


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a string of JSON is one of TOML
