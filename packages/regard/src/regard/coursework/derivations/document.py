"""A derivation as a person writes it, in Markdown, LaTeX or plain text: which relations it states, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.coursework.derivations.terms import Condition
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
