"""Whether a relation holds on the instances: where it fails first, and under which conditions it does not."""

from __future__ import annotations

from dataclasses import dataclass

from regard.coursework.derivations.conditions import meets
from regard.coursework.derivations.equalities import Context
from regard.coursework.derivations.evaluation import DividesByZero, Instance, NoValue, compare, evaluate, write_value
from regard.coursework.derivations.names import Mismatch, Vocabulary, fit_relation
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.proving import prove
from regard.coursework.derivations.terms import Condition, Term, num, sym
from regard.coursework.derivations.verdicts import Failure, Relation


@dataclass
class Tester:
    """A problem's instances, what may be used so far, and how the last test went."""

    problem: Problem
    context: Context
    instances: list[Instance]
    contradicts: Relation | None = None  # a supposition that is not given: what follows from it cannot be tested
    evaluated: int = 0  # how often the last relation had a value
    undefined: int = 0  # how often it divided by zero

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
                self.words.say(f"{relation} is read for {guess}")
                return [guess], None
        self.evaluated, self.undefined = counts
        return stated, failure

    def is_true(self, left: Term, sign: str, right: Term, stated: list[Condition]) -> bool:
        """Whether an edited line fits together and holds on every instance, at least one among them."""
        try:
            left, right, _ = fit_relation(left, right, self.words)
        except Mismatch:
            return False
        return self.first_failure(left, sign, right, stated) is None and self.evaluated > 0

    def is_repaired(self, left: Term, sign: str, right: Term, stated: list[Condition]) -> bool:
        """Whether an edited line is true: an inequality must be proved, since instances may be kind to it."""
        if not self.is_true(left, sign, right, stated):
            return False
        left, right, _ = fit_relation(left, right, self.words)
        return sign == "=" or prove(self.context, left, sign, right, frozenset(stated)) is not None

    def first_failure(self, left: Term, sign: str, right: Term, conditions: list[Condition]) -> Failure | None:
        self.evaluated = self.undefined = 0
        for where in self.instances:
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
        return None

    def holds_somewhere(
        self, relation: Relation, conditions: list[Condition], instances: list[Instance] | None = None
    ) -> bool:
        """Whether a relation holds on some instance: about what is not chosen yet, it might then become true."""
        everywhere = self.instances
        try:
            for where in everywhere if instances is None else instances:
                self.instances = [where]
                if self.is_true(relation.left, relation.sign, relation.right, conditions):
                    return True
        finally:
            self.instances = everywhere
        return False

    def is_excluded(self, relation: Relation) -> bool:
        """Whether what is supposed keeps a relation from dividing by zero: if m != 0, say."""
        if self.contradicts is None:
            return False
        everywhere, counts = self.instances, (self.evaluated, self.undefined)
        try:
            self.instances = [one for one in everywhere if self.holds_somewhere(self.contradicts, [], [one])]
            self.first_failure(relation.left, relation.sign, relation.right, [])
            return self.evaluated > 0 and not self.undefined
        finally:
            self.instances, (self.evaluated, self.undefined) = everywhere, counts
