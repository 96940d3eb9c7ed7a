"""Formulas that are typed in plain letters, as a person likes to read them: ||q|| <= 2 sqrt(2) ln(n/eps) becomes
‖q‖ ≤ 2 √2 ln(n/ε).

Claims and proofs are written once, in plain letters. The terminal shows them through :func:`readable`. The lab and the
site set them as a book does: :func:`pieces` says which parts of a text are formulas, :mod:`regard.latex` writes these
in LaTeX, for pictures and for MathML, and MEANINGS says what a sign stands for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LETTERS = {"eps": "ε", "alpha": "α", "mu": "μ", "sigma": "σ", "Sigma": "Σ", "Phi": "Φ", "delta": "δ"}
# What a sign of a formula stands for, said under the pointer; where it has several meanings, its line defines it.
MEANINGS = {
    "q": "the query",
    "k": "a key; or a number of singular values",
    "v": "a value; or a singular vector",
    "c": "the output: the values, averaged with the weights",
    "n": "how many keys",
    "s": "a score: key · query",
    "α": "alpha, a weight: the share of the attention that a key gets",
    "ε": "eps, how much the others may keep",
    "T": "how long the query is made; as an exponent, transposed",
    "t": "a length or a place",
    "e": "2.718…, the base of the exponential",
    "i": "an index: it counts keys, rows or singular values",
    "j": "an index: the key that is meant",
    "l": "an index: any other key",
    "m": "an index, or a margin between scores",
    "a": "an index, key a; or the variance of small noise",
    "b": "an index, key b; or a bias",
    "μ": "mu, the mean of a random key",
    "Σ": "Sigma, the covariance of a random key",
    "σ": "sigma, a singular value: by how much a matrix stretches one of its directions",
    "Φ": "Phi, the table of positions; or the normal distribution",
    "δ": "delta, a small share that may be lost",
    "A": "a matrix; in subspaces, a basis",
    "B": "another matrix: an approximation, or a second basis",
    "C": "a constant",
    "D": "a distance, or a difference of scores",
    "E": "expected value, the mean over the noise; or a table of word vectors",
    "𝔼": "expected value, the mean over the noise",
    "F": "a face of the keys' hull; as an index, Frobenius: the root of the sum of squares",
    "H": "an entropy; or the output of attention, one row per word",
    "I": "the identity matrix",
    "K": "the keys as a matrix, one row per word",
    "L": "the length ln(n/ε)",
    "M": "a matrix that one builds; or a count",
    "N": "the normal distribution; or a count",
    "O": "as an index: of the output",
    "P": "a probability; or a permutation of rows; or a table of positions",
    "Q": "the queries as a matrix, one row per word",
    "R": "what all the others have together, as a multiple of the wanted key's",
    "S": "a set of keys; or a matrix of singular values",
    "U": "a matrix of singular vectors",
    "V": "the values as a matrix, one row per word; or a matrix of singular vectors",
    "W": "a matrix of learned weights",
    "X": "the input, one row per word",
    "Y": "another input, one row per word",
    "Z": "the layer's output, one row per word; or the sum of the exponentials",
    "d": "the dimension: how many numbers a vector has",
    "f": "the layer as a function of its input",
    "g": "the layer with positions, as a function of its input",
    "h": "a height along a direction; or a row of the output of attention",
    "o": "o(1): it tends to 0",
    "p": "a probability",
    "r": "a share, or a ratio",
    "u": "a direction; or a singular vector",
    "w": "a weight, or the frequency of a pair of positions",
    "x": "a number or a vector that its line defines",
    "y": "a number or a vector that its line defines",
    "z": "a number or a vector that its line defines",
    "π": "pi, 3.14159…",
    "′": "prime: another one of the same kind",
    "‖": "norm: the length of a vector, the size of a matrix",
    "|": "absolute value; of a set, how many it has",
    "∑": "the sum over all",
    "√": "square root",
    "·": "dot product; between numbers, times",
    "×": "by, as in 7 by 11; or times",
    "≤": "at most",
    "≥": "at least",
    "≠": "differs from",
    "≫": "is much larger than",
    "→": "tends to",
    "⇒": "implies",
    "⇔": "exactly when",
    "∈": "is one of",
    "∼": "is distributed as",
    "∞": "infinity: beyond every number",
    "…": "and so on",
    "⊤": "transposed: rows and columns exchanged",
    "ln": "natural logarithm",
    "exp": "exponential function",
    "sin": "sine",
    "cos": "cosine",
    "tanh": "hyperbolic tangent",
    "max": "the largest",
    "min": "the smallest",
    "softmax": "exponentials, divided by their sum",
    "sigmoid": "1/(1 + e⁻ˣ): softmax of two scores",
    "LSE": "logarithm of the sum of the exponentials",
    "ReLU": "what is positive stays, the rest becomes 0",
    "Var": "variance",
    "trace": "the sum of the diagonal",
    "rank": "how many directions a matrix keeps",
    "span": "all combinations of the columns",
    "norm": "a vector shifted and scaled to mean 0 and size 1",
    "layer": "one layer: attention, then a small network for each word",
    "spread": "the variance of a key along its own mean",
    "target": "the average that is asked for; or a word of the translation",
    "ratio": "a number that one chooses",
    "perplexity": "how many words a model hesitates between, on average",
}
SIGNS = {"<=>": "⇔", "=>": "⇒", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "||": "‖"}
_SIGN = re.compile("|".join(re.escape(sign) for sign in SIGNS))
_LETTER = re.compile(rf"(?<!--)(?<!\w)({'|'.join(LETTERS)})(?=_|\b)(?!=)")
_ROOT = re.compile(r"\bsqrt(?:\((\w+)\)| (\w)\b|(?=\())")
_RAISED = re.compile(r"(?<=[\w)‖|])\^(-?\d+)(?!\w|\.\d)")
_TRANSPOSED = re.compile(r"(?<=\w)\^T\b")
_DOT = re.compile(r"(?<=[₀-₉])\.(?=[A-Za-zα-ω][₀-₉])")  # between two vectors with an index; no end of a sentence
_LOWERED = re.compile(r"(?<=[A-Za-zα-ωΑ-Ω])_(\d+)(?!\w|\.\d)")
# Names that somebody types: after "with", after --set, where a claim lists its parameters or the function to write.
_KEPT = re.compile(r"\(with [^)]*\)|--set \S+|`[^`]*`|^ *\w+ = [^\s:]+:|^ *\w+\([^)]*\), by --template", re.MULTILINE)
NAMES = frozenset(["ln", "exp", "max", "min", "sin", "cos", "tanh", "sqrt", "Var", "infinity", "pi", *LETTERS])
# Words of English too: part of a formula before a bracket or an index, or beside an operator.
NAMES_AND_WORDS = frozenset(
    ["sum", "rank", "span", "trace", "LSE", "sigmoid", "softmax", "ReLU", "norm", "layer", "target", "spread", "budget"]
)
_OPERATORS = frozenset(["=", "<", ">", "<=", ">=", "!=", "->", "=>", "<=>", "~", "+", "-", "/", "*", ">>"])
_WORD = re.compile(r"[A-Za-z]+")
_NUMBER = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
_SCRIPT = re.compile(r"[_^](?:-?\w+'?|(?=\())")
_STRONG = re.compile(r"[\^=<>~|]|\w_[\w(]|\b(?:sqrt|ln)\b|(?<!\w)(?:" + "|".join(LETTERS) + r")(?!\w)")
_ENDING = re.compile(r"(?<!\.)(?!\.\.\.$)[.,;:?!\"]+$")
_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DOWN = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def readable(text: str) -> str:
    """The text with its formulas in Unicode; names that one types on a command line stay as they are.

    >>> readable("||q|| <= 2 sqrt(2) ln(n/eps), alpha_0 >= 1/(2+eps), e^-3 and sqrt(n/eps)")
    '‖q‖ ≤ 2 √2 ln(n/ε), α₀ ≥ 1/(2+ε), e⁻³ and √(n/ε)'
    >>> readable("a multiple of k_0 + k_1. And n^2; P(k_0.mu_0 < 0).")
    'a multiple of k₀ + k₁. And n²; P(k₀·μ₀ < 0).'
    >>> readable("HOLDS (with n = 10, eps = 0.01); try --set eps=0.1")
    'HOLDS (with n = 10, eps = 0.01); try --set eps=0.1'
    """
    said, end = [], 0
    for kept in _KEPT.finditer(text):
        said += [_to_unicode(text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*said, _to_unicode(text[end:])])


def _to_unicode(text: str) -> str:
    # signs before letters and indices, which are told by the signs beside them
    text = _SIGN.sub(lambda match: SIGNS[match[0]], text)
    text = _ROOT.sub(lambda match: f"√{match[1] or match[2] or ''}", text)
    text = _LETTER.sub(lambda match: LETTERS[match[1]], text)
    text = _TRANSPOSED.sub("ᵀ", _RAISED.sub(lambda match: match[1].translate(_UP), text))
    return _DOT.sub("·", _LOWERED.sub(lambda match: match[1].translate(_DOWN), text))


def readable_values(value: object) -> object:
    """The same for every text inside lists and dictionaries, such as a verdict on its way to a page."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {name: readable_values(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable_values(item) for item in value]
    return value


@dataclass(frozen=True)
class Piece:
    """A part of a text: a formula, in plain letters, or prose, already readable."""

    text: str
    formula: bool


def pieces(text: str) -> list[Piece]:
    """The text in turns of prose and formulas; what somebody types stays prose.

    Formulas are told from prose by their signs: a word with a sign, an index or a Greek letter is one, and so is what
    stands beside it without a comma. A guess, but a harmless one: what is missed is shown as :func:`readable` has it.

    >>> [piece.text for piece in pieces("So alpha_0 >= 1/(2+eps), a share of the cake.") if piece.formula]
    ['alpha_0 >= 1/(2+eps)']
    >>> [piece.text for piece in pieces("Here a random matrix, k = 3, and a T^2 -> 0.") if piece.formula]
    ['k = 3', 'a T^2 -> 0']
    """
    parts: list[Piece] = []
    end = 0
    for kept in _KEPT.finditer(text):
        parts += [*_split_formulas(text[end : kept.start()]), Piece(kept[0], False)]
        end = kept.end()
    return _join_prose([*parts, *_split_formulas(text[end:])])


def _split_formulas(text: str) -> list[Piece]:
    """Formulas and prose of a text in which nothing is typed by somebody."""
    words = re.findall(r"\S+\s*", text)
    parts = [Piece(text[: len(text) - len(text.lstrip())], False)]
    run, is_formula = "", False
    for word, kind in zip([*words, ""], [*_kinds([word.rstrip() for word in words]), ""], strict=True):
        if kind:
            run += word
            # numbers alone are prose; beside a sign or a letter they belong to its formula
            is_formula |= kind != "number"
        ends = _ENDING.search(word.rstrip())
        # inside an open bracket a comma parts arguments; elsewhere it ends the formula
        goes_on = kind and (ends is None or (ends[0] == "," and _count_open_brackets(run) > 0))
        if run and not goes_on:
            parts += _trim_formula(run) if is_formula else [Piece(run, False)]
            run, is_formula = "", False
        if not kind:
            parts.append(Piece(word, False))
    return [piece if piece.formula else Piece(_to_unicode(piece.text), False) for piece in _join_prose(parts)]


def _count_open_brackets(text: str) -> int:
    """How many brackets are open at the end."""
    return sum((char in "([") - (char in ")]") for char in text)


def _kinds(words: list[str]) -> list[str]:
    """What each word is: strong, a formula by itself; weak, part of one; number; nothing, prose.

    >>> _kinds("for a key and a T^2 = 3".split())
    ['', '', '', '', 'weak', 'strong', 'strong', 'number']
    """
    kinds = [_kind(word) for word in words]
    for i, word in enumerate(words):
        bare = _bare(word).strip("()[]")
        starts = i == 0 or _ENDING.search(words[i - 1]) is not None
        before, after = (
            "" if starts else kinds[i - 1],
            "" if _ENDING.search(word) or i + 1 == len(words) else kinds[i + 1],
        )
        if bare in ("A", "I"):  # an article and a pronoun only where a sentence starts
            kinds[i] = "weak" if not starts or after else ""
        elif bare == "a":
            listed = words[i + 1 : i + 2] == ["and"] and kinds[i + 2 : i + 3] in (["weak"], ["strong"])
            closes = before and word.count(")") > word.count("(")
            kinds[i] = "weak" if before == "strong" or after in ("strong", "weak") or listed or closes else ""
        elif bare in NAMES_AND_WORDS:
            beside = [words[j] for j in (i - 1, i + 1) if 0 <= j < len(words)]
            kinds[i] = "weak" if any(one in _OPERATORS for one in beside) and bare != "sum" else ""
    return kinds


def _bare(word: str) -> str:
    return word if word.strip("()") == "..." else _ENDING.sub("", word)


def _kind(word: str) -> str:
    """What a word is by itself."""
    bare = _bare(word)
    if bare.strip("()[]") in _OPERATORS:
        return "strong"
    if _NUMBER.fullmatch(bare.strip("()[]")) or bare.strip("()[]") == "...":
        return "number"
    if re.fullmatch(r"[\d()\[\]/.,+*|^-]+", bare):
        return "strong" if re.search(r"[|^]", bare) else "number"
    # without indices and exponents, whose letters may be words; PAP^T is a product of three
    letters = _WORD.findall(_SCRIPT.sub(" ", bare.replace("PAP", "P A P")))
    if re.search(r"[\"`%]|[a-z]{2,}-[a-z]", bare) or not all(map(_is_of_a_formula, letters)):
        return ""
    if bare.strip("()[]") in NAMES_AND_WORDS:
        return ""
    return "strong" if _STRONG.search(bare) else "weak" if letters else ""


def _is_of_a_formula(letters: str) -> bool:
    """A letter, two that are multiplied, such as aT and PX, or a name."""
    return len(letters) == 1 or (len(letters) == 2 and letters[1].isupper()) or letters in NAMES | NAMES_AND_WORDS


def _trim_formula(text: str) -> list[Piece]:
    """A formula without what belongs to the sentence: punctuation, spaces, brackets that do not close in it."""
    text, after = (text.rstrip(), text[len(text.rstrip()) :])
    if ends := _ENDING.search(text):
        text, after = text[: ends.start()], ends[0] + after
    unmatched: list[int] = []
    for i, char in enumerate(text):
        if char in "([":
            unmatched.append(i)
        elif char in ")]":
            if unmatched and text[unmatched[-1]] in "([":
                unmatched.pop()
            else:
                unmatched.append(i)
    parts, start = [], 0
    for i in unmatched:
        formula = text[start:i].rstrip()
        parts += [Piece(formula, True), Piece(text[start + len(formula) : i + 1], False)]
        start = i + 1
    return [*parts, Piece(text[start:], True), Piece(after, False)]


def _join_prose(parts: list[Piece]) -> list[Piece]:
    """Prose beside prose put together, nothing left out."""
    joined: list[Piece] = []
    for piece in parts:
        if joined and not piece.formula and not joined[-1].formula:
            joined[-1] = Piece(joined[-1].text + piece.text, False)
        elif piece.text:
            joined.append(piece)
    return joined
