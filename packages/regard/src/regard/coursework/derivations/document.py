"""A derivation as a person writes it, in Markdown, LaTeX or plain text: which relations it states, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from regard.coursework.derivations.evaluation import Instance, Number, compare, evaluate
from regard.coursework.derivations.grammar import read_place
from regard.coursework.derivations.names import Vocabulary
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import TURNED, Condition, Term, free_names
from regard.coursework.derivations.tokens import JOINS, NotRead, Token, read_tokens

RELATIONS = ("=", "<=", ">=", "<", ">", "!=", "~", "in", "notin")
_MATH = re.compile(
    r"\$\$(?P<a>.+?)\$\$|\$(?P<b>[^$]+?)\$|\\\((?P<c>.+?)\\\)|\\\[(?P<d>.+?)\\\]"
    r"|\\begin\{(?P<env>align|equation|gather|multline|eqnarray|aligned|alignat)\*?\}(?P<e>.{1,9000}?)\\end\{(?P=env)\*?\}",
    re.DOTALL,
)
_CROSSED = re.compile(
    r"~~.{1,2000}?~~|<del>.{1,2000}?</del>|<s>.{1,2000}?</s>|\\(?:sout|st|[xbh]?cancel)(?P<inside>\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})",
    re.DOTALL,
)
_COMMENT = re.compile(r"<!--.*?-->|^[ \t]*%[^\n]*", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)|\\includegraphics(?:\[[^\]]*\])?\{[^}]*\}|<img[^>]*>")
_SUPPOSE = re.compile(  # up to "then": what follows from a supposition is a step
    r"\b(?:(?:suppose|assume|assuming|wlog|generality)\b[^.]*|if\b[^.,]*"
    r"|(?<!this )(?<!that )(?<!each )(?<!every )(?<!any )(?<!either )\bcase\b"
    r"[\W\d]{0,9}(?:[ivxab]{1,3}\b)?\W{0,6}(?:that|of|where|when)?\W{0,6}"
    r"|\botherwise\W{0,9})$",
    re.IGNORECASE,
)
_THEN = re.compile(r"\b(?:then|so|hence|thus|therefore|we (?:have|get|obtain|see))\b", re.IGNORECASE)
_ANNOUNCE = re.compile(r"\b(?:show|prove|want|claim|goal|wish)\b[^.]*$", re.IGNORECASE)
_ASIDE = re.compile(  # up to "so": what stands in brackets, behind && or behind "since" in a row
    r"(?:&&|\b(?:since|because|as|using|by|from|recall)\b)(?:(?!\b(?:so|hence|thus|then|we)\b).)*$"
    r"|[\[(](?:\\text\{[^}]*\}|[a-z, ])*$",
    re.DOTALL | re.IGNORECASE,
)
_CASES = re.compile(r"(?P<head>.*?)\\begin\{cases\}(?P<rows>.*?)\\end\{cases\}(?P<rest>.*)", re.DOTALL)
_ELSE = re.compile(r"\b(?:otherwise|else)\b")
_QED = re.compile(r"[.,;]?\s*(?:\bq\.? ?e\.? ?d\b\.?|[∎□■])\s*$", re.IGNORECASE)
_LEADS = re.compile(r"\s*(?:for|für|pour|para|per|if)\b.*:\s*$", re.IGNORECASE)
_END = re.compile(r"(?<!case .)[.;:](?:\s|$)|\n\s*\n", re.IGNORECASE)
NEAR = 300  # characters before a formula in which a word may say what it is
FAR = 60  # characters behind a formula that may say something of it
MOST = 60_000  # characters: twenty pages


@dataclass
class Formula:
    """A formula: its text, its line, and what is said before it in its sentence and behind it."""

    text: str
    line: int
    sentence: int
    latex: bool
    before: str = ""
    after: str = ""
    between: str = ""  # all that is said since the formula before it


@dataclass
class Statement:
    """A chain of relations: sides with the signs between them, as tokens."""

    sides: list[list[Token]]
    signs: list[str]
    line: int
    text: str
    sentence: int
    supposed: bool = False
    announced: bool = False  # "we show that ..."
    continues: bool = False
    aside: bool = False  # a remark beside a line of a table or in brackets: the next row goes on from before it
    problem: NotRead | None = None
    before: str = ""
    after: str = ""
    between: str = ""
    conditions: list[Condition] = field(default_factory=list)  # for which indices it is meant


def find_formulas(text: str) -> tuple[list[Formula], list[str]]:
    """The formulas of a text in their order, and what was left out of it."""
    said: list[str] = []

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = _COMMENT.sub(blank, text)

    def cross(match: re.Match[str]) -> str:
        if "cancel" in match[0][:9] and not re.search(r"[=<>]|\\(?:leq?|geq?|neq?)\b", match[0]):
            return match["inside"].rjust(len(match[0]))  # factors that cancel are still there
        said.append("what is crossed out is not read")
        return blank(match)

    text = _CROSSED.sub(cross, text)
    if _PICTURE.search(text):
        said.append("a formula in a picture is not read: type it")
        text = _PICTURE.sub(blank, text)
    latex = _MATH.search(text) is not None
    return list(_latex_formulas(text) if latex else _plain_formulas(text)), said


def _latex_formulas(text: str) -> Iterator[Formula]:
    sentence, end, before = 0, 0, ""
    for found in _MATH.finditer(text):
        prose = text[end : found.start()]
        ends = list(_END.finditer(prose))
        sentence += bool(ends)
        before = prose[ends[-1].end() :] if ends else before + prose
        inside = next(found[key] for key in "abcde" if found[key] is not None)
        start = found.start() + found[0].index(inside)
        after = _END.split(text[found.end() : found.end() + FAR])[0].partition("$")[0]
        cases = _CASES.match(inside)
        for part, offset in _cases(cases) if cases else _rows(inside):
            line = text.count("\n", 0, start + offset + len(part) - len(part.lstrip())) + 1
            sentence += bool(cases)  # each case has its own condition
            yield Formula(part, line, sentence, True, before, after, prose)
            prose = ""
        if inside.rstrip().endswith("."):
            sentence, before = sentence + 1, ""
        end = found.end()


def _rows(inside: str) -> Iterator[tuple[str, int]]:
    """The rows of an align, or the one formula."""
    start = 0
    for found in re.finditer(r"\\\\(?:\[[^\]]*\])?", inside):
        yield inside[start : found.start()], start
        start = found.end()
    if inside[start:].strip():
        yield inside[start:], start


def _cases(found: re.Match[str]) -> Iterator[tuple[str, int]]:
    """Each case as a statement of its own, with its condition; "otherwise" is where no case before it holds."""
    *before, head = found["head"].split("\\\\")
    yield from ((part, 0) for part in before)
    conditions: list[str] = []
    for row, offset in _rows(found["rows"]):
        value, _, condition = row.partition("&")
        if _ELSE.search(condition):
            for sign, other in ((r"\\in\b", r"\\notin"), ("=", r"\\ne "), (r"\\leq?\b|<", ">"), (r"\\geq?\b|>", "<")):
                conditions = [re.sub(sign, other, one) for one in conditions]
            condition = ", ".join(conditions)
        else:
            conditions.append(condition)
        yield f"{head} {value.strip().rstrip(',')}, {condition}", found.start("rows") + offset
    if found["rest"].strip(" .,;\n"):
        yield found["rest"], found.start("rest")


def _plain_formulas(text: str) -> Iterator[Formula]:
    sentence, between = 0, ""
    for n, line in enumerate(text.split("\n"), 1):
        bare = _QED.sub("", re.sub(r"^\s*(?:[-*>]|\d+[.)]|\(\w\))\s+", "", line)).strip().strip("`")
        if re.search(r"[=<>≤≥≠]", bare) and not bare.startswith(("#", "```")):
            yield Formula(bare.rstrip("."), n, sentence or n, "\\" in bare, between=between)
            sentence, between = (n if _LEADS.match(bare) else 0), ""  # "for i <= k:" is said of the next line
        else:
            between += f"{line}\n"


def split_statements(formula: Formula, names: frozenset[str]) -> list[Statement]:
    """The chains of a formula: commas, arrows and words end one."""
    try:
        # behind && in a table of equations stands a remark, which is a statement of its own
        tokens = read_tokens(formula.text.replace("&&", ", "), names=names)
    except (NotRead, RecursionError) as error:
        problem = error if isinstance(error, NotRead) else NotRead(0, "commands that stand less deep in one another")
        return [Statement([], [], formula.line, formula.text.strip(), formula.sentence, problem=problem)]
    tokens = _without_boxes(tokens)
    made: list[Statement] = []
    end = 0
    for part in (one for segment in _segments(_open_brackets(tokens)) for one in _around_dots(segment)):
        sides, signs = _sides(part)
        start = part[0].place
        last = part[-1]
        text = formula.text[start : last.place + len(last.text) + 12 * formula.latex]
        statement = Statement(sides, signs, formula.line, text.strip(), formula.sentence)
        statement.before = before = formula.before + formula.text[:start]
        supposed = _SUPPOSE.search(before)
        statement.supposed = supposed is not None and not _THEN.search(supposed[0])
        statement.after = formula.text[last.place + len(last.text) :][:FAR] + formula.after
        statement.between = formula.text[end:start] if made else formula.between + formula.text[:start]
        end = last.place + len(last.text)
        statement.announced = _ANNOUNCE.search(before) is not None
        statement.aside = bool(made) and _ASIDE.search(formula.text[max(0, start - NEAR) : start]) is not None
        statement.continues = bool(signs) and not sides[0]
        words = re.findall(r"[A-Za-z]{3,}", re.split(r"[,;:]", before)[-1] if not formula.latex else "")
        # "P foo = 3", "det = 1": what stands before the sign was not understood
        if statement.continues and (made or (words and words[-1].lower() not in JOINS)):
            statement.problem = NotRead(max(0, start - 1), "a formula before this sign, not words")
        made.append(statement)
    return made


def _without_boxes(tokens: list[Token]) -> list[Token]:
    """A box around a relation is taken off; one around a term is a bracket."""
    made = list(tokens)
    for start in [n for n, token in enumerate(made) if token.text == "boxed" and token.kind == "cmd"]:
        depth = 0
        for end in range(start + 1, len(made)):
            depth += (made[end].text == "{") - (made[end].text == "}")
            if depth == 0:
                blank = Token("op", "", made[start].place)
                made[start] = made[start + 1] = made[end] = blank
                break
    return [token for token in made if token.text]


def _open_brackets(tokens: list[Token]) -> list[Token]:
    """A relation in brackets, as in (P^T P = I) or (i = 1, 2), is a statement; (by the lemma) is a remark."""
    made, opened = list(tokens), []
    for n, token in enumerate(tokens):
        if token.text in ("(", "{", "<<"):
            opened.append(n)
        elif token.text in (")", "}", ">>") and opened:
            start = opened.pop()
            outermost = not opened and tokens[start].text == "(" and (not start or tokens[start - 1].text not in "_^")
            inside = tokens[start + 1 : n]
            if outermost and _sides(inside)[1]:
                made[start] = made[n] = Token("op", ",", tokens[start].place)
            elif outermost and tokens[start].spaced and any(one.kind == "word" for one in inside):
                made[start : n + 1] = [Token("op", ",", tokens[start].place)] * (n + 1 - start)
    return made


def _around_dots(part: list[Token]) -> Iterator[list[Token]]:
    """a >= b >= ... >= c is what stands before the dots, and what stands behind them."""
    for n in range(1, len(part) - 1):
        if part[n].text == "..." and part[n - 1].text in RELATIONS and part[n + 1].text in RELATIONS:
            yield part[: n - 1]
            yield from _around_dots(part[n + 2 :])
            return
    yield part


def _segments(tokens: list[Token]) -> Iterator[list[Token]]:
    depth = 0
    part: list[Token] = []
    below = False
    for n, token in enumerate(tokens):
        opens = token.text in ("(", "{", "<<") and token.kind == "op"
        closes = token.text in (")", "}", ">>") and token.kind == "op"
        depth += opens - closes
        below = n > 0 and tokens[n - 1].text == "_"
        listed = token.text in ("in", "notin") and len(part) == 1 and n + 1 < len(tokens) and tokens[n + 1].text in "({"
        ends = (token.kind == "word" and not listed) or (
            token.kind == "op" and token.text in (",", ";", "=>", "\\\\", ":", "->")
        )
        last = n + 1 == len(tokens) or tokens[n + 1].kind == "word" or tokens[n + 1].text in (",", ";", "=>")
        ends = ends or (token.kind == "op" and token.text == "." and last)
        if ends and depth <= 0 and not below:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _sides(tokens: list[Token]) -> tuple[list[list[Token]], list[str]]:
    sides: list[list[Token]] = [[]]
    signs: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "{", "<<")) - (token.text in (")", "}", ">>"))
        if token.kind in ("op", "word") and token.text in RELATIONS and depth == 0:
            signs.append(token.text)
            sides.append([])
        else:
            sides[-1].append(token)
    return sides, signs


# For which indices a relation is meant, and which letters are indices at all.


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


def meets(condition: Condition, places: dict[str, Number], where: Instance) -> bool:
    """Whether a choice of indices is one that a condition allows."""
    if condition.index not in places:
        return True
    one, other = places[condition.index], evaluate(condition.place, where, places)
    return bool(compare(condition.sign, one, other))
