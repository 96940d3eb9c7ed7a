"""Tokens of a formula, in LaTeX, in plain letters and in Unicode: one list of them for all three."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from regard.toml import read_toml

MOST_TOKENS = 4000


@dataclass(frozen=True)
class Token:
    """kind: num, name, op, open, close, or word (prose inside a formula)."""

    kind: str
    text: str
    place: int
    spaced: bool = False  # a space before it


class NotRead(Exception):  # noqa: N818 - it is an outcome: the mark "not read"
    """A place that is not understood, and what was expected there."""

    def __init__(self, place: int, expected: str) -> None:
        super().__init__(expected)
        self.place, self.expected = place, expected


_TABLES = read_toml(Path(__file__).parent / "tokens.toml", like="greek = 'alpha beta'")


def _table(name: str) -> dict[str, str]:
    return dict(pair.rsplit(":", 1) for pair in _TABLES[name].split())


GREEK, SKIPPED, _TEXT, _LETTERING, _UNSEEN, WORDS, JOINS = (
    frozenset(_TABLES[name].split()) for name in ("greek", "skipped", "text", "lettering", "unseen", "words", "joins")
)
LETTERS, SAME, SIGNS, UNICODE, _STRUCTURE = map(_table, ("letters", "same", "signs", "unicode", "structure"))
KNOWN = ("softmax", "relu", "exp", "ln", "tr", "sin", "cos", "sqrt", "sum", "rank", "ones", "max", "min")
PAUSES = ("qquad", "quad", "enspace", "hspace", "newline")
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼₖₙₘₚₗᵣₜ", "0123456789ijknmplrt", strict=True))
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
_PIECE = re.compile(
    r"(?P<space>\s+|~)|(?P<cmd>\\(?:[A-Za-z]+\*?|.))|(?P<num>\d+(?:\.\d+)?)|(?P<name>[A-Za-z]+)"
    r"|(?P<op><=>|=>|<=|>=|!=|:=|==|->|\.\.\.|\|\||\*\*|[-+*/^_=<>(){}\[\]|,.;:'&~!])|(?P<other>.)",
    re.DOTALL,
)


def read_tokens(text: str, *, names: frozenset[str] = frozenset()) -> list[Token]:
    """The tokens of a formula; letters that stand together are a product, unless they are a known name."""
    tokens: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None or len(tokens) > MOST_TOKENS:
            raise NotRead(place, f"a formula of at most {MOST_TOKENS} signs; break it into lines")
        if found["space"]:
            spaced = True
        elif found["cmd"]:
            place = _read_command(text, found, tokens, spaced)
            spaced = False
            continue
        else:
            base = tokens[-1].text if tokens and place and text[place - 1].isalpha() else ""
            if base and found["num"] and {f"{base}_", f"{base}_{found['num']}"} & names:  # k1 is typed for k_1
                tokens.append(Token("op", "_", place))
            tokens += _plain_tokens(found, spaced, names)
            spaced = False
        place = found.end()
    return tokens


def _plain_tokens(found: re.Match[str], spaced: bool, names: frozenset[str]) -> list[Token]:
    place = found.start()
    if found["num"]:
        return [Token("num", found["num"], place, spaced)]
    if found["name"]:
        return _split_letters(found["name"], place, spaced, names)
    if found["op"]:
        same = {"**": "^", ":=": "=", "==": "=", "<=>": "=>", "*": ".", "[": "(", "]": ")", "&": " ", ";": ","}
        text = same.get(found["op"], found["op"])
        if found["op"] == "." and not spaced and found.string[found.end() : found.end() + 1].isspace():
            text = ";"  # the end of a sentence; a product has a space on both sides or on none
        return [] if text == " " else [Token("op", text, place, spaced)]
    sign = found["other"]
    if sign in LOWERED:
        return [Token("op", "_", place), Token("num" if LOWERED[sign].isdigit() else "name", LOWERED[sign], place)]
    if sign in RAISED:
        return [Token("op", "^", place), Token("num", RAISED[sign], place)]
    if sign in LETTERS:
        return [Token("name", LETTERS[sign], place, spaced)]
    return _sign_tokens(UNICODE.get(sign, sign), place, spaced)


def _sign_tokens(sign: str, place: int, spaced: bool = True) -> list[Token]:
    if sign == "^T":
        return [Token("op", "^", place), Token("name", "T", place)]
    kind = "op" if not sign.isalpha() else "word" if sign in ("in", "notin", "for") else "name"
    return [Token(kind, sign, place, spaced)]


def _split_letters(run: str, place: int, spaced: bool, names: frozenset[str]) -> list[Token]:
    """PXW is P X W; softmax, sigma and names of the problem stay whole; other long words are prose."""
    run = SAME.get(run, run)
    if len(run) == 2 and run[0].isupper() and run[1] == "p" and "_p" in names:  # Qp is typed for Q_p
        below = [Token("op", "_", place), Token("name", "p", place + len(run) - 1)]
        return [Token("name", run[:-1], place, spaced), *below]
    if run in KNOWN or run in GREEK or run in names or len(run) == 1:
        return [Token("name", SAME.get(run, run), place, spaced)]
    if (run.islower() and len(run) > 2) or (len(run) > 3 and run[1:].islower()) or run in WORDS:
        return [Token("word", run.lower(), place, spaced)]
    for known in ("softmax", "relu", "ReLU", "exp", "ln", "tr"):
        if run.endswith(known) and len(run) > len(known) and run[: -len(known)].isupper():
            head = _split_letters(run[: -len(known)], place, spaced, names)
            return [*head, Token("name", SAME.get(known, known), place + len(run) - len(known))]
    return [Token("name", one, place + n, spaced and n == 0) for n, one in enumerate(run)]


def _read_command(text: str, found: re.Match[str], tokens: list[Token], spaced: bool) -> int:
    """The tokens of a LaTeX command; returns where reading goes on."""
    name, place, end = found["cmd"][1:].rstrip("*"), found.start(), found.end()
    if name in _STRUCTURE:
        name = _STRUCTURE[name]
        tokens.append(Token("name" if name == "sqrt" else "cmd", name, place, spaced))
        short = re.match(r"\s*(\d)(\d)", text[end:]) if name == "frac" else None  # \frac12
        for sign in f"{{{short[1]}}}{{{short[2]}}}" if short else "":
            tokens.append(Token("num" if sign.isdigit() else "op", sign, place))
        return end + short.end() if short else end
    if name in _UNSEEN or name in ("begin", "end"):
        end = read_group(text, end)[1] if text[end : end + 1] == "{" else end
        return read_group(text, end)[1] if text[found.start() : end].endswith("{array}") else end
    if name in _TEXT | _LETTERING | {"overset", "stackrel", "underset"}:
        inside, end = read_group(text, end)
        if name in ("overset", "stackrel", "underset"):  # the remark above a sign is not part of the line
            inside, end = read_group(text, end)
        call = text[end : end + 1] == "(" and inside[:1].isupper() and inside.isalpha() and inside not in SAME
        tokens += [Token("name", inside, place)] if call else _inner_tokens(name, inside, place, spaced)
        return end
    if name in GREEK or name in KNOWN or name in SAME:
        tokens.append(Token("name", SAME.get(name, name), place, spaced))
    elif name == "\\":
        tokens.append(Token("op", "\\\\", place, spaced))
    elif name == "includegraphics":
        raise NotRead(place, "a formula that can be typed; pictures are not read")
    elif name in PAUSES:
        tokens.append(Token("op", ";", place, True))
    elif name in SIGNS:
        tokens += _sign_tokens(SIGNS[name], place, spaced)
    elif name not in SKIPPED and name != " ":
        raise NotRead(place, f"a command that this page knows; \\{name} is not one of them")
    return end + (name in ("left", "right") and text[end : end + 1] == ".")


def _inner_tokens(name: str, inside: str, place: int, spaced: bool) -> list[Token]:
    """What stands in the braces of a command that changes letters, or sets words."""
    if name in _TEXT:
        return _text_tokens(inside, place, spaced)
    if name in _LETTERING and inside.strip() == "1":
        return [Token("name", "ones", place, spaced)]
    return [Token(one.kind, one.text, place, one.spaced) for one in read_tokens(inside)]


def _text_tokens(inside: str, place: int, spaced: bool) -> list[Token]:
    """\\text{softmax} is a name, \\text{for all } is prose."""
    word = SAME.get(inside.strip(), inside.strip())
    if word in KNOWN or len(word) == 1:
        return [Token("name", word, place, spaced)]
    if word.lower() == "perm":
        return [Token("name", "perm", place, spaced)]
    return [Token("word", one.lower(), place, True) for one in re.findall(r"[A-Za-z]+", word)]


def read_group(text: str, place: int) -> tuple[str, int]:
    """What stands in the braces from here, or the one sign; and where it ends."""
    while place < len(text) and text[place].isspace():
        place += 1
    if text[place : place + 1] != "{":
        sign = _PIECE.match(text, place)
        return (sign[0], sign.end()) if sign else ("", place)
    depth = 0
    for end in range(place, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[place + 1 : end], end + 1
    raise NotRead(place, "a closing brace }")
