"""For which indices a relation is meant, and which letters are indices at all."""

from __future__ import annotations

from fractions import Fraction

from regard.coursework.derivations.document import Statement
from regard.coursework.derivations.evaluation import Instance, evaluate
from regard.coursework.derivations.grammar import Parser
from regard.coursework.derivations.names import Vocabulary
from regard.coursework.derivations.problem import Condition, Problem
from regard.coursework.derivations.terms import Term, free_names
from regard.coursework.derivations.tokens import NotRead, Token

SIGNS = {"!=": "!=", ">=": "<=", "<=": ">=", "<": ">", ">": "<"}
LETTERS = "hijlmopqrstuvwxyz"


def find_indices(statements: list[Statement], problem: Problem, words: Vocabulary) -> None:
    """Letters that stand below others or under a sum are indices here, also where a size has that name."""
    terms = [fact.left for fact in (*problem.goal, *problem.given)] + [fact.right for fact in problem.goal]
    terms += [term for _, term in problem.definitions.values()]
    needed = set(problem.symbols).union(*(free_names(term) for term in terms))
    for statement in statements:
        tokens = [token for side in statement.sides for token in side]
        for n, token in enumerate(tokens[:-1]):
            after = tokens[n + 1]
            if token.text == "_" and after.text == "{":
                after = tokens[min(n + 2, len(tokens) - 1)]
            base = tokens[n - 1].text if n else ""
            is_index = after.kind == "name" and len(after.text) == 1 and after.text in LETTERS
            if token.text == "_" and is_index and after.text not in needed and is_counted(base, after.text, words):
                words.indices.add(after.text)
                words.shapes.pop(after.text, None)


def is_counted(base: str, below: str, words: Vocabulary) -> bool:
    """Whether a name with this below it is a member of a family, and no name of its own."""
    if f"{base}_{below}" in words.shapes or (below == "p" and words.variants):
        return False
    return base == "sum" or base in words.families or f"{base}." in words.families or base not in words.shapes


def read_conditions(statement: Statement, words: Vocabulary) -> list[Condition] | None:
    """i != 1, i >= 3, 1 <= i <= k, i = 3 (, ..., n): conditions on an index; None where it is a relation."""
    sides, signs = statement.sides, statement.signs
    places = [n for n, side in enumerate(sides) if len(side) == 1 and side[0].text in words.indices]
    if not signs or len(places) != 1 or any(sign not in (*SIGNS, "=") for sign in signs):
        return None
    index = sides[places[0]][0].text
    made: list[Condition] = []
    for n, sign in enumerate(signs):
        other = n + 1 if n == places[0] else n
        if places[0] not in (n, n + 1):
            return None
        turned = sign if n == places[0] else SIGNS.get(sign, sign)
        made += [Condition(index, ">=" if sign == "=" else turned, place) for place in read_places(sides[other], words)]
    return made


def read_places(tokens: list[Token], words: Vocabulary) -> list[Term]:
    """The places in "1", "k - 1" or "a, b"; words and dots among them are left out."""
    try:
        return [Parser(tokens, words, 0).expression()] if tokens and tokens[0].text != "..." else []
    except NotRead:
        return []


def meets(condition: Condition, places: dict[str, Fraction], where: Instance) -> bool:
    """Whether a choice of indices is one that a condition allows."""
    if condition.index not in places:
        return True
    one, other = places[condition.index], evaluate(condition.place, where, places)
    return bool(
        {"!=": one != other, ">=": one >= other, "<=": one <= other, "<": one < other, ">": one > other}[condition.sign]
    )
