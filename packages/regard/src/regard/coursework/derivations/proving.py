"""Proofs of single lines: equalities by normal forms, inequalities by signs, given facts and lines before."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from regard.coursework.derivations.equalities import (
    GIVE_UP,
    LATEST,
    NONE,
    TRIES,
    Conditions,
    Context,
    Step,
    difference,
    divide_monomials,
    prove_equal,
)
from regard.coursework.derivations.forms import (
    Form,
    add_forms,
    constant,
    contains_name,
    index_key,
    is_above_zero,
    is_count,
    is_nonnegative,
    is_plain,
    is_positive,
    of_atom,
    of_powers,
    over_powers,
    powers_below,
    scale,
    shift_sizes,
)
from regard.coursework.derivations.normal import Normal
from regard.coursework.derivations.operations import require_places
from regard.coursework.derivations.terms import (
    TURNED,
    Condition,
    Definitions,
    Span,
    Term,
    add,
    apply,
    at,
    free_names,
    mul,
    negative,
    num,
    substitute,
    sym,
)

DEEPEST = 2  # facts that one inequality may combine
LONGEST = 8  # terms of a fact that is used
OrderFact = tuple[Form, str, bool]  # at least zero, its name, and whether it is above zero


def prove(context: Context, left: Term, sign: str, right: Term, conditions: Conditions) -> Step | None:
    """A proof of a relation, the one with the smallest leap that was found; None where there is none."""
    if sign in (">=", ">"):
        return prove(context, right, TURNED[sign], left, conditions)
    if sign == "=":
        return prove_equal(context, left, right, conditions) or prove_by_squares(context, left, right, conditions)
    if sign in ("<=", "<"):
        return prove_order(context, left, right, conditions, strict=sign == "<", depth=2)
    strict = prove(context, left, "<", right, conditions) if sign == "!=" else None
    return strict or (prove(context, right, "<", left, conditions) if sign == "!=" else None)


def prove_by_squares(context: Context, left: Term, right: Term, conditions: Conditions) -> Step | None:
    """Equal squares say nothing of signs, so both sides must be seen not to be negative."""
    roots = any(part.op in ("norm", "abs") for side in (left, right) for part in side.parts())
    if not roots or not all(is_seen_nonnegative(context, one) for one in (left, right)):
        return None
    gap = add(apply("pow", left, num(2)), negative(apply("pow", right, num(2))))
    inner = prove_equal(context, gap, num(0), conditions)
    return None if inner is None else Step((*inner.rules, "squares are compared"))


def is_seen_nonnegative(context: Context, term: Term) -> bool:
    return prove_order(context, num(0), term, NONE, strict=False, depth=0) is not None


def prove_order(
    context: Context, left: Term, right: Term, conditions: Conditions, *, strict: bool, depth: int
) -> Step | None:
    """left <= right: their difference, times what is positive, is a sum of known facts and of what is not negative."""
    for definitions in context.stages():
        try:
            search = OrderSearch(context, left, right, conditions, definitions)
            gap: Form | None = search.gap
            for _ in range(2):  # what was cleared may have others inside
                gap = None if gap is None else clear_denominators(search.normal, gap)
            rules = None if gap is None else search.combine(gap, DEEPEST, strict=strict)
        except GIVE_UP:
            continue
        if rules is not None:
            before = frozenset(fact.name for fact, _ in context.order)
            return Step(tuple(sorted(search.normal.used | set(rules))), before)
    return prove_by_monotony(context, left, right, conditions, strict, depth) if depth else None


def clear_denominators(normal: Normal, form: Form) -> Form | None:
    """The form times everything positive that stands below a line; None where its sign is not known."""
    below = powers_below(form)
    return over_powers(normal, form, below)[0] if all(is_positive(normal, atom) for atom in below) else None


class OrderSearch:
    """A difference, the facts that may be used for it, and the search for a combination of them."""

    def __init__(
        self, context: Context, left: Term, right: Term, conditions: Conditions, definitions: Definitions
    ) -> None:
        self.context, self.conditions, self.definitions, self.tries = context, conditions, definitions, TRIES
        self.normal = context.normal(definitions, conditions)
        # a spectral norm is known of sums of rank ones alone
        spectral = [one for side in (left, right) for one in side.parts() if one.op == "norm" and one.value == "2"]
        self.normal.columnwise = bool(spectral)
        self.gap = difference(self.normal, right, left)
        names = free_names(left) | free_names(right)
        self.indices = sorted(names & context.words.indices)
        used = set(self.normal.used)
        self.facts = list(self.line_facts([left, right]))
        self.normal.used = used  # a fact names itself when it is used

    def line_facts(self, sides: list[Term]) -> Iterator[OrderFact]:
        """What is given, what lines before have shown, and what follows from these for sums and products."""
        made: list[OrderFact] = []
        for low, high, name, strict in self.instances_of_facts(sides):
            try:
                a, b = (self.context.form(one, self.definitions, self.conditions)[0] for one in (low, high))
                gap = add_forms(b, scale(a, -1))
            except GIVE_UP:
                continue
            if gap and len(gap) <= LONGEST:
                made.append((gap, name, strict))
        for one in self.conditions:
            if one.sign in ("<=", "<"):
                made += self.sorted_facts(sym(one.index), one.place)
            elif one.sign in (">=", ">"):
                made += self.sorted_facts(one.place, sym(one.index))
        places = {part.args[0] for side in sides for part in side.parts() if part.op == "at"}
        numbers = sorted((one for one in places if one.op == "num"), key=lambda one: Fraction(one.value))
        for first, second in pairwise(numbers):  # sigma_2 >= sigma_5, where the line has both
            made += self.sorted_facts(first, second)
        yield from made
        # an inequality may be multiplied by what is positive, so such products are facts, too
        for product in self.context.problem.positive:
            factor = self.normal.form(product)
            yield from ((self.normal.times(factor, form), name, strict) for form, name, strict in made if len(form) < 6)
            yield factor, f"{product} > 0", True

    def instances_of_facts(self, sides: list[Term]) -> Iterator[tuple[Term, Term, str, bool]]:
        sums = [part for side in sides for part in side.parts() if part.op == "sum"] + self.context.sums[-6:]
        given = len(self.context.problem.order)
        for fact, needed in [*self.context.order[:given], *self.context.order[given:][-LATEST:]]:
            free = sorted((free_names(fact.left) | free_names(fact.right)) & self.context.words.indices)
            pairs = (
                ((fact.left, fact.right), (fact.right, fact.left)) if fact.sign == "=" else ((fact.left, fact.right),)
            )
            for low, high in pairs:
                if not free and all(one.follows_from(self.conditions) for one in needed):
                    yield low, high, fact.name, fact.sign == "<"
                for index in self.indices if len(free) == 1 else ():
                    renamed = [one.rename_index(index) if one.index == free[0] else one for one in needed]
                    if all(one.follows_from(self.conditions) for one in renamed):
                        one, other = (substitute(side, free[0], sym(index)) for side in (low, high))
                        yield one, other, fact.name, fact.sign == "<"
                for total in dict.fromkeys(sums) if len(free) == 1 else ():
                    yield from self.sum_bounds(total, low, high, free[0], needed, fact.name)
                    yield from self.sum_bounds(total, negative(high), negative(low), free[0], needed, fact.name)

    def sum_bounds(
        self, total: Term, low: Term, high: Term, index: str, needed: Conditions, name: str
    ) -> Iterator[tuple[Term, Term, str, bool]]:
        """A sum of terms, or of exponentials of terms, that a fact bounds: at most their count times the bound."""
        span: Span = total.value
        if index in free_names(high) or not all(
            one.rename_index(span.index).follows_from(span_conditions(span)) for one in needed if one.index == index
        ):
            return
        count = add(span.hi, negative(span.lo), num(1 - len(span.without)))
        low = substitute(low, index, sym(span.index))
        body = total.args[0]
        inner = body.args[0] if body.op == "exp" else body
        try:
            require_places(self.normal, span, self.normal.form(span.lo), self.normal.form(span.hi))
            fits = is_count(self.normal, self.normal.form(count))
            rest = self.normal.form(add(inner, negative(low)))
            fits = fits and not any(contains_name(mono, span.index) for mono in rest)
        except GIVE_UP:
            return
        if fits and (body.op == "exp" or not rest):
            bound = apply("exp", add(high, inner, negative(low))) if body.op == "exp" else high
            # the difference does not hang on the index: any place that the sum has will do
            yield total, mul(count, without_index(bound, span)), name, False

    def sorted_facts(self, small: Term, large: Term) -> Iterator[OrderFact]:
        """sigma_i >= sigma_k for i <= k, and their squares."""
        for name, symbol in self.context.problem.symbols.items():
            for power in (1, 2) if symbol.kind == "sorted" else ():
                terms = [apply("pow", at(name, one), num(power)) for one in (small, large)]
                gap = add_forms(self.normal.form(terms[0]), scale(self.normal.form(terms[1]), -1))
                yield gap, f"{name} is sorted", False

    def builtin_facts(self, form: Form) -> Iterator[OrderFact]:
        """Sums of what is not negative against shorter ones, and against their smallest term."""
        normal, problem = self.normal, self.context.problem
        sums = {a for s, _ in form for a, _ in s if a[0] == "pre" and is_nonnegative(normal, a)}
        for atom in sorted(sums, key=repr):
            for name, symbol in problem.symbols.items():
                own = index_key(name)
                if not symbol.up_to:
                    continue
                if atom[1] == index_key(symbol.up_to):
                    shorter = of_atom(("pre", own, atom[2]))
                    yield add_forms(of_atom(atom), scale(shorter, -1)), "dropped nonnegative terms", False
                (member, power), *more = atom[2]
                family = problem.symbols.get(member[1]) if member[0] == "at" and not more and power > 0 else None
                descends = family is not None and family.kind == "sorted" and member[2] == index_key("#1")
                if atom[1] == own and descends:
                    least = of_powers(((("at", member[1], own), power), (("sym", name), Fraction(1))))
                    rule = "a sum of descending terms is at least its count times its last"
                    yield add_forms(of_atom(atom), scale(least, -1)), rule, False

    def combine(self, gap: Form, depth: int, *, strict: bool) -> list[str] | None:
        """Names of facts whose multiples leave something that is plainly not negative, or positive if ``strict``."""
        normal, self.tries = self.normal, self.tries - 1
        if not gap and not strict:
            return []
        for form in (gap, shift_sizes(normal, gap)):  # as it stands, and with n + 2 for n where n is at least 2
            if is_above_zero(normal, form, shifted=form is not gap) if strict else is_plain(normal, form):
                return ["dropped nonnegative terms"] if not strict and len(gap) > 1 else ["signs"]
        if not depth or len(gap) > 40 or self.tries < 0:
            return None
        for mono, x in gap.items():
            # only what is subtracted needs a fact against it
            for form, name, is_strict in [*self.facts, *self.builtin_facts(gap)] if x < 0 else ():
                for other, y in form.items():
                    # of one sign with x: a fact times a negative number would be turned round
                    ratio = divide_monomials(mono, other) if y < 0 else None
                    if ratio is None or not all(is_nonnegative(normal, a) for a, _ in ratio):
                        continue
                    rest = add_forms(gap, scale(normal.times(of_powers(ratio, x / y), form), -1))
                    if len(rest) >= len(gap) + 3:
                        continue
                    still = strict and not (is_strict and all(is_positive(normal, a) for a, _ in ratio))
                    if (below := self.combine(rest, depth - 1, strict=still)) is not None:
                        return [name, *below]
        return None


def span_conditions(span: Span) -> Conditions:
    """What is known of the index inside a sum."""
    places = [Condition(span.index, "!=", place) for place in span.without]
    return frozenset([*places, Condition(span.index, ">=", span.lo), Condition(span.index, "<=", span.hi)])


def without_index(bound: Term, span: Span) -> Term:
    """A bound that does not hang on the index, written without it."""
    return substitute(bound, span.index, span.hi)


def prove_by_monotony(
    context: Context, left: Term, right: Term, conditions: Conditions, strict: bool, depth: int
) -> Step | None:
    """exp is increasing; a sum is at most its count times a bound of its terms; squares of what is not negative."""

    def go(a: Term, b: Term, rule: str, more: Conditions = conditions) -> Step | None:
        below = prove_order(context, a, b, more, strict=strict, depth=depth - 1)
        return None if below is None else Step(tuple(sorted({*below.rules, rule})), below.before)

    if left.op == "exp":
        return go(left.args[0], apply("ln", right), "exp is increasing")
    if right.op == "exp":
        return go(apply("ln", left), right.args[0], "exp is increasing")
    if left.op == "sum" and not strict:
        return prove_sum_bound(context, left, right, conditions, depth)
    if (
        {left.op, right.op} & {"norm", "at", "pow"}
        and depth == 2  # once: squares of squares lead nowhere
        and all(is_seen_nonnegative(context, one) for one in (left, right))
    ):
        return go(apply("pow", left, num(2)), apply("pow", right, num(2)), "squares are compared")
    return None


def prove_sum_bound(context: Context, left: Term, right: Term, conditions: Conditions, depth: int) -> Step | None:
    """A sum against a sum over the same places, term by term, or against its count times a bound of its terms."""
    span: Span = left.value
    index = f"{span.index}*"  # a name that nobody types: the bound may have an index of the same letter
    body = substitute(left.args[0], span.index, sym(index))
    span = Span(index, span.lo, span.hi, span.without)
    inner = span_conditions(span) | conditions
    context.words.indices.add(index)
    try:
        if right.op == "sum" and right.value == Span(left.value.index, span.lo, span.hi, span.without):
            bound, rule = substitute(right.args[0], right.value.index, sym(index)), "termwise"
        else:
            count = add(span.hi, negative(span.lo), num(1 - len(span.without)))
            normal = context.normal({}, NONE)
            require_places(normal, span, normal.form(span.lo), normal.form(span.hi))
            terms = normal.form(count)
            factor = without_factor(normal, right, terms)
            least = terms if factor is not None else add_forms(terms, constant(-1))  # none, or at least one
            if not is_count(normal, least):
                return None
            bound = factor if factor is not None else apply("div", right, count)
            rule = "a sum is at most its count times a bound of its terms"
        below = prove_order(context, body, bound, inner, strict=False, depth=depth - 1)
    except GIVE_UP:
        return None
    finally:
        context.words.indices.discard(index)
    return None if below is None else Step(tuple(sorted({*below.rules, rule})), below.before)


def without_factor(normal: Normal, term: Term, count: Form) -> Term | None:
    """(n - 1) c without its factor n - 1."""
    if term.op == "div":
        above = without_factor(normal, term.args[0], count)
        return None if above is None else apply("div", above, term.args[1])
    for n, one in enumerate(term.args if term.op == "mul" else ()):
        if one.op in ("add", "sym", "num") and normal.form(one) == count:
            return mul(*term.args[:n], *term.args[n + 1 :])
    return None
