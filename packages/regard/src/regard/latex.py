"""Formulas in plain letters, as the claims write them, as LaTeX: alpha_0 >= 1/(2+eps) becomes what a book prints."""

from __future__ import annotations

import re

from regard.notation import LETTERS

FUNCTIONS = {"ln", "exp", "max", "min", "sin", "cos", "tanh"}
NAMES = {"softmax", "ReLU", "rank", "span", "spread", "ratio", "layer", "perplexity", "target"} | {
    *("trace", "norm", "sigmoid", "LSE", "Var")
}
WORDS = {"eps": r"\varepsilon ", "sum": r"\sum ", "in": r"\in ", "infinity": r"\infty ", "pi": r"\pi "}
SIGNS = {
    "<=>": r"\;\Leftrightarrow\;",
    "=>": r"\;\Rightarrow\;",
    "<=": r"\leq ",
    ">=": r"\geq ",
    "!=": r"\neq ",
    ">>": r"\gg ",
    "->": r"\to ",
    "||": r"\|",
    "~": r"\sim ",
    "*": r"\cdot ",
    "...": r"\dots ",
    "%": r"\%",
}
INSIDE = r"\((?P<{}>(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)"  # with three more pairs inside
# the order counts: what is tried first wins, so longer signs come before their beginnings
TOKEN = re.compile(
    r"(?P<sign><=>|=>|<=|>=|!=|>>|->|\|\||\.\.\.|[~*%])"
    rf"|(?P<script>[_^])(?:{INSIDE.format('group')}|(?P<body>-?[A-Za-z0-9]+(?:\.\d+|_\w)?'?|\|[^|]*\|))"
    rf"|sqrt(?:{INSIDE.format('root')}| (?P<short>\w+))"
    r"|(?P<number>\d+(?:\.\d+)?)e(?P<power>[+-]?\d+)"
    r"|(?P<times>(?<=[\dk] )x(?= [\dk]))"
    r"|(?P<dot>(?<=[\w)])\.(?=[A-Za-z(]))"
    r"|(?P<word>in general|[A-Za-z]+'?)"
    r"|(?P<pause>[,;:?]\s*)"
    r"|(?P<other>.)",
    re.DOTALL,
)


def latex(text: str) -> str:
    """The formula as LaTeX; ordinary words stand upright.

    >>> latex("alpha_0 >= 1/(2+eps)")
    '\\\\alpha _{0} \\\\geq  1/(2+\\\\varepsilon )'
    >>> latex("q for every n")
    'q \\\\text{ for every }n'
    >>> latex("e^(-ln(n-2)) k_i.q")
    'e^{-\\\\ln (n-2)} k_{i}\\\\cdot q'
    """
    return "".join(_join_words([_token(match) for match in TOKEN.finditer(" ".join(text.split()))]))


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
        body = match["group"] if match["group"] is not None else match["body"]
        letters = " ".join(body) if re.fullmatch("[a-z]{2}", body) else body  # two indices, not a word
        return f"{match['script']}{{{latex(letters)}}}", False
    if match["root"] or match["short"]:
        return rf"\sqrt{{{latex(match['root'] or match['short'])}}}", False
    if match["number"]:
        return rf"{match['number']}\cdot 10^{{{int(match['power'])}}}", False
    if match["times"] or match["dot"]:
        return r"\times " if match["times"] else r"\cdot ", False
    if match["pause"]:
        return match["pause"].strip() + r"\; ", False
    return _word(match["word"]) if match["word"] else (match["other"], False)


def _word(word: str) -> tuple[str, bool]:
    if word in WORDS:
        return WORDS[word], False
    if word in LETTERS or word in FUNCTIONS:
        return f"\\{word} ", False
    if word in NAMES:
        return rf"\operatorname{{{word}}}", False
    # "aT" and "PX" are two letters multiplied, not words
    return word, len(word) > 1 and not word[1].isupper() and "'" not in word


def _join_words(pieces: list[tuple[str, bool]]) -> list[str]:
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
