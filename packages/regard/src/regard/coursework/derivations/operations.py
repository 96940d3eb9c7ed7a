"""Normal forms of sums, of functions (exp and ln, sine and cosine, norms, traces, softmax and ReLU) and of entries.

A sum is a difference of sums that begin at 1, or is taken apart at a few places; an entry is a product with unit
vectors.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from regard.coursework.derivations.forms import (
    HALF,
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
    is_count,
    is_nonnegative,
    least_turn,
    merge_powers,
    names_in,
    of_atom,
    of_powers,
    of_word,
    put,
    put_powers,
    scale,
)
from regard.coursework.derivations.names import Shape
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


def exp_form(normal: Normal, form: Form) -> Form:
    """exp of a sum is a product; exp(c ln x) is x^c."""
    made = constant(1)
    for (s, w), x in form.items():
        logs = [(a, p) for a, p in s if a[0] == "ln" and p == 1]
        if w:
            raise TooLarge
        if len(s) == len(logs) == 1:
            part = normal.power(dict(logs[0][0][1]), x)
        elif len(logs) == 1 and len(logs[0][0][1]) == 1:
            part = of_atom(("pow", logs[0][0][1], tuple((a, p) for a, p in s if a != logs[0][0])), x)
        else:
            part = of_atom(("exp", s), x)
        made = normal.times(made, part)
    return made


def ln_form(normal: Normal, form: Form) -> Form:
    """ln of a product is a sum, where no factor can be negative."""
    if len(form) == 1:
        (((s, w), x),) = form.items()
        if not w and x > 0 and all(is_nonnegative(normal, a) for a, _ in s):
            made: Form = {}
            for a, p in s:
                part: Form = {(a[1], ()): p} if a[0] == "exp" else scale(of_atom(("ln", form_key(of_atom(a)))), p)
                if a[0] == "pow":  # ln(x^c) = c ln(x)
                    part = scale(normal.times(ln_form(normal, dict(a[1])), of_powers(a[2])), p)
                made = add_forms(made, part)
            return add_forms(made, of_atom(("ln", form_key(constant(x))))) if x != 1 else made
    return of_atom(("ln", form_key(form)))


def wave(normal: Normal, op: str, form: Form) -> Form:
    """sin and cos of a sum, by the addition theorems; of a negative argument, by their symmetry."""
    if not form:
        return constant(op == "cos")
    if any(w for _, w in form):
        raise TooLarge
    first = min(form, key=repr)
    rest = {mono: x for mono, x in form.items() if mono != first}
    one = {first: abs(form[first])}
    if not rest:
        sign = 1 if op == "cos" or form[first] > 0 else -1
        return scale(normal.look_up((op, form_key(one))), sign)
    if not normal.may("the addition theorems"):
        return of_atom((op, form_key(form)))
    a = {kind: wave(normal, kind, {first: form[first]}) for kind in ("sin", "cos")}
    b = {kind: wave(normal, kind, rest) for kind in ("sin", "cos")}
    if op == "sin":
        return add_forms(normal.times(a["sin"], b["cos"]), normal.times(a["cos"], b["sin"]))
    return add_forms(normal.times(a["cos"], b["cos"]), scale(normal.times(a["sin"], b["sin"]), -1))


def norm_form(normal: Normal, term: Term) -> Form:
    if term.value != "2":
        square = norm_square(normal, term)
        return normal.power(square, HALF) if square else {}
    inside = normal.form(term.args[0])
    for fact in normal.problem.given if inside else ():
        known = fact.left.op == "norm" and fact.left.value == "2" and fact.sign == "="
        if known and normal.may_use(fact.name) and normal.form(fact.left.args[0]) == inside:
            normal.used.add(fact.name)
            return normal.form(fact.right)
    return normal.look_up(("norm2", form_key(inside))) if inside else {}


def norm_square(normal: Normal, term: Term) -> Form:
    for fact in normal.problem.given if term.value == "F" else ():
        known = fact.left.op == "pow" and fact.left.args == (term, num(2)) and fact.sign == "="
        if known and normal.may_use(fact.name):
            normal.used.add(fact.name)
            return normal.form(fact.right)
    inside = normal.form(term.args[0])
    if term.value == "F" and not normal.may("||A||_F^2 = tr(A^T A)"):
        return of_atom(("normF", form_key(inside)), 2) if inside else {}
    square = normal.times(normal.transpose(inside), inside)
    return trace(normal, square) if term.value == "F" else square


def trace(normal: Normal, form: Form) -> Form:
    made: Form = {}
    for (s, w), x in form.items():
        if not w:
            raise TooLarge  # the trace of an identity whose size is not known here
        made = add_forms(made, scale(normal.times({(s, ()): Fraction(1)}, trace_word(normal, w)), x))
    return made


def trace_word(normal: Normal, word: Word) -> Form:
    if len(word) == 1 and word[0][1][0] == "pre":
        _, key, _ = word[0]  # a transpose has the same trace
        index = normal.fresh_index()
        inner = put({key[2]: Fraction(1)}, outer_index(key[2]), index)
        return prefix(normal, index, dict(key[1]), trace(normal, inner))
    diagonal = normal.diagonal(word[0])
    alike = diagonal is not None and all(normal.diagonal(one) == diagonal for one in word)
    if diagonal is not None and alike and normal.may("the trace of a diagonal matrix"):
        index = normal.fresh_index()
        entries = of_atom(("at", diagonal, index_key(index)), len(word))
        return prefix(normal, index, normal.last_of(diagonal), entries)
    for n in range(1, len(word)):
        turned = word[n:] + word[:n]
        rule = normal.cancels(word[-1], word[0])
        meets = rule is not None and normal.may_use(rule[1])
        row = normal.shape(turned[0])[0]
        if (row == "1" or meets) and normal.may("the trace is cyclic"):
            form = normal.reduce_word((), turned)
            if row == "1":
                return form
            identity = {mono: x for mono, x in form.items() if not mono[1]}
            rest = trace(normal, {mono: x for mono, x in form.items() if mono[1]})
            if identity and not normal.may("the trace of the identity is its size"):
                raise TooLarge
            return add_forms(normal.times(identity, size_form(row)), rest)
    best = least_turn(word, cyclic=True)
    if best != word and not normal.may("the trace is cyclic"):
        best = word
    return of_atom(("tr", best))


def entrywise(normal: Normal, op: str, inside: Form) -> Form:
    """softmax and ReLU, with permutations taken out of them."""
    lemma = {"softmax": "softmax lemma", "relu": "ReLU lemma"}[op]
    allowed = normal.may_use(lemma) and lemma in normal.lemmas
    if not inside or any(not w for _, w in inside):
        raise TooLarge
    for name in normal.permutations if allowed else ():
        chosen = fewest_permutations(normal, op, inside, name)
        if chosen is not None and normal.may(lemma):
            left, right, other = chosen
            made = entrywise(normal, op, other)
            made = normal.times(of_word(("m", ("sym", name), False)), made) if left else made
            return normal.times(made, of_word(("m", ("sym", name), True))) if right else made
    word = next(iter(inside))[1]
    shape = (normal.shape(word[0])[0], normal.shape(word[-1])[1])
    return of_word(("m", (op, form_key(inside), shape), False))


def fewest_permutations(normal: Normal, op: str, inside: Form, name: str) -> tuple[bool, bool, Form] | None:
    """From which sides P is taken off so that the fewest are left; None where that does not help."""
    key = ("sym", name)

    def count(form: Form) -> int:
        return sum(a[1] == key for _, w in form for a in w)

    best, chosen, used = count(inside), None, set(normal.used)
    # ReLU works entry by entry, softmax along rows: the lemma of ReLU is about P on the left alone
    for left, right in [(True, True), (True, False), (False, True)] if op == "softmax" else [(True, False)]:
        normal.used = set(used)  # each attempt counts its own rules, and only the best one's are kept
        other = normal.times(of_word(("m", key, True)), inside) if left else inside
        other = normal.times(other, of_word(("m", key, False))) if right else other
        if count(other) < best:
            best, chosen = count(other), (left, right, other, normal.used)
    normal.used = chosen[3] if chosen else used
    return None if chosen is None else chosen[:3]


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
