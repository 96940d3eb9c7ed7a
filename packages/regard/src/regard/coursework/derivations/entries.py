"""Entries of matrices: Q_{ij}, (Q K^T)_{ij}, the row X_{i,:}, and X_{sigma(i) j} for a permutation sigma of places.

An entry is read as a product with unit vectors, e_i^T Q e_j, so that all that is known of products is known of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from regard.coursework.derivations.forms import (
    Atom,
    Form,
    Powers,
    constant,
    contains_name,
    form_key,
    index_key,
    of_atom,
    put,
)
from regard.coursework.derivations.names import Mismatch, Shape, Vocabulary, fit
from regard.coursework.derivations.terms import Term, apply, mul, num, sym
from regard.coursework.derivations.tokens import NotRead, Token

if TYPE_CHECKING:
    from regard.coursework.derivations.normal import Normal

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


# normal forms


def unit(place: Any, shape: Shape, flipped: bool) -> Atom:
    return ("m", ("unit", place, shape), flipped)


def image_key(place: Any, name: str) -> Any:
    """The key of a place that a permutation moves; moved back, it is the place itself."""
    ((powers, _), factor), *more = place or [(((), ()), 0)]
    if not more and factor == 1 and len(powers) == 1 and powers[0][0][0] == "image":
        _, inner, other = powers[0][0]
        if other.removesuffix("^T") == name.removesuffix("^T") and other != name:
            return inner
    return form_key(of_atom(("image", place, name)))


def pick(normal: Normal, a: Atom, b: Atom) -> Atom | None:
    """The one factor that two are: e_i^T P is e_sigma(i)^T, U e_i is u_i, and u_i^T U is e_i^T."""
    member = a[1][0] == "at" and a[2] and b[1][0] == "sym" and not b[2] and normal.columns(b) == a[1][1]
    if (
        member
        and normal.columnwise
        and normal.is_orthonormal(a[1][1])
        and normal.may("orthonormal columns", f"orthonormal {a[1][1]}_i")
    ):
        return unit(a[1][2], (normal.shape(b)[1], "1"), True)
    if a[1][0] == "unit" and a[2]:
        other = pick(normal, (b[0], b[1], not b[2]), (a[0], a[1], False))
        return None if other is None else (other[0], other[1], not other[2])
    if b[1][0] != "unit" or b[2] or a[1][0] != "sym":
        return None
    place, name = b[1][1], a[1][1]
    if name in normal.permutations and normal.may("a permutation moves places"):
        return unit(image_key(place, name if a[2] else f"{name}^T"), b[1][2], False)
    family = None if a[2] else normal.columns(a)
    if family is not None and normal.may("a matrix times a vector is a sum over its columns"):
        return ("m", ("at", family, place), False)
    return None


def dot_with_units(normal: Normal, word: tuple[Atom, ...]) -> Form | None:
    """e_i^T e_j is 1 or 0; an entry of a softmax is an exponential over the sum of those of its row."""
    first, *middle, last = word
    if not middle and last[1][0] == "sym" and first[1][0] == "unit" and not last[2]:
        return of_atom(("at", f"{last[1][1]}.", first[1][1]))  # an entry of a vector
    if first[1][0] != "unit" or last[1][0] != "unit":
        return None
    if not middle:
        return normal.delta(dict(first[1][1]), dict(last[1][1]), end=size_form(first[1][2][0]))
    (inner,) = middle if len(middle) == 1 else (None,)
    if inner is None or inner[1][0] != "softmax" or inner[2] or not normal.columnwise:
        return None
    if not normal.may("softmax, entry by entry"):
        return None
    return normal.softmax_entry(dict(inner[1][1]), first, last)


def contract(normal: Normal, index: str, hi: Form, inside: Powers) -> Form | None:
    """The sum over l of A_{il} B_{lj} is (A B)_{ij}."""
    place = index_key(index)
    if len(inside) == 1 and inside[0][0][0] == "dot" and inside[0][1] == 1:
        first, *middle, last = inside[0][0][1]
        around = first[1][0] == last[1][0] == "unit" and first[1][1] == last[1][1] == place
        whole = bool(middle) and not contains_name(tuple(middle), index) and is_whole(normal, middle[0], hi)
        if around and whole and normal.may("the trace is the sum of the diagonal"):
            return normal.trace_of(tuple(middle))
        return None
    words = [atom[1] for atom, power in inside if atom[0] == "dot" for _ in range(int(power)) if power in (1, 2)]
    if len(words) != 2 or sum(power for _, power in inside) != 2:
        return None
    turned = []
    for word, at_end in zip(words, (True, False), strict=True):
        for way in (word, tuple((kind, key, not flipped) for kind, key, flipped in reversed(word))):
            atom = way[-1] if at_end else way[0]
            if atom[1][0] == "unit" and atom[1][1] == place:
                turned.append(way[:-1] if at_end else way[1:])
                break
    if len(turned) != 2 or contains_name(tuple(turned), index) or not is_whole(normal, turned[1][0], hi):
        return None
    return normal.reduce_word((), turned[0] + turned[1]) if normal.may("a product, entry by entry") else None


def is_whole(normal: Normal, matrix: Atom, hi: Form) -> bool:
    """Whether a sum up to here runs over all rows of a matrix."""
    return hi == size_form(normal.shape(matrix)[0])


def size_form(size: str) -> Form:
    return constant(int(size)) if size.isdigit() else of_atom(("sym", size))


def without_order(normal: Normal, index: str, hi: Form, form: Form) -> Form:
    """The terms of a sum over all places, where the index stands only as sigma(l): the sum does not see the order."""
    name = normal.words.permutation
    if not name or hi != size_form(normal.words.shapes[name][0]):
        return form
    for mark in (name, f"{name}^T"):
        moved = ("image", index_key(index), mark)
        if repr(moved) in repr(form):
            renamed = replace_atom(form, moved, ("sym", f"{index}'"))
            if not contains_name(renamed, index) and normal.may("a sum does not see the order"):
                return put(renamed, f"{index}'", index)
    return form


def replace_atom(value: Any, old: Atom, new: Atom) -> Any:
    if value == old:
        return new
    if isinstance(value, dict):
        return {replace_atom(mono, old, new): x for mono, x in value.items()}
    if isinstance(value, tuple):
        made = [replace_atom(one, old, new) for one in value]
        return type(value)(made)
    return value
