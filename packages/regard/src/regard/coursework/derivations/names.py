"""What the letters of a derivation mean: the problem's names, the writer's own, and which choices were made."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from regard.coursework.derivations.terms import EYE, ONES, ZERO, Term, apply, mul, num, sym
from regard.coursework.derivations.tokens import NotRead, Token

Shape = tuple[str, str]
SCALAR: Shape = ("1", "1")
ENTRYWISE = ("softmax", "relu")


class Mismatch(Exception):  # noqa: N818 - a finding about somebody's line
    """Two parts that do not fit together, in one sentence."""


@dataclass
class Vocabulary:
    """Names with their shapes. ``own``: the writer's; ``same``: a letter that is read as a name of the problem."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    families: dict[str, tuple[Term, Term]] = field(default_factory=dict)  # their first and last index
    variants: frozenset[str] = frozenset()  # names that exist for the permuted input, too
    input: str = ""
    permuted_input: Term = ZERO
    turns: frozenset[str] = frozenset()  # square matrices whose inverse is their transpose
    columns: frozenset[str] = frozenset()  # matrices with orthonormal columns
    norm: str = "2"  # of a matrix, where the writer does not say which
    rows: str = ""  # how long the vector of ones is
    own: dict[str, Shape] = field(default_factory=dict)
    indices: set[str] = field(default_factory=lambda: {"i", "j", "l"})
    same: dict[str, str] = field(default_factory=dict)
    permutation: str = ""  # the matrix that a map of places, such as sigma, belongs to
    inverse: bool = False  # whether the writer's sigma goes the other way: row i goes to place sigma(i)
    places: dict[str, Term] = field(default_factory=dict)  # a is 1, where k_a is k_1
    unknown: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def say(self, choice: str) -> None:
        if choice not in self.said:
            self.said.append(choice)

    def is_matrix(self, name: str) -> bool:
        return self.shapes.get(name, SCALAR)[1] != "1"

    def names(self) -> frozenset[str]:
        """All names; "k_" says that a number may follow, and "_p" that a letter may be of the permuted input."""
        marks = [*(f"{one}_" for one in self.families), *(["_p"] if self.variants else [])]
        return frozenset([*self.shapes, *self.families, *self.own, *marks])

    def index_range(self, body: Term, index: str) -> tuple[Term, Term] | None:
        """From where to where an index runs: as the family does that it stands at."""
        for part in body.parts():
            if part.op in ("at", "unit") and index in [one.value for one in part.args[0].parts() if one.op == "sym"]:
                size = part.value
                ends = num(1), num(int(size)) if size.isdigit() else sym(size)
                return ends if part.op == "unit" else self.families.get(size)
        return None

    def common_range(self) -> tuple[Term, Term] | None:
        """From where to where every family runs, if they agree."""
        ranges = {ends for name, ends in self.families.items() if not name.endswith(".")}
        return next(iter(ranges)) if len(ranges) == 1 else None

    def shape_of_name(self, name: str) -> Shape | None:
        return self.shapes.get(name) or self.own.get(name)


def fit(term: Term, words: Vocabulary, *, like: Shape | None = None) -> tuple[Term, Shape | None]:
    """The term with dots, ones and norms made precise, and its shape; None for 0 and I, which take any."""
    if not term.args:
        return _fit_leaf(term, words, like)
    if term.op in _FITS:
        return _FITS[term.op](term, words)
    like = (words.rows, "1") if term.op == "T" and words.rows else None  # 1^T is a row of ones
    args, shapes = zip(*(fit(one, words, like=like) for one in term.args), strict=True)
    if term.op == "dot":
        return _fit_dot(args, shapes, words)
    if term.op == "div" and shapes[1] not in (SCALAR, None):
        raise Mismatch(f"{args[1]} is {_by(shapes[1])}; only numbers divide")
    if term.op == "pow":
        return _fit_power(args, shapes, words)
    if term.op == "norm":
        return _fit_norm(term, args, shapes, words)
    return Term(term.op, args, term.value), _shape_of_call(term.op, args, shapes)


def _fit_leaf(term: Term, words: Vocabulary, like: Shape | None) -> tuple[Term, Shape | None]:
    if term.op == "num":
        if term.value == 1 and like is not None and like != SCALAR and like == (words.rows, "1"):
            return ONES, like
        return term, None if term.value == 0 else SCALAR
    if term.op == "ones":
        return term, (words.rows, "1")
    return term, None if term.op == "eye" else words.shape_of_name(term.value) or SCALAR


def _fit_series(term: Term, words: Vocabulary) -> tuple[Term, Shape | None]:
    body, shape = fit(term.args[0], words)
    return Term("sum", (body,), term.value), shape


def _fit_norm(
    term: Term, args: tuple[Term, ...], shapes: tuple[Shape | None, ...], words: Vocabulary
) -> tuple[Term, Shape | None]:
    if (shapes[0] or SCALAR)[1] == "1":
        return Term("norm", args, "v"), SCALAR
    if not term.value:
        words.say(f"||{args[0]}|| is read as its {'Frobenius' if words.norm == 'F' else 'spectral'} norm")
    return Term("norm", args, term.value or words.norm), SCALAR


def _shape_of_call(op: str, args: tuple[Term, ...], shapes: tuple[Shape | None, ...]) -> Shape | None:
    shape = shapes[0]
    if op == "div" or op in ENTRYWISE:
        return shape
    if op == "T":
        return None if shape is None else (shape[1], shape[0])
    if op == "tr" and shape is not None and shape[0] != shape[1]:
        raise Mismatch(f"{args[0]} is {_by(shape)}, and only square matrices have a trace")
    if op not in ("tr", "rank") and shape not in (SCALAR, None):
        raise Mismatch(f"{args[0]} is {_by(shape)}; {op} is of a number here")
    return SCALAR


def _by(shape: Shape | None) -> str:
    rows, columns = shape or ("any", "any")
    return f"{rows} x {columns}"


def _fit_product(term: Term, words: Vocabulary) -> tuple[Term, Shape | None]:
    pairs = [fit(one, words) for one in term.args]
    if any(shape not in (SCALAR, None) for _, shape in pairs):
        pairs = [
            (ONES, (words.rows, "1"))
            if one == num(1) and words.rows and not _is_first_number(n, pairs)
            else (one, shape)
            for n, (one, shape) in enumerate(pairs)
        ]
    made: Shape | None = SCALAR
    before = ""
    for one, shape in pairs:
        if shape is None and one.op == "num":
            return num(0), None
        if made == SCALAR:
            made = shape if shape is not None else (None if one.op == "eye" and not before else made)
        elif shape is None or shape == SCALAR or made is None:
            made = shape if made is None and shape != SCALAR else made
        elif made[1] != shape[0]:
            raise Mismatch(f"{before} is {_by(made)} and {one} is {_by(shape)}: {before} {one} is not defined")
        else:
            made = (made[0], shape[1])
        before = f"{before} {one}".strip()
    return mul(*(one for one, _ in pairs)), made


def _is_first_number(place: int, pairs: list[tuple[Term, Shape | None]]) -> bool:
    """A 1 before a column or a square matrix is the number; before a row it is the vector of ones."""
    after = pairs[place + 1][1] if place + 1 < len(pairs) else None
    return place == 0 and (after is None or after[0] != "1" or after == SCALAR)


def _fit_sum(term: Term, words: Vocabulary) -> tuple[Term, Shape | None]:
    pairs = [fit(one, words) for one in term.args]
    shapes = {shape for _, shape in pairs if shape is not None}
    if len(shapes) > 1:
        (a, one), (b, other) = next(
            ((a, s), (b, r)) for a, s in pairs for b, r in pairs if s is not None and r is not None and s != r
        )
        raise Mismatch(f"{a} is {_by(one)} and {b} is {_by(other)}: they cannot be added")
    return Term("add", tuple(one for one, _ in pairs)), next(iter(shapes), None)


def _fit_dot(args: tuple[Term, ...], shapes: tuple[Shape | None, ...], words: Vocabulary) -> tuple[Term, Shape | None]:
    left, right = shapes
    if left is not None and left == right and left != SCALAR and left[1] == "1":
        return mul(apply("T", args[0]), args[1]), SCALAR
    return fit(mul(*args), words)


def _fit_power(
    args: tuple[Term, ...], shapes: tuple[Shape | None, ...], words: Vocabulary
) -> tuple[Term, Shape | None]:
    base, power = args
    if power == num(-1) and base.op == "sym" and base.value in words.turns:  # the inverse is the transpose
        return apply("T", base), shapes[0]
    if power == num(-1) and base.args in {(apply("T", sym(one)), sym(one)) for one in words.columns}:
        return base, shapes[0]  # A^T A is the identity, and so is its inverse
    if shapes[0] in (SCALAR, None) or base.op == "eye":
        return Term("pow", args), shapes[0]
    if power.op != "num" or power.value.denominator != 1 or not 0 <= power.value <= 6:
        raise Mismatch(f"{base} is {_by(shapes[0])}; its power {power} is not read")
    if shapes[0] is not None and shapes[0][0] != shapes[0][1]:
        raise Mismatch(f"{base} is {_by(shapes[0])}, and only square matrices have powers")
    return (mul(*[base] * int(power.value)) if power.value else EYE), shapes[0]


def fit_relation(left: Term, right: Term, words: Vocabulary) -> tuple[Term, Term, Shape | None]:
    """Both sides of a relation, made precise; raises Mismatch where they cannot be compared."""
    _, shape = fit(left, words)
    _, other = fit(right, words)
    left, shape = fit(left, words, like=other)
    right, other = fit(right, words, like=shape)
    if shape is not None and other is not None and shape != other:
        raise Mismatch(f"{left} is {_by(shape)} and {right} is {_by(other)}")
    return left, right, shape if shape is not None else other


_FITS: dict[str, Callable[[Term, Vocabulary], tuple[Term, Shape | None]]] = {
    "sum": _fit_series,
    "mul": _fit_product,
    "add": _fit_sum,
    "at": lambda term, words: (term, words.shape_of_name(term.value) or SCALAR),
    "unit": lambda term, words: (term, (term.value, "1")),
    "image": lambda term, words: (term, SCALAR),
}


# Entries of matrices: Q_{ij}, (Q K^T)_{ij}, the row X_{i,:}, and X_{sigma(i) j} for a permutation sigma of places. An
# entry is read as a product with unit vectors, e_i^T Q e_j, so that all that is known of products is known of it.

_WHOLE = (":", ".")  # in the place of an index: all of them
_IMAGE = r"(?:sigma|pi|tau|phi|rho|[a-z])(?:\^\{?-1\}?)?\([a-z0-9]\)"
_PLACES = re.compile(rf"(?:(?:{_IMAGE}|[a-z0-9:.]),?){{2}}")
_ROW = re.compile(rf"[ijl]|{_IMAGE}")


def is_matrix(shape: Shape | None) -> bool:
    return shape is not None and "1" not in shape


def is_entry(base: str, inside: list[Token], words: Vocabulary) -> bool:
    """Whether places stand below a name: Q_{ij}, and not W_Q, k_1, A_{k-1} or Q_{i,p}."""
    texts = [token.text for token in inside]
    known = f"{base}_{''.join(texts)}" in words.names() or (bool(words.variants) and texts[-1:] == ["p"])
    maps = [len(one) > 1 and after not in ("(", "^") for one, after in zip(texts, [*texts[1:], ""], strict=True)]
    text = "#" if any(maps) else "".join(texts)  # Q_pi is a name
    row = _ROW.fullmatch(text) is not None and bool(words.permutation)  # elsewhere A_i may be any name
    places = row or _PLACES.fullmatch(text) is not None
    return is_matrix(words.shape_of_name(base)) and places and not known


def entry(matrix: Term, inside: list[Token], words: Vocabulary) -> Term:
    """The entry, row or column of a matrix that the places below it name."""
    try:
        matrix, shape = fit(matrix, words)
    except Mismatch as mismatch:
        raise NotRead(inside[0].place, f"shapes that fit: {mismatch}") from None
    places = read_places(inside, words)
    if shape is None or shape == ("1", "1") or len(places) > 2:
        raise NotRead(inside[0].place, "no index below a number, and at most two below a matrix")
    if len(places) == 1:
        places = [*places, None] if shape[0] != "1" else [None, *places]
    left = [] if places[0] is None else [apply("T", apply("unit", places[0], value=shape[0]))]
    right = [] if places[1] is None or shape[1] == "1" else [apply("unit", places[1], value=shape[1])]
    return mul(*left, matrix, *right)


def read_places(tokens: list[Token], words: Vocabulary) -> list[Term | None]:
    """The places in "ij", "i, j", "sigma(i) j", "i, :"; None for all of them."""
    made: list[Term | None] = []
    n = 0
    while n < len(tokens):
        token, rest = tokens[n], [one.text for one in tokens[n + 1 :]]
        n += 1
        if token.text in _WHOLE:
            made.append(None)
        elif token.kind == "num":
            made.append(num(int(token.text)) if token.text.isdigit() else None)
        elif token.kind == "name" and "(" in rest and rest[: rest.index("(")] in ([], list("^{-1}"), list("^-1")):
            start = n + rest.index("(") + 1
            end = next((m for m in range(start, len(tokens)) if tokens[m].text == ")"), len(tokens))
            made.append(image(read_places(tokens[start:end], words), start - n > 1, token, words))
            n = end + 1
        elif token.kind == "name":
            made.append(sym(token.text))
            if token.text not in words.shapes:
                words.indices.add(token.text)
        elif token.text != ",":
            raise NotRead(token.place, "places such as i, j or sigma(i)")
    return made


def image(places: list[Term | None], inverse: bool, token: Token, words: Vocabulary) -> Term:
    """sigma(i): where row i of P has its 1; or in which row column i has it, if that is how the writer means it."""
    if not words.permutation or len(places) != 1 or places[0] is None:
        raise NotRead(token.place, "an index, not a function")
    return apply("image", places[0], value=words.permutation + "^T" * (inverse != words.inverse))
