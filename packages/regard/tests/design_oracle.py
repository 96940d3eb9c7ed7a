"""Is what a certificate states true? Decided from its JSON and the keys in rationals and wide balls, apart from it all.

It shares nothing with the product: scores and weighted sums are exact rationals, a combination's basis is solved for
exactly, exponentials and logarithms are balls of 2,000 bits. `falsehoods` lists every statement that is not true, or
that the certificate's own numbers do not bear out.
"""

from __future__ import annotations

import re
from fractions import Fraction

import flint
import numpy as np

BITS = 2000
NEAR = 1e-9  # how far a stated figure may be from what the numbers prove, relatively
ULPS = flint.fmpq(1, 10**14)  # what rounding to a float may cost
ZERO, ONE = flint.fmpq(0), flint.fmpq(1)


def falsehoods(certificate, keys):
    with flint.ctx.workprec(BITS):
        return _Judge(certificate, keys).falsehoods()


def fmpq(x):
    if isinstance(x, str):
        top, _, bottom = x.partition("/")
        return flint.fmpq(flint.fmpz(top), flint.fmpz(bottom or "1"))
    return flint.fmpq(x) if isinstance(x, int) else flint.fmpq(*float(x).as_integer_ratio())


def entropy(weights):
    positive = [w for w in weights if w > 0]
    total = sum(positive, ZERO)
    return -sum((flint.arb(w / total) * flint.arb(w / total).log() for w in positive), flint.arb(0))


class _Judge:
    def __init__(self, certificate, keys):
        self.given, self.wrong = certificate, []
        question = certificate["question"]
        self.verb, self.claim = question["verb"], certificate["claim"]
        rows = range(len(keys)) if certificate.get("allowed") is None else certificate["allowed"]
        exact = [[fmpq(x) for x in row] for row in keys.tolist()]
        self.scale = fmpq(certificate["scale"])
        if self.verb == "match":
            shares = [fmpq(question["target"][i]) for i in rows]
            total = sum(shares, ZERO)
            self.target = [p / total for p in shares]
            self.points = [exact[i] for i in rows]
            self.anchors = []
        else:
            chosen = question["keys"]
            self.target = None
            self.anchors = [exact[i] for i in chosen]
            self.points = [exact[i] for i in sorted(rows) if self.verb != "copy" or i != chosen[0]]
        self.same = [self.verb == "copy" and p == self.anchors[0] for p in self.points]
        self.d = keys.shape[1]
        self.asked = question

    def falsehoods(self):
        getattr(self, f"_{self.claim}")()
        return self.wrong

    def says(self, statement, truth):
        if not truth:
            self.wrong.append(statement)

    def no_tighter(self, name, truth):
        """A bound may be looser than what the exact combination proves (it was enclosed), by 1e-6; never tighter."""
        stated = self.given.get(name)
        if stated is not None:
            excess = (flint.arb(fmpq(stated)) - truth) * (-1 if self.verb == "match" else 1)
            self.says(f"{name} {stated} is tighter than {truth.str(12)}", excess >= -flint.arb(ULPS) * abs(truth))
            self.says(f"{name} {stated} is not {truth.str(12)}", excess <= flint.arb(1e-6))

    def near(self, name, truth, *, absolute=False):
        """A stated figure, against the ball of what is true."""
        stated = self.given.get(name)
        if stated is None:
            return
        room = flint.arb(NEAR) * (1 if absolute else abs(truth)) + flint.arb(1e-300)
        miss = abs(flint.arb(fmpq(stated)) - truth)
        self.says(f"{name} {stated} is not {truth.str(12)}", miss <= room * flint.arb(1.01))

    def numbers(self, values):
        return [fmpq(x) for x in values]

    def value(self, query):
        """F(q); for matching the divergence."""
        dot = lambda row: self.scale * sum((a * b for a, b in zip(row, query, strict=True)), ZERO)  # noqa: E731
        scores = [dot(p) for p in self.points]
        if not scores:
            return flint.arb("-inf")
        top = max(scores)
        level = sum((flint.arb(s - top).exp() for s in scores), flint.arb(0)).log()
        if self.target is not None:
            mean = sum((p * s for p, s in zip(self.target, scores, strict=True)), ZERO)
            return level + flint.arb(top - mean) - entropy(self.target)
        return level + flint.arb(top - min(dot(a) for a in self.anchors))

    def limit(self):
        if self.verb == "match":
            return flint.arb(fmpq(self.asked["kl"]))
        return flint.arb(self.total_asked()).log()

    def total_asked(self):
        return fmpq(self.asked["eps"]) + (0 if self.verb == "copy" else len(self.anchors))

    def mean(self, weights, rows):
        total = sum(weights, ZERO)
        return [sum((w * row[c] for w, row in zip(weights, rows, strict=True)), ZERO) / total for c in range(self.d)]

    def aim(self, mixture):
        return self.mean(self.target, self.points) if self.target is not None else self.mean(mixture, self.anchors)

    def dual(self):
        """(H(w) less the target's, scale ||P^T w - A^T mu||)."""
        weights, mixture = (self.numbers(self.given["dual"].get(name, [])) for name in ("weights", "mixture"))
        if not weights:
            return flint.arb("-inf"), flint.arb(0)
        miss = [a - b for a, b in zip(self.mean(weights, self.points), self.aim(mixture), strict=True)]
        length = flint.arb(sum((x * x for x in miss), ZERO)).sqrt() * flint.arb(self.scale)
        return entropy(weights) - (0 if self.target is None else entropy(self.target)), length

    def attention(self, value):
        if self.verb == "match":
            return value
        if not self.points:
            return flint.arb(1)
        return 1 / (1 + value.exp()) if self.verb == "copy" else 1 / value.exp()

    def _shortest(self):
        query = self.numbers(self.given["query"])
        norm = flint.arb(sum((x * x for x in query), ZERO)).sqrt()
        if not any(query) and self.verb != "match":
            self.says("the zero query meets the demand", len(self.points) <= self.total_asked())
        else:
            self.says("the query meets the demand", not self.value(query) > self.limit())
        self.near("norm", norm)
        self.says("the norm is not understated", not norm > flint.arb(fmpq(self.given["norm"]) * (ONE + ULPS)))
        self.says("the gap is small", 0 <= self.given["gap"] <= 1e-9)
        if any(query):
            numerator, slack = self.dual()
            lower = (numerator - self.limit()) / slack
            self.near("lower_bound", lower)
            self.says("it is the shortest", norm <= lower * (1 + flint.arb(self.given["gap"]) + 1e-12))

    def _strongest(self):
        query, radius = self.numbers(self.given["query"]), fmpq(self.asked["max_norm"])
        self.says("the norm is within the budget", sum((x * x for x in query), ZERO) <= radius * radius)
        value = self.value(query)
        numerator, slack = self.dual()
        bound = numerator - flint.arb(radius) * slack
        if self.verb == "match":
            bound = bound.max(flint.arb(0))
        absolute = self.verb == "match"
        self.near("reached", self.attention(value), absolute=absolute)
        if self.given.get("bound") is not None:  # where the numbers prove nothing, 1 is still true
            proved = self.attention(bound) if bound > -(10**6) or self.verb == "match" else flint.arb(1)
            self.near("bound", proved, absolute=absolute)
        self.says("the gap is small", 0 <= self.given["gap"] <= 1e-9)
        if self.verb == "match":
            gap = value - bound
        else:
            low = self.attention(bound) if bound > -(10**6) else flint.arb(1)
            gap = low.log() - self.attention(value).log()
        self.says("it is the strongest", gap <= flint.arb(self.given["gap"]) + 1e-11)

    def total(self):
        """e^H of the exact combination with the copies counted apart, as a ball or a whole number; None if it fails."""
        entry = self.given.get("combination")
        copies = sum(self.same)
        if entry is None:
            return flint.fmpq(copies) if self.verb == "copy" else None
        weights = self.numbers(entry["weights"])
        mixture = self.numbers(entry.get("mixture", []))
        apart = 0 if any(w for w, s in zip(weights, self.same, strict=True) if s) else copies
        weights = self.solved(weights, mixture, entry.get("basis"), apart)
        if weights is None or any(w < 0 for w in weights):
            return None
        miss = [a - b for a, b in zip(self.mean(weights, self.points), self.aim(mixture), strict=True)]
        if any(miss):
            return None
        positive = [w for w in weights if w > 0]
        if all(w == positive[0] for w in positive):
            return flint.fmpq(apart + len(positive))
        return apart + entropy(weights).exp()

    def solved(self, weights, mixture, basis, apart):
        """Weights that balance: the stored ones if they do, else those of the basis solved for."""
        aim = self.aim(mixture)
        if not any(a - b for a, b in zip(self.mean(weights, self.points), aim, strict=True)) or basis is None:
            return weights
        counted = [i for i, same in enumerate(self.same) if not (apart and same)]
        inside = [counted[b] for b in basis if b < len(counted) and weights[counted[b]] > 0]
        rest = [w if i not in inside else ZERO for i, w in enumerate(weights)]
        left = [a - sum((w * p[c] for w, p in zip(rest, self.points, strict=True)), ZERO) for c, a in enumerate(aim)]
        table = [[*(self.points[i][c] for i in inside), left[c]] for c in range(self.d)]
        table.append([*[ONE] * len(inside), ONE - sum(rest, ZERO)])
        reduced, rank = flint.fmpq_mat(table).rref()
        if rank != len(inside) or any(reduced[r, r] != 1 for r in range(rank)):
            return None
        for r, i in enumerate(inside):
            rest[i] = reduced[r, len(inside)]
        return rest if all(rest[i] > 0 for i in inside) else None

    def most(self, total):
        total = flint.arb(total)
        if self.verb == "match":
            return (total.log() - entropy(self.target)).max(flint.arb(0))
        return 1 / (1 + total) if self.verb == "copy" else 1 / total

    def _unreachable(self):
        total = self.total()
        self.says("the combination balances", total is not None)
        if total is None:
            return
        self.no_tighter("bound", self.most(total))
        if self.verb == "match":
            self.says("it is short of the demand", self.most(total) > self.limit())
            return
        asked = self.total_asked()
        entry = self.given.get("combination")
        weights = [0] * len(self.same) if entry is None else entry["weights"]
        taken = [fmpq(w) > 0 or s for w, s in zip(weights, self.same, strict=True)]
        if isinstance(total, flint.fmpq):
            self.says("it is short of the demand", total > asked or (total == asked and not all(taken)))
        else:
            self.says("it is short of the demand", total > flint.arb(asked))

    def _ceiling(self):
        total = self.total()
        self.says("the combination balances", total is not None)
        if total is None:
            return
        ceiling = self.most(total)
        self.no_tighter("ceiling", ceiling)
        if self.given.get("query") is not None:
            reached = self.attention(self.value(self.numbers(self.given["query"])))
        else:
            direction = self.numbers(self.given["direction"])
            own = sum((a * b for a, b in zip(self.anchors[0], direction, strict=True)), ZERO)
            scores = [sum((a * b for a, b in zip(p, direction, strict=True)), ZERO) for p in self.points]
            wins = all(s < own for s, same in zip(scores, self.same, strict=True) if not same)
            reached = flint.arb(1) / (1 + sum(self.same)) if wins else flint.arb(0)
        self.near("reached", reached, absolute=self.verb == "match")
        self.says("the gap is small", 0 <= self.given["gap"] <= 1e-6)
        self.says(
            "the ceiling is approached", abs(ceiling - reached) <= flint.arb(self.given["gap"]) * flint.arb(1.0001)
        )


def false_sentences(answer, keys):
    """What the printed paragraph or its details say and is not true of the certificate's own exact bound."""
    return [wrong for text in (str(answer), answer.details()) for wrong in _false_in(text, answer, keys)]


def _false_in(text, answer, keys):
    certificate = answer.certificate.to_dict()
    with flint.ctx.workprec(BITS):
        judge = _Judge(certificate, keys)
        wrong = []
        said = re.search(
            r"none gets more than ([\d./e-]+) on|can get at most ([\d./e-]+) of the attention"
            r"|none gives .* more than ([\d./e-]+), however",
            text,
        )
        if said:
            stated = Fraction(said[1] or said[2] or said[3])
            if flint.arb(flint.fmpq(stated.numerator, stated.denominator)) < judge.most(judge.total()):
                wrong.append(said[0])
        said = re.search(
            r"the divergence is at least ([\d.e-]+) whatever|nearer to the target than KL ([\d.e-]+)", text
        )
        if said and flint.arb(fmpq(float(Fraction(said[1] or said[2])))) > judge.most(judge.total()) * (
            1 + flint.arb(1e-15)
        ):
            wrong.append(said[0])
        said = re.search(r"does it: norm [^,]+, attention ([\d.e-]+) on|at least ([\d.e-]+) of the attention", text)
        if said:
            stated = Fraction(said[1] or said[2])
            reached = judge.attention(judge.value(judge.numbers(certificate["query"])))
            if flint.arb(flint.fmpq(stated.numerator, stated.denominator)) > reached:
                wrong.append(said[0])
        if "approached and never reached" in text:
            total = judge.total()
            if not isinstance(total, flint.fmpq) or total != judge.total_asked():
                wrong.append("approached and never reached")
    return wrong


def judged(case, answer):
    """Everything false about one answer: its certificate, its sentences, and the figures around the certificate."""
    from regard import design

    wrong = falsehoods(answer.certificate.to_dict(), case.keys) + false_sentences(answer, case.keys)
    checked = design.verify(answer.to_dict(), np.asarray(case.keys))
    return wrong + [statement for statement, holds in checked.statements if not holds]
