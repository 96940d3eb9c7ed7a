"""A derivation, line by line: each relation is tested on instances and proved from what stands before it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field

from regard.coursework.derivations.document import (
    MOST,
    NEAR,
    Statement,
    attach_conditions,
    explain_first,
    find_formulas,
    find_indices,
    places_listed,
    split_statements,
)
from regard.coursework.derivations.equalities import (
    LATEST,
    NONE,
    Conditions,
    Context,
    Step,
    is_arithmetic,
    prove_by_irrationality,
    prove_by_lines_before,
    prove_multiple_of_pi,
)
from regard.coursework.derivations.evaluation import Instance
from regard.coursework.derivations.grammar import read_whole
from regard.coursework.derivations.names import Mismatch, fit_relation
from regard.coursework.derivations.problem import Fact, Problem
from regard.coursework.derivations.terms import TURNED, Condition, Term, free_names, mul, num, replace, substitute, sym
from regard.coursework.derivations.testing import Namer, make_fact
from regard.coursework.derivations.tokens import NotRead, Token
from regard.coursework.derivations.verdicts import (
    Failure,
    LineVerdict,
    Mark,
    Relation,
    describe,
    find_repair,
    join_signs,
    name_rules,
)
from regard.errors import InputError
from regard.rigor.balls import precise

_GENERAL = re.compile(r"\b(?:every|all|any|each)\b|\\forall", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:impossible|cannot|not true|absurd|not hold|false|wrong)\b", re.IGNORECASE)
_CONDITION = re.compile(r"^[\s,.}\\a-z{]{0,12}\b(?:if|when|whenever|provided|unless)\b", re.IGNORECASE)
_DEFINING = re.compile(r"\b(?:let|set|define|put|write|where|denote|with|choose|take)\b[^.]*$", re.IGNORECASE)
_CASE = re.compile(r"\b(?:for|when|if|case|where|say)\b[^.,]{0,20}$", re.IGNORECASE)
_CLOSES = re.compile(  # what a case or a contradiction ends with
    r"\b(?:contradict\w*|absurd|impossible)\b.*\b(?:hence|so|thus|therefore|conclude|must|follows)\b"
    r"|\b(?:both|either|any|all|every) cases?\b",
    re.IGNORECASE | re.DOTALL,
)
MOST_STATEMENTS = 1500
_CHOSEN = re.compile(r"(?:^|[\s\\])([A-Za-z]+(?:_\{?\w+\}?)?'*)\s*(?::=|=|\\coloneqq|\\equiv)")


@dataclass
class Checker(Namer):
    """Goes through a document once, and remembers what it has seen."""

    reached: set[str] = field(default_factory=set)
    claimed: set[str] = field(default_factory=set)  # goals that were stated, shown or not
    bare: int = 0  # lines that are a goal, and nothing else
    supposed: list[str] = field(default_factory=list)  # what the writer supposes, and nobody gives
    last: Term | None = None
    has_maps: bool = False
    bound: dict[str, Term] = field(default_factory=dict)  # an index that is one of several places: i = 1, 2
    doubles: dict[str, Term] = field(default_factory=dict)  # m, where the writer's own is twice the problem's

    def read(self, text: str) -> None:
        formulas, said = find_formulas(text)
        self.said += said
        statements = [one for formula in formulas for one in split_statements(formula, self.words.names())]
        find_indices(statements, self.problem, self.words)
        if len(statements) > MOST_STATEMENTS:
            raise InputError(f"The derivation has {len(statements)} statements; at most {MOST_STATEMENTS} are read.")
        for one in explain_first(attach_conditions(statements, self.words), self.words.names()):
            before = self.last, self.chain  # a remark is judged where it stands, but the chain goes on from before it
            for self.bound in places_listed(one.conditions, one.continues):
                self.statement(one)
            if one.aside:
                self.last, self.chain = before
        self.join_lines()

    def statement(self, statement: Statement) -> None:
        if self.under is not None and _CLOSES.search(statement.between[-NEAR:]):
            self.end_supposition()
            for case in self.cases:
                case.closed = True
        if statement.problem is not None and statement.continues and statement.aside:  # (all terms are >= 0)
            self.said.append(f"{statement.text!r} ends a remark in words, and is read as words")
            return
        if statement.problem is not None:
            self.not_read(statement, statement.problem)
            return
        if any(is_list(side) for side in statement.sides):
            self.said.append(f"{statement.text} lists its members, and is read as words")
            return
        if not statement.signs:
            with suppress(NotRead, Mismatch):
                self.last, self.chain = self.side(statement.sides[0]), None  # a formula without a sign states nothing
            self.words.unknown.clear()
            return
        before = self.last if statement.continues else None
        if statement.continues and before is None:
            self.not_read(statement, NotRead(0, "something before this sign"))
            return
        if not statement.continues:
            self.chain = None
        for n, sign in enumerate(statement.signs):
            try:
                left = before if before is not None else self.side(statement.sides[n])
                unknown = dict(self.words.unknown)
                self.words.unknown.clear()
                right = self.side(statement.sides[n + 1])
            except NotRead as problem:
                self.words.unknown.clear()
                self.last = None
                self.not_read(statement, problem)
                return
            right_unknown = dict(self.words.unknown)
            self.words.unknown.clear()
            self.relation(Relation(statement, left, sign, right), unknown, right_unknown)
            before = right
        self.last = before

    def side(self, tokens: list[Token]) -> Term:
        if not tokens:
            raise NotRead(0, "a formula on both sides of the sign")
        made = read_whole(tokens, self.words, "the end of the formula, a sign or a factor")
        for index, place in {**self.doubles, **self.bound}.items():
            made = substitute(made, index, place)
        return made

    def not_read(self, statement: Statement, problem: NotRead) -> None:
        start = next((side[0].place for side in statement.sides if side), 0)
        for name in _CHOSEN.findall(statement.text):
            self.unread.setdefault(name.replace("{", "").replace("}", ""), statement.line)
        self.lines.append(
            LineVerdict(
                line=statement.line,
                text=statement.text,
                mark=Mark.NOT_READ,
                caret=max(0, problem.place - start),
                remark=f"expected {problem.expected}",
            )
        )

    # one relation

    def relation(self, relation: Relation, unknown: dict[str, int], right_unknown: dict[str, int]) -> None:
        if relation.sign == "~":
            self.said.append(f"{relation.left} ~ {relation.right}: 'about' and 'proportional to' are read as words")
            if not right_unknown:
                self.read_unknown(unknown)
            self.chain = None
            return
        is_name = relation.left.op in ("sym", "at") and relation.sign == "=" and not right_unknown
        # a letter that is set to one of its usual meanings has that one, for the permuted input too
        is_usual = is_name and relation.left.value in unknown and self.read_unknown(unknown, relation)
        if is_usual:
            self.defined_at[relation.left.value] = relation.statement.line
        elif is_name and self.define(relation, unknown):
            return
        names = {} if is_usual else {**unknown, **right_unknown}
        if (lemma := self.find_lemma(relation, names)) is not None:
            self.mark(relation, Mark.FOLLOWS, step=Step((lemma,)))
            return
        if names and _GENERAL.search(relation.statement.after + relation.statement.before):
            self.said.append(f"{relation} is a remark about every {next(iter(names))}, and is read as words")
            self.chain = None
            return
        if names and self.is_for_any_matrix(relation, names):
            self.mark(relation, Mark.FOLLOWS, step=Step(("arithmetic",)))
            return
        if names and not self.read_unknown(names, relation):
            self.mark(relation, Mark.NOT_READ, f"{next(iter(names))} is neither given nor defined before")
            self.chain = None
            return
        try:
            relation.left, relation.right, _ = fit_relation(relation.left, relation.right, self.words)
        except Mismatch as mismatch:
            self.mark(relation, Mark.NOT_READ, f"the shapes do not fit: {mismatch}")
            return
        self.turn_maps(relation)
        self.read_half_turns(relation)
        self.judge(relation)

    def read_half_turns(self, relation: Relation) -> None:
        """x = pi m, once a sine is shown to be 0: this m is twice the one of x = 2 pi m."""
        m = self.problem.table.multiple
        twice = {m: mul(num(2), sym(m))}
        left, right = (substitute(side, m, twice[m]) for side in (relation.left, relation.right))
        is_sine_zero = any(one.left.op == "sin" and one.right == num(0) for one, _ in self.context.order)
        if is_sine_zero and prove_multiple_of_pi(self.context, left, relation.sign, right) is not None:
            self.said.append(f"in {relation}, whose sine is 0, {m} is read as twice the {m} of 2 pi {m}")
            relation.left, relation.right, self.doubles = left, right, twice

    def turn_maps(self, relation: Relation) -> None:
        """Whether the first line with sigma(i) is true only if sigma goes the other way: then it does."""
        maps = [one for side in (relation.left, relation.right) for one in side.parts() if one.op == "image"]
        if not maps or self.has_maps:
            return
        self.has_maps = True
        name = self.words.permutation

        def turn(one: Term) -> Term | None:
            other = f"{name}^T" if one.value == name else name
            return Term("image", (replace(one.args[0], turn),), other) if one.op == "image" else None

        left, right = replace(relation.left, turn), replace(relation.right, turn)
        here = "row i of P X is row sigma(i) of X"
        says = relation.sign, relation.right
        if not self.is_true(relation.left, *says, []) and self.is_true(left, relation.sign, right, []):
            relation.left, relation.right, self.words.inverse = left, right, True
            here = "row sigma(i) of P X is row i of X"
        self.said.append(f"sigma is read so that {here}")

    def judge(self, relation: Relation) -> None:
        left, sign, right = relation.left, relation.sign, relation.right
        statement = relation.statement
        if self.is_announced(relation):
            self.said.append(f"{relation} is announced as the goal, and is no step")
            return
        if any({left, right} == {one.left, one.right} and sign == "=" for one in self.context.hypotheses):
            self.mark(relation, Mark.FOLLOWS, step=Step(("supposed by the problem",)))
            return
        if self.problem.is_rank_bound(Fact("", left, sign, right), self.unfold(left)):
            self.mark(relation, Mark.FOLLOWS, step=Step(("a sum of r rank ones has a rank of at most r",)))
            return
        # before the test: the line is false where the multiple of 2 pi is not 0, and those instances go now
        facts = [fact for fact, _ in self.context.order]
        step = prove_by_irrationality(self.context, facts, left, sign, right)
        if step is not None:
            self.every = [one for one in self.every if one.value(self.problem.table.multiple) == 0] or self.every
            self.instances, self.turned = self.every, True
        free = relation.names & self.words.indices
        stated = [
            one
            for one in statement.conditions
            if one.index in free and one.sign != "=" and free_names(one.place) & self.words.indices <= free
        ]
        ends = {self.words.index_range(side, one.index) for side in (left, right) for one in stated}
        whole = {*((">=", lo) for lo, _ in filter(None, ends)), *(("<=", hi) for _, hi in filter(None, ends))}
        stated = [one for one in stated if (one.sign, one.place) not in whole]  # i = 1, ..., n is every i
        conditions, failure = self.test(relation, stated) if step is None else (stated, None)
        if failure is not None or not self.evaluated:
            self.judge_failure(relation, failure, stated)
            return
        undefined = 0 if step is not None else self.undefined
        step, rests = step or prove_multiple_of_pi(self.context, left, sign, right), False
        if step is None:
            step, rests = self.prove_supposing(relation, frozenset(conditions))
        # what is proved needs no adversary, who draws new instances each time
        if step is None and (failure := self.attack(relation, conditions)) is not None:
            self.judge_failure(relation, failure, stated)
            return
        if conditions != stated:
            self.words.say(f"{relation} is read for {conditions[0]}")
        if step is None and self.under is not None and not statement.supposed:
            self.mark(relation, Mark.TRUE, f"it holds where {self.under}, and no short proof was found")
            self.chain = None
            return
        mark, remark = self.judge_step(relation, step, undefined)
        self.leave_behind(relation, mark, remark, step, frozenset(conditions), rests)

    def leave_behind(
        self, relation: Relation, mark: Mark, remark: str, step: Step | None, conditions: Conditions, rests: bool
    ) -> None:
        """Mark a relation that does not fail, and keep what it shows for the lines behind it."""
        if mark is Mark.FOLLOWS:  # what only seems true must not carry the lines behind it
            self.remember(relation, conditions, rests)
        self.mark(relation, mark, remark, step)
        sides = relation.left, relation.sign, relation.right
        self.bare += any(is_same_relation(self.context, sides, goal) for goal in self.problem.goal)
        self.follow_chain(relation, mark, conditions, rests)
        self.note_sums(relation)

    def judge_step(self, relation: Relation, step: Step | None, undefined: int) -> tuple[Mark, str]:
        """The mark of a relation that holds on every instance."""
        if step is None and relation.statement.supposed:
            self.supposed.append(str(relation))
            return Mark.TRUE, "this is supposed, and is not given"
        if step is None:
            return Mark.TRUE, "it holds on every instance tried, and no short proof was found"
        if undefined:
            return Mark.TRUE, "say why nothing is divided by zero: on some instances something is"
        if step.leap > self.problem.table.leap:
            rules = ", ".join(name_rules(step.rules))
            return Mark.TRUE, f"it needs {step.leap} rules at once ({rules}): write the lines between"
        return Mark.FOLLOWS, ""

    def judge_failure(self, relation: Relation, failure: Failure | None, stated: list[Condition]) -> None:
        """The mark of a relation that fails on an instance, or has no value on any."""
        chain, self.chain = self.chain, None
        if failure is None:
            self.mark(relation, Mark.NOT_READ, "it has no value on any instance: perhaps an index is out of its range")
            return
        if relation.statement.supposed or self.is_case(relation):
            holds = self.suppose(relation).instances
            rest = "the lines below are tested where it does" if holds else "a contradiction has to follow"
            self.said.append(f"{relation} is supposed, and does not hold in general: {rest}")
            return
        if self.under is not None and not self.under.instances:
            step, _ = self.prove_supposing(relation, frozenset(stated))
            remark = f"it does not hold without {self.under}, and no short proof from that was found"
            if step is None:
                self.mark(relation, Mark.TRUE, remark)
            else:
                self.chain = chain
                self.leave_behind(relation, *self.judge_step(relation, step, 0), step, frozenset(stated), True)
            return
        if _DENIED.search(relation.statement.after):
            self.said.append(f"{relation} is denied in words, and is no step")
        elif (excuse := self.excuse(relation, stated)) is not None:
            self.mark(relation, *excuse)
        else:
            sides = left, sign, right = relation.left, relation.sign, relation.right
            repair = find_repair(*sides, lambda a, b: self.is_repaired(a, sign, b, stated, failure))
            where = describe(failure, self.problem, left, right)
            remark = f"true if {repair}" if repair else ""
            self.mark(relation, Mark.FALSE, remark, instance=where, values=failure.values, repair=repair)

    def excuse(self, relation: Relation, stated: list[Condition]) -> tuple[Mark, str] | None:
        """Why a relation that fails on an instance is not called false, which is said last; None where it is."""
        sides = left, _, _ = relation.left, relation.sign, relation.right
        for case in self.cases:
            if not case.closed and self.is_true(*sides, stated, case.instances):
                return Mark.TRUE, f"it holds where {case}, and not in general"
        if _CONDITION.search(relation.statement.after):
            return Mark.TRUE, "it is said under a condition, and does not hold without it"
        for name in self.unchosen(relation)[:1]:
            if self.holds_somewhere(relation, stated, self.instances):
                return Mark.TRUE, f"{name} is not chosen yet, and it does not hold for every {name}"
        turns = [Fact("", sym(name), "=", term) for name, (_, term) in self.problem.values.items()]
        if prove_by_irrationality(self.context, turns, *sides) is not None:
            rests = f"{turns[0].left} = {turns[0].right}"
            return Mark.TRUE, f"it follows from {rests}, which no line before has shown"
        if left.op == "sym" and left.value in self.defined_at and _DEFINING.search(relation.statement.before):
            before = f"{left.value} is {self.context.own[left.value][1]} since line {self.defined_at[left.value]}"
            return Mark.NOT_READ, f"{before}; take another letter for another thing"
        for name in sorted(self.names_behind(relation) & self.unread.keys())[:1]:
            where = f"{name} stands alone in line {self.unread[name]}, which was not read"
            return Mark.NOT_READ, f"{where}, and may mean something else since then"
        if not self.context.own.keys() & set(self.problem.choose):  # another choice may make it true
            for name in self.unchosen(relation)[:1]:
                return Mark.NOT_READ, f"{name} is not chosen yet: say first what it is"
        return None

    def is_announced(self, relation: Relation) -> bool:
        """Whether it is what is to be shown, said before the proof: so announced, or of a choice yet to be made."""
        sides = relation.left, relation.sign, relation.right
        goals = {goal.name for goal in self.problem.goal if is_same_relation(self.context, sides, goal)}
        if goals and relation.statement.announced:
            return True
        first = not goals <= self.claimed and not relation.statement.supposed
        self.claimed |= goals
        return first and bool(self.unchosen(relation))

    def names_behind(self, relation: Relation) -> set[str]:
        return self.unfold_names(relation.names, {**self.problem.definitions, **self.context.own})

    def unchosen(self, relation: Relation) -> list[str]:
        """What a relation speaks of and the writer has yet to choose."""
        return sorted(self.names_behind(relation) & set(self.problem.choose) - set(self.context.own))

    # what a line leaves behind

    def is_case(self, relation: Relation) -> bool:
        """For c = 1/2: a number that the problem gives is looked at for one of its values."""
        given = relation.left.op == "sym" and relation.left.value in self.problem.symbols
        chosen = relation.left.value in self.problem.choose or relation.right.op not in ("num", "div")
        return given and not chosen and _CASE.search(relation.statement.before) is not None

    def remember(self, relation: Relation, conditions: Conditions, rests: bool) -> None:
        left, sign, right = relation.left, relation.sign, relation.right
        if rests and self.under is not None:
            if sign != "!=":
                self.under.order.append((make_fact(relation), conditions))
            return
        if sign == "=":
            for a, b in ((left, right), (right, left)):
                if (
                    a.op == "sym"
                    and a.value in {**self.problem.definitions, **self.context.own}
                    and not self.reaches(b, a.value)  # else unfolding would not end
                ):
                    self.context.shown.setdefault(a.value, ("", b))
        if sign != "!=":
            self.context.order.append((make_fact(relation), conditions))

    def reaches(self, term: Term, name: str) -> bool:
        """Whether unfolding a term could come back to a name, or leave an index that nothing binds."""
        names = free_names(term)
        if names & (self.words.indices - set(self.words.shapes) | {f"{one}_p" for one in self.words.variants}):
            return True
        return name in self.unfold_names(names, {**self.problem.definitions, **self.context.own, **self.context.shown})

    def follow_chain(self, relation: Relation, mark: Mark, conditions: Conditions, rests: bool) -> None:
        """What a chain says from its first side to its last; a goal that it reaches is noted."""
        if mark is not Mark.FOLLOWS:
            self.chain = None
            return
        sides, signs, before, rested = self.chain if self.chain is not None else ([], [], NONE, False)
        sides, signs, conditions = [*sides, relation.left], [*signs, relation.sign], conditions | before
        rests = rests or rested
        self.chain = (sides, signs, conditions, rests)
        for n in sorted({0, *range(len(sides))[-LATEST:]}):  # a chain may be long: its start, and what stands near
            side = sides[n]
            whole = join_signs(signs[n:])
            if whole is None:
                continue
            found = Relation(relation.statement, side, whole, relation.right)
            if n == 0 and len(sides) > 1:  # a <= b <= c leaves a <= c behind
                self.remember(found, conditions, rests)
            if not conditions and not rests:  # a goal is meant for every index, and without suppositions
                self.note_goals(found)
            elif not conditions and self.is_absurd(found) and (denied := self.contradict()) is not None:
                self.note_goals(denied)

    def note_goals(self, found: Relation) -> None:
        for goal in self.problem.goal:
            if goal.name not in self.reached and is_same_relation(
                self.context, (found.left, found.sign, found.right), goal
            ):
                self.reached.add(goal.name)

    def join_lines(self) -> None:
        """Goals that no line states, and that lines or cases together come to, without another rule."""
        self.end_supposition()
        if self.lines and self.bare == len(self.lines):  # each may be one rule away, and is no proof all the same
            self.said.append("only what is to be shown is written: a derivation has the lines that lead there")
            self.reached.clear()
            return
        for goal in self.problem.goal:
            shown = [(one.left, one.sign, one.right) for one, needed in self.context.order if not needed]
            if goal.name not in self.reached and any(is_same_relation(self.context, one, goal) for one in shown):
                self.reached.add(goal.name)
            if goal.name not in self.reached and goal.sign == "=":
                step = prove_by_lines_before(self.context, goal.left, goal.right, NONE)
                if step is not None and step.leap == 0:
                    self.reached.add(goal.name)


def is_list(tokens: list[Token]) -> bool:
    """Whether a side is a list in brackets with dots in it, as in [a_1, ..., a_p]."""
    texts = [token.text for token in tokens]
    dots = texts.index("...") if "..." in texts else 0
    return texts[:1] in (["("], ["{"]) and dots > 1 and {texts[dots - 1], *texts[dots + 1 : dots + 2]} == {","}


def is_same_relation(context: Context, found: tuple[Term, str, Term], goal: Fact) -> bool:
    """Whether a relation is the goal, up to arithmetic, the writer's own names and the letter of an index."""
    left, sign, right = found
    mine = sorted((free_names(left) | free_names(right)) & context.words.indices)
    wanted = sorted((free_names(goal.left) | free_names(goal.right)) & context.words.indices)
    if len(mine) == len(wanted) == 1 and mine != wanted:
        left, right = (substitute(one, mine[0], sym(wanted[0])) for one in (left, right))
    for a, s, b in ((left, sign, right), (right, TURNED.get(sign, sign), left)):
        # an equality or a strict inequality shows more than <= asks for
        strong = s == goal.sign or (goal.sign in ("<=", ">=") and s in ("=", goal.sign[0]))
        if strong and all(
            x == y or is_arithmetic(context, x, y, context.own) for x, y in ((a, goal.left), (b, goal.right))
        ):
            return True
    return False


def run_checker(problem: Problem, text: str) -> Checker:
    """The checker after it has read the whole text."""
    if len(text) > MOST:
        raise InputError(f"The derivation has {len(text)} characters; at most {MOST} are read.")
    context = Context(problem, problem.vocabulary(), hypotheses=problem.suppose)
    context.order = [(fact, condition) for fact, condition in problem.order]
    context.order += [(fact, NONE) for fact in problem.given if fact.sign in ("<=", "<")]
    with precise():
        # copies: a writer's definitions go into them, and the problem is kept for the next text
        instances = [Instance(one.values, one.definitions, ones=one.ones) for one in problem.instances]
        checker = Checker(problem, context, instances, instances)
        checker.read(text)
    return checker
