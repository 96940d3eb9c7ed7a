"""Normal forms of functions: exp and ln, sine and cosine, norms, traces, softmax and ReLU."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from regard.coursework.derivations.entries import size_form
from regard.coursework.derivations.forms import (
    HALF,
    Form,
    TooLarge,
    Word,
    add_forms,
    constant,
    form_key,
    index_key,
    least_turn,
    of_atom,
    of_powers,
    of_word,
    put,
    scale,
)
from regard.coursework.derivations.signs import is_nonnegative
from regard.coursework.derivations.sums import outer_index, prefix
from regard.coursework.derivations.terms import Term, num

if TYPE_CHECKING:
    from regard.coursework.derivations.normal import Normal


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
