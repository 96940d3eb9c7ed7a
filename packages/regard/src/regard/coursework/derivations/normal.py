"""Normal forms: two terms with the same one are equal on every instance, by arithmetic and the rules that it names.

Products are multiplied out, transposes stand at single matrices, sums run from 1, and what the problem gives, such as
orthonormal columns and the lemmas, is applied where it fits. Every rule is in rules.toml, a theorem with its test; a
rule that is not there cannot be used. Where a step would need more than is known (a sum that may run backwards, a size
that may be too small), the form is not made, and the line stays unproved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

from regard.coursework.derivations.forms import (
    HALF,
    MOST,
    ONE,
    Atom,
    Form,
    Powers,
    TooLarge,
    Word,
    add_forms,
    add_into,
    constant,
    flip_word,
    form_key,
    index_key,
    is_nonnegative,
    is_plain,
    least_turn,
    merge_powers,
    number_power,
    of_atom,
    of_powers,
    of_word,
    over_powers,
    scale,
)
from regard.coursework.derivations.names import SCALAR, Shape, Vocabulary
from regard.coursework.derivations.operations import (
    dot_with_units,
    entrywise,
    exp_form,
    image_key,
    ln_form,
    norm_form,
    norm_square,
    pick,
    prefix,
    push_in,
    size_form,
    sum_form,
    trace,
    unit,
    wave,
)
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import Definitions, Term, substitute
from regard.toml import read_toml

LONGEST = 40  # matrices of one product
RULES = Path(__file__).parent / "rules.toml"


@cache
def rule_names() -> frozenset[str]:
    """The names of all rules that there are."""
    return frozenset(one["name"] for one in read_toml(RULES, like="[[rule]]")["rule"])


class Normal:
    """Normal forms of terms of one problem; ``definitions`` are unfolded, ``used`` collects the rules."""

    def __init__(self, problem: Problem, words: Vocabulary, definitions: Definitions) -> None:
        self.problem, self.words, self.definitions = problem, words, definitions
        self.used: set[str] = set()
        self.fresh = 0
        self.columnwise = False
        self.disabled: Collection[str] = ()  # rules that may not be used
        self.only: frozenset[str] | None = None  # rules that alone may be used
        self.permutations = [name for name, one in problem.symbols.items() if one.kind == "permutation"]
        self.different: set[tuple[Any, Any]] = set()  # places that are known to differ
        self.lemmas = {one.name for one in problem.lemmas}
        self.facts: dict[Atom, tuple[Form, str]] = {}  # atoms that lines before have shown to be something else
        self.signs: dict[tuple[str, Atom], bool] = {}  # of atoms, as signs.py found them
        self.unsigned: set[str] = set()  # names whose own definition may be negative
        self._forms: dict[str, Callable[[Term], Form]] = {
            "num": lambda one: constant(one.value),
            "sym": self.name,
            "at": self.member,
            "eye": lambda one: constant(1),
            "ones": lambda one: of_word(("m", ("ones",), False)),
            "add": lambda one: add_forms(*(self.form(part) for part in one.args)),
            "mul": self.product,
            "div": lambda one: self.times(self.form(one.args[0]), self.power(self.form(one.args[1]), Fraction(-1))),
            "T": lambda one: self.transpose(self.form(one.args[0])),
            "sum": partial(sum_form, self),
            "pow": self.power_form,
            "norm": partial(norm_form, self),
            "tr": lambda one: trace(self, self.form(one.args[0])),
            "abs": lambda one: self.root_of_square(self.form(one.args[0])),
            "exp": lambda one: exp_form(self, self.form(one.args[0])),
            "ln": lambda one: ln_form(self, self.form(one.args[0])),
            "softmax": lambda one: entrywise(self, "softmax", self.form(one.args[0])),
            "relu": lambda one: entrywise(self, "relu", self.form(one.args[0])),
            "unit": lambda one: of_word(unit(form_key(self.form(one.args[0])), (one.value, "1"), False)),
            "image": lambda one: dict(image_key(form_key(self.form(one.args[0])), one.value)),
            "delta": lambda one: self.delta(self.form(one.args[0]), self.form(one.args[1])),
            "sin": lambda one: wave(self, "sin", self.form(one.args[0])),
            "cos": lambda one: wave(self, "cos", self.form(one.args[0])),
        }

    def may(self, rule: str, shown: str = "") -> bool:
        """Whether a rule may be used; if so, it is, and ``shown`` is what it says here."""
        if rule not in rule_names():
            raise LookupError(f"{rule} is no rule of rules.toml")
        if (shown or rule) in self.disabled or (self.only is not None and rule not in self.only):
            return False
        self.used.add(shown or rule)
        return True

    def may_use(self, name: str) -> bool:
        """Whether a fact or a rule is not switched off; it is not yet used."""
        return name not in self.disabled and self.only is None

    def form(self, term: Term) -> Form:
        made = self._forms.get(term.op)
        if made is not None:
            return made(term)
        return self.look_up((term.op, form_key(self.form(term.args[0]))))

    # names

    def name(self, term: Term) -> Form:
        name = term.value
        if name in self.definitions:
            self.used.add(f"definition of {name}")
            return self.form(self.definitions[name][1])
        if (self.words.shape_of_name(name) or SCALAR) == SCALAR:
            return self.look_up(("sym", name))
        return of_word(("m", ("sym", name), False))

    def look_up(self, atom: Atom) -> Form:
        if atom in self.facts:
            form, name = self.facts[atom]
            self.used.add(name)
            return form
        return of_atom(atom)

    def member(self, term: Term) -> Form:
        family, place = term.value, term.args[0]
        if family in self.definitions:
            index, body = self.definitions[family]
            self.used.add(f"definition of {family}_{index}")
            return self.form(substitute(body, index, place))
        key = form_key(self.form(place))
        if (self.words.shape_of_name(family) or SCALAR) == SCALAR:
            return self.look_up(("at", family, key))
        return of_word(("m", ("at", family, key), False))

    # products

    def product(self, term: Term) -> Form:
        made = self.form(term.args[0])
        for one in term.args[1:]:
            made = self.times(made, self.form(one))
        return made

    def times(self, a: Form, b: Form) -> Form:
        if len(a) * len(b) > MOST * 4:
            raise TooLarge
        made: Form = {}
        for (s, w), x in a.items():
            for (r, v), y in b.items():
                add_into(made, self.reduce_word(merge_powers(s, r), w + v), x * y)
        if len(made) > MOST:
            raise TooLarge
        return made

    def shape(self, atom: Atom) -> Shape:
        _, key, flipped = atom
        if key[0] in ("sym", "at"):
            shape = self.words.shape_of_name(key[1]) or SCALAR
        elif key[0] == "ones":
            shape = (self.words.rows, "1")
        else:
            shape = key[-1]
        return (shape[1], shape[0]) if flipped else shape

    def reduce_word(self, scalars: Powers, word: Word) -> Form:
        """A monomial with everything applied that shortens its word."""
        if len(word) > LONGEST:
            raise TooLarge
        for n in range(len(word) - 1):
            a, b = word[n], word[n + 1]
            if (rule := self.cancels(a, b)) is not None and self.may(rule[0], rule[1]):
                return self.reduce_word(scalars, word[:n] + word[n + 2 :]) if rule[2] else {}
            moves = a[1][0] == "sym" and a[1][1] in self.permutations and "P 1 = 1" in self.lemmas
            if (one := pick(self, a, b)) is not None:
                return self.reduce_word(scalars, (*word[:n], one, *word[n + 2 :]))
            if b[1] == ("ones",) and not b[2] and moves and self.may("P 1 = 1"):
                return self.reduce_word(scalars, word[:n] + word[n + 1 :])
        if len(word) > 1 and (part := self.reduce_part(word)) is not None:
            start, inner, end = part
            rest = self.times({(scalars, word[:start]): Fraction(1)}, inner)
            return self.times(rest, of_word(*word[end:])) if end < len(word) else rest
        return {(scalars, word): Fraction(1)}

    def reduce_part(self, word: Word) -> tuple[int, Form, int] | None:
        """A part of a word that is a number or a sum, from where to where."""
        for n, atom in enumerate(word):
            if atom[1][0] == "pre":
                return 0, push_in(self, word, n), len(word)
        for n, atom in enumerate(word):
            ends = [end for end in range(n + 1, len(word)) if self.shape(word[end])[1] == "1"]
            if self.shape(atom)[0] == "1" and ends:
                number = self.dot(word[n : ends[0] + 1])
                return 0, self.times({((), word[:n] + word[ends[0] + 1 :]): Fraction(1)}, number), len(word)
        if not self.columnwise:
            return None
        last = self.by_columns(word)
        return self.rank_ones(word) if last is None else (len(word) - 2, last, len(word))

    def cancels(self, a: Atom, b: Atom) -> tuple[str, str, bool] | None:
        """The rule by which a b is the identity (True) or zero (False), and how it reads here."""
        if {a[1][0], b[1][0]} == {"sym", "at"}:  # a column of A^T B is zero if all are
            of = [self.problem.symbols[one[1][1]].kind if one[1][0] == "at" else one[1][1] for one in (a, b)]
            whole = [
                ("m", ("sym", name.removeprefix("columns of ")), one[2]) for name, one in zip(of, (a, b), strict=True)
            ]
            rule = self.cancels(*whole)
            return rule if rule is not None and not rule[2] else None
        if a[1][0] != "sym" or b[1][0] != "sym" or a[2] == b[2]:
            return None
        first, second = a[1][1], b[1][1]
        one, other = self.problem.symbols.get(first), self.problem.symbols.get(second)
        if one is None or other is None:
            return None
        shown = f"{first}^T {first} = I" if a[2] else f"{first} {first}^T = I"
        if first == second and one.kind == "permutation":
            return "the transpose of a permutation is its inverse", shown, True
        if first == second and one.kind.startswith("orthonormal") and a[2]:
            return "orthonormal columns", shown, True
        if first == second and one.kind.startswith("orthonormal") and one.shape[0] == one.shape[1]:
            return "a square matrix with orthonormal columns", shown, True
        beside = other.kind == f"orthonormal beside {first}" or one.kind == f"orthonormal beside {second}"
        return ("columns that are orthogonal to others", f"{first}^T {second} = 0", False) if beside and a[2] else None

    def dot(self, word: Word) -> Form:
        """The number that a row times ... times a column is."""
        if len(word) == 2 and word[0][1][0] == word[1][1][0] == "at":
            known = self.dot_of_members(word[0][1], word[1][1])
            if known is not None:
                return known
        known = dot_with_units(self, word)
        return known if known is not None else self.look_up(("dot", least_turn(word, cyclic=False)))

    def trace_of(self, word: Word) -> Form:
        return trace(self, self.reduce_word((), word))

    def softmax_entry(self, inside: Form, row: Atom, column: Atom) -> Form:
        """exp of an entry over the sum of exp of all in its row."""

        def power_at(place: Any) -> Form:
            end = of_word(unit(place, column[1][2], False))
            return exp_form(self, self.times(self.times(of_word(row), inside), end))

        index = self.fresh_index()
        total = prefix(self, index, size_form(column[1][2][0]), power_at(index_key(index)))
        return self.times(power_at(column[1][1]), self.power(total, Fraction(-1)))

    def dot_of_members(self, first: Atom, second: Atom) -> Form | None:
        (_, f, i), (_, g, j) = first, second
        one, other = self.problem.symbols.get(f), self.problem.symbols.get(g)
        if one is None or other is None:
            return None
        if f == g and i == j and (self.is_orthonormal(f) or one.kind.startswith("unit")):
            return constant(1) if self.may("vectors of length 1", f"{f}_i has length 1") else None
        if f == g and i != j and self.is_orthonormal(f) and self.may("orthonormal vectors", f"orthonormal {f}_i"):
            return self.delta(dict(i), dict(j), f)
        matrices = [
            kind.removeprefix("columns of ") for kind in (one.kind, other.kind) if kind.startswith("columns of ")
        ]
        if f != g and len(matrices) == 2:
            rule = self.cancels(("m", ("sym", matrices[0]), True), ("m", ("sym", matrices[1]), False))
            if rule is not None and not rule[2] and self.may(rule[0], rule[1]):
                return {}
        return None

    def delta(self, one: Form, other: Form, family: str = "", end: Form | None = None) -> Form:
        """1 where two places are the same, 0 where they are not; its last part is how far they run."""
        i, j = form_key(one), form_key(other)
        if i == j or self.differ(i, j):
            return constant(i == j)
        ends = self.words.families[family] if family else self.words.common_range()
        if end is None and ends is None:
            raise TooLarge
        end = end if end is not None else self.form(ends[1])  # type: ignore[index]
        return of_atom(("delta", *sorted((i, j), key=repr), form_key(end)))

    def is_orthonormal(self, family: str) -> bool:
        kind = self.problem.symbols[family].kind
        matrix = self.problem.symbols.get(kind.removeprefix("columns of "))
        return kind == "orthonormal" or (matrix is not None and matrix.kind.startswith("orthonormal"))

    def differ(self, i: Any, j: Any) -> bool:
        gap = add_forms(dict(i), scale(dict(j), -1))
        return set(gap) == {ONE} or (i, j) in self.different or (j, i) in self.different

    def rank_ones(self, word: Word) -> tuple[int, Form, int] | None:
        """U S S V^T is the sum of sigma_i^2 u_i v_i^T."""
        for n, atom in enumerate(word):
            diagonal = self.diagonal(atom)
            if diagonal is None or n == 0:
                continue
            end = n
            while end < len(word) and self.diagonal(word[end]) == diagonal:
                end += 1
            if end == len(word) or word[n - 1][2] or not word[end][2]:
                continue
            left, right = (self.columns(word[n - 1]), self.columns(word[end]))
            if left is None or right is None or not self.may("a product with a diagonal matrix is a sum of rank ones"):
                continue
            index = self.fresh_index()
            place = index_key(index)
            outer = of_word(("m", ("at", left, place), False), ("m", ("at", right, place), True))
            body = self.times(of_atom(("at", diagonal, place), end - n), outer)
            return n - 1, prefix(self, index, self.last_of(diagonal), body), end + 1
        return None

    def by_columns(self, word: Word) -> Form | None:
        """A c = sum of c_i a_i and A B^T = sum of a_i b_i^T, where a_i and b_i are the columns of A and B."""
        matrix, other = word[-2], word[-1]
        family, rows = None if matrix[2] else self.columns(matrix), self.columns(other) if other[2] else None
        vector = not other[2] and other[1][0] == "sym" and self.shape(other)[1] == "1"
        if family is None or not (vector or rows) or not self.may("a matrix times a vector is a sum over its columns"):
            return None
        index = self.fresh_index()
        place = index_key(index)
        column = of_word(("m", ("at", family, place), False))
        entry = of_word(("m", ("at", rows, place), True)) if rows else of_atom(("at", f"{other[1][1]}.", place))
        return prefix(self, index, self.last_of(family), self.times(column, entry))

    def last_of(self, family: str) -> Form:
        return self.form(self.words.families[family][1])

    def diagonal(self, atom: Atom) -> str | None:
        symbol = self.problem.symbols.get(atom[1][1]) if atom[1][0] == "sym" else None
        return symbol.kind.removeprefix("diagonal of ") if symbol and symbol.kind.startswith("diagonal of ") else None

    def columns(self, atom: Atom) -> str | None:
        name = atom[1][1] if atom[1][0] == "sym" else ""
        return next((f for f, one in self.problem.symbols.items() if one.kind == f"columns of {name}"), None)

    def transpose(self, form: Form) -> Form:
        made: Form = {}
        for (s, w), x in form.items():
            flipped = tuple((k, key, f and self.diagonal((k, key, f)) is None) for k, key, f in flip_word(w))
            made = add_forms(made, scale(self.reduce_word(s, flipped), x))
        return made

    def fresh_index(self) -> str:
        self.fresh += 1
        return f"?{self.fresh}"

    # powers, exponentials, norms

    def power_form(self, term: Term) -> Form:
        base, power = term.args
        exponent = self.form(power)
        if base.op == "norm" and base.value in ("v", "F") and power.op == "num" and power.value % 2 == 0:
            return self.power(norm_square(self, base), power.value / 2)
        if set(exponent) <= {ONE}:
            return self.power(self.form(base), exponent.get(ONE, Fraction(0)))
        return exp_form(self, self.times(ln_form(self, self.form(base)), exponent))

    def root_of_square(self, form: Form) -> Form:
        """|x|: x itself, where that is plainly not negative."""
        return form if is_plain(self, form) else self.power(self.times(form, form), HALF)

    def power(self, form: Form, power: Fraction) -> Form:
        if power == 0:
            return constant(1)
        if power.denominator == 1 and 0 < power <= 4:
            made = form
            for _ in range(int(power) - 1):
                made = self.times(made, form)
            return made
        if not form or any(w for _, w in form):
            raise TooLarge
        if len(form) == 1:
            (((s, _), x),) = form.items()
            if power.denominator == 1 or (x > 0 and all(is_nonnegative(self, a) or (p * power) % 2 == 0 for a, p in s)):
                return self.times(of_powers(tuple((a, p * power) for a, p in s)), number_power(x, power))
        if power.denominator == 1:  # the first coefficient is taken out, so that 1/(2x + 2y) is half of 1/(x + y)
            factor = abs(form[max(form, key=repr)])
            return self.times(of_atom(("paren", form_key(scale(form, 1 / factor))), power), number_power(factor, power))
        return of_atom(("paren", form_key(form)), power)


def fold(normal: Normal, form: Form) -> Form:
    """Roots of numbers that have become whole: 2^(1/2) 2^(1/2) = 2; squares of cosines: 1 minus that of the sine."""
    made: Form = {}
    for (s, w), x in form.items():
        part: Form = {((), w): x}
        for atom, power in s:
            if atom[0] == "num":
                floor = power.numerator // power.denominator
                part = scale(part, Fraction(atom[1]) ** floor)
                power -= floor
            if atom[0] == "cos" and power.denominator == 1 and 2 <= power <= 6 and normal.may("sin^2 + cos^2 = 1"):
                rest = add_forms(constant(1), scale(of_atom(("sin", atom[1]), 2), -1))
                part, power = normal.times(normal.power(rest, Fraction(int(power) // 2)), part), power % 2
            part = normal.times(of_atom(atom, power), part) if power else part
        made = add_forms(made, part)
    return made


def is_zero(normal: Normal, form: Form) -> bool:
    """Whether a form is zero, once what stands below a line is multiplied away."""
    for _ in range(4):
        form = fold(normal, form)
        parens = {a for s, _ in form for a, _ in s if a[0] == "paren"}
        if not form or not parens:
            return not form
        form, is_multiplied_out = over_powers(
            normal, form, {a: min(dict(s).get(a, Fraction(0)) for s, _ in form) for a in parens}
        )
        if not is_multiplied_out:
            return False
    return not form
