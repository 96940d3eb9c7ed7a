"""Proofs of single lines: equalities by normal forms, inequalities by signs, given facts and lines before.

Nothing here looks at a clock: searches are bounded by how many facts are combined. The size of a leap is how many rules
a line needs, two definitions counting as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from regard.coursework.derivations.forms import Form, Mono, TooLarge, add_forms, constant, form_key, of_atom, scale
from regard.coursework.derivations.names import Vocabulary
from regard.coursework.derivations.normal import Normal
from regard.coursework.derivations.problem import Fact, Problem
from regard.coursework.derivations.terms import Term, add, apply, mul, negative, num, sym
from regard.coursework.derivations.zero import is_zero

DEEPEST = 2  # facts that one inequality may combine


@dataclass(frozen=True)
class Step:
    """A proof of one line: the rules it needs."""

    rules: tuple[str, ...]

    @property
    def leap(self) -> int:
        definitions = [one for one in self.rules if one.startswith("definition of ")]
        shown = [
            one for one in self.rules if any(f" {sign} " in one for sign in ("<=", ">=", "<", ">"))
        ]  # lines before
        return len(self.rules) - len(definitions) - len(shown) + len(definitions) // 2


@dataclass
class Known:
    """What may be used at a line: definitions, what lines before have shown, order facts with their conditions."""

    problem: Problem
    words: Vocabulary
    own: dict[str, tuple[str, Term]] = field(default_factory=dict)  # the writer's definitions and choices
    shown: dict[str, tuple[str, Term]] = field(default_factory=dict)  # H_p, once it is shown to be P H
    order: list[tuple[Fact, frozenset[str]]] = field(default_factory=list)  # left <= right, under conditions

    def stages(self) -> list[dict[str, tuple[str, Term]]]:
        """Definitions to unfold, from none to all."""
        every = {**self.problem.definitions, **self.own}
        numbers = {name for name in self.own if (self.words.shape_of_name(name) or ("1", "1")) == ("1", "1")}
        return [
            {},
            {**self.own, **self.shown},
            {name: value for name, value in every.items() if name not in numbers},
            {**every, **self.shown},
            every,
        ]


def prove(known: Known, left: Term, sign: str, right: Term, conditions: frozenset[str]) -> Step | None:
    """A proof of a relation, the one with the smallest leap that was found; None where there is none."""
    if sign in (">=", ">"):
        return prove(known, right, {">=": "<=", ">": "<"}[sign], left, conditions)
    if sign == "=":
        return _prove_equal(known, left, right, conditions)
    if sign in ("<=", "<"):
        return _prove_order(known, left, right, conditions, strict=sign == "<", depth=2)
    return None


def _prove_equal(known: Known, left: Term, right: Term, conditions: frozenset[str]) -> Step | None:
    stripped = strip_common(left, right)
    if stripped != (left, right):
        inner = _prove_equal(known, *stripped, conditions)
        if inner is not None:
            return inner
    found: list[Step] = []
    for definitions in known.stages():
        for columnwise, disabled in ((False, None), (False, set()), (True, set())):
            rules = equality_rules(known, left, right, conditions, definitions, columnwise, disabled)
            if rules is not None:
                rules = (
                    _fewest_rules(known, left, right, conditions, definitions, columnwise, rules)
                    if disabled is not None
                    else rules
                )
                found.append(Step(tuple(sorted(rules))))
                break
        if found and found[-1].leap <= 1:
            break
    squares = (apply("pow", left, num(2)), apply("pow", right, num(2)))
    roots = left.op == "norm" or right.op == "norm"
    if not found and roots and all(_looks_nonnegative(known, one) for one in (left, right)):
        inner = _prove_equal(known, *_multiplied_out(*squares), conditions)
        return None if inner is None else Step((*inner.rules, "squares are compared"))
    return min(found, key=lambda step: step.leap, default=None)


def _multiplied_out(left: Term, right: Term) -> tuple[Term, Term]:
    """Squares as differences from zero, so that nothing is taken off them again."""
    return add(left, negative(right)), num(0)


def equality_rules(
    known: Known,
    left: Term,
    right: Term,
    conditions: frozenset[str],
    definitions: dict[str, tuple[str, Term]],
    columnwise: bool,
    disabled: set[str] | None,
) -> set[str] | None:
    """The rules by which both sides have the same normal form; None where they have not."""
    normal = make_normal(known, definitions, conditions)
    normal.columnwise, normal.disabled = columnwise, disabled
    try:
        equal = is_zero(normal, add_forms(normal.form(left), scale(normal.form(right), -1)))
    except (TooLarge, RecursionError, KeyError):
        return None
    return normal.used if equal else None


def _fewest_rules(
    known: Known,
    left: Term,
    right: Term,
    conditions: frozenset[str],
    definitions: dict[str, tuple[str, Term]],
    columnwise: bool,
    rules: set[str],
) -> set[str]:
    """The rules without those that both sides use in the same way: left out one by one, as long as it still holds."""
    disabled: set[str] = set()
    for rule in sorted(one for one in rules if not one.startswith("definition of ")):
        fewer = equality_rules(known, left, right, conditions, definitions, columnwise, disabled | {rule})
        if fewer is not None:
            disabled, rules = disabled | {rule}, fewer
    return rules


def make_normal(known: Known, definitions: dict[str, tuple[str, Term]], conditions: frozenset[str]) -> Normal:
    normal = Normal(known.problem, known.words, definitions)
    for condition in conditions:  # "i != 1", "i >= 3": places that the index is not
        index, sign, place = condition.split(" ", 2)
        if sign == "!=" or sign in (">=", ">"):
            mine = form_key(of_atom(("sym", index)))
            last = int(place) if place.isdigit() else 0
            places = [last] if sign == "!=" else range(1, last + (sign == ">"))
            normal.different |= {(mine, form_key(constant(c))) for c in places if c}
    return normal


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


# inequalities


def _prove_order(
    known: Known, left: Term, right: Term, conditions: frozenset[str], *, strict: bool, depth: int
) -> Step | None:
    for definitions in known.stages():
        normal = make_normal(known, definitions, conditions)
        try:
            gap = add_forms(normal.form(right), scale(normal.form(left), -1))
            facts = [] if strict else _order_facts(known, normal, conditions)
            gap = clear_denominators(normal, gap)
        except (TooLarge, RecursionError, KeyError):
            continue
        if gap is None:
            continue
        rules = _combine(normal, gap, facts, DEEPEST, strict=strict)
        if rules is not None:
            return Step(tuple(sorted(normal.used | set(rules))))
    if depth and not strict:
        return _prove_by_monotony(known, left, right, conditions, depth)
    return None


def clear_denominators(normal: Normal, form: Form) -> Form | None:
    """The form times everything positive that stands below a line; None where its sign is not known."""
    lowest: dict[tuple[object, ...], Fraction] = {}
    for s, _ in form:
        for atom, power in s:
            if power < 0 and (atom[0] in ("paren", "pre", "exp") or atom in _sizes(normal)):
                lowest[atom] = min(lowest.get(atom, Fraction(0)), power)
    made: Form = {}
    for (s, w), x in form.items():
        part: Form = {((), w): x}
        powers = dict(s)
        for atom, least in lowest.items():
            if not is_positive(normal, atom):
                return None
            power = powers.pop(atom, Fraction(0)) - least
            if atom[0] == "paren" and power.denominator == 1 and power <= 4:
                part = normal.times(part, normal.power(dict(atom[1]), power) if power else constant(1))  # type: ignore[arg-type, call-overload]
            elif power:
                part = normal.times(part, of_atom(atom, power))
        made = add_forms(made, normal.times({(tuple(sorted(powers.items(), key=repr)), ()): Fraction(1)}, part))
    return made


def _sizes(normal: Normal) -> dict[tuple[object, ...], int]:
    """Sizes with the least that they are by the problem's own words."""
    return {("sym", name): normal.problem.least.get(name, 1) for name in normal.problem.sizes}


def shift_sizes(normal: Normal, form: Form) -> Form:
    """The form with n = n' + 2 where n is at least 2: then n - 2 is plainly not negative."""
    for atom, least in _sizes(normal).items():
        if not any(dict(s).get(atom) for s, _ in form):
            continue
        made: Form = {}
        for (s, w), x in form.items():
            powers = dict(s)
            power = powers.pop(atom, Fraction(0))
            if power < 0 or power.denominator != 1 or power > 4:
                return form
            part: Form = {(tuple(sorted(powers.items(), key=repr)), w): x}
            more = normal.power(add_forms(of_atom(atom), constant(least)), power) if power else constant(1)
            made = add_forms(made, normal.times(part, more))
        form = made
    return form


def is_positive(normal: Normal, atom: tuple[object, ...]) -> bool:
    """Certainly above zero, not only not below."""
    if atom[0] in ("exp", "num"):
        return True
    if atom[0] == "sym":
        symbol = normal.problem.symbols.get(str(atom[1]))
        return atom[1] in normal.problem.sizes or (symbol is not None and bool(symbol.choices or symbol.up_to))
    if atom[0] == "pre":
        return all(is_positive(normal, a) for a, _ in atom[2])  # type: ignore[attr-defined]
    if atom[0] == "paren":
        parts = list(atom[1])  # type: ignore[call-overload]
        signs = all(x > 0 and all(normal.is_nonnegative(a) for a, _ in s) for (s, _), x in parts)
        if signs and any(all(is_positive(normal, a) for a, _ in s) for (s, _), _ in parts):
            return True
        lowest = {a: min([dict(s).get(a, Fraction(0)) for (s, _), _ in parts]) for a in _sizes(normal)}
        factor = {(tuple(sorted(((a, -p) for a, p in lowest.items() if p < 0), key=repr)), ()): Fraction(1)}
        whole = shift_sizes(normal, normal.times(factor, dict(parts)))
        if any(x <= 0 or not all(normal.is_nonnegative(a) for a, _ in s) for (s, _), x in whole.items()):
            return False
        return any(all(is_positive(normal, a) for a, _ in s if a not in _sizes(normal)) for (s, _), _ in whole.items())
    return False


def _is_sign(normal: Normal, form: Form, *, strict: bool) -> bool:
    if any(w for _, w in form):
        return False
    if not strict and any(x < 0 for x in form.values()):
        form = shift_sizes(normal, form)
    plain = all(x > 0 and all(p % 2 == 0 or normal.is_nonnegative(a) for a, p in s) for (s, _), x in form.items())
    if not plain:
        return False
    return not strict or any(all(is_positive(normal, a) for a, _ in s) for (s, _), _ in form.items())


def _order_facts(known: Known, normal: Normal, conditions: frozenset[str]) -> list[tuple[Form, str]]:
    """Forms that are at least zero, with their names."""
    made: list[tuple[Form, str]] = []
    for fact, needed in known.order[-12:]:
        if needed <= conditions or not needed:
            try:
                made.append((add_forms(normal.form(fact.right), scale(normal.form(fact.left), -1)), fact.name))
            except (TooLarge, KeyError):
                continue
    for condition in conditions:
        index, sign, place = condition.split(" ", 2)
        if sign == "<=":
            made += _sorted_facts(normal, sym(index), sym(place))
    for product in known.problem.positive:
        factor = normal.form(product)
        made += [(normal.times(factor, form), name) for form, name in list(made) if len(form) < 6]
        made.append((factor, f"{product} > 0"))
    return made


def _sorted_facts(normal: Normal, small: Term, large: Term) -> list[tuple[Form, str]]:
    """sigma_i >= sigma_k for i <= k, and their squares."""
    made = []
    for name, symbol in normal.problem.symbols.items():
        if symbol.kind == "sorted":
            high, low = (Term("at", (one,), name) for one in (small, large))
            for power in (1, 2):
                gap = add_forms(
                    *(scale(normal.power(normal.form(one), Fraction(power)), x) for one, x in ((high, 1), (low, -1)))
                )
                made.append((gap, f"{name} is sorted"))
    return made


def _builtin_facts(normal: Normal, form: Form) -> list[tuple[Form, str]]:
    """Sums against shorter ones, and against their smallest term."""
    made: list[tuple[Form, str]] = []
    atoms = {a for s, _ in form for a, _ in s if a[0] == "pre"}
    for atom in atoms:
        if not normal.is_nonnegative(atom):
            continue
        for name, symbol in normal.problem.symbols.items():
            if not symbol.up_to:
                continue
            last = form_key(of_atom(("sym", symbol.up_to)))
            own = form_key(of_atom(("sym", name)))
            if atom[1] == last:
                shorter = ("pre", own, atom[2])
                made.append((add_forms(of_atom(atom), scale(of_atom(shorter), -1)), "dropped nonnegative terms"))
            at_last = [a for a, _ in atom[2] if a[0] == "at" and normal.problem.symbols[a[1]].kind == "sorted"]
            if atom[1] == own and len(atom[2]) == len(at_last) == 1:
                ((member, power),) = atom[2]
                least = {((((("at", member[1], own)), power), (("sym", name), Fraction(1))), ()): Fraction(1)}
                least = {(tuple(sorted(next(iter(least))[0], key=repr)), ()): Fraction(1)}
                made.append(
                    (
                        add_forms(of_atom(atom), scale(least, -1)),
                        "a sum of descending terms is at least its count times its last",
                    )
                )
    return made


def _combine(normal: Normal, gap: Form, facts: list[tuple[Form, str]], depth: int, *, strict: bool) -> list[str] | None:
    """Names of facts whose multiples leave something that is plainly not negative."""
    if not gap and not strict:
        return []
    if _is_sign(normal, gap, strict=strict):
        return ["dropped nonnegative terms"] if len(gap) and not strict else ["signs"]
    if not depth or strict or len(gap) > 40:
        return None
    for mono, x in gap.items():
        if x > 0:
            continue
        for form, name in [*facts, *_builtin_facts(normal, gap)]:
            for other, y in form.items():
                if y > 0:
                    continue
                ratio = _ratio(mono, other)
                if ratio is None or not all(normal.is_nonnegative(a) for a, _ in ratio):
                    continue
                multiple = normal.times({(ratio, ()): x / y}, form)
                rest = add_forms(gap, scale(multiple, -1))
                if len(rest) >= len(gap) + 3:
                    continue
                below = _combine(normal, rest, facts, depth - 1, strict=False)
                if below is not None:
                    return [name, *below]
    return None


def _ratio(mono: Mono, other: Mono) -> tuple[tuple[tuple[object, ...], Fraction], ...] | None:
    if mono[1] or other[1]:
        return None
    powers = dict(mono[0])
    for atom, power in other[0]:
        powers[atom] = powers.get(atom, Fraction(0)) - power
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=repr))


def _prove_by_monotony(known: Known, left: Term, right: Term, conditions: frozenset[str], depth: int) -> Step | None:
    """exp is increasing; a sum is at most its count times a bound of its terms; squares of what is not negative."""

    def go(a: Term, b: Term, rule: str, more: frozenset[str] = conditions) -> Step | None:
        below = _prove_order(known, a, b, more, strict=False, depth=depth - 1)
        return None if below is None else Step(tuple(sorted({*below.rules, rule})))

    if left.op == "exp":
        return go(left.args[0], apply("ln", right), "exp is increasing")
    if right.op == "exp":
        return go(apply("ln", left), right.args[0], "exp is increasing")
    if left.op == "sum":
        span = left.value
        count = add(span.hi, negative(span.lo), num(1 - len(span.without)))
        bound = _without_factor(known, right, count)
        inner = frozenset(f"{span.index} != {place}" for place in span.without) | conditions
        if right.op == "sum" and right.value.index == span.index and right.value == span:
            return go(left.args[0], right.args[0], "termwise", inner)
        return go(
            left.args[0],
            bound if bound is not None else apply("div", right, count),
            "a sum is at most its count times a bound of its terms",
            inner,
        )
    if (
        {left.op, right.op} & {"norm", "at", "pow"}
        and depth == 2
        and _looks_nonnegative(known, left)
        and _looks_nonnegative(known, right)
    ):
        return go(apply("pow", left, num(2)), apply("pow", right, num(2)), "squares are compared")
    return None


def _without_factor(known: Known, term: Term, count: Term) -> Term | None:
    """(n - 1) c without its factor n - 1."""
    if term.op == "div":
        above = _without_factor(known, term.args[0], count)
        return None if above is None else apply("div", above, term.args[1])
    normal = Normal(known.problem, known.words, {})
    for n, one in enumerate(term.args if term.op == "mul" else ()):
        if one.op in ("add", "sym", "num") and normal.form(one) == normal.form(count):
            return mul(*term.args[:n], *term.args[n + 1 :])
    return None


def _looks_nonnegative(known: Known, term: Term) -> bool:
    if term in known.problem.positive:
        return True
    if term.op == "sym" and term.value in known.own and _looks_nonnegative(known, known.own[term.value][1]):
        return True
    if term.op == "norm" or (term.op == "num" and term.value >= 0):
        return True
    if term.op == "at":
        return term.value in known.problem.symbols and known.problem.symbols[term.value].kind == "sorted"
    if term.op in ("div", "mul"):
        return all(_looks_nonnegative(known, one) for one in term.args)
    if term.op == "pow":
        return _looks_nonnegative(known, term.args[0])
    if term.op == "sym":
        symbol = known.problem.symbols.get(term.value)
        return term.value in known.problem.sizes or (symbol is not None and bool(symbol.choices or symbol.up_to))
    return False
