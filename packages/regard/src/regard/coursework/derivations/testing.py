"""Whether a relation holds on the instances, under which conditions, and what the names in it mean."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from regard.array_types import Float
from regard.coursework.adversary import Attempt, walk_to_failure
from regard.coursework.derivations.document import meets
from regard.coursework.derivations.equalities import (
    NONE,
    Conditions,
    Context,
    Step,
    is_arithmetic,
    prove_by_lines_before,
)
from regard.coursework.derivations.evaluation import (
    DividesByZero,
    Instance,
    NoValue,
    Number,
    compare,
    evaluate,
    exact,
    write_value,
)
from regard.coursework.derivations.instances import draw_from_latent
from regard.coursework.derivations.names import SCALAR, Mismatch, Shape, Vocabulary, fit, fit_relation
from regard.coursework.derivations.problem import Fact, Problem
from regard.coursework.derivations.proving import prove
from regard.coursework.derivations.terms import TURNED, Condition, Definitions, Term, free_names, num, substitute, sym
from regard.coursework.derivations.verdicts import Failure, LineVerdict, Mark, Relation, name_rules
from regard.coursework.question import Instance as Case
from regard.coursework.question import Ruling

FRESH, MOVES, LATENT = 12, 12, 400  # draws of the adversary, its moves from the worst, and the numbers of a draw
MOST_ATTACKS = 60  # of one derivation
DENIALS = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass
class Supposition:
    """What the writer supposes and nobody gives: a case, or what a contradiction has to follow from."""

    relations: list[Relation]
    instances: list[Instance]  # on which it holds; none where it is to be contradicted
    sentence: int
    order: list[tuple[Fact, Conditions]] = field(default_factory=list)  # itself, and what rests on it
    definitions: Definitions = field(default_factory=dict)  # c, in the case c = 1/2
    closed: bool = False  # by words, or by the other case

    def __str__(self) -> str:
        return " and ".join(map(str, self.relations))

    @property
    def names(self) -> set[str]:
        return set().union(*(one.names for one in self.relations))


@dataclass
class Tester:
    """A problem's instances, what may be used so far, and how the last test went."""

    problem: Problem
    context: Context
    every: list[Instance]
    instances: list[Instance] = field(default_factory=list)  # those on which the case at hand holds
    under: Supposition | None = None
    cases: list[Supposition] = field(default_factory=list)  # that were looked at before
    evaluated: int = 0  # how often the last relation had a value
    undefined: int = 0  # how often it divided by zero
    room: float = 0.0  # the least that was between the sides of an inequality, relatively
    attacks: int = 0
    turned: bool = False  # whether the multiple of 2 pi between two positions is known to be 0

    @property
    def words(self) -> Vocabulary:
        return self.context.words

    def test(self, relation: Relation, stated: list[Condition]) -> tuple[list[Condition], Failure | None]:
        """The conditions under which it holds on every instance, or the first failure."""
        left, sign, right = relation.left, relation.sign, relation.right
        failure = self.first_failure(left, sign, right, stated)
        indices = sorted(relation.names & self.words.indices - set(self.words.shapes))
        if failure is None or stated or not indices:
            return stated, failure
        counts = self.evaluated, self.undefined
        last = [name for name, one in self.problem.symbols.items() if one.up_to]
        guesses = [("!=", num(1)), (">=", num(3)), *(("<=", sym(name)) for name in last)]
        for guess in (Condition(indices[0], guess_sign, place) for guess_sign, place in guesses):
            if self.first_failure(left, sign, right, [guess]) is None and self.evaluated:
                return [guess], None
        self.evaluated, self.undefined = counts
        return stated, failure

    def attack(self, relation: Relation, conditions: list[Condition]) -> Failure | None:
        """A relation that holds on every instance and is not proved, before the adversary of the claims: a failure."""
        self.attacks += 1
        if self.attacks > MOST_ATTACKS:
            return None
        rng = np.random.default_rng(0)

        def trial(latent: Float, _: dict[str, float]) -> Attempt | None:
            where = draw_from_latent(self.problem, latent)
            if where is None or not self.is_of_case(where):
                return None
            where.define_all({**where.definitions, **self.context.own})
            self.room = float("inf")
            failure = self.failure_on(where, relation.left, relation.sign, relation.right, conditions)
            room = Ruling(room=self.room if failure is None else -1.0, said="")
            return Attempt(instance=Case(given={}, latent=latent), answer=failure, ruling=room)

        drawn = [one for _ in range(FRESH) if (one := trial(rng.standard_normal(LATENT), {})) is not None]
        worst = min(drawn, key=lambda one: one.ruling.room, default=None)
        if worst is not None and relation.sign not in ("=", "!="):
            worst = walk_to_failure(worst, trial, sizes=(), rng=rng, moves=MOVES)
        return None if worst is None else worst.answer

    def is_of_case(self, where: Instance) -> bool:
        """Whether an instance is one of those that lines are tested on now."""
        fits = not self.turned or where.value(self.problem.table.multiple) == 0
        case = self.under.relations if self.under is not None and self.under.instances else []
        return fits and all(self.holds_somewhere(one, [], [where]) for one in case)

    def is_true(
        self, left: Term, sign: str, right: Term, stated: list[Condition], instances: list[Instance] | None = None
    ) -> bool:
        """Whether an edited line fits together and holds on every instance, at least one among them."""
        try:
            left, right, _ = fit_relation(left, right, self.words)
        except Mismatch:
            return False
        return self.first_failure(left, sign, right, stated, instances) is None and self.evaluated > 0

    def is_repaired(self, left: Term, sign: str, right: Term, stated: list[Condition], failure: Failure) -> bool:
        """Whether an edited line is true: an inequality must be proved, since instances may be kind to it."""
        if not all(self.is_true(left, sign, right, stated, where) for where in ([failure.where], None)):
            return False
        left, right, _ = fit_relation(left, right, self.words)
        return sign == "=" or prove(self.context, left, sign, right, frozenset(stated)) is not None

    def first_failure(
        self, left: Term, sign: str, right: Term, conditions: list[Condition], instances: list[Instance] | None = None
    ) -> Failure | None:
        self.evaluated = self.undefined = 0
        chosen = self.instances if instances is None else instances
        found = (self.failure_on(where, left, sign, right, conditions) for where in chosen)
        return next((one for one in found if one is not None), None)

    def failure_on(
        self, where: Instance, left: Term, sign: str, right: Term, conditions: list[Condition]
    ) -> Failure | None:
        """The first choice of indices for which a relation certainly fails on an instance."""
        for places in self.problem.free_places([left, right], where, self.words):
            where.steps = 0
            try:
                if not all(meets(one, places, where) for one in conditions):
                    continue
                values = evaluate(left, where, places), evaluate(right, where, places)
                said = compare(sign, *values)
            except DividesByZero:
                self.undefined += 1
                continue
            except (NoValue, IndexError, TypeError, ValueError):  # this instance has nothing to say
                continue
            self.evaluated += said is not None
            if said is False:
                self.evaluated += 1
                return Failure(where, places, (write_value(values[0]), write_value(values[1])))
            if sign in TURNED and all(isinstance(one, (flint.fmpq, flint.arb)) for one in values):
                self.room = min(self.room, room_between(*values))
        return None

    def holds_somewhere(self, relation: Relation, conditions: list[Condition], instances: list[Instance]) -> bool:
        """Whether a relation holds on some instance: about what is not chosen yet, it might then become true."""
        sides = relation.left, relation.sign, relation.right
        return any(self.is_true(*sides, conditions, [one]) for one in instances)

    # cases, and what is supposed in order to be contradicted

    def suppose(self, relation: Relation) -> Supposition:
        """From here on a relation is supposed: lines are tested where it holds, if it does anywhere."""
        sentence, joined = relation.statement.sentence, self.under
        if joined is None or joined.sentence != sentence or len(joined.order) > len(joined.relations):
            self.end_supposition()
            joined = Supposition([], self.every, sentence)
        for case in self.cases:
            case.closed |= relation.left in [side for one in case.relations for side in (one.left, one.right)]
        holds = [one for one in joined.instances if self.holds_somewhere(relation, [], [one])]
        holds = holds or self.examples(relation, joined.instances)
        joined = replace(joined, relations=[*joined.relations, relation], instances=holds)
        joined.order.append((make_fact(relation), NONE))
        name = relation.left.value
        if relation.sign == "=" and relation.left.op == "sym" and name not in free_names(relation.right):
            joined.definitions[name] = ("", relation.right)
        self.under, self.instances = joined, holds or self.every
        return joined

    def examples(self, relation: Relation, instances: list[Instance]) -> list[Instance]:
        """For t = 10: the instances with that value for a number that may have any, if it is positive."""
        name, right = relation.left.value, relation.right
        symbol = self.problem.symbols.get(name) if relation.left.op == "sym" and relation.sign == "=" else None
        if symbol is None or symbol.kind != "positive" or right.op not in ("num", "div") or free_names(right):
            return []
        made = [one.with_value(name, evaluate(right, one, {})) for one in instances]
        return [one for one in made if self.holds_somewhere(relation, [], [one]) and one.value(name) > 0]

    def end_supposition(self) -> None:
        """What rested on a supposition is no longer used; from cases of which one must hold, what all have shown is."""
        if self.under is not None:
            self.cases.append(self.under)
            self.under, self.instances = None, self.every
            for fact, conditions in self.cases[-1].order:
                cases = [one for one in self.cases if (fact, conditions) in one.order]
                if is_one_of_all([one for one in cases if not one.names & self.words.indices], self.problem):
                    self.context.order.append((fact, conditions))

    def prove_supposing(self, relation: Relation, conditions: Conditions) -> tuple[Step | None, bool]:
        """A proof, and whether it rests on what is supposed."""
        sides = relation.left, relation.sign, relation.right
        step = prove(self.context, *sides, conditions)
        if step is not None or self.under is None:
            return step, False
        if any(sides == (one.left, one.sign, one.right) for one in self.under.relations):
            return Step(("supposed",)), True
        order, own = self.context.order, self.context.own
        self.context.order, self.context.own = [*order, *self.under.order], {**own, **self.under.definitions}
        try:
            step = prove(self.context, *sides, conditions)
            if step is None and relation.sign == "!=":  # if these were equal, so were those that are not
                self.context.order += [(Fact("", relation.left, "=", relation.right), NONE)]
                others = [one for one in self.under.relations if one.sign == "!="]
                found = [prove_by_lines_before(self.context, one.left, one.right, NONE) for one in others]
                step = next((Step(tuple(filter(None, one.rules)), one.before) for one in found if one), None)
            return step, True
        finally:
            self.context.order, self.context.own = order, own

    def is_absurd(self, relation: Relation) -> bool:
        """Whether a relation says that something is more than itself, or the opposite of a line before."""
        if relation.sign in ("<", ">", "!="):
            return is_arithmetic(self.context, relation.left, relation.right, self.context.own)
        denied = Relation(relation.statement, relation.left, DENIALS[relation.sign], relation.right)
        same = make_fact(denied)
        return any(
            (one.left, one.sign, one.right) == (same.left, same.sign, same.right) for one, _ in self.context.order
        )

    def contradict(self) -> Relation | None:
        """The opposite of what is supposed, once it has led to what cannot be; None where that says nothing."""
        supposed = self.under
        if supposed is None or supposed.instances or len(supposed.relations) > 1 or supposed.names & self.words.indices:
            return None
        (one,) = supposed.relations
        denied = Relation(one.statement, one.left, DENIALS[one.sign], one.right)
        self.words.say(f"{one} leads to a contradiction, so {denied}")
        if denied.sign != "!=":
            self.context.order.append((make_fact(denied), NONE))
        return denied


def room_between(left: Number, right: Number) -> float:
    """How far two numbers are apart, relatively."""
    a, b = (float(flint.arb(one).mid()) for one in (left, right))
    return abs(a - b) / (abs(a) + abs(b) or 1.0)


def make_fact(relation: Relation) -> Fact:
    """A relation that later lines may use: what is less stands on the left."""
    if relation.sign in (">=", ">"):
        return Fact(str(relation), relation.right, TURNED[relation.sign], relation.left)
    return Fact(str(relation), relation.left, relation.sign, relation.right)


def is_one_of_all(cases: list[Supposition], problem: Problem) -> bool:
    """Whether one of some cases must hold: one and its opposite, or all that a number may be."""
    alone = [one.relations[0] for one in cases if len(one.relations) == 1 and not one.order[0][1]]
    for n, one in enumerate(alone):
        opposite = (one.left, DENIALS[one.sign], one.right)
        if any((other.left, other.sign, other.right) == opposite for other in alone[:n]):
            return True
        same = [other.right for other in alone if other.left == one.left and other.sign == "="]
        values = {evaluate(term, Instance({}, {}), {}) for term in same if not free_names(term)}
        symbol = problem.symbols.get(str(one.left.value)) if one.left.op == "sym" else None
        if symbol is not None and symbol.choices and values >= {exact(Fraction(text)) for text in symbol.choices}:
            return True
    return False


@dataclass
class Namer(Tester):
    """Keeps the names of a document, and says what each line got."""

    lines: list[LineVerdict] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    defined_at: dict[str, int] = field(default_factory=dict)
    chain: tuple[list[Term], list[str], Conditions, bool] | None = None
    unread: dict[str, int] = field(default_factory=dict)  # names that a line may have chosen that was not read

    def mark(self, relation: Relation, mark: Mark, remark: str = "", step: Step | None = None, **more: Any) -> None:
        rules = tuple(name_rules(step.rules)) if step else ()
        leap = step.leap if step else 0
        line = relation.statement.line
        if mark is Mark.NOT_READ and relation.left.op == "sym" and relation.left.value not in self.defined_at:
            self.unread.setdefault(str(relation.left.value), line)
        made = LineVerdict(line=line, text=str(relation), mark=mark, remark=remark, rules=rules, leap=leap, **more)
        self.lines.append(made)

    def is_for_any_matrix(self, relation: Relation, unknown: dict[str, int]) -> bool:
        """(P X) W = P (X W): arithmetic alone, for a letter on both sides that may be any matrix that fits."""
        name = next(iter(unknown))
        if (
            len(unknown) > 1
            or relation.sign != "="
            or not all(name in free_names(side) for side in (relation.left, relation.right))
        ):
            return False
        for other, symbol in self.problem.symbols.items():
            with suppress(Mismatch):
                if not symbol.kind and "1" not in symbol.shape and other not in relation.names:
                    left, right = (substitute(side, name, sym(other)) for side in (relation.left, relation.right))
                    left, right, _ = fit_relation(left, right, self.words)
                    if is_arithmetic(self.context, left, right, {}):
                        return True
        return False

    def find_lemma(self, relation: Relation, unknown: dict[str, int]) -> str | None:
        """The lemma that a line repeats, with any letter for its matrix."""
        if len(unknown) != 1 or relation.sign != "=":
            return None
        sides = {substitute(one, next(iter(unknown)), sym("A")) for one in (relation.left, relation.right)}
        return next((one.name for one in self.problem.lemmas if {one.left, one.right} == sides), None)

    def read_unknown(self, unknown: dict[str, int], relation: Relation | None = None) -> bool:
        """Letters that people use without a word, such as A for the scores: the first meaning that makes it true."""
        letters = {name.removesuffix("_p") for name in unknown}
        if len(letters) != 1 or not (meanings := self.problem.readings.get(next(iter(letters)))):
            return False
        letter = next(iter(letters))
        is_set = relation is not None and relation.left.op == "sym" and relation.left.value in unknown
        for n, (said, term) in enumerate(meanings):
            own = {letter: ("", term), f"{letter}_p": ("", self.problem.permute(term))}
            shape = fit(term, self.words)[1] or SCALAR
            self.words.own.update(dict.fromkeys(own, shape))
            self.context.forms.clear()
            for where in (*self.every, *self.instances):
                where.define_all(own)
            last = n + 1 == len(meanings) and not is_set
            if relation is None or last or self.is_true(relation.left, relation.sign, relation.right, []):
                self.context.own.update(own)
                self.said.append(f"{letter} is read as {said}")
                return True
        for name in (letter, f"{letter}_p"):  # none fits: it is the writer's own
            self.words.own.pop(name, None)
        return False

    def define(self, relation: Relation, unknown: dict[str, int]) -> bool:
        """A new name, or one that the writer is to choose, where it first stands alone on the left."""
        name, choose = relation.left.value, self.problem.choose
        index = "" if relation.left.op == "sym" else str(relation.left.args[0].value)
        is_choice = name in choose and name not in self.context.own
        if not (name in unknown or is_choice) or (index and index not in self.words.indices):
            return False
        try:
            term, shape = fit(relation.right, self.words)
        except Mismatch as mismatch:
            self.mark(relation, Mark.NOT_READ, f"the shapes do not fit: {mismatch}")
            return True
        if name in free_names(term):
            return False
        if forbidden := self.forbid(name, index, term, shape if is_choice else None):
            self.mark(relation, Mark.NOT_READ, forbidden)
            return True
        if index:
            self.words.families[name] = (
                self.words.index_range(term, index) or self.words.common_range() or (num(1), num(1))
            )
        if not is_choice:
            self.words.own[name] = shape or SCALAR
        self.context.own[name] = (index, term)
        self.context.forms.clear()
        self.defined_at[name] = relation.statement.line
        for where in (*self.every, *self.instances):
            where.define_all({name: (index, term)})
        relation.right = term
        self.mark(relation, *self.judge_choice(name, term) if is_choice else (Mark.DEFINES,))
        self.chain = ([relation.left], ["="], NONE, False)
        self.note_sums(relation)
        return True

    def forbid(self, name: str, index: str, term: Term, shape: Shape | None) -> str:
        """Why a name cannot be set to a term; empty where it can. ``shape``: what a choice must fit."""
        known = self.words.shapes.get(name)
        if name in self.unfold_names(free_names(term), {**self.problem.definitions, **self.context.own}):
            return f"{name} would be built from itself: what it is set to is made of {name}"
        if shape is not None and known is not None and shape != known:
            return f"the shapes do not fit: {name} is {' x '.join(known)} and {term} is {' x '.join(shape)}"
        loose = free_names(term) & self.words.indices - {index} - set(self.words.shapes)
        return f"{name} has no index, and what it is set to has one" if loose else ""

    @staticmethod
    def unfold_names(names: set[str], definitions: Definitions) -> set[str]:
        """The names, and all that stand in what they are defined as."""
        seen: set[str] = set()
        while new := names - seen:
            seen |= new
            names = names.union(*(free_names(definitions[one][1]) for one in new if one in definitions))
        return seen

    def judge_choice(self, name: str, term: Term) -> tuple[Mark, str]:
        """Whether a choice is built from what it may be, is positive if it must be, and has what it must have."""
        allowed = self.problem.choose[name]
        known = {*allowed, *self.problem.sizes, *self.words.indices, "pi", "e", name}
        own = {one: made for one, made in self.context.own.items() if one not in known}
        if alien := self.unfold_names(free_names(term), own) - known - set(own):
            listed = ", ".join(sorted(alien))
            return Mark.TRUE, f"{name} may be built from {', '.join(allowed)} alone; {listed} is not among them"
        if self.problem.is_positive_name(name) and prove(self.context, num(0), "<", term, NONE) is None:
            self.context.unsigned.add(name)
            return Mark.TRUE, f"{name} must be positive: say why it is"
        for fact in self.problem.require:
            if name in free_names(fact.left):
                if self.first_failure(fact.left, fact.sign, fact.right, []) is not None:
                    return Mark.FALSE, f"it must have {fact.text}, and has not"
                if not self.problem.is_rank_bound(fact, self.unfold(fact.left)):
                    return Mark.TRUE, f"say why {fact.text}"
        return Mark.DEFINES, ""

    def unfold(self, term: Term) -> Term:
        """What rank(B) is the rank of: the sum that B, or a name that B is set to, was chosen to be."""
        inner = term.args[0] if term.op == "rank" else term
        while inner.op == "sym" and inner.value in self.context.own:
            inner = self.context.own[inner.value][1]
        return inner

    def note_sums(self, relation: Relation) -> None:
        for side in (relation.left, relation.right):
            self.context.sums += [one for one in side.parts() if one.op == "sum" and one not in self.context.sums]
