"""Whether a form is zero: roots of numbers folded, and what stands below a line multiplied away."""

from __future__ import annotations

from fractions import Fraction

from regard.coursework.derivations.forms import Form, add_forms, constant
from regard.coursework.derivations.normal import Normal


def fold_numbers(normal: Normal, form: Form) -> Form:
    """Roots of numbers that have become whole: 2^(1/2) 2^(1/2) = 2."""
    made: Form = {}
    for (s, w), x in form.items():
        rest, factor = [], Fraction(1)
        for atom, power in s:
            if atom[0] == "num":
                floor = power.numerator // power.denominator
                factor *= Fraction(atom[1]) ** floor
                power -= floor
            if power:
                rest.append((atom, power))
        made = add_forms(made, {(tuple(rest), w): x * factor})
    return made


def is_zero(normal: Normal, form: Form) -> bool:
    """Whether a form is zero, once what stands below a line is multiplied away."""
    for _ in range(4):
        form = fold_numbers(normal, form)
        if not form:
            return True
        below = {a: min(p, Fraction(0)) for s, _ in form for a, p in s if a[0] == "paren"}
        lowest = {a: min([dict(s).get(a, Fraction(0)) for s, _ in form]) for a in below}
        if not lowest:
            return False
        changed: Form = {}
        for (s, w), x in form.items():
            part: Form = {((), w): x}
            powers = dict(s)
            for atom, least in lowest.items():
                power = powers.pop(atom, Fraction(0)) - least
                if power.denominator != 1 or power > 4:
                    return False
                part = normal.times(part, normal.power(dict(atom[1]), power) if power else constant(1))
            rest = {(tuple(sorted(powers.items(), key=repr)), ()): Fraction(1)}
            changed = add_forms(changed, normal.times(rest, part))
        form = changed
    return not form
