"""Normal forms of sums: each is a difference of sums that begin at 1, or is taken apart at a few places."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from regard.coursework.derivations.entries import contract, without_order
from regard.coursework.derivations.forms import (
    ONE,
    Atom,
    Form,
    Powers,
    TooLarge,
    Word,
    add_forms,
    constant,
    contains_name,
    form_key,
    index_around,
    index_key,
    merge_powers,
    names_in,
    of_word,
    put,
    put_powers,
    scale,
)
from regard.coursework.derivations.signs import is_count
from regard.coursework.derivations.terms import Span, Term, num, substitute, sym

if TYPE_CHECKING:
    from regard.coursework.derivations.normal import Normal


def outer_index(value: Any) -> str:
    """The index that a sum binds: the deepest one in it."""
    return max((one for one in names_in(value) if one.startswith("#")), key=lambda one: int(one[1:]))


def sum_form(normal: Normal, term: Term) -> Form:
    """The sum to hi, minus the sum to lo - 1, minus the places left out: if it does not run backwards."""
    span: Span = term.value
    lo, hi = normal.form(span.lo), normal.form(span.hi)
    before = add_forms(lo, constant(-1))
    if not (is_count(normal, before) and is_count(normal, add_forms(hi, scale(before, -1)))):
        raise TooLarge
    require_places(normal, span, lo, hi)
    index = normal.fresh_index()
    body = normal.form(substitute(term.args[0], span.index, sym(index)))
    places = special_places(normal, body, index)
    if places:
        return split_sum(normal, term, index, places, hi)
    short = [one.get(ONE, Fraction(0)) for one in (hi, before) if set(one) <= {ONE}]
    if any(count > 8 for count in short):  # these are written out term by term
        raise TooLarge
    whole = add_forms(
        first_terms(normal, term, index, hi, body), scale(first_terms(normal, term, index, before, body), -1)
    )
    for place in span.without:
        whole = add_forms(whole, scale(normal.form(substitute(term.args[0], span.index, place)), -1))
    return whole


def first_terms(normal: Normal, term: Term, index: str, hi: Form, body: Form) -> Form:
    """The sum from 1 to hi; to a small number, term by term."""
    if not set(hi) <= {ONE}:
        return prefix(normal, index, hi, body)
    places = range(1, int(hi.get(ONE, Fraction(0))) + 1)
    return add_forms(*(normal.form(substitute(term.args[0], term.value.index, num(c))) for c in places))


def require_places(normal: Normal, span: Span, lo: Form, hi: Form) -> None:
    """Places that a sum leaves out must be different ones of its own."""
    places = [normal.form(place) for place in span.without]
    for n, place in enumerate(places):
        inside = all(
            is_count(normal, gap) for gap in (add_forms(place, scale(lo, -1)), add_forms(hi, scale(place, -1)))
        )
        # an index that stands free in the line runs over the common range, so it is inside a sum over all of that
        whole = lo == constant(1) and span.without[n].op == "sym" and span.without[n].value in normal.words.indices
        if not inside and not (whole and (ends := normal.words.common_range()) and hi == normal.form(ends[1])):
            raise TooLarge
        if any(not normal.differ(form_key(place), form_key(other)) for other in places[:n]):
            raise TooLarge


def special_places(normal: Normal, body: Form, index: str) -> set[int]:
    """Numbers that the index is compared with inside a function: the sum is taken apart there."""
    found: set[int] = set()

    def search(value: Any, inside: bool) -> None:
        if not isinstance(value, tuple):
            return
        if value and value[0] == "delta" and inside and contains_name(value, index):
            found.update(int(dict(place)[ONE]) for place in value[1:3] if set(dict(place)) == {ONE})
        for one in value:
            search(one, inside or (bool(value) and value[0] in ("exp", "pow", "paren")))

    for mono in body:
        search(mono[0], False)
    return found


def split_sum(normal: Normal, term: Term, index: str, places: set[int], hi: Form) -> Form:
    """The terms at some places, and the others, which are all alike."""
    span: Span = term.value
    forms = [normal.form(one) for one in (span.lo, *span.without)]
    if any(set(one) != {ONE} for one in forms):
        raise TooLarge
    first, *without = (int(one[ONE]) for one in forms)
    left_out = {*range(1, first), *without}
    special = places | left_out
    if any(not is_count(normal, add_forms(hi, constant(-c))) or c < 1 for c in special):
        raise TooLarge
    normal.different |= {(index_key(index), form_key(constant(c))) for c in special}
    rest = normal.form(substitute(term.args[0], span.index, sym(index)))
    # terms that still hang on the index are not all alike, and cannot be counted together
    if any(contains_name(mono, index) for mono in rest) or not normal.may("a sum is taken apart at some of its places"):
        raise TooLarge
    made = normal.times(rest, add_forms(hi, constant(-len(special))))
    for c in special - left_out:
        made = add_forms(made, normal.form(substitute(term.args[0], span.index, num(c))))
    return made


def prefix(normal: Normal, index: str, hi: Form, body: Form) -> Form:
    """The sum of a form over an index from 1 to hi."""
    made: Form = {}
    body = without_order(normal, index, hi, body)
    for (s, w), x in body.items() if hi else ():  # a sum up to 0 is empty
        delta = next((a for a, _ in s if a[0] == "delta" and contains_name(a, index)), None)
        if delta is not None:
            made = add_forms(made, scale(pick_term(normal, index, hi, delta, s, w), x))
            continue
        inside = tuple((a, p) for a, p in s if contains_name(a, index))
        outside = tuple((a, p) for a, p in s if not contains_name(a, index))
        if any(contains_name(a, index) for a in w):
            shape = (normal.shape(w[0])[0], normal.shape(w[-1])[1])
            name = index_around((inside, w))  # by depth, so that the letter that somebody chose makes no difference
            (bound,) = put({(inside, w): Fraction(1)}, index, name)
            part: Form = {(outside, (("m", ("pre", form_key(hi), bound, shape), False),)): Fraction(1)}
        elif inside and (whole := contract(normal, index, hi, inside)) is not None:
            part = normal.times({(outside, w): Fraction(1)}, whole)
        elif inside:
            bound_powers = put_powers(inside, index, index_around(inside))
            if bound_powers is None:
                raise TooLarge
            atom = ("pre", form_key(hi), bound_powers[0])
            part = {(merge_powers(outside, ((atom, Fraction(1)),)), w): Fraction(1)}
        else:
            part = {(merge_powers(outside, m), w): y for (m, _), y in hi.items()}
        made = add_forms(made, scale(part, x))
    return made


def pick_term(normal: Normal, index: str, hi: Form, delta: Atom, powers: Powers, word: Word) -> Form:
    """The one term of a sum that a delta leaves: if the sum runs over all places that the delta's indices have."""
    mine = index_key(index)
    if mine not in delta[1:3] or form_key(hi) != delta[3]:
        raise TooLarge
    other = dict(delta[2] if delta[1] == mine else delta[1])
    rest: Form = {(tuple((a, p) for a, p in powers if a != delta), word): Fraction(1)}
    if set(other) == {ONE}:
        return put(rest, index, other[ONE])
    ((atoms, _), factor), *more = other.items()
    if more or factor != 1 or len(atoms) != 1 or atoms[0][0][0] != "sym" or atoms[0][1] != 1:
        raise TooLarge
    return put(rest, index, atoms[0][0][1])


def push_in(normal: Normal, word: Word, n: int) -> Form:
    """A sum of matrices times others: the product of each of its terms."""
    _, key, flipped = word[n]
    index = normal.fresh_index()
    inner = put({key[2]: Fraction(1)}, outer_index(key[2]), index)
    if flipped:
        inner = normal.transpose(inner)
    inner = normal.times(normal.times(of_word(*word[:n]), inner), of_word(*word[n + 1 :]))
    return prefix(normal, index, dict(key[1]), inner)
