"""Signs of forms: what is certainly positive, or certainly not negative, as one sees from its atoms."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from regard.coursework.derivations.forms import Atom, Form, add_forms, add_into, constant, of_atom, of_powers

if TYPE_CHECKING:
    from regard.coursework.derivations.normal import Normal


def is_nonnegative(normal: Normal, atom: Atom) -> bool:
    """Certainly not below zero."""
    found = normal.signs.get(("nonnegative", atom))
    if found is None:
        found = normal.signs["nonnegative", atom] = _is_nonnegative(normal, atom)
    return found


def _is_nonnegative(normal: Normal, atom: Atom) -> bool:
    if is_positive(normal, atom) or atom[0] in ("norm2", "normF"):
        return True
    if atom[0] == "dot":
        return len(atom[1]) == 2 and bool(atom[1][0][1] == atom[1][1][1])  # x^T x
    if atom[0] == "at":
        symbol = normal.problem.symbols.get(atom[1])
        return symbol is not None and symbol.kind == "sorted"
    if atom[0] == "pre":
        return all(p % 2 == 0 or is_nonnegative(normal, a) for a, p in atom[2])
    if atom[0] == "paren":
        return is_plain(normal, dict(atom[1])) or is_plain(normal, shift_sizes(normal, dict(atom[1])))
    return False


def is_plain(normal: Normal, form: Form) -> bool:
    """Not negative, as one sees: nothing is subtracted, and every factor is a square or not negative."""
    return all(
        # a root is never negative where it has a value at all, so what stands under it need not be looked at
        not w and x > 0 and all(p % 2 == 0 or p.denominator == 2 or is_nonnegative(normal, a) for a, p in s)
        for (s, w), x in form.items()
    )


def is_positive(normal: Normal, atom: Atom) -> bool:
    """Certainly above zero, not only not below."""
    found = normal.signs.get(("positive", atom))
    if found is None:
        found = normal.signs["positive", atom] = _is_positive(normal, atom)
    return found


def _is_positive(normal: Normal, atom: Atom) -> bool:
    if atom[0] in ("exp", "num"):
        return True
    if atom[0] == "sym":
        return atom[1] not in normal.unsigned and normal.problem.is_positive_name(atom[1])
    if atom[0] == "at":
        symbol = normal.problem.symbols.get(atom[1])
        return symbol is not None and symbol.kind == "positive"
    if atom[0] == "pow":
        return is_plain(normal, dict(atom[1]))  # a power is of what has a logarithm
    if atom[0] == "pre":
        return all(is_positive(normal, a) for a, _ in atom[2]) and is_count(  # an empty sum is 0: it needs a term
            normal, add_forms(dict(atom[1]), constant(-1))
        )
    if atom[0] != "paren":
        return False
    form = dict(atom[1])
    shifted = shift_sizes(normal, clear_sizes(normal, form))
    return is_above_zero(normal, form) or is_above_zero(normal, shifted, shifted=True)


def is_above_zero(normal: Normal, form: Form, *, shifted: bool = False) -> bool:
    """Whether a form is plainly not negative, and one of its terms not zero; a size that was shifted may be zero."""
    sizes = {("sym", name) for name, _ in normal.problem.shifts} if shifted else set()
    above = (all(is_positive(normal, a) and a not in sizes for a, _ in s) and not w for s, w in form)
    return is_plain(normal, form) and any(above)


def clear_sizes(normal: Normal, form: Form) -> Form:
    """The form times the sizes that stand below a line in it: sizes are positive."""
    lowest: dict[Atom, Fraction] = {}
    for s, _ in form:
        for atom, power in s:
            if power < 0 and atom[0] == "sym" and is_positive(normal, atom):
                lowest[atom] = min(lowest.get(atom, Fraction(0)), power)
    return normal.times(of_powers(tuple((a, -p) for a, p in lowest.items())), form) if lowest else form


def shift_sizes(normal: Normal, form: Form) -> Form:
    """The form with n + 2 for n where n is at least 2: then n - 2 is plainly not negative."""
    for name, more in normal.problem.shifts:
        atom = ("sym", name)
        if not any(a == atom for s, _ in form for a, _ in s):
            continue
        made: Form = {}
        for (s, w), x in form.items():
            powers = dict(s)
            power = powers.pop(atom, Fraction(0))
            if power < 0 or power.denominator != 1 or power > 4:
                return form
            part: Form = {(tuple(sorted(powers.items(), key=repr)), w): x}
            whole = add_forms(of_atom(atom), constant(more) if isinstance(more, int) else of_atom(("sym", more)))
            add_into(made, normal.times(part, normal.power(whole, power)) if power else part)
        form = made
    return form


def is_count(normal: Normal, form: Form) -> bool:
    """Whether a number of terms is certainly not negative."""
    return is_plain(normal, shift_sizes(normal, form))
