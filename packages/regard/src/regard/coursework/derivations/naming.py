"""What a line names: lemmas and letters that it repeats, new names, and what the writer was to choose."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from regard.coursework.derivations.equalities import NONE, Conditions, Step, is_arithmetic
from regard.coursework.derivations.names import SCALAR, Mismatch, Shape, fit, fit_relation
from regard.coursework.derivations.proving import prove
from regard.coursework.derivations.terms import Definitions, Term, free_names, num, substitute, sym
from regard.coursework.derivations.testing import Tester
from regard.coursework.derivations.verdicts import LineVerdict, Mark, Relation, name_rules


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
