"""Normal forms: two terms with the same one are equal for every instance, by arithmetic and the rules it names.

A form is a sum of monomials with rational coefficients; a monomial is a product of powers of numbers (their order does
not matter) and a word of matrices (their order does). Products are multiplied out, transposes stand at single matrices,
sums run from 1, and what the problem gives (P^T P = I, orthonormal columns, the lemmas) is applied where it fits. Every
rule that was applied is in ``used``: these are the rules of rules.toml, each a theorem with its own test.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from regard.coursework.derivations.forms import (
    HALF,
    MOST,
    ONE,
    RANK_ONES,
    Atom,
    Form,
    TooLarge,
    add_forms,
    constant,
    contains_name,
    form_key,
    merge_powers,
    number_power,
    of_atom,
    rename_index,
    scale,
)
from regard.coursework.derivations.names import Vocabulary
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import Span, Term, add, num, substitute, sym


class Normal:
    """Normal forms of terms of one problem; ``definitions`` are unfolded, ``used`` collects the rules."""

    def __init__(self, problem: Problem, words: Vocabulary, definitions: dict[str, tuple[str, Term]]) -> None:
        self.problem, self.words, self.definitions = problem, words, definitions
        self.used: set[str] = set()
        self.fresh = 0
        self.columnwise = False
        self.disabled: set[str] | None = set()  # rules that may not be used; None: arithmetic and definitions alone
        self.permutations = [name for name, one in problem.symbols.items() if one.kind == "permutation"]
        self.different: set[tuple[str, str]] = set()  # indices that are known to differ
        self.lemmas = {one.name for one in problem.lemmas}
        self.facts: dict[Any, tuple[Form, str]] = {}  # a scalar atom that lines before have shown to be something
        self.positive: set[Atom] = set()

    def may(self, rule: str) -> bool:
        """Whether a rule may be used; if so, it is."""
        if self.disabled is None or rule in self.disabled:
            return False
        self.used.add(rule)
        return True

    def form(self, term: Term) -> Form:
        op, args = term.op, term.args
        if op == "num":
            return constant(term.value)
        if op == "sym":
            return self.name(term)
        if op == "at":
            return self.member(term)
        if op == "eye":
            return constant(1)
        if op == "ones":
            return {((), (("m", ("ones",), False),)): Fraction(1)}
        if op == "add":
            return add_forms(*(self.form(one) for one in args))
        if op == "mul":
            made = self.form(args[0])
            for one in args[1:]:
                made = self.times(made, self.form(one))
            return made
        if op == "div":
            return self.times(self.form(args[0]), self.power(self.form(args[1]), Fraction(-1)))
        if op == "T":
            return self.transpose_form(self.form(args[0]))
        if op == "sum":
            return self.sum(term)
        if op == "pow":
            return self.power_form(term)
        if op == "norm":
            return self.norm(term)
        inside = self.form(args[0])
        if op == "tr":
            return self.trace(inside)
        if op == "exp":
            return self.exp(inside)
        if op == "ln":
            return self.ln(inside)
        if op in ("softmax", "relu"):
            return self.entrywise(op, inside)
        return of_atom((op, form_key(inside)))

    # names

    def is_scalar(self, name: str) -> bool:
        shape = self.words.shape_of_name(name)
        return shape is None or shape == ("1", "1")

    def name(self, term: Term) -> Form:
        name = term.value
        if name in self.definitions:
            self.used.add(f"definition of {name}")
            return self.form(self.definitions[name][1])
        if self.is_scalar(name):
            return self.look_up(("sym", name))
        return {((), (("m", ("sym", name), False),)): Fraction(1)}

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
        if self.words.shapes.get(family, ("1", "1")) == ("1", "1"):
            return self.look_up(("at", family, key))
        return {((), (("m", ("at", family, key), False),)): Fraction(1)}

    # products

    def times(self, a: Form, b: Form) -> Form:
        made: Form = {}
        if len(a) * len(b) > MOST * 4:
            raise TooLarge
        for (s, w), x in a.items():
            for (r, v), y in b.items():
                part = self.reduce_word(merge_powers(s, r), w + v)
                made = add_forms(made, scale(part, x * y))
        if len(made) > MOST:
            raise TooLarge
        return made

    def shape(self, atom: Atom) -> tuple[str, str]:
        _, key, flipped = atom
        if key[0] == "sym":
            shape = self.words.shape_of_name(key[1]) or ("1", "1")
        elif key[0] == "at":
            shape = self.words.shapes[key[1]]
        elif key[0] == "ones":
            shape = (self.words.rows, "1")
        else:
            shape = key[-1]
        return (shape[1], shape[0]) if flipped else shape

    def reduce_word(self, scalars: Any, word: tuple[Atom, ...]) -> Form:
        """A monomial with everything applied that shortens its word."""
        for n in range(len(word) - 1):
            a, b = word[n], word[n + 1]
            if (rule := self.cancels(a, b)) is not None and self.may(rule[0]):
                return self.reduce_word(scalars, word[:n] + word[n + 2 :]) if rule[1] else {}
            if b[1] == ("ones",) and not b[2] and a[1][0] == "sym" and a[1][1] in self.permutations:
                if "P 1 = 1" in self.lemmas and self.may("P 1 = 1"):
                    return self.reduce_word(scalars, word[:n] + word[n + 1 :])
        if len(word) > 1:
            for n, atom in enumerate(word):
                if atom[1][0] == "pre":
                    return self.push_in(scalars, word, n)
            for n, atom in enumerate(word):
                if self.shape(atom)[0] == "1":
                    for end in range(n, len(word)):
                        if self.shape(word[end])[1] == "1" and end > n:
                            inner = self.dot(word[n : end + 1])
                            rest: Form = {(scalars, word[:n] + word[end + 1 :]): Fraction(1)}
                            return self.times(rest, inner)
        if self.columnwise and len(word) > 1 and (last := self.by_columns(word)) is not None:
            return self.times({(scalars, word[:-2]): Fraction(1)}, last)
        if (ends := self.rank_ones(word)) is not None:
            return self.times(
                {(scalars, word[: ends[0]]): Fraction(1)}, self.times(ends[2], {((), word[ends[1] :]): Fraction(1)})
            )
        return {(scalars, word): Fraction(1)}

    def cancels(self, a: Atom, b: Atom) -> tuple[str, bool] | None:
        """The rule by which a b is the identity (True) or zero (False)."""
        if a[1][0] != "sym" or b[1][0] != "sym" or a[2] == b[2]:
            return None
        first, second = a[1][1], b[1][1]
        one, other = self.problem.symbols.get(first), self.problem.symbols.get(second)
        if one is None or other is None:
            return None
        square = one.shape[0] == one.shape[1]
        if first == second and one.kind == "permutation":
            return (f"{first}^T {first} = I" if a[2] else f"{first} {first}^T = I"), True
        if first == second and one.kind.startswith("orthonormal") and (a[2] or square):
            return (f"{first}^T {first} = I" if a[2] else f"{first} {first}^T = I"), True
        beside = other.kind == f"orthonormal beside {first}" or one.kind == f"orthonormal beside {second}"
        return (f"{first}^T {second} = 0", False) if beside and a[2] else None

    def dot(self, word: tuple[Atom, ...]) -> Form:
        """The number that a row times ... times a column is."""
        flipped = tuple((k, key, not f) for k, key, f in reversed(word))
        if len(word) == 2 and word[0][1][0] == word[1][1][0] == "at":
            (_, f, i), (_, g, j) = word[0][1], word[1][1]
            kind, other = self.problem.symbols[f].kind, self.problem.symbols[g].kind
            if (
                f == g
                and i == j
                and (self.is_orthonormal(f) or kind.startswith("unit"))
                and self.may(f"{f}_i has length 1")
            ):
                return constant(1)
            if f == g and i != j and self.is_orthonormal(f) and self.may(f"orthonormal {f}_i"):
                if self.differ(i, j):
                    return {}
                pair = sorted([i, j], key=repr)
                return of_atom(("delta", pair[0], pair[1]))
            if f != g and kind.startswith("columns of ") and other.startswith("columns of "):
                one, two = kind.removeprefix("columns of "), other.removeprefix("columns of ")
                if (
                    self.cancels(("m", ("sym", one), True), ("m", ("sym", two), False)) is not None
                    and one != two
                    and self.may(f"{one}^T {two} = 0")
                ):
                    return {}
        return self.look_up(("dot", min(word, flipped, key=repr)))

    def is_orthonormal(self, family: str) -> bool:
        kind = self.problem.symbols[family].kind
        matrix = self.problem.symbols.get(kind.removeprefix("columns of "))
        return kind == "orthonormal" or (matrix is not None and matrix.kind.startswith("orthonormal"))

    def differ(self, i: Any, j: Any) -> bool:
        gap = add_forms(dict(i), scale(dict(j), -1))
        if set(gap) == {ONE}:
            return True
        text = {repr(i), repr(j)}
        return any({repr(a), repr(b)} == text for a, b in self.different)  # type: ignore[comparison-overlap]

    def rank_ones(self, word: tuple[Atom, ...]) -> tuple[int, int, Form] | None:
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
            if left is None or right is None or not self.may(RANK_ONES):
                continue
            index = self.fresh_index()
            place = form_key(of_atom(("sym", index)))
            body = of_atom(("at", diagonal, place), end - n)
            outer = {((), (("m", ("at", left, place), False), ("m", ("at", right, place), True))): Fraction(1)}
            hi = self.words.families[diagonal][1]
            return n - 1, end + 1, self.prefix(index, form_key(self.form(hi)), self.times(body, outer))
        return None

    def by_columns(self, word: tuple[Atom, ...]) -> Form | None:
        """A c = sum of c_i a_i, where a_i are the columns of A."""
        matrix, vector = word[-2], word[-1]
        family = None if matrix[2] else self.columns(matrix)
        if family is None or vector[2] or vector[1][0] != "sym" or self.shape(vector)[1] != "1":
            return None
        index = self.fresh_index()
        place = form_key(of_atom(("sym", index)))
        entry, column = of_atom(("at", f"{vector[1][1]}.", place)), (("m", ("at", family, place), False),)
        self.used.add("a matrix times a vector is a sum over its columns")
        hi = form_key(self.form(self.words.families[family][1]))
        return self.prefix(index, hi, self.times(entry, {((), column): Fraction(1)}))

    def diagonal(self, atom: Atom) -> str | None:
        symbol = self.problem.symbols.get(atom[1][1]) if atom[1][0] == "sym" else None
        return symbol.kind.removeprefix("diagonal of ") if symbol and symbol.kind.startswith("diagonal of ") else None

    def columns(self, atom: Atom) -> str | None:
        name = atom[1][1] if atom[1][0] == "sym" else ""
        return next((f for f, one in self.problem.symbols.items() if one.kind == f"columns of {name}"), None)

    def transpose_form(self, form: Form) -> Form:
        made: Form = {}
        for (s, w), x in form.items():
            flipped = tuple(
                (k, key, (not f) if self.diagonal((k, key, f)) is None else False) for k, key, f in reversed(w)
            )
            made = add_forms(made, scale(self.reduce_word(s, flipped), x))
        return made

    # sums

    def fresh_index(self) -> str:
        self.fresh += 1
        return f"#{self.fresh}"

    def sum(self, term: Term) -> Form:
        span: Span = term.value
        index = self.fresh_index()
        body = self.form(substitute(term.args[0], span.index, sym(index)))
        places = self.special_places(body, index)
        if places:
            return self.split_sum(term, index, places)
        whole = self.prefix(index, form_key(self.form(span.hi)), body)
        before = self.form(add(span.lo, num(-1)))
        if before:
            whole = add_forms(whole, scale(self.prefix(index, form_key(before), body), -1))
        for place in span.without:
            whole = add_forms(whole, scale(self.form(substitute(term.args[0], span.index, place)), -1))
        return whole

    def special_places(self, body: Form, index: str) -> set[int]:
        """Numbers that the index is compared with inside a function: the sum is taken apart there."""
        found: set[int] = set()

        def search(value: Any, inside: bool) -> None:
            if isinstance(value, tuple):
                if value and value[0] == "delta" and inside and contains_name(value, index):
                    for place in value[1:]:
                        if set(dict(place)) == {ONE}:
                            found.add(int(dict(place)[ONE]))
                for one in value:
                    search(one, inside or (bool(value) and value[0] in ("exp", "pow", "paren")))

        for mono in body:
            search(mono[0], False)
        return found

    def split_sum(self, term: Term, index: str, places: set[int]) -> Form:
        span: Span = term.value
        without = {int(self.form(one).get(ONE, Fraction(0))) for one in span.without}
        if self.form(span.lo) != constant(1) or any(set(self.form(one)) != {ONE} for one in span.without):
            raise TooLarge
        mine = form_key(of_atom(("sym", index)))
        special = places | without
        self.different |= {(mine, form_key(constant(c))) for c in special}
        rest = self.form(substitute(term.args[0], span.index, sym(index)))
        if any(contains_name(mono, index) for mono in rest):
            raise TooLarge
        made = self.times(rest, add_forms(self.form(span.hi), constant(-len(special))))
        self.used.add("a sum is taken apart at some of its places")
        for c in places - without:
            made = add_forms(made, self.form(substitute(term.args[0], span.index, num(c))))
        return made

    def prefix(self, index: str, hi: Any, body: Form) -> Form:
        """The sum of a form over an index from 1 to hi."""
        made: Form = {}
        if not hi:
            return made
        for (s, w), x in body.items():
            delta = next((a for a, _ in s if a[0] == "delta" and contains_name(a, index)), None)
            if delta is not None:
                mine = form_key(of_atom(("sym", index)))
                other = delta[2] if delta[1] == mine else delta[1]
                if contains_name(other, index) or len(dict(other)) != 1 or self.names_of(other) is None:
                    raise TooLarge
                rest = tuple((a, p) for a, p in s if a != delta)
                made = add_forms(
                    made,
                    {
                        (
                            rename_index(rest, index, self.names_of(other)),
                            rename_index(w, index, self.names_of(other)),
                        ): x
                    },
                )
                continue
            inside = tuple((a, p) for a, p in s if contains_name(a, index))
            outside = tuple((a, p) for a, p in s if not contains_name(a, index))
            if not inside and not any(contains_name(a, index) for a in w):
                part = {(merge_powers(outside, m[0]), w): y for m, y in dict(hi).items()}
            elif any(contains_name(a, index) for a in w):
                shape = (self.shape(w[0])[0], self.shape(w[-1])[1])
                key = ("pre", hi, rename_index((inside, w), index, "#"), shape)
                part = {(outside, (("m", key, False),)): Fraction(1)}
            else:
                atom = ("pre", hi, rename_index(inside, index, "#"))
                part = {(merge_powers(outside, ((atom, Fraction(1)),)), w): Fraction(1)}
            made = add_forms(made, scale(part, x))
        return made

    @staticmethod
    def names_of(key: Any) -> str | None:
        """The name that an index consists of."""
        (mono, factor) = key[0]
        atoms = mono[0]
        return (
            atoms[0][0][1] if factor == 1 and len(atoms) == 1 and atoms[0][0][0] == "sym" and atoms[0][1] == 1 else None
        )

    def push_in(self, scalars: Any, word: tuple[Atom, ...], n: int) -> Form:
        """A sum of matrices times others: the product of each of its terms."""
        _, key, flipped = word[n]
        index = self.fresh_index()
        s, w = rename_index(key[2], "#", index)
        inner: Form = {(tuple(sorted(s, key=repr)), w): Fraction(1)}
        if flipped:
            inner = self.transpose_form(inner)
        inner = self.times(self.times({((), word[:n]): Fraction(1)}, inner), {((), word[n + 1 :]): Fraction(1)})
        return self.times({(scalars, ()): Fraction(1)}, self.prefix(index, key[1], inner))

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
        if len(form) == 1 and not next(iter(form))[1]:
            (((s, _), x),) = form.items()
            if power.denominator == 1 or (x > 0 and all(self.is_nonnegative(a) or (p * power) % 2 == 0 for a, p in s)):
                made = {(tuple(sorted(((a, p * power) for a, p in s), key=repr)), ()): Fraction(1)}
                return self.times(made, number_power(x, power))
        if not form or any(w for _, w in form):
            raise TooLarge
        lead = max(form, key=lambda mono: repr(mono[0]))
        factor = form[lead]
        if power.denominator == 1 and factor:
            inverse = {(tuple((a, -p) for a, p in lead[0]), ()): 1 / factor}
            inner = self.times(form, inverse)
            outside = self.power({lead: factor}, power)
            return self.times(outside, of_atom(("paren", form_key(inner)), power))
        return of_atom(("paren", form_key(form)), power)

    def is_nonnegative(self, atom: Atom) -> bool:
        if atom in self.positive or atom[0] in ("exp", "num", "norm2", "normF", "abs"):
            return True
        if atom[0] == "dot":
            return bool(len(atom[1]) == 2 and atom[1][0][1] == atom[1][1][1])
        if atom[0] == "at":
            return atom[1] in self.problem.symbols and self.problem.symbols[atom[1]].kind == "sorted"
        if atom[0] == "sym":
            symbol = self.problem.symbols.get(atom[1])
            return atom[1] in self.problem.sizes or (
                symbol is not None and (symbol.kind == "positive" or bool(symbol.choices) or bool(symbol.up_to))
            )
        if atom[0] == "pre":
            return all(p % 2 == 0 or self.is_nonnegative(a) for a, p in atom[2])
        if atom[0] == "paren":
            return all(x > 0 and all(p % 2 == 0 or self.is_nonnegative(a) for a, p in s) for (s, _), x in atom[1])
        return False

    def exp(self, form: Form) -> Form:
        made = constant(1)
        for (s, w), x in form.items():
            if w:
                raise TooLarge
            if len(s) == 1 and s[0][0][0] == "ln" and s[0][1] == 1:
                made = self.times(made, self.power(dict(s[0][0][1]), x))
            else:
                logs = [(a, p) for a, p in s if a[0] == "ln" and p == 1]
                if len(logs) == 1 and len(dict(logs[0][0][1])) == 1:  # exp(c ln x) = x^c
                    rest = tuple((a, p) for a, p in s if a != logs[0][0])
                    made = self.times(made, of_atom(("pow", logs[0][0][1], rest), x))
                else:
                    made = self.times(made, of_atom(("exp", s), x))
        return made

    def ln(self, form: Form) -> Form:
        if len(form) == 1:
            (((s, w), x),) = form.items()
            if not w and x > 0 and all(self.is_nonnegative(a) for a, _ in s):
                made: Form = {}
                for a, p in s:
                    if a[0] == "exp":
                        made = add_forms(made, {(a[1], ()): p})
                    else:
                        made = add_forms(made, scale(of_atom(("ln", form_key(of_atom(a)))), p))
                return add_forms(made, of_atom(("ln", form_key(constant(x))))) if x != 1 else made
        return of_atom(("ln", form_key(form)))

    def norm(self, term: Term) -> Form:
        if term.value == "2":
            inside = self.form(term.args[0])
            return self.given_norm(term, inside) if inside else {}
        square = self.norm_square(term)
        return self.power(square, HALF) if square else {}

    def given_norm(self, term: Term, inside: Form) -> Form:
        """A spectral norm that a given fact knows, or a name for it."""
        for fact in self.problem.given:
            if fact.left.op == "norm" and fact.left.value == "2" and self.form(fact.left.args[0]) == inside:
                if self.may(fact.name):
                    return self.form(fact.right)
        return of_atom(("norm2", form_key(inside)))

    def norm_square(self, term: Term) -> Form:
        if term.value == "F":
            for fact in self.problem.given:
                if fact.left.op == "pow" and fact.left.args[0] == term and self.may(fact.name):
                    return self.form(fact.right)
        inside = self.form(term.args[0])
        square = self.times(self.transpose_form(inside), inside)
        if term.value == "F":
            if not self.may("||A||_F^2 = tr(A^T A)"):
                return of_atom(("normF", form_key(inside)), 2)
            square = self.trace(square)
        return square

    def trace(self, form: Form) -> Form:
        made: Form = {}
        for (s, w), x in form.items():
            if not w:
                raise TooLarge  # the trace of an identity: its size
            made = add_forms(made, scale(self.times({(s, ()): Fraction(1)}, self.trace_word(w)), x))
        return made

    def trace_word(self, word: tuple[Atom, ...]) -> Form:
        if len(word) == 1 and word[0][1][0] == "pre":
            _, key, _ = word[0]  # a transpose has the same trace
            index = self.fresh_index()
            s, w = rename_index(key[2], "#", index)
            return self.prefix(index, key[1], self.trace({(tuple(sorted(s, key=repr)), w): Fraction(1)}))
        diagonal = self.diagonal(word[0])
        if (
            diagonal is not None
            and all(self.diagonal(one) == diagonal for one in word)
            and self.may("the trace of a diagonal matrix")
        ):
            index = self.fresh_index()
            place = form_key(of_atom(("sym", index)))
            hi = form_key(self.form(self.words.families[diagonal][1]))
            return self.prefix(index, hi, of_atom(("at", diagonal, place), len(word)))
        for n in range(1, len(word)):
            turned = word[n:] + word[:n]
            joint = (turned[len(word) - n - 1], turned[len(word) - n])
            rule = self.cancels(*joint)
            meets = rule is not None and self.disabled is not None and rule[0] not in self.disabled
            if (self.shape(turned[0])[0] == "1" or meets) and self.may("the trace is cyclic"):
                form = self.reduce_word((), turned)
                if any(not w for _, w in form):
                    return form
                return self.trace(form)
        turns = [word[n:] + word[:n] for n in range(len(word))]
        flipped_word = tuple((k, key, not f) for k, key, f in reversed(word))
        turns += [flipped_word[n:] + flipped_word[:n] for n in range(len(word))]
        best = min(turns, key=repr)
        if best != word and not self.may("the trace is cyclic"):
            best = word
        return of_atom(("tr", best))

    def entrywise(self, op: str, inside: Form) -> Form:
        """softmax and ReLU, with permutations taken out of them."""
        lemma = {"softmax": "softmax lemma", "relu": "ReLU lemma"}[op]
        allowed = self.disabled is not None and lemma not in self.disabled and lemma in self.lemmas
        for name in self.permutations if allowed else ():
            row = {((), (("m", ("sym", name), True),)): Fraction(1)}
            column = {((), (("m", ("sym", name), False),)): Fraction(1)}
            sides = [(True, True), (True, False), (False, True)] if op == "softmax" else [(True, False)]
            best, chosen = self.count(inside, name), None
            for left, right in sides:
                kept = set(self.used)
                other = self.times(row, inside) if left else inside
                other = self.times(other, column) if right else other
                if self.count(other, name) < best:
                    best, chosen = self.count(other, name), (left, right, other)
                else:
                    self.used = kept
            if chosen is not None:
                left, right, other = chosen
                self.used.add(lemma)
                made = self.entrywise(op, other)
                made = self.times(column, made) if left else made
                return self.times(made, row) if right else made
        if not inside or set(inside) == {ONE}:
            raise TooLarge
        word = next(iter(inside))[1]
        shape = (self.shape(word[0])[0], self.shape(word[-1])[1])
        return {((), (("m", (op, form_key(inside), shape), False),)): Fraction(1)}

    @staticmethod
    def count(form: Form, name: str) -> int:
        """How often a permutation stands at the ends of the words."""
        key = ("sym", name)
        return sum((a[1] == key) for _, w in form for a in w)
