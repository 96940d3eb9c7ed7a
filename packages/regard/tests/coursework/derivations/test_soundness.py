"""Nothing false is ever proved: each rule is a theorem, and what is proved holds on instances of other sizes."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction

import pytest

from regard.coursework.derivations import normal as normal_forms
from regard.coursework.derivations.equalities import NONE, Context
from regard.coursework.derivations.evaluation import NoValue, compare, evaluate
from regard.coursework.derivations.gaps import FOLDER
from regard.coursework.derivations.instances import make_instances
from regard.coursework.derivations.names import Mismatch, fit_relation
from regard.coursework.derivations.normal import RULES, Normal
from regard.coursework.derivations.problem import build_problem, find_problem, problem_names, read_side, split_relation
from regard.coursework.derivations.proving import prove
from regard.coursework.derivations.report import check_derivation
from regard.coursework.derivations.terms import Term, add, apply, mul, negative, num
from regard.coursework.derivations.verdicts import Mark
from regard.rigor.balls import precise
from regard.toml import read_toml

RULE_TABLES = {rule["name"]: rule for rule in read_toml(RULES, like="")["rule"]}


def failures(table):
    """Instances on which a rule of rules.toml is false, and how often it was tried."""
    rest = {key: value for key, value in table.items() if key not in ("name", "says")}
    problem = build_problem("rule", {**rest, "goal": table["says"]}, "rules.toml")
    tried, wrong = 0, []
    with precise():
        for seed in range(3):
            for where in make_instances(problem, seed=seed):
                for fact in problem.goal:
                    tried += 1
                    if not problem.holds(fact, where):
                        wrong.append(fact.text)
    return tried, wrong


@pytest.mark.parametrize("name", sorted(RULE_TABLES))
def test_every_rule_is_a_theorem_on_random_exact_instances(name):
    tried, wrong = failures(RULE_TABLES[name])
    assert tried >= 9
    assert not wrong


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("the trace is cyclic", "tr(C C) = tr(C) tr(C)"),
        ("softmax lemma", "softmax(P A P^T) = P softmax(A)"),
        ("the trace of the identity is its size", "tr(U U^T) = m"),
        ("a sum of descending terms is at least its count times its last", "sum_{i=1}^k sigma_i^2 <= k sigma_k^2"),
        ("orthonormal columns", "A A^T = I"),
        ("a sum is at most its count times a bound of its terms", "sum_{i=2}^n s_i <= x"),
    ],
)
def test_a_false_rule_fails(name, says):
    assert failures({**RULE_TABLES[name], "says": [says]})[1]


def test_a_rule_that_is_not_listed_cannot_be_used(monkeypatch):
    problem = find_problem("singular-energy")
    normal = Normal(problem, problem.vocabulary(), {})
    with pytest.raises(LookupError, match=r"is no rule of rules\.toml"):
        normal.may("everything is equal")
    used = set()
    before = Normal.may
    monkeypatch.setattr(Normal, "may", lambda self, rule, shown="": used.add(rule) or before(self, rule, shown))
    for path in FOLDER.glob("*.md"):
        check_derivation(path.stem, path.read_text(encoding="utf-8"))
    assert len(used) > 12
    assert used <= normal_forms.rule_names() == set(RULE_TABLES)


# instances of sizes that no problem uses, for what is proved
OTHER_SIZES = {"T": [4, 6], "n": [4, 6], "d": [4], "m": [8], "D": [9], "p": [4], "r": [4], "N": [3]}


def other_instances(problem):
    sizes = {name: OTHER_SIZES[name] for name in problem.sizes}
    if "k" in problem.symbols and problem.symbols["k"].last:  # vectors need room
        sizes["d"] = [8]
    chosen = dict(problem.symbols)
    for name, symbol in chosen.items():
        if symbol.choices and name == "eps":
            chosen[name] = dataclasses.replace(symbol, choices=("7/8", "1/5", "1/1000"))
    return make_instances(dataclasses.replace(problem, sizes=sizes, symbols=chosen), seed=7, count=6)


def random_term(problem, rng, shape, depth):
    """A term of a shape from the problem's own names; shapes are kept by construction."""
    words = problem.words
    square = [name for name, own in words.shapes.items() if own == shape and name not in words.families]
    members = [name for name in words.families if words.shapes.get(name) == shape]
    if depth == 0 or rng.random() < 0.2:
        if shape == ("1", "1") and (rng.random() < 0.3 or not (square or members)):
            return num(rng.choice((0, 1, 2, -1, Fraction(1, 2))))
        if members and (not square or rng.random() < 0.5):
            return Term(
                "at", (num(rng.choice((1, 2))) if rng.random() < 0.6 else Term("sym", (), "i"),), rng.choice(members)
            )
        if square:
            return Term("sym", (), rng.choice(square))
        raise LookupError
    kind = rng.choice(("add", "sub", "mul", "T", "function"))
    if kind in ("add", "sub"):
        a, b = (random_term(problem, rng, shape, depth - 1) for _ in range(2))
        return add(a, b if kind == "add" else negative(b))
    if kind == "T" and shape != ("1", "1"):
        return apply("T", random_term(problem, rng, (shape[1], shape[0]), depth - 1))
    if kind == "function" and shape == ("1", "1"):
        inner = random_term(problem, rng, shape, depth - 1)
        op = rng.choice(("exp", "pow", "div", "sqrt"))
        if op == "exp":
            return apply("exp", inner)
        if op == "pow":
            return apply("pow", inner, num(2))
        below = random_term(problem, rng, shape, depth - 1)
        return apply("div", inner, below) if op == "div" else apply("pow", mul(inner, inner), num(Fraction(1, 2)))
    middles = sorted({own[1] for own in words.shapes.values() if own[0] == shape[0]} | {"1"})
    middle = rng.choice(middles)
    return mul(
        random_term(problem, rng, (shape[0], middle), depth - 1),
        random_term(problem, rng, (middle, shape[1]), depth - 1),
    )


def holds_elsewhere(problem, instances, left, sign, right):
    for where in instances:
        for places in problem.free_places([left, right], where, problem.words):
            try:
                if compare(sign, evaluate(left, where, places), evaluate(right, where, places)) is False:
                    return False
            except (NoValue, ValueError, TypeError, IndexError):
                continue
    return True


@pytest.mark.parametrize("name", problem_names())
def test_what_is_proved_of_random_relations_holds_on_other_instances(name):
    """Random relations, most of them false, go to the prover without a test before it."""
    problem, rng = find_problem(name), random.Random(f"random relations of {name}")
    instances = other_instances(problem)
    shapes = sorted(set(problem.words.shapes.values()))
    asked = proved = 0
    with precise():
        while asked < 150:
            shape = rng.choice([*shapes, ("1", "1")])
            try:
                left, right = (random_term(problem, rng, shape, rng.choice((1, 2))) for _ in range(2))
                if rng.random() < 0.4:
                    right = mutate(left, rng)
                left, right, _ = fit_relation(left, right, problem.words)
            except (LookupError, Mismatch):
                continue
            sign = rng.choice(("=", "=", "<=", "<", ">=")) if shape == ("1", "1") else "="
            context = Context(problem, problem.vocabulary(), hypotheses=problem.suppose)
            context.order = list(problem.order)
            asked += 1
            if prove(context, left, sign, right, NONE) is not None:
                proved += 1
                assert holds_elsewhere(problem, instances, left, sign, right), f"{left} {sign} {right}"
    assert proved > 3


def mutate(term, rng):
    """The term with one part changed: a factor moved, a transpose lost, a number, a sign."""
    if term.args and rng.random() < 0.7:
        n = rng.randrange(len(term.args))
        args = (*term.args[:n], mutate(term.args[n], rng), *term.args[n + 1 :])
        return Term(term.op, args, term.value)
    changes = [term, mul(num(1), term), add(term, num(0)), negative(negative(term))]
    if term.op == "mul":
        changes += [Term("mul", tuple(reversed(term.args))), mul(*term.args[:-1])]
    if term.op == "T":
        changes.append(term.args[0])
    if term.op == "num":
        changes.append(num(term.value + 1))
    return rng.choice(changes)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.md")))
def test_mutated_lines_of_right_proofs_are_proved_only_where_they_hold(name):
    problem, rng = find_problem(name), random.Random(f"mutated lines of {name}")
    instances = other_instances(problem)
    lines = check_derivation(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8")).lines
    with precise():
        for line in lines:
            words = problem.vocabulary()
            left, sign, right = split_relation(line.text)
            sides = fit_relation(read_side(left, words), read_side(right, words), words)[:2]
            for _ in range(12):
                try:
                    a, b, _ = fit_relation(sides[0], mutate(sides[1], rng), words)
                except Mismatch:
                    continue
                context = Context(problem, problem.vocabulary(), hypotheses=problem.suppose)
                context.order = list(problem.order)
                if not words.unknown and prove(context, a, sign, b, NONE) is not None:
                    assert holds_elsewhere(problem, instances, a, sign, b), f"{a} {sign} {b}"


TRAPS = [  # true on small instances or where nothing is divided by zero, and false in general
    ("singular-energy", "tr(U U^T) = 1"),
    ("singular-energy", "sigma_1/(sigma_1 + 1) > 0"),
    ("singular-energy", "sigma_k / sigma_k = 1"),
    ("singular-tail", "sum_{i=1}^k sigma_{i+1} >= k sigma_k"),
    ("singular-tail", "sum_{i=k+2}^d sigma_i = sum_{i=1}^d sigma_i - sum_{i=1}^{k+1} sigma_i"),
    ("weights-are-a-distribution", "sum_{i=1}^n exp(s_i) <= n exp(s_i)"),
    (
        "weights-are-a-distribution",
        "sum_{i=1}^n s_i sum_{j=1}^n exp(s_i alpha_j) = sum_{i=1}^n s_i sum_{j=1}^n exp(s_j alpha_i)",
    ),
    ("weights-are-a-distribution", "sqrt(n - 1) > 0"),
    ("weights-are-a-distribution", "sum_{i != 2} s_i = sum_{i=1}^n s_i - s_2"),
    ("weights-are-a-distribution", "sum_{i=3}^n 1 = n - 2"),
    ("weights-are-a-distribution", "sqrt(s_1^2) = s_1"),
    ("average-of-two", "sum_{i=1}^n (k_i . k_j) s_i = s_1"),
    ("copying-within-budget", "k_1 . k_1 <= 1/2"),
    ("order-blindness", "(P X)_{ij} = X_{ij}"),
    ("order-blindness", "(Q K^T)_{ij} = (Q K^T)_{ji}"),
    ("order-blindness", "sum_{l=1}^T (Q K^T)_{il} = (Q K^T)_{ii}"),
    ("order-blindness", "sum_{l=1}^T (Q K^T)_{sigma(l) l} = tr(Q K^T)"),
    ("order-blindness", "softmax(Q K^T)_{ij} = exp((Q K^T)_{ij}) / sum_{l=1}^T exp((Q K^T)_{lj})"),
    ("order-blindness", "sum_{l=1}^d exp((Q Q^T)_{i sigma(l)}) = sum_{l=1}^d exp((Q Q^T)_{il})"),
    ("singular-energy", "sum_{l=1}^d U_{il} U_{jl} = (U^T U)_{ij}"),
    ("singular-energy", "sum_{i=1}^d (A A^T)_{ii} = tr(A A^T)"),
    ("weights-are-a-distribution", "|s_1| = s_1"),
]


TRICKS = [  # whole texts, the last line of each must not follow
    ("extract-from-sum", "C = B B^T\nM = I - C\nM s = v_a"),
    ("extract-from-sum", "r = s^T s\nM = v_a s^T / r\nM s = v_a"),
    ("extract-from-sum", "s = v_a"),
    ("copying-within-budget", "r = s_1\nq = r k_1\nalpha_1 >= 1/(1 + eps)"),
    ("copying-within-budget", "q = s_1 k_1\nalpha_1 >= 1/(1 + eps)"),
    ("copying-within-budget", "t = 2 ln(n/eps)\nq = t k_1\ns_i <= t/2\nsum_{i=1}^n exp(s_i) <= n exp(t/2)"),
    ("low-rank-error", "C = A\nB = C"),
    ("low-rank-error", "B = sum_{i=1}^{k-1} A"),
    ("order-blindness", "R = P Z - Z_p\nZ_p + R = P Z\nZ_p = P Z"),
    ("order-blindness", "X_p = X"),
    ("singular-energy", "Suppose 1 = 2\nsigma_k/sigma_k = 1"),
    ("singular-energy", "sigma_1/sigma_1 = 1"),
    ("singular-energy", "c_i = sum_{j=1}^d sigma_i sigma_j\nc_j = sum_{l=1}^d sigma_l sigma_l"),
    ("singular-energy", "sum_{i=1}^d sigma_k = sum_{k=1}^d sigma_k"),
    ("singular-tail", "sum_{i=k+1}^d sigma_i^2 > 0"),
    ("average-within-budget", "t = ln(n/eps)\nq = t (k_1 + k_2)\n(n - 2) eps/n > 0"),
    ("average-of-two", "q = t (k_a + k_b)\nsum_{j=3}^n exp(s_j) > 0"),
    ("weights-are-a-distribution", "suppose s_1 = 7\ns_i/s_i = 1"),
    ("positions-are-distinct", "t - t' = 2 pi m\nt' - t = 2 pi m"),
    ("positions-are-distinct", "t = 2 pi m"),
    ("positions-are-distinct", "Suppose m = 0. Then t = t'.\nIn any case t = t'."),
    ("singular-tail", "Suppose sigma_k = 0. Then sigma_k^2 = 0.\nIn both cases sigma_k^2 = 0."),
    ("singular-tail", "Suppose sigma_i > 1. Then sigma_i > 1. Suppose sigma_i <= 1. Then 1 > 2.\nsigma_i > 1"),
    ("order-blindness", "(P X) W = P (X W)\n(P X) W = (P X) W_Q"),
]


@pytest.mark.parametrize(("name", "text"), TRICKS)
def test_no_trick_makes_a_line_follow(name, text):
    report = check_derivation(name, text)
    assert not report.complete
    last = [line.mark for line in report.lines if line.line == text.count("\n") + 1]
    smuggled = any(line.mark not in ("follows", "definition") for line in report.lines[:-1])
    assert smuggled or Mark.FOLLOWS not in last


def test_one_place_is_not_every_place():
    text = "Let $i = 1$.\n$$\\alpha_i = e^{s_i}/\\sum_j e^{s_j} > 0$$\n$$\\sum_i \\alpha_i = 1$$"
    report = check_derivation("weights-are-a-distribution", text)
    assert not report.complete
    assert "alpha_1 = exp(s_1)" in str(report)
    assert "Not reached: alpha_i > 0" in str(report)
    ended = check_derivation(
        "weights-are-a-distribution", text.replace("$$\\alpha_i", "Now let $i >= 1$.\n$$\\alpha_i")
    )
    assert "Not reached: alpha_i > 0" not in str(ended)


@pytest.mark.parametrize(("name", "line"), TRAPS)
def test_traps_are_not_proved(name, line):
    problem = find_problem(name)
    words = problem.vocabulary()
    left, sign, right = split_relation(line)
    with precise():
        a, b, _ = fit_relation(read_side(left, words), read_side(right, words), words)
        context = Context(problem, words)
        context.order = list(problem.order)
        if "sigma_k / sigma_k" not in line:  # an identity where it has a value; the report asks why it has one
            assert prove(context, a, sign, b, NONE) is None
    assert check_derivation(name, line).exit_code != 0
