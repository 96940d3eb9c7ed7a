"""Formulas: marked with dollar signs where they are written, in plain letters, and shown as a person likes them.

A text is written once, as in "some $q$ with $||q|| <= 2 sqrt(2) ln(n/eps)$". :func:`readable` shows its formulas in
Unicode, for the terminal: ‖q‖ ≤ 2 √2 ln(n/ε). :func:`latex` writes one in LaTeX, for pictures and for MathML;
:func:`without_marks` leaves them as they were typed, for files. All three read a formula with one regular expression,
TOKEN, and what no dollar signs enclose is never touched: names that somebody types need no protection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

T = TypeVar("T")

LETTERS = {"eps": "ε", "alpha": "α", "mu": "μ", "sigma": "σ", "Sigma": "Σ", "Phi": "Φ", "delta": "δ", "pi": "π"}
# How a sign is typed, in Unicode, and in LaTeX.
SIGNS = {
    "<=>": ("⇔", r"\;\Leftrightarrow\;"),
    "=>": ("⇒", r"\;\Rightarrow\;"),
    "<=": ("≤", r"\leq "),
    ">=": ("≥", r"\geq "),
    "!=": ("≠", r"\neq "),
    ">>": (">>", r"\gg "),
    "->": ("→", r"\to "),
    "||": ("‖", r"\|"),
    "...": ("...", r"\dots "),
    "~": ("~", r"\sim "),
    "*": ("*", r"\cdot "),
    "%": ("%", r"\%"),
}
FUNCTIONS = {"ln", "exp", "max", "min", "sin", "cos", "tanh"}
NAMES = {"softmax", "ReLU", "rank", "span", "spread", "ratio", "layer", "perplexity", "target"} | {
    *("trace", "norm", "sigmoid", "LSE", "Var", "tr")
}
WORDS = {"eps": r"\varepsilon ", "sum": r"\sum ", "in": r"\in ", "infinity": r"\infty "}
MARKED = re.compile(r"\$([^$]+)\$")
INSIDE = r"\((?P<{}>(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)"  # with three more pairs inside
# the order counts: what is tried first wins, so longer signs come before their beginnings
TOKEN = re.compile(
    rf"(?P<sign>{'|'.join(re.escape(sign) for sign in sorted(SIGNS, key=len, reverse=True))})"
    rf"|(?P<script>[_^])(?:{INSIDE.format('group')}|(?P<body>-?[A-Za-z0-9]+(?:\.\d+|_\w)?'?|\|[^|]*\|))"
    rf"|\bsqrt(?:{INSIDE.format('root')}| (?P<short>\w+))"
    r"|(?P<number>\d+(?:\.\d+)?)e(?P<power>[+-]?\d+)"
    r"|(?P<times>(?<=[\dk] )x(?= [\dk]))"
    r"|(?P<dot>(?<=[\w)])\.(?=[A-Za-z(]))"
    r"|(?P<word>[A-Za-z]+'?)"
    r"|(?P<pause>[,;:?]\s*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_UP = str.maketrans("-0123456789T", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ")
_DOWN = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_TYPED = {
    **{shown: sign for sign, (shown, _) in SIGNS.items()},
    **{shown: name for name, shown in LETTERS.items()},
    "∞": "infinity",
    "·": ".",
}
_RAISED = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")


@dataclass(frozen=True)
class Piece:
    """A part of a text: a formula, in plain letters, or prose."""

    text: str
    formula: bool


def pieces(text: str) -> list[Piece]:
    """The text in turns of prose and formulas, without the marks.

    >>> [piece.text for piece in pieces("So $alpha_0 >= 1/(2+eps)$, a share of the cake.") if piece.formula]
    ['alpha_0 >= 1/(2+eps)']
    """
    # splitting at a pattern with one group gives prose and what the group held, by turns
    parts = [Piece(part, n % 2 == 1) for n, part in enumerate(MARKED.split(text))]
    return [piece for piece in parts if piece.text]


def readable(value: T) -> T:
    """A text with its formulas in Unicode; the same for every text inside lists and dictionaries.

    >>> readable("$||q|| <= 2 sqrt(2) ln(n/eps)$, $alpha_0 >= 1/(2+eps)$, $e^-3$ and $sqrt(n/eps)$; --set eps=0.1")
    '‖q‖ ≤ 2 √2 ln(n/ε), α₀ ≥ 1/(2+ε), e⁻³ and √(n/ε); --set eps=0.1'
    """
    return _rewrite_formulas(value, in_unicode)


def without_marks(value: T) -> T:
    """A text with its formulas as they were typed; the same for every text inside lists and dictionaries.

    >>> without_marks({"region": "for $n >= 3$", "numbers": [1, 2]})
    {'region': 'for n >= 3', 'numbers': [1, 2]}
    """
    return _rewrite_formulas(value, str)


def _rewrite_formulas(value: T, rewrite: Callable[[str], str]) -> T:
    changed: object = value
    if isinstance(value, str):
        changed = MARKED.sub(lambda found: rewrite(found[1]), value)
    elif isinstance(value, dict):
        changed = {name: _rewrite_formulas(item, rewrite) for name, item in value.items()}
    elif isinstance(value, (list, tuple)):
        changed = type(value)(_rewrite_formulas(item, rewrite) for item in value)
    return cast(T, changed)


def in_plain_letters(text: str) -> str:
    """A readable text in plain letters again, for a terminal that has no others.

    >>> in_plain_letters("‖q‖² ≤ 2 √2 ln(n/ε), α₁₀")
    '||q||^2 <= 2 sqrt(2) ln(n/eps), alpha_10'
    """
    text = re.sub(r"√(\w+)", r"sqrt(\1)", text).replace("√", "sqrt")
    text = _RAISED.sub(lambda found: "^" + found[0].translate({up: low for low, up in _UP.items()}), text)
    text = _LOWERED.sub(lambda found: "_" + found[0].translate({down: low for low, down in _DOWN.items()}), text)
    return "".join(_TYPED.get(char, char) for char in text)


def in_unicode(formula: str) -> str:
    """A formula in plain letters, in Unicode.

    >>> in_unicode("P(k_0.mu_0 < 0) = n^2 sigma_k x^(n-1) A^T A")
    'P(k₀·μ₀ < 0) = n² σ_k x^(n-1) Aᵀ A'
    """
    return "".join(map(_unicode_token, TOKEN.finditer(formula)))


def _unicode_token(match: re.Match[str]) -> str:
    if match["sign"]:
        return SIGNS[match["sign"]][0]
    if match["script"]:
        return _unicode_script(match["script"], match["body"], match["group"])
    if match["root"] is not None:
        root = in_unicode(match["root"])
        return f"√{root}" if root.isalnum() else f"√({root})"
    if match["short"]:
        return f"√{in_unicode(match['short'])}"
    if match["dot"]:
        return "·"
    return {**LETTERS, "infinity": "∞"}.get(match[0], match[0])


def _unicode_script(script: str, body: str | None, group: str | None) -> str:
    if body is None:
        return f"{script}({in_unicode(group or '')})"
    if script == "_" and body.isdigit():
        return body.translate(_DOWN)
    if script == "^" and (body == "T" or body.removeprefix("-").isdigit()):
        return body.translate(_UP)
    return script + in_unicode(body)


def latex(formula: str) -> str:
    r"""A formula in plain letters, in LaTeX.

    >>> print(latex("alpha_0 >= 1/(2+eps)"))
    \alpha _{0} \geq  1/(2+\varepsilon )
    >>> print(latex("e^(-ln(n-2)) k_i.q"))
    e^{-\ln (n-2)} k_{i}\cdot q
    """
    return "".join(_latex_token(match) for match in TOKEN.finditer(" ".join(formula.split())))


def latex_lines(text: str) -> tuple[str, ...]:
    r"""A text as lines of LaTeX, its prose upright: two spaces after a colon or semicolon begin a new line.

    >>> latex_lines("$x = 1$;  $y$ for every $n$")
    ('x = 1\\text{;}', 'y\\text{ for every }n')
    """
    return tuple(
        "".join(latex(one.text) if one.formula else rf"\text{{{one.text}}}" for one in pieces(line))
        for line in re.split(r"(?<=[:;])  ", text)
    )


def _latex_token(match: re.Match[str]) -> str:
    if match["sign"]:
        return SIGNS[match["sign"]][1]
    if match["script"]:
        body = match["group"] if match["group"] is not None else match["body"]
        letters = " ".join(body) if re.fullmatch("[a-z]{2}", body) else body  # two indices, not a name
        return f"{match['script']}{{{latex(letters)}}}"
    if match["root"] is not None or match["short"]:
        return rf"\sqrt{{{latex(match['root'] or match['short'])}}}"
    if match["number"]:
        return rf"{match['number']}\cdot 10^{{{int(match['power'])}}}"
    if match["times"] or match["dot"]:
        return r"\times " if match["times"] else r"\cdot "
    if match["pause"]:
        return match["pause"].strip() + r"\; "
    return _latex_word(match["word"]) if match["word"] else match["other"]


def _latex_word(word: str) -> str:
    if word in WORDS:
        return WORDS[word]
    if word in LETTERS or word in FUNCTIONS:
        return f"\\{word} "
    # other letters side by side are multiplied, as in PX
    return rf"\operatorname{{{word}}}" if word in NAMES else word
