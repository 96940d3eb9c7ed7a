"""Forms: sums of monomials with rational coefficients, and their arithmetic.

A monomial is a product of powers of atoms, whose order does not matter, and a word of matrices, whose order does. In
the form of a matrix, a monomial with an empty word is a multiple of the identity. An index that a sum runs over is
called #1, #2, ... inside the sum, by how deep the sum is; outside of one it is ?1, ?2, ... until it is bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import flint

if TYPE_CHECKING:
    from regard.coursework.derivations.normal import Normal


Atom = tuple[Any, ...]
Powers = tuple[tuple[Atom, Fraction], ...]
Word = tuple[Atom, ...]
Mono = tuple[Powers, Word]
Form = dict[Mono, Fraction]
ONE: Mono = ((), ())
MOST = 400  # monomials
HALF = Fraction(1, 2)
PRIMES = 168  # those below 1000, by which numbers under a root are divided


class TooLarge(Exception):  # noqa: N818 - the line is then "true, but say why"
    """The form is larger than is kept, or needs a rule that there is not."""


class Key(tuple[Any, ...]):
    """A tuple that computes its hash and its text once: forms nest deeply, and are looked up often."""

    def __hash__(self) -> int:
        if "hash" not in self.__dict__:
            self.__dict__["hash"] = super().__hash__()
        return int(self.__dict__["hash"])

    def __repr__(self) -> str:
        if "text" not in self.__dict__:
            self.__dict__["text"] = super().__repr__()
        return str(self.__dict__["text"])


class FormKey(Key):
    """A form that stands inside an atom."""


def form_key(form: Form) -> FormKey:
    return FormKey(sorted(form.items(), key=repr))


def constant(value: Fraction | int) -> Form:
    return {ONE: Fraction(value)} if value else {}


def of_powers(powers: Powers, factor: Fraction | int = 1) -> Form:
    return {(Key(sorted(powers, key=repr)), ()): Fraction(factor)}


def of_word(*word: Atom) -> Form:
    return {((), word): Fraction(1)}


def of_atom(atom: Atom, power: Fraction | int = 1) -> Form:
    return {(((atom, Fraction(power)),), ()): Fraction(1)}


def add_forms(*forms: Form) -> Form:
    made: Form = {}
    for form in forms:
        add_into(made, form)
    return made


def add_into(made: Form, form: Form, factor: Fraction | int = 1) -> None:
    """Add a multiple of a form to another one, which changes."""
    for mono, x in form.items():
        value = made.get(mono, 0) + x * factor
        if value:
            made[mono] = value
        else:
            made.pop(mono, None)


def scale(form: Form, factor: Fraction | int) -> Form:
    return {mono: value * factor for mono, value in form.items()} if factor else {}


def merge_powers(a: Powers, b: Powers) -> Powers:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, Fraction(0)) + power
    return Key(sorted(((x, p) for x, p in powers.items() if p), key=repr))


def names_in(value: Any) -> Iterator[str]:
    """Every text in a form, or in nested tuples: names, operators and indices alike."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, dict)):
        for one in value:
            yield from names_in(one)


def contains_name(value: Any, name: str) -> bool:
    return name in names_in(value)


def index_around(value: Any) -> str:
    """The name of an index that is bound around this: one deeper than the deepest inside."""
    return f"#{1 + max((int(one[1:]) for one in names_in(value) if one.startswith('#')), default=0)}"


def index_key(name: str) -> FormKey:
    return form_key(of_atom(("sym", name)))


# An index replaced by another one, or by a number. Every part is put into its normal order again.


def put(form: Form, index: str, other: str | Fraction) -> Form:
    made: Form = {}
    for (powers, word), x in form.items():
        replaced = put_powers(powers, index, other)
        if replaced is not None:
            mono = (replaced[0], tuple(put_matrix(one, index, other) for one in word))
            add_into(made, {mono: x * replaced[1]})
    return made


def put_powers(powers: Powers, index: str, other: str | Fraction) -> tuple[Powers, Fraction] | None:
    """The powers with a number before them; None where a delta among them is zero."""
    made: Powers = ()
    factor = Fraction(1)
    for atom, power in powers:
        if atom == ("sym", index) and isinstance(other, Fraction):
            if power.denominator != 1 or (not other and power < 0):
                raise TooLarge
            factor *= other ** int(power)
        elif atom[0] == "delta":
            if power < 0:
                raise TooLarge
            first, second, _ = put_inside(atom[1:], index, other)
            # places a whole number apart, such as i and i + 1, are never the same
            if first != second and set(add_forms(dict(first), scale(dict(second), -1))) == {ONE}:
                return None
            if first != second:
                made = merge_powers(made, ((("delta", *sorted((first, second), key=repr), atom[3]), Fraction(1)),))
        else:
            one, count = put_atom(atom, index, other)
            made = merge_powers(made, ((one, power * count),))
    return made, factor


def put_atom(atom: Atom, index: str, other: str | Fraction) -> tuple[Atom, Fraction]:
    """The atom, and by how much its power is multiplied: exp(2 x) is exp(x) squared."""
    kind = atom[0]
    if kind == "sym":
        return ("sym", other if atom[1] == index else atom[1]), Fraction(1)
    if kind in ("dot", "tr"):
        word = tuple(put_matrix(one, index, other) for one in atom[1])
        return (kind, least_turn(word, cyclic=kind == "tr")), Fraction(1)
    if kind in ("exp", "pow", "pre"):
        inside = put_powers(atom[-1], index, other)
        if inside is None or (kind != "exp" and inside[1] != 1):
            raise TooLarge
        if kind == "exp":
            return ("exp", inside[0]), inside[1]
        return (*put_inside(atom[:2], index, other), inside[0]), Fraction(1)
    return put_inside(atom, index, other), Fraction(1)


def put_inside(key: Atom, index: str, other: str | Fraction) -> Atom:
    return tuple(form_key(put(dict(one), index, other)) if isinstance(one, FormKey) else one for one in key)


def put_matrix(atom: Atom, index: str, other: str | Fraction) -> Atom:
    _, key, flipped = atom
    if key[0] != "pre":
        return ("m", put_inside(key, index, other), flipped)
    ((mono, factor),) = put({key[2]: Fraction(1)}, index, other).items() or [(ONE, 0)]
    if factor != 1:
        raise TooLarge
    return ("m", (*put_inside(key[:2], index, other), mono, key[3]), flipped)


def flip_word(word: Word) -> Word:
    return tuple((kind, key, not flipped) for kind, key, flipped in reversed(word))


def least_turn(word: Word, *, cyclic: bool) -> Word:
    """One word for all that have the same value: its transpose, and for a trace its turns."""
    turns = [turn[n:] + turn[:n] for turn in (word, flip_word(word)) for n in range(len(word) if cyclic else 1)]
    return min(turns, key=repr)


def number_power(x: Fraction, power: Fraction) -> Form:
    """A positive number to a power, with the roots of primes as atoms."""
    if x == 1:
        return constant(1)
    if power.denominator == 1:
        if abs(power) * max(x.numerator.bit_length(), x.denominator.bit_length()) > 4000:
            raise TooLarge
        return constant(x ** int(power))
    # a factor that is left stays one atom: a proof may be missed for it, none is wrong
    above, below = (flint.fmpz(value).factor(trial_limit=PRIMES) for value in (x.numerator, x.denominator))
    counts = {**{int(prime): count for prime, count in above}, **{int(prime): -count for prime, count in below}}
    powers: list[tuple[Atom, Fraction]] = []
    whole = Fraction(1)
    for prime, count in sorted(counts.items()):
        exponent = count * power
        if abs(exponent) > 4000:
            raise TooLarge
        floor = exponent.numerator // exponent.denominator  # sqrt(8) and 2 sqrt(2) get one form
        whole *= Fraction(prime) ** floor
        if exponent != floor:
            powers.append((("num", prime), exponent - floor))
    return of_powers(tuple(powers), whole)


# Signs: what is certainly positive, or certainly not negative, as one sees from the atoms.


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
    below = {a: p for a, p in powers_below(form).items() if a[0] == "sym" and is_positive(normal, a)}
    return over_powers(normal, form, below)[0] if below else form


def powers_below(form: Form) -> dict[Atom, Fraction]:
    """What stands below a line in a form, with its lowest power."""
    lowest: dict[Atom, Fraction] = {}
    for atom, power in (one for s, _ in form for one in s):
        if power < 0:
            lowest[atom] = min(lowest.get(atom, power), power)
    return lowest


def over_powers(normal: Normal, form: Form, powers: dict[Atom, Fraction]) -> tuple[Form, bool]:
    """The form over some powers of atoms, and whether what is left of each of them was multiplied out."""
    made: Form = {}
    is_multiplied_out = True
    for (s, w), x in form.items():
        rest = dict(s)
        part: Form = {((), w): x}
        for atom, least in powers.items():
            power = rest.pop(atom, Fraction(0)) - least
            # a high power of a sum would have too many terms
            is_short = atom[0] == "paren" and power.denominator == 1 and power <= 4
            is_multiplied_out &= is_short
            if is_short:
                part = normal.times(part, normal.power(dict(atom[1]), power))
            elif power:
                part = normal.times(part, of_atom(atom, power))
        made = add_forms(made, normal.times(of_powers(tuple(rest.items())), part))
    return made, is_multiplied_out


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
