"""Two steps of the argument about positions: where a cosine is 1, and what pi is not."""

from __future__ import annotations

from fractions import Fraction

from regard.coursework.derivations.equalities import NONE, Context, Step, prove_equal
from regard.coursework.derivations.forms import Form, TooLarge, add_forms, scale
from regard.coursework.derivations.problem import Fact
from regard.coursework.derivations.terms import Term, apply, free_names, num

MULTIPLE = "a cosine is 1 only at multiples of 2 pi"
IRRATIONAL = "pi is irrational"


def _difference(context: Context, left: Term, right: Term) -> Form:
    normal = context.normal({}, NONE)
    normal.only = frozenset()
    normal.facts = {}
    return add_forms(normal.form(left), scale(normal.form(right), -1))


def _linear_parts(context: Context, form: Form) -> tuple[Form, Form] | None:
    """A form as A + pi B, where A and B are whole numbers with rational factors; None where it is none."""
    parts: tuple[Form, Form] = ({}, {})
    for (powers, word), x in form.items():
        atoms = dict(powers)
        with_pi = atoms.pop(("sym", "pi"), Fraction(0))
        whole = len(atoms) == 0 or (
            len(atoms) == 1
            and all(a[0] == "sym" and a[1] in context.problem.whole and p == 1 for a, p in atoms.items())
        )
        if word or not whole or with_pi not in (0, 1):
            return None
        parts[int(with_pi)][(tuple(atoms.items()), ())] = x
    return parts


def _is_multiple(form: Form, other: Form) -> bool:
    mono = next(iter(other), None)
    return mono is not None and mono in form and not add_forms(form, scale(other, -form[mono] / other[mono]))


def prove_by_irrationality(context: Context, facts: list[Fact], left: Term, sign: str, right: Term) -> Step | None:
    """From a fact A = pi B with whole A and B, both are zero."""
    if sign != "=" or not context.problem.whole:
        return None
    try:
        wanted = _linear_parts(context, _difference(context, left, right))
        for fact in facts:
            known = _linear_parts(context, _difference(context, fact.left, fact.right)) if fact.sign == "=" else None
            if known is None or wanted is None or wanted[1] or not all(known):  # A = 0 alone says nothing of pi
                continue
            if any(_is_multiple(wanted[0], part) for part in known):
                return Step((IRRATIONAL, fact.name), frozenset([fact.name]))
    except (TooLarge, KeyError):
        return None
    return None


def prove_multiple_of_pi(context: Context, left: Term, sign: str, right: Term) -> Step | None:
    """x = 2 pi m for some whole m, where cos x = 1 is known; m is then no longer free."""
    multiple = context.problem.multiple
    if (
        sign != "="
        or not multiple
        or any(multiple in free_names(fact.left) | free_names(fact.right) for fact, _ in context.order)
    ):
        return None
    for a, b in ((left, right), (right, left)):
        try:
            turns = _difference(context, b, num(0))
        except (TooLarge, KeyError):
            return None
        mono = (tuple(sorted(((("sym", "pi"), Fraction(1)), (("sym", multiple), Fraction(1))), key=repr)), ())
        if turns in (scale({mono: Fraction(1)}, 2), scale({mono: Fraction(1)}, -2)):
            known = prove_equal(context, apply("cos", a), num(1), NONE)
            return None if known is None else Step((*known.rules, MULTIPLE))
    return None
