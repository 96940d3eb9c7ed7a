"""Forms: sums of monomials with rational coefficients, and their arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Atom = tuple[Any, ...]
Mono = tuple[tuple[tuple[Atom, Fraction], ...], tuple[Atom, ...]]
Form = dict[Mono, Fraction]
ONE: Mono = ((), ())
MOST = 400  # monomials
HALF = Fraction(1, 2)
RANK_ONES = "a product with a diagonal matrix is a sum of rank ones"


class TooLarge(Exception):  # noqa: N818 - the line is then "true, but say why"
    """The form has more monomials than are kept."""


def form_key(form: Form) -> Any:
    return tuple(sorted(form.items(), key=repr))


def constant(value: Fraction | int) -> Form:
    return {ONE: Fraction(value)} if value else {}


def add_forms(*forms: Form) -> Form:
    made: Form = {}
    for form in forms:
        for mono, factor in form.items():
            made[mono] = made.get(mono, Fraction(0)) + factor
            if not made[mono]:
                del made[mono]
    return made


def scale(form: Form, factor: Fraction | int) -> Form:
    return {mono: value * factor for mono, value in form.items()} if factor else {}


def of_atom(atom: Atom, power: Fraction | int = 1) -> Form:
    return {(((atom, Fraction(power)),), ()): Fraction(1)}


def merge_powers(
    a: tuple[tuple[Atom, Fraction], ...], b: tuple[tuple[Atom, Fraction], ...]
) -> tuple[tuple[Atom, Fraction], ...]:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, Fraction(0)) + power
    return tuple(sorted(((x, p) for x, p in powers.items() if p), key=repr))


def contains_name(value: Any, name: str) -> bool:
    return value == name or (isinstance(value, tuple) and any(contains_name(one, name) for one in value))


def rename_index(value: Any, old: str, new: str) -> Any:
    if isinstance(value, tuple):
        return tuple(rename_index(one, old, new) for one in value)
    return new if value == old else value


def number_power(x: Fraction, power: Fraction) -> Form:
    if x == 1:
        return constant(1)
    if power.denominator == 1:
        return constant(x ** int(power))
    made = constant(1)
    atoms: dict[int, int] = {}
    for value, sign in ((x.numerator, 1), (x.denominator, -1)):
        prime = 2
        while value > 1 and prime < 1000:
            while value % prime == 0:
                atoms[prime] = atoms.get(prime, 0) + sign
                value //= prime
            prime += 1
        if value > 1:
            atoms[value] = atoms.get(value, 0) + sign
    scal: list[tuple[Atom, Fraction]] = []
    whole = Fraction(1)
    for prime, count in sorted(atoms.items()):
        exponent = count * power
        floor = exponent.numerator // exponent.denominator
        whole *= Fraction(prime) ** floor
        if exponent - floor:
            scal.append((("num", prime), exponent - floor))
    made = {(tuple(sorted(scal, key=repr)), ()): whole}
    return made
