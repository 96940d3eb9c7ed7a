"""Normal forms: two terms with the same one are equal on every instance, by arithmetic and the rules that it names.

Products are multiplied out, transposes stand at single matrices, sums run from 1, and what the problem gives, such as
orthonormal columns and the lemmas, is applied where it fits. Every rule is in rules.toml, a theorem with its test; a
rule that is not there cannot be used. Where a step would need more than is known (a sum that may run backwards, a size
that may be too small), the form is not made, and the line stays unproved.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
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
    contains_name,
    flip_word,
    form_key,
    index_around,
    index_key,
    least_turn,
    merge_powers,
    names_in,
    number_power,
    of_atom,
    of_powers,
    of_word,
    put,
    put_powers,
    scale,
)
from regard.coursework.derivations.names import SCALAR, Shape, Vocabulary
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import Definitions, Span, Term, num, substitute, sym
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
        self.disabled: set[str] | None = set()  # rules that may not be used; None: arithmetic and definitions alone
        self.only: frozenset[str] | None = None  # rules that alone may be used
        self.permutations = [name for name, one in problem.symbols.items() if one.kind == "permutation"]
        self.different: set[tuple[Any, Any]] = set()  # places that are known to differ
        self.lemmas = {one.name for one in problem.lemmas}
        self.facts: dict[Atom, tuple[Form, str]] = {}  # atoms that lines before have shown to be something else
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
            "sum": self.sum,
            "pow": self.power_form,
            "norm": self.norm,
            "tr": lambda one: self.trace(self.form(one.args[0])),
            "exp": lambda one: self.exp(self.form(one.args[0])),
            "ln": lambda one: self.ln(self.form(one.args[0])),
            "softmax": lambda one: self.entrywise("softmax", self.form(one.args[0])),
            "relu": lambda one: self.entrywise("relu", self.form(one.args[0])),
            "sin": lambda one: self.wave("sin", self.form(one.args[0])),
            "cos": lambda one: self.wave("cos", self.form(one.args[0])),
        }

    def may(self, rule: str, shown: str = "") -> bool:
        """Whether a rule may be used; if so, it is, and ``shown`` is what it says here."""
        if rule not in rule_names():
            raise LookupError(f"{rule} is no rule of rules.toml")
        if (
            self.disabled is None
            or (shown or rule) in self.disabled
            or (self.only is not None and rule not in self.only)
        ):
            return False
        self.used.add(shown or rule)
        return True

    def may_use(self, name: str) -> bool:
        """Whether a fact or a rule is not switched off; it is not yet used."""
        return self.disabled is not None and name not in self.disabled and self.only is None

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

    # signs

    def is_nonnegative(self, atom: Atom) -> bool:
        if self.is_positive(atom) or atom[0] in ("norm2", "normF", "abs"):
            return True
        if atom[0] == "dot":
            return len(atom[1]) == 2 and bool(atom[1][0][1] == atom[1][1][1])
        if atom[0] == "at":
            symbol = self.problem.symbols.get(atom[1])
            return symbol is not None and symbol.kind == "sorted"
        if atom[0] == "pre":
            return all(p % 2 == 0 or self.is_nonnegative(a) for a, p in atom[2])
        if atom[0] == "paren":
            return self.is_plain(dict(atom[1])) or self.is_plain(self.shift_sizes(dict(atom[1])))
        return False

    def is_plain(self, form: Form) -> bool:
        """Not negative, as one sees: nothing is subtracted, and every factor is a square or not negative."""
        return all(
            not w and x > 0 and all(p % 2 == 0 or self.is_nonnegative(a) for a, p in s) for (s, w), x in form.items()
        )

    def is_positive(self, atom: Atom) -> bool:
        """Certainly above zero, not only not below."""
        if atom[0] in ("exp", "num"):
            return True
        if atom[0] == "sym":
            return atom[1] not in self.unsigned and self.problem.is_positive_name(atom[1])
        if atom[0] == "at":
            symbol = self.problem.symbols.get(atom[1])
            return symbol is not None and symbol.kind == "positive"
        if atom[0] == "pow":
            return self.is_plain(dict(atom[1]))  # a power is of what has a logarithm
        if atom[0] == "pre":
            return all(self.is_positive(a) for a, _ in atom[2]) and self.is_count(
                add_forms(dict(atom[1]), constant(-1))
            )
        return atom[0] == "paren" and any(
            self.is_plain(form) and any(all(self.is_positive(a) for a, _ in s) and not w for s, w in form)
            for form in (dict(atom[1]), self.without_sizes(dict(atom[1])))
        )

    def without_sizes(self, form: Form) -> Form:
        """The form shifted, if something without a size is left in it: a shifted size may be zero."""
        form = self.shift_sizes(self.clear_sizes(form))
        sizes = {name for name, _ in self.problem.shifts}
        free = [mono for mono in form if not any(a == ("sym", size) for a, _ in mono[0] for size in sizes)]
        return (
            form
            if free and self.is_plain(form) and any(all(self.is_positive(a) for a, _ in s) for s, _ in free)
            else {ONE: Fraction(-1)}
        )

    def clear_sizes(self, form: Form) -> Form:
        """The form times the sizes that stand below a line in it: sizes are positive."""
        lowest: dict[Atom, Fraction] = {}
        for s, _ in form:
            for atom, power in s:
                if power < 0 and atom[0] == "sym" and self.is_positive(atom):
                    lowest[atom] = min(lowest.get(atom, Fraction(0)), power)
        return self.times(of_powers(tuple((a, -p) for a, p in lowest.items())), form) if lowest else form

    def shift_sizes(self, form: Form) -> Form:
        """The form with n + 2 for n where n is at least 2: then n - 2 is plainly not negative."""
        for name, more in self.problem.shifts:
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
                add_into(made, self.times(part, self.power(whole, power)) if power else part)
            form = made
        return form

    def is_count(self, form: Form) -> bool:
        """Whether a number of terms is certainly not negative."""
        return self.is_plain(self.shift_sizes(form))

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
                return 0, self.push_in(word, n), len(word)
        for n, atom in enumerate(word):
            ends = [end for end in range(n + 1, len(word)) if self.shape(word[end])[1] == "1"]
            if self.shape(atom)[0] == "1" and ends:
                number = self.dot(word[n : ends[0] + 1])
                return 0, self.times({((), word[:n] + word[ends[0] + 1 :]): Fraction(1)}, number), len(word)
        if self.columnwise and (last := self.by_columns(word)) is not None:
            return len(word) - 2, last, len(word)
        return self.rank_ones(word)

    def cancels(self, a: Atom, b: Atom) -> tuple[str, str, bool] | None:
        """The rule by which a b is the identity (True) or zero (False), and how it reads here."""
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
        return self.look_up(("dot", least_turn(word, cyclic=False)))

    def dot_of_members(self, first: Atom, second: Atom) -> Form | None:
        (_, f, i), (_, g, j) = first, second
        one, other = self.problem.symbols.get(f), self.problem.symbols.get(g)
        if one is None or other is None:
            return None
        if f == g and i == j and (self.is_orthonormal(f) or one.kind.startswith("unit")):
            return constant(1) if self.may("vectors of length 1", f"{f}_i has length 1") else None
        if f == g and i != j and self.is_orthonormal(f) and self.may("orthonormal vectors", f"orthonormal {f}_i"):
            if self.differ(i, j):
                return {}
            last = form_key(self.form(self.words.families[f][1]))
            return of_atom(("delta", *sorted((i, j), key=repr), last))
        matrices = [
            kind.removeprefix("columns of ") for kind in (one.kind, other.kind) if kind.startswith("columns of ")
        ]
        if f != g and len(matrices) == 2:
            rule = self.cancels(("m", ("sym", matrices[0]), True), ("m", ("sym", matrices[1]), False))
            if rule is not None and not rule[2] and self.may(rule[0], rule[1]):
                return {}
        return None

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
            return n - 1, self.prefix(index, self.last_of(diagonal), body), end + 1
        return None

    def by_columns(self, word: Word) -> Form | None:
        """A c = sum of c_i a_i, where a_i are the columns of A."""
        matrix, vector = word[-2], word[-1]
        family = None if matrix[2] else self.columns(matrix)
        if family is None or vector[2] or vector[1][0] != "sym" or self.shape(vector)[1] != "1":
            return None
        if not self.may("a matrix times a vector is a sum over its columns"):
            return None
        index = self.fresh_index()
        entry = of_atom(("at", f"{vector[1][1]}.", index_key(index)))
        column = of_word(("m", ("at", family, index_key(index)), False))
        return self.prefix(index, self.last_of(family), self.times(entry, column))

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

    # sums

    def fresh_index(self) -> str:
        self.fresh += 1
        return f"?{self.fresh}"

    def sum(self, term: Term) -> Form:
        """The sum to hi, minus the sum to lo - 1, minus the places left out: if it does not run backwards."""
        span: Span = term.value
        lo, hi = self.form(span.lo), self.form(span.hi)
        before = add_forms(lo, constant(-1))
        if not (self.is_count(before) and self.is_count(add_forms(hi, scale(before, -1)))):
            raise TooLarge
        self.require_places(span, lo, hi)
        index = self.fresh_index()
        body = self.form(substitute(term.args[0], span.index, sym(index)))
        places = self.special_places(body, index)
        if places:
            return self.split_sum(term, index, places, hi)
        short = [one.get(ONE, Fraction(0)) for one in (hi, before) if set(one) <= {ONE}]
        if any(count > 8 for count in short):
            raise TooLarge
        whole = add_forms(
            self.first_terms(term, index, hi, body), scale(self.first_terms(term, index, before, body), -1)
        )
        for place in span.without:
            whole = add_forms(whole, scale(self.form(substitute(term.args[0], span.index, place)), -1))
        return whole

    def first_terms(self, term: Term, index: str, hi: Form, body: Form) -> Form:
        """The sum from 1 to hi; to a small number, term by term."""
        if not set(hi) <= {ONE}:
            return self.prefix(index, hi, body)
        places = range(1, int(hi.get(ONE, Fraction(0))) + 1)
        return add_forms(*(self.form(substitute(term.args[0], term.value.index, num(c))) for c in places))

    def require_places(self, span: Span, lo: Form, hi: Form) -> None:
        """Places that a sum leaves out must be different ones of its own."""
        places = [self.form(place) for place in span.without]
        for n, place in enumerate(places):
            inside = all(
                self.is_count(gap) for gap in (add_forms(place, scale(lo, -1)), add_forms(hi, scale(place, -1)))
            )
            whole = lo == constant(1) and span.without[n].op == "sym" and span.without[n].value in self.words.indices
            if not inside and not (whole and (ends := self.words.common_range()) and hi == self.form(ends[1])):
                raise TooLarge
            if any(not self.differ(form_key(place), form_key(other)) for other in places[:n]):
                raise TooLarge

    def special_places(self, body: Form, index: str) -> set[int]:
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

    def split_sum(self, term: Term, index: str, places: set[int], hi: Form) -> Form:
        """The terms at some places, and the others, which are all alike."""
        span: Span = term.value
        forms = [self.form(one) for one in (span.lo, *span.without)]
        if any(set(one) != {ONE} for one in forms):
            raise TooLarge
        first, *without = (int(one[ONE]) for one in forms)
        left_out = {*range(1, first), *without}
        special = places | left_out
        if any(not self.is_count(add_forms(hi, constant(-c))) or c < 1 for c in special):
            raise TooLarge
        self.different |= {(index_key(index), form_key(constant(c))) for c in special}
        rest = self.form(substitute(term.args[0], span.index, sym(index)))
        if any(contains_name(mono, index) for mono in rest) or not self.may(
            "a sum is taken apart at some of its places"
        ):
            raise TooLarge
        made = self.times(rest, add_forms(hi, constant(-len(special))))
        for c in special - left_out:
            made = add_forms(made, self.form(substitute(term.args[0], span.index, num(c))))
        return made

    def prefix(self, index: str, hi: Form, body: Form) -> Form:
        """The sum of a form over an index from 1 to hi."""
        made: Form = {}
        for (s, w), x in body.items() if hi else ():
            delta = next((a for a, _ in s if a[0] == "delta" and contains_name(a, index)), None)
            if delta is not None:
                made = add_forms(made, scale(self.pick_term(index, hi, delta, s, w), x))
                continue
            inside = tuple((a, p) for a, p in s if contains_name(a, index))
            outside = tuple((a, p) for a, p in s if not contains_name(a, index))
            if any(contains_name(a, index) for a in w):
                shape = (self.shape(w[0])[0], self.shape(w[-1])[1])
                name = index_around((inside, w))
                (bound,) = put({(inside, w): Fraction(1)}, index, name)
                part: Form = {(outside, (("m", ("pre", form_key(hi), bound, shape), False),)): Fraction(1)}
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

    def pick_term(self, index: str, hi: Form, delta: Atom, powers: Powers, word: Word) -> Form:
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

    def push_in(self, word: Word, n: int) -> Form:
        """A sum of matrices times others: the product of each of its terms."""
        _, key, flipped = word[n]
        index = self.fresh_index()
        inner = put({key[2]: Fraction(1)}, outer_index(key[2]), index)
        if flipped:
            inner = self.transpose(inner)
        inner = self.times(self.times(of_word(*word[:n]), inner), of_word(*word[n + 1 :]))
        return self.prefix(index, dict(key[1]), inner)

    # powers, exponentials, norms

    def power_form(self, term: Term) -> Form:
        base, power = term.args
        exponent = self.form(power)
        if base.op == "norm" and base.value in ("v", "F") and power.op == "num" and power.value % 2 == 0:
            return self.power(self.norm_square(base), power.value / 2)
        if set(exponent) <= {ONE}:
            return self.power(self.form(base), exponent.get(ONE, Fraction(0)))
        return self.exp(self.times(self.ln(self.form(base)), exponent))

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
            if power.denominator == 1 or (x > 0 and all(self.is_nonnegative(a) or (p * power) % 2 == 0 for a, p in s)):
                return self.times(of_powers(tuple((a, p * power) for a, p in s)), number_power(x, power))
        if power.denominator == 1:  # the first coefficient is taken out, so that 1/(2x + 2y) is half of 1/(x + y)
            factor = abs(form[max(form, key=repr)])
            return self.times(of_atom(("paren", form_key(scale(form, 1 / factor))), power), number_power(factor, power))
        return of_atom(("paren", form_key(form)), power)

    def exp(self, form: Form) -> Form:
        """exp of a sum is a product; exp(c ln x) is x^c."""
        made = constant(1)
        for (s, w), x in form.items():
            logs = [(a, p) for a, p in s if a[0] == "ln" and p == 1]
            if w:
                raise TooLarge
            if len(s) == len(logs) == 1:
                part = self.power(dict(logs[0][0][1]), x)
            elif len(logs) == 1 and len(logs[0][0][1]) == 1:
                part = of_atom(("pow", logs[0][0][1], tuple((a, p) for a, p in s if a != logs[0][0])), x)
            else:
                part = of_atom(("exp", s), x)
            made = self.times(made, part)
        return made

    def ln(self, form: Form) -> Form:
        """ln of a product is a sum, where no factor can be negative."""
        if len(form) == 1:
            (((s, w), x),) = form.items()
            if not w and x > 0 and all(self.is_nonnegative(a) for a, _ in s):
                made: Form = {}
                for a, p in s:
                    part: Form = {(a[1], ()): p} if a[0] == "exp" else scale(of_atom(("ln", form_key(of_atom(a)))), p)
                    made = add_forms(made, part)
                return add_forms(made, of_atom(("ln", form_key(constant(x))))) if x != 1 else made
        return of_atom(("ln", form_key(form)))

    def wave(self, op: str, form: Form) -> Form:
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
            return scale(self.look_up((op, form_key(one))), sign)
        if not self.may("the addition theorems"):
            return of_atom((op, form_key(form)))
        a = {kind: self.wave(kind, {first: form[first]}) for kind in ("sin", "cos")}
        b = {kind: self.wave(kind, rest) for kind in ("sin", "cos")}
        if op == "sin":
            return add_forms(self.times(a["sin"], b["cos"]), self.times(a["cos"], b["sin"]))
        return add_forms(self.times(a["cos"], b["cos"]), scale(self.times(a["sin"], b["sin"]), -1))

    def norm(self, term: Term) -> Form:
        if term.value != "2":
            square = self.norm_square(term)
            return self.power(square, HALF) if square else {}
        inside = self.form(term.args[0])
        for fact in self.problem.given if inside else ():
            known = fact.left.op == "norm" and fact.left.value == "2" and fact.sign == "="
            if known and self.may_use(fact.name) and self.form(fact.left.args[0]) == inside:
                self.used.add(fact.name)
                return self.form(fact.right)
        return self.look_up(("norm2", form_key(inside))) if inside else {}

    def norm_square(self, term: Term) -> Form:
        for fact in self.problem.given if term.value == "F" else ():
            known = fact.left.op == "pow" and fact.left.args == (term, num(2)) and fact.sign == "="
            if known and self.may_use(fact.name):
                self.used.add(fact.name)
                return self.form(fact.right)
        inside = self.form(term.args[0])
        if term.value == "F" and not self.may("||A||_F^2 = tr(A^T A)"):
            return of_atom(("normF", form_key(inside)), 2) if inside else {}
        square = self.times(self.transpose(inside), inside)
        return self.trace(square) if term.value == "F" else square

    def trace(self, form: Form) -> Form:
        made: Form = {}
        for (s, w), x in form.items():
            if not w:
                raise TooLarge  # the trace of an identity whose size is not known here
            made = add_forms(made, scale(self.times({(s, ()): Fraction(1)}, self.trace_word(w)), x))
        return made

    def trace_word(self, word: Word) -> Form:
        if len(word) == 1 and word[0][1][0] == "pre":
            _, key, _ = word[0]  # a transpose has the same trace
            index = self.fresh_index()
            inner = put({key[2]: Fraction(1)}, outer_index(key[2]), index)
            return self.prefix(index, dict(key[1]), self.trace(inner))
        diagonal = self.diagonal(word[0])
        alike = diagonal is not None and all(self.diagonal(one) == diagonal for one in word)
        if diagonal is not None and alike and self.may("the trace of a diagonal matrix"):
            index = self.fresh_index()
            entries = of_atom(("at", diagonal, index_key(index)), len(word))
            return self.prefix(index, self.last_of(diagonal), entries)
        for n in range(1, len(word)):
            turned = word[n:] + word[:n]
            rule = self.cancels(word[-1], word[0])
            meets = rule is not None and self.may_use(rule[1])
            row = self.shape(turned[0])[0]
            if (row == "1" or meets) and self.may("the trace is cyclic"):
                form = self.reduce_word((), turned)
                if row == "1":
                    return form
                identity = {mono: x for mono, x in form.items() if not mono[1]}
                rest = self.trace({mono: x for mono, x in form.items() if mono[1]})
                if identity and not self.may("the trace of the identity is its size"):
                    raise TooLarge
                size = constant(int(row)) if row.isdigit() else of_atom(("sym", row))
                return add_forms(self.times(identity, size), rest)
        best = least_turn(word, cyclic=True)
        if best != word and not self.may("the trace is cyclic"):
            best = word
        return of_atom(("tr", best))

    def entrywise(self, op: str, inside: Form) -> Form:
        """softmax and ReLU, with permutations taken out of them."""
        lemma = {"softmax": "softmax lemma", "relu": "ReLU lemma"}[op]
        allowed = self.may_use(lemma) and lemma in self.lemmas
        if not inside or any(not w for _, w in inside):
            raise TooLarge
        for name in self.permutations if allowed else ():
            chosen = self.fewest_permutations(op, inside, name)
            if chosen is not None and self.may(lemma):
                left, right, other = chosen
                made = self.entrywise(op, other)
                made = self.times(of_word(("m", ("sym", name), False)), made) if left else made
                return self.times(made, of_word(("m", ("sym", name), True))) if right else made
        word = next(iter(inside))[1]
        shape = (self.shape(word[0])[0], self.shape(word[-1])[1])
        return of_word(("m", (op, form_key(inside), shape), False))

    def fewest_permutations(self, op: str, inside: Form, name: str) -> tuple[bool, bool, Form] | None:
        """From which sides P is taken off so that the fewest are left; None where that does not help."""
        key = ("sym", name)

        def count(form: Form) -> int:
            return sum(a[1] == key for _, w in form for a in w)

        best, chosen, used = count(inside), None, set(self.used)
        for left, right in [(True, True), (True, False), (False, True)] if op == "softmax" else [(True, False)]:
            self.used = set(used)
            other = self.times(of_word(("m", key, True)), inside) if left else inside
            other = self.times(other, of_word(("m", key, False))) if right else other
            if count(other) < best:
                best, chosen = count(other), (left, right, other, self.used)
        self.used = chosen[3] if chosen else used
        return None if chosen is None else chosen[:3]


def outer_index(value: Any) -> str:
    """The index that a sum binds: the deepest one in it."""
    return max((one for one in names_in(value) if one.startswith("#")), key=lambda one: int(one[1:]))


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
        lowest = {a: min(dict(s).get(a, Fraction(0)) for s, _ in form) for a in parens}
        changed: Form = {}
        for (s, w), x in form.items():
            powers = dict(s)
            part: Form = {((), w): x}
            for atom, least in lowest.items():
                power = powers.pop(atom, Fraction(0)) - least
                if power.denominator != 1 or power > 4:
                    return False
                part = normal.times(part, normal.power(dict(atom[1]), power))
            changed = add_forms(changed, normal.times(of_powers(tuple(powers.items())), part))
        form = changed
    return not form
