"""Texts with their formulas as MathML, for the lab and the site; which parts are formulas, the ground says."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

from regard.lab.page import mathml
from regard.notation import latex, pieces
from regard.toml import parse_toml

# what a sign of a formula stands for
MEANINGS: dict[str, str] = parse_toml(
    resources.files("regard.lab").joinpath("meanings.toml").read_text(encoding="utf-8")
)
LONG = 24  # letters of a formula that a narrow column may have to break
RELATION = re.compile(r" (?=(?:=|<=|>=|<|>|!=|->|~|=>|<=>) )")
LEADING = re.compile(r"(<math[^>]*><mrow>)<mo>(?!&#x02212;)")  # a minus at the front is a sign, not an operation
TRAILING = re.compile(r"<mo>([^<]*)</mo></mrow></math>$")


@lru_cache(maxsize=1024)
def typeset(text: str) -> tuple[tuple[str, bool], ...]:
    """A text with its formulas as MathML: parts in order, each with whether it is MathML or prose.

    >>> [part for part, is_formula in typeset("So $n = 10$ keys.") if not is_formula]
    ['So ', ' keys.']
    """
    pairs: list[tuple[str, bool]] = []
    for piece in pieces(text):
        pairs += (
            [(_inline_mathml(part), True) for part in _split_at_relations(piece.text)]
            if piece.formula
            else [(piece.text, False)]
        )
    return tuple(pairs)


def _split_at_relations(formula: str) -> list[str]:
    """A long formula in parts that begin with a relation: a browser breaks a line between formulas, never inside one.

    >>> _split_at_relations("P(alpha_a > 0.9) >= 1 - (n-1) e^-T = 0.98")
    ['P(alpha_a > 0.9)', '>= 1 - (n-1) e^-T', '= 0.98']
    """
    formula = " ".join(formula.split())
    if len(formula) <= LONG:
        return [formula]
    parts, start = [], 0
    for relation in RELATION.finditer(formula):
        before = formula[: relation.start()]
        if before.count("(") == before.count(")") and before.count("||") % 2 == 0:
            parts.append(formula[start : relation.start()])
            start = relation.end()
    return [*(part for part in parts if part), formula[start:]]


def _inline_mathml(formula: str) -> str:
    """MathML within a line; an operator at an end keeps the space that it has between its two sides."""
    made = LEADING.sub(r'\1<mo form="infix">', mathml(latex(formula), inline=True))
    return TRAILING.sub(r'<mo form="infix">\1</mo></mrow></math>', made)
