"""Formulas in plain letters, as the claims write them, as LaTeX: alpha_0 >= 1/(2+eps) becomes what a book prints."""

from __future__ import annotations

import re

GREEK = {"alpha", "mu", "sigma", "Sigma", "Phi", "delta"}
FUNCTIONS = {"ln", "exp", "max", "min"}
NAMES = {"softmax", "ReLU", "rank", "span", "spread", "ratio", "layer", "perplexity", "target"}
SIGNS = {
    "<=>": r"\;\Leftrightarrow\;",
    "=>": r"\;\Rightarrow\;",
    "<=": r"\le ",
    ">=": r"\ge ",
    "!=": r"\ne ",
    ">>": r"\gg ",
    "->": r"\to ",
    "||": r"\|",
    "~": r"\sim ",
}
TOKEN = re.compile(
    r"(?P<sign><=>|=>|<=|>=|!=|>>|->|\|\||~)"
    r"|(?P<script>[_^])(?P<body>\([^()]*\)|-?\w+(?:_\w)?'?)"
    r"|sqrt\((?P<root>[^()]*)\)"
    r"|(?P<word>in general|[A-Za-z]+'?)"
    r"|(?P<pause>[,;:?]\s*)"
    r"|(?P<other>.)",
    re.DOTALL,
)


def latex(text: str) -> str:
    """The formula as LaTeX; ordinary words stand upright.

    >>> latex("alpha_0 >= 1/(2+eps)")
    '\\\\alpha _{0} \\\\ge  1/(2+\\\\varepsilon )'
    >>> latex("q for every n")
    'q \\\\text{ for every }n'
    """
    return "".join(_joined([_token(match) for match in TOKEN.finditer(text)]))


def formulas(text: str) -> tuple[str, ...]:
    """The formula in lines: the claims put two spaces after what ends one.

    >>> formulas("x = 1;  y = 2")
    ('x = 1;', 'y = 2')
    """
    return tuple(latex(part).removesuffix(r"\; ") for part in re.split(r"(?<=[:;])  ", text))


def _token(match: re.Match[str]) -> tuple[str, bool]:
    """A piece as LaTeX, and whether it is an ordinary word."""
    if match["sign"]:
        return SIGNS[match["sign"]], False
    if match["script"]:
        return f"{match['script']}{{{latex(match['body'].strip('()'))}}}", False
    if match["root"]:
        return rf"\sqrt{{{latex(match['root'])}}}", False
    if match["pause"]:
        return match["pause"].strip() + r"\; ", False
    if match["word"]:
        return _word(match["word"])
    return match["other"], False


def _word(word: str) -> tuple[str, bool]:
    if word in GREEK or word in FUNCTIONS:
        return f"\\{word} ", False
    if word in ("eps", "sum", "in"):
        return {"eps": r"\varepsilon ", "sum": r"\sum ", "in": r"\in "}[word], False
    if word in NAMES:
        return rf"\operatorname{{{word}}}", False
    return word, len(word) > 1 and not word.isupper() and "'" not in word


def _joined(pieces: list[tuple[str, bool]]) -> list[str]:
    """Runs of words, with the spaces around them, put into one text."""
    said: list[str] = []
    words: list[str] = []
    for piece, is_word in [*pieces, ("", False)]:
        if is_word or (piece == " " and words):
            words.append(piece)
            continue
        if words:
            lead = " " if said and said[-1] == " " else ""
            said += [rf"\text{{{lead}{''.join(words)}}}"]
            words = []
        said.append(piece)
    return said
