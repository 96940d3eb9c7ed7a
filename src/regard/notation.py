"""Formulas that are typed in plain letters, as a person likes to read them: ||q|| <= 2 sqrt(2) ln(n/eps) becomes
‖q‖ ≤ 2 √2 ln(n/ε).

Claims and proofs are written once, in plain letters. The terminal and the lab's prose show them through here, the lab
sets their formulas through :mod:`regard.lab.notation`.
"""

from __future__ import annotations

import re

LETTERS = {"eps": "ε", "alpha": "α", "mu": "μ", "sigma": "σ", "Sigma": "Σ", "Phi": "Φ", "delta": "δ"}
SIGNS = {"<=>": "⇔", "=>": "⇒", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "||": "‖"}
_SIGN = re.compile("|".join(re.escape(sign) for sign in SIGNS))
_LETTER = re.compile(rf"(?<!--)(?<!\w)({'|'.join(LETTERS)})(?=_|\b)(?!=)")
_ROOT = re.compile(r"\bsqrt(?:\((\w+)\)| (\w)\b|(?=\())")
_RAISED = re.compile(r"(?<=[\w)‖|])\^(-?\d+)(?!\w|\.\d)")
_LOWERED = re.compile(r"(?<=[A-Za-zα-ωΑ-Ω])_(\d+)(?!\w|\.\d)")
# Names that somebody types: after "with", after --set, where a claim lists its parameters or the function to write.
_KEPT = re.compile(r"\(with [^)]*\)|--set \S+|`[^`]*`|^ *\w+ = [^\s:]+:|^ *\w+\([^)]*\), by --template", re.MULTILINE)
_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DOWN = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def readable(text: str) -> str:
    """The text with its formulas in Unicode; names that one types on a command line stay as they are.

    >>> readable("||q|| <= 2 sqrt(2) ln(n/eps), alpha_0 >= 1/(2+eps), e^-3 and sqrt(n/eps)")
    '‖q‖ ≤ 2 √2 ln(n/ε), α₀ ≥ 1/(2+ε), e⁻³ and √(n/ε)'
    >>> readable("a multiple of k_0 + k_1. And n^2.")
    'a multiple of k₀ + k₁. And n².'
    >>> readable("HOLDS (with n = 10, eps = 0.01); try --set eps=0.1")
    'HOLDS (with n = 10, eps = 0.01); try --set eps=0.1'
    """
    said, end = [], 0
    for kept in _KEPT.finditer(text):
        said += [_changed(text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*said, _changed(text[end:])])


def _changed(text: str) -> str:
    text = _SIGN.sub(lambda found: SIGNS[found[0]], text)
    text = _ROOT.sub(lambda found: f"√{found[1] or found[2] or ''}", text)
    text = _LETTER.sub(lambda found: LETTERS[found[1]], text)
    text = _RAISED.sub(lambda found: found[1].translate(_UP), text)
    return _LOWERED.sub(lambda found: found[1].translate(_DOWN), text)


def readable_values(value: object) -> object:
    """The same for every text inside lists and dictionaries, such as a verdict on its way to a page."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {name: readable_values(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable_values(item) for item in value]
    return value
