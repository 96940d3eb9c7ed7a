"""For which indices a relation is meant, and which letters are indices at all."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import groupby

from regard.coursework.derivations.document import Statement
from regard.coursework.derivations.evaluation import Instance, compare, evaluate
from regard.coursework.derivations.grammar import read_place
from regard.coursework.derivations.names import Vocabulary
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import TURNED, Condition, Term, free_names
from regard.coursework.derivations.tokens import NotRead, Token

SIGNS = {**TURNED, "!=": "!=", "=": "=", "in": "in", "notin": "notin"}
_EXPLAINS = re.compile(r"\b(?:where|with|for|setting|taking)\s*$", re.IGNORECASE)
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
    ends = words.families.get(base, words.families.get(f"{base}."))
    is_last = ends is not None and ends[1].value == below  # a_p, where a_1, ..., a_p are all of them
    if f"{base}_{below}" in words.shapes or (below == "p" and words.variants) or is_last:
        return False
    return base == "sum" or base in words.families or f"{base}." in words.families or base not in words.shapes


def attach_conditions(statements: list[Statement], words: Vocabulary) -> list[Statement]:
    """The relations, each with the conditions on indices that stand behind it in its sentence, or else before it."""
    made: list[Statement] = []
    chosen: dict[str, Condition] = {}  # "Let i = 1." is meant for every line below it: one case is not all of them
    for _, sentence in groupby(statements, key=lambda one: one.sentence):
        parts: list[Statement | list[Condition]] = []
        for one in sentence:
            found = read_conditions(one, words) if one.problem is None else None
            last = parts[-1] if parts and isinstance(parts[-1], list) else None
            if found is None and last and not one.signs and one.problem is None:
                found = read_more(last, one.sides[0], words)
            if found is None:
                parts.append(one)
            elif last is not None:
                last += found
            else:
                parts.append(found)
        if parts and not any(isinstance(one, Statement) for one in parts):
            choose_places([one for part in parts if isinstance(part, list) for one in part], chosen, words)
        leads = bool(parts) and isinstance(parts[0], list)
        groups = [one for one in parts if isinstance(one, list)]
        known = groups[-1] if groups and not leads else []
        for part in parts if leads else reversed(parts):
            if isinstance(part, list):
                known = part
            else:
                stated = {one.index for one in known}
                part.conditions = [*known, *(one for index, one in chosen.items() if index not in stated)]
        made += [one for one in parts if isinstance(one, Statement)]
    return made


def explain_first(statements: list[Statement], known: frozenset[str]) -> list[Statement]:
    """The statements, a name that is explained behind its use ("q = b k_1 where b = ln n") before that use."""
    made: list[Statement] = []
    for one in statements:
        name = one.sides[0][0].text if one.signs[:1] == ["="] and len(one.sides[0]) == 1 else ""
        user = made[-1].sides if made and made[-1].sentence == one.sentence else []
        is_used = name.isalpha() and name not in known and any(token.text == name for side in user for token in side)
        if is_used and _EXPLAINS.search(one.before):
            made.insert(-1, one)
        else:
            made.append(one)
    return made


def choose_places(alone: list[Condition], chosen: dict[str, Condition], words: Vocabulary) -> None:
    """What a sentence of conditions alone means for the lines below: i = 1 holds on, anything else ends that."""
    for index in dict.fromkeys(one.index for one in alone):
        found = [one for one in alone if one.index == index]
        if [one.sign for one in found] == ["="]:
            chosen[index] = found[0]
            words.say(f"{found[0]} stands alone, and is read as chosen for the lines below")
        else:
            chosen.pop(index, None)
            words.say(f"{' and '.join(map(str, found))} stands alone, and is read as words")


def read_conditions(statement: Statement, words: Vocabulary) -> list[Condition] | None:
    """i != 1, i >= 3, 1 <= i <= k, i != j, i in {1, 2}: conditions on an index; None where it is a relation."""
    sides, signs = statement.sides, statement.signs
    places = [n for n, side in enumerate(sides) if len(side) == 1 and side[0].text in words.indices]
    if not signs or not places or len(places) > 1 + (signs == ["!="]) or any(sign not in SIGNS for sign in signs):
        return None
    index = sides[places[0]][0].text
    made: list[Condition] = []
    for n, sign in enumerate(signs):
        if places[0] not in (n, n + 1):
            return None
        turned = sign if n == places[0] else SIGNS[sign]
        side = sides[n + 1 if n == places[0] else n]
        if sign in ("in", "notin"):
            first, *rest = split_list(side[1:-1])
            made += make_condition(index, "=" if sign == "in" else "!=", first, words)
            for one in rest if made else ():
                made += read_more(made, one, words) or []
        else:
            made += make_condition(index, turned, side, words)
    return made


def read_more(known: list[Condition], tokens: list[Token], words: Vocabulary) -> list[Condition] | None:
    """What a list goes on with: the 2 of "i = 1, 2", the dots and the n of "i = 3, ..., n"."""
    last = known[-1]
    if last.sign in ("=", ">=") and tokens[0].text == "...":
        known[-1] = Condition(last.index, ">=", last.place)
        return []
    if last.sign not in ("=", "!=") or len(tokens) > 3:
        return [] if last.sign == ">=" else None
    return make_condition(last.index, last.sign, tokens, words)


def split_list(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part] or [[]]


def make_condition(index: str, sign: str, tokens: list[Token], words: Vocabulary) -> list[Condition]:
    """The condition with the place in "1" or "k - 1"; a place that is not read makes none."""
    try:
        return [Condition(index, sign, read_place(tokens, words))]
    except NotRead:
        return []


def places_listed(conditions: list[Condition], continues: bool) -> list[dict[str, Term]]:
    """Each choice of the indices for which a list names the places; what goes on goes on from the last one."""
    choices: list[dict[str, Term]] = [{}]
    for index in dict.fromkeys(one.index for one in conditions if one.sign == "="):
        places = [one.place for one in conditions if one.index == index and one.sign == "="]
        choices = [{**choice, index: place} for choice in choices for place in places]
    return choices[-1:] if continues else choices[:20]


def meets(condition: Condition, places: dict[str, Fraction], where: Instance) -> bool:
    """Whether a choice of indices is one that a condition allows."""
    if condition.index not in places:
        return True
    one, other = places[condition.index], evaluate(condition.place, where, places)
    return bool(compare(condition.sign, one, other))
