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
from regard.notation import without_marks
from regard.results import Result

HINTS = {
    "weights-are-a-distribution": "What does the exponential do to a score of 1000? Which change of all scores "
    "leaves softmax as it is?",
    "copying-condition": "Each other key may be negligible alone. How much do all n - 1 of them have together?",
    "copying-output": "Write c - v_j with the weights of the others only, and ask how large those can be in sum.",
    "copying-within-budget": "Compare the score of key 0 with that of a key at distance at least 1, for a "
    "query along key 0.",
    "extract-from-sum": "Which matrix leaves every vector of span(A) as it is, and what does it do to the rest?",
    "average-of-two": "What scores do a and b need to be equal, and how large must they be so that all "
    "others together are small?",
    "never-exactly-the-average": "When can weights that are never 0 still give exactly the average? Try two keys "
    "first, then special values.",
    "average-within-budget": "The same scores for keys 0 and 1; then count how many other keys there are.",
    "the-bisector": "How unequal may the two weights be while both are still large enough?",
    "average-of-any-subset": "Each weight of the subset is compared with 1/(size + eps). What do the keys "
    "outside have in sum?",
    "small-noise-keeps-the-average": "A longer query makes the others smaller and the noise larger. Where is the "
    "balance?",
    "one-head-swings": "ln(alpha_a/alpha_b) is a difference of two scores. Which parts of the noise does "
    "it see, and with which factor?",
    "one-head-two-point-noise": "The ratio of two weights is the exponential of a difference of scores.",
    "two-heads-average": "Let each head look at one of the two; how sure must it be?",
    "two-heads-steady": "Let each head look at one of the two; the length of its key then matters less "
    "the longer the query is.",
    "two-heads-two-point-noise": "The shorter of the two lengths decides how long the query must be.",
    "order-blindness": "Along which axis does the softmax go, and what is the scale? Does a row see the rows after it?",
    "positions-restore-order": "What is added may depend on where a row stands, and on nothing else.",
    "positions-are-distinct": "Two positions differ if one of their coordinates does. What does rounding do to "
    "large angles?",
    "singular-energy": "The trace of A^T A can be read off in two ways.",
    "singular-tail": "The k largest singular values are all at least sigma_k.",
    "low-rank-error": "How many singular values may B have, and which ones should it keep?",
    "translator": "regard claims translator --answer your.py:TransformerTranslator --hint says which part to look at.",
}


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
    return json.dumps(without_marks(text), ensure_ascii=False)  # a string of JSON is one of TOML
