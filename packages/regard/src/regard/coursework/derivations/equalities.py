"""Proofs of equalities: both sides have the same normal form, or lines before add up to it.

Nothing here looks at a clock: searches are bounded by how many facts are combined. The size of a leap is how many rules
a line needs, two definitions counting as one, and lines before counting nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from regard.coursework.derivations.forms import (
    Form,
    Mono,
    Powers,
    TooLarge,
    add_forms,
    constant,
    form_key,
    index_key,
    is_positive,
    of_powers,
    scale,
)
from regard.coursework.derivations.names import SCALAR, Vocabulary
from regard.coursework.derivations.normal import Normal, is_zero
from regard.coursework.derivations.problem import Fact, Problem
from regard.coursework.derivations.terms import Condition, Definitions, Term, apply, free_names, mul, num

LATEST = 12  # lines before that are tried
MOST_FORMS = 4000  # that are kept
TRIES = 60  # differences that one search looks at
Conditions = frozenset[Condition]
NONE: Conditions = frozenset()
ARITHMETIC: frozenset[str] = frozenset()  # no rule besides it
NAMING = frozenset(["||A||_F^2 = tr(A^T A)", "the trace of a diagonal matrix"])  # two names of one number
GIVE_UP = (TooLarge, RecursionError, KeyError)  # a line that needs more is not proved, and never called false for it


@dataclass(frozen=True)
class Step:
    """A proof of one line: the rules it needs, and which of them are lines before."""

    rules: tuple[str, ...]
    before: frozenset[str] = frozenset()

    @property
    def leap(self) -> int:
        definitions = [one for one in self.rules if one.startswith("definition of ")]
        return len(set(self.rules) - self.before) - len(definitions) + len(definitions) // 2


@dataclass
class Context:
    """What may be used at a line: definitions, and what lines before have shown, under which conditions."""

    problem: Problem
    words: Vocabulary
    own: Definitions = field(default_factory=dict)  # the writer's definitions and choices
    shown: Definitions = field(default_factory=dict)  # H_p, once it is shown to be P H
    order: list[tuple[Fact, Conditions]] = field(default_factory=list)  # left <= right or left < right
    sums: list[Term] = field(default_factory=list)  # sums that lines before have named
    unsigned: set[str] = field(default_factory=set)
    hypotheses: tuple[Fact, ...] = ()
    forms: dict[Any, tuple[Form, frozenset[str]] | None] = field(default_factory=dict)  # that were made before

    def form(
        self,
        term: Term,
        definitions: Definitions,
        conditions: Conditions,
        only: frozenset[str] | None = None,
        disabled: frozenset[str] = frozenset(),
        columnwise: bool = False,
    ) -> tuple[Form, frozenset[str]]:
        """The normal form of a term and the rules that it took: lines come back to the same terms again and again."""
        key = term, tuple(definitions.items()), conditions, only, disabled, columnwise, frozenset(self.unsigned)
        if key not in self.forms:
            if len(self.forms) > MOST_FORMS:
                self.forms.clear()
            self.forms[key] = None  # stays so where the form is given up: it is not tried again
            normal = self.normal(definitions, conditions)
            normal.only, normal.disabled, normal.columnwise = only, disabled, columnwise
            with suppress(*GIVE_UP):
                self.forms[key] = normal.form(term), frozenset(normal.used)
        if (made := self.forms[key]) is None:
            raise TooLarge
        return made

    def stages(self) -> list[Definitions]:
        """Definitions to unfold, from none to all."""
        every = {**self.problem.definitions, **self.own}
        numbers = {name for name in self.own if (self.words.shape_of_name(name) or SCALAR) == SCALAR}
        some = {name: value for name, value in every.items() if name not in numbers}
        stages = [{}, {**self.own, **self.shown}, some, {**every, **self.shown}, every]
        return [one for n, one in enumerate(stages) if one not in stages[:n]]

    def normal(self, definitions: Definitions, conditions: Conditions) -> Normal:
        normal = Normal(self.problem, self.words, definitions)
        normal.unsigned = self.unsigned
        for one in conditions:
            if one.place.op == "num":
                last = int(one.place.value)
                # "i >= 3" says that i is neither 1 nor 2, which is what a delta asks
                places = {"!=": range(last, last + 1), ">=": range(1, last), ">": range(1, last + 1)}.get(one.sign, ())
                normal.different |= {(index_key(one.index), form_key(constant(c))) for c in places}
            elif one.sign in ("!=", "<", ">"):  # a place above or below another one is not that one
                normal.different.add((index_key(one.index), form_key(normal.form(one.place))))
        for fact in self.hypotheses:
            ((powers, _),) = normal.form(fact.left)
            normal.facts[powers[0][0]] = (normal.form(fact.right), fact.name)
        return normal


def prove_equal(context: Context, left: Term, right: Term, conditions: Conditions) -> Step | None:
    stripped = strip_common(left, right)  # equal insides make equal wholes; where they differ nothing is said yet
    if stripped != (left, right) and (inner := prove_equal(context, *stripped, conditions)) is not None:
        return inner
    found: list[Step] = []
    for definitions in context.stages():
        for only, columnwise in ((ARITHMETIC, False), (None, False), (None, True)):
            search = Equality(context, left, right, conditions, definitions, only, columnwise)
            rules = search.rules()
            if rules is not None:
                found.append(Step(tuple(sorted(search.fewest(rules)))))
                break
        if found and found[-1].leap <= 1:
            break
    if not found or min(step.leap for step in found) > context.problem.table.leap:
        found += filter(None, [prove_by_lines_before(context, left, right, conditions)])
    return min(found, key=lambda step: step.leap, default=None)


def prove_by_lines_before(context: Context, left: Term, right: Term, conditions: Conditions) -> Step | None:
    """From equalities that lines before have shown: added up, and multiplied by numbers that are not zero."""
    shown = [fact for fact, needed in context.order if all(one.follows_from(conditions) for one in needed)]
    equalities = [fact for fact in shown if fact.sign == "="][-2 * LATEST :]
    ways: list[tuple[Definitions, frozenset[str] | None]] = [
        *((one, ARITHMETIC) for one in ({}, context.own, context.problem.definitions)),
        ({}, NAMING),
        ({}, None),
    ]
    for definitions, only in ways if equalities else ():
        normal = context.normal(definitions, conditions)
        normal.only = only
        facts: list[tuple[Form, str]] = []
        with suppress(*GIVE_UP):
            gap = difference(normal, left, right)
            for one in equalities:
                with suppress(*GIVE_UP):
                    facts.append((difference(normal, one.left, one.right), one.name))
            names = eliminate(normal, gap, facts, [TRIES]) if gap else None
            if names:
                return Step((*names, *sorted(normal.used)), frozenset(names))
    return None


def difference(normal: Normal, left: Term, right: Term) -> Form:
    return add_forms(normal.form(left), scale(normal.form(right), -1))


def eliminate(normal: Normal, gap: Form, facts: list[tuple[Form, str]], tries: list[int]) -> list[str] | None:
    """Names of facts whose multiples add up to the difference, each used once; ``tries`` counts down."""
    tries[0] -= 1
    if not gap or tries[0] < 0:
        return None if gap else []
    mono = min(gap, key=repr)  # always the same one, so that what the bounded search finds is the same on every run
    below = {atom for s, _ in gap for atom, power in s if power < 0}
    rests: list[tuple[int, Form]] = []
    for n, (form, _) in enumerate(facts):
        for other, y in form.items():
            ratio = divide_monomials((mono[0], ()), (other[0], ())) if other[1] == mono[1] else None
            if ratio is None or any(p < 0 and a not in below and not is_positive(normal, a) for a, p in ratio):
                continue  # what may be zero must not be divided by
            rest = add_forms(gap, scale(normal.times(of_powers(ratio, gap[mono] / y), form), -1))
            if len(rest) <= len(gap) + 1:  # a fact that makes the gap much longer leads away
                rests.append((n, rest))
    for n, rest in sorted(rests, key=lambda one: len(one[1])):  # what closes the gap most is tried first
        if (more := eliminate(normal, rest, facts[:n] + facts[n + 1 :], tries)) is not None:
            return [facts[n][1], *more]
    return None


@dataclass
class Equality:
    """Whether two terms have the same normal form, and by which rules."""

    context: Context
    left: Term
    right: Term
    conditions: Conditions = NONE
    definitions: Definitions = field(default_factory=dict)
    only: frozenset[str] | None = None
    columnwise: bool = False

    def rules(self, disabled: frozenset[str] = frozenset()) -> frozenset[str] | None:
        """The rules that make both sides the same; None where they do not."""
        try:
            how = self.definitions, self.conditions, self.only, disabled, self.columnwise
            (left, rules), (right, others) = (self.context.form(one, *how) for one in (self.left, self.right))
            normal = self.context.normal(self.definitions, self.conditions)
            normal.only, normal.disabled = self.only, disabled
            equal = is_zero(normal, add_forms(left, scale(right, -1)))
        except GIVE_UP:
            return None
        return rules | others | normal.used if equal else None

    def fewest(self, rules: frozenset[str]) -> frozenset[str]:
        """Without the rules that both sides use in the same way: left out one by one, as long as it still holds."""
        disabled: frozenset[str] = frozenset()
        for rule in sorted(one for one in rules if not one.startswith("definition of ")):
            fewer = self.rules(disabled | {rule})
            if fewer is not None:
                disabled, rules = disabled | {rule}, fewer
        return rules


def is_arithmetic(context: Context, left: Term, right: Term, definitions: Definitions) -> bool:
    """Whether two terms are the same by arithmetic and some definitions alone."""
    return Equality(context, left, right, NONE, definitions, ARITHMETIC).rules() is not None


def strip_common(left: Term, right: Term) -> tuple[Term, Term]:
    """Both sides without what they share outside: tr, softmax, the first and last factors."""
    while left.op == right.op and left != right:
        if len(left.args) == len(right.args) == 1 and left.value == right.value and left.op not in ("sum", "at"):
            left, right = left.args[0], right.args[0]
        elif left.op == "mul" and left.args[0] == right.args[0]:
            left, right = mul(*left.args[1:]), mul(*right.args[1:])
        elif left.op == "mul" and left.args[-1] == right.args[-1]:
            left, right = mul(*left.args[:-1]), mul(*right.args[:-1])
        else:
            break
    return left, right


def divide_monomials(mono: Mono, other: Mono) -> Powers | None:
    if mono[1] or other[1]:  # a word of matrices need not have an inverse
        return None
    powers = dict(mono[0])
    for atom, power in other[0]:
        powers[atom] = powers.get(atom, Fraction(0)) - power
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=repr))


# Two steps of the argument about positions: where a cosine is 1, and what pi is not.


MULTIPLE = "a cosine is 1 only at multiples of 2 pi"
IRRATIONAL = "pi is irrational"


def _plain_difference(context: Context, left: Term, right: Term) -> Form:
    """By arithmetic alone."""
    normal = context.normal({}, NONE)
    normal.only, normal.facts = ARITHMETIC, {}
    return difference(normal, left, right)


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
        wanted = _linear_parts(context, _plain_difference(context, left, right))
        for fact in (one for one in facts if one.sign == "="):
            known = _linear_parts(context, _plain_difference(context, fact.left, fact.right))
            if known is None or wanted is None or wanted[1] or not all(known):  # A = 0 alone says nothing of pi
                continue
            if any(_is_multiple(wanted[0], part) for part in known):
                return Step((IRRATIONAL, fact.name), frozenset([fact.name]))
    except (TooLarge, KeyError):
        return None
    return None


def prove_multiple_of_pi(context: Context, left: Term, sign: str, right: Term) -> Step | None:
    """x = 2 pi m for some whole m, where cos x = 1 is known; m is then no longer free."""
    multiple = context.problem.table.multiple
    if (
        sign != "="
        or not multiple
        or any(multiple in free_names(fact.left) | free_names(fact.right) for fact, _ in context.order)
    ):
        return None
    for a, b in ((left, right), (right, left)):
        try:
            turns = _plain_difference(context, b, num(0))
        except (TooLarge, KeyError):
            return None
        mono = (tuple(sorted(((("sym", "pi"), Fraction(1)), (("sym", multiple), Fraction(1))), key=repr)), ())
        if turns in (scale({mono: Fraction(1)}, 2), scale({mono: Fraction(1)}, -2)):
            known = prove_equal(context, apply("cos", a), num(1), NONE)
            return None if known is None else Step((*known.rules, MULTIPLE))
    return None
