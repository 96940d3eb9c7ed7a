"""Certificates: what an answer claims, in numbers from which anybody can recheck it, and the code that does.

A certificate is a plain dictionary (see docs/certificates.md for every field). `verify` recomputes each claim from the
keys with bounds that hold in exact arithmetic on the stored numbers (`rigor`, `evaluate`); it trusts none of the
solvers' figures and shares with them nothing but those bounded products.

With competing keys P, anchors a_m (key j; the keys of S; the target's mean key) and score(q) = scale * k.q, everything
is about F(q) = max_m ( LSE(P q) - a_m.q ):

- a query gives F(q), from above;
- weights w and a mixture mu give F(q) >= H(w) - scale ||q|| ||P^T w - A^T mu|| for every q;
- where P^T w = A^T mu holds exactly, F(q) >= H(w) whatever the query.

Copying: alpha_j = 1 / (1 + e^F). Sharing: the least share is e^-F. Matching: KL = F - H(p).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from regard.arrays import check_array
from regard.design import evaluate, rigor
from regard.errors import InputError
from regard.results import Result

Array = NDArray[np.float64]

FORMAT = "regard-certificate/1"
VERBS = ("copy", "share", "match")
PRECISION = 128  # bits of the balls
CLAIMS = ("shortest", "strongest", "unreachable", "ceiling")


@dataclass(frozen=True, kw_only=True, eq=False)
class Verification(Result):
    """What was recomputed: the question, each statement with its verdict, and the numbers that follow from it."""

    question: str
    holds: bool
    statements: tuple[tuple[str, bool], ...]
    numbers: dict[str, float]
    arithmetic: str

    @property
    def answer(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        lines = [f"{'holds ' if holds else 'FAILS '} {statement}" for statement, holds in self.statements]
        verdict = "The certificate holds." if self.holds else "The certificate does NOT hold."
        return "\n".join([f"The question: {self.question}.", *lines, f"{verdict} Checked in {self.arithmetic}."])


def fingerprint(keys: Array) -> str:
    """SHA-256 of the shape and the float64 numbers, so that a certificate cannot be held against other keys."""
    digest = hashlib.sha256(repr(keys.shape).encode())
    digest.update(np.ascontiguousarray(keys, dtype="<f8").tobytes())
    return digest.hexdigest()


def verify(certificate: Mapping[str, Any], keys: Array, *, strict: bool = True) -> Verification:
    """Recheck a certificate against the keys, and nothing else.

    strict: exponentials and logarithms in arbitrary-precision balls; otherwise in NumPy, taken to be within 8 units
    in the last place, which is much faster for many keys.
    """
    keys = check_array(keys, what="keys", ndim=2)
    data = certificate.get("data") if isinstance(certificate, Mapping) else None
    if isinstance(data, Mapping) and (list(keys.shape) != data.get("shape") or fingerprint(keys) != data.get("sha256")):
        raise InputError(
            f"The certificate was made for other keys, of shape {data.get('shape')}; these are of shape "
            f"{list(keys.shape)} and other numbers: pass the same file."
        )
    return recheck(certificate, keys, strict=strict, tiers=(False, True))


def recheck(
    certificate: Mapping[str, Any], keys: Array, *, strict: bool, tiers: tuple[bool, ...] = (False, True)
) -> Verification:
    """`verify` for keys that are known to be the right ones; `tiers`: compensated products (True) or plain ones."""
    problem = _Problem(certificate, keys, strict, tiers)
    check = {
        "shortest": _check_shortest,
        "strongest": _check_strongest,
        "unreachable": _check_unreachable,
        "ceiling": _check_ceiling,
    }[str(problem.claim)]
    # what leaves the range of floats becomes infinite or not a number, and then proves nothing
    with flint.ctx.workprec(PRECISION), np.errstate(over="ignore", invalid="ignore"):
        statements, numbers = check(problem)
    how = "exact and ball arithmetic" if strict else "rounding-bounded float64 (NumPy's exp and log within 8 ulp)"
    return Verification(
        question=problem.words(),
        holds=all(holds for _, holds in statements),
        statements=tuple(statements),
        numbers=numbers,
        arithmetic=f"{how}, on the stored float64 keys",
    )


def read_certificates(path: str) -> list[Mapping[str, Any]]:
    """The certificates in a JSON file: the file itself, or those of a whole result, of one answer or of several."""
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; pass what --out wrote or --json printed.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; pass the JSON file in it.") from None
    except (ValueError, RecursionError) as error:  # not text, not JSON, or a number of thousands of digits
        raise InputError(f"{path} is not JSON ({str(error)[:80]}); pass what --out wrote or --json printed.") from None
    if isinstance(read, dict) and read.get("format") == "regard winnable 1":
        raise InputError(f"{path} is a certificate of winnable; recheck it with: winnable ROWS --verify {path}.")
    several = read.get("designs", read.get("ceilings")) if isinstance(read, dict) else None
    found = [
        answer.get("certificate", answer) if isinstance(answer, dict) else answer
        for answer in (several if isinstance(several, list) else [read])
    ]
    if not found or not all(isinstance(certificate, dict) for certificate in found):
        raise InputError(f"{path} holds no certificate: it must be a JSON object; pass what --out wrote.")
    return found


def write_certificate(path: str, certificate: Mapping[str, Any]) -> None:
    """Write a certificate as JSON; floats keep every digit. The file appears whole or not at all."""
    temporary = f"{path}.part"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(certificate, file, indent=1, allow_nan=False)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 10**308


def _short(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, (int, str, list, dict)) else repr(value)


def _distribution(target: Array, rows: NDArray[np.intp]) -> Array:
    """The target on the allowed keys; it must be a distribution, with nothing on the others."""
    elsewhere = np.ones(len(target), dtype=bool)
    elsewhere[rows] = False
    if target.min() < 0 or abs(target.sum() - 1) > 1e-5 or target[elsewhere].any():
        raise InputError("The certificate's target must be a distribution over the allowed keys, with sum 1.")
    return target[rows]


class _Problem:
    """The question rebuilt from the certificate and the keys; every field is checked before it is used."""

    def __init__(self, certificate: Mapping[str, Any], keys: Array, strict: bool, tiers: tuple[bool, ...]) -> None:
        if not isinstance(certificate, Mapping) or certificate.get("format") != FORMAT:
            raise InputError(
                f'This is not a certificate: its "format" must be {FORMAT!r}; pass the JSON that a design verb printed.'
            )
        self.certificate, self.strict, self.tiers = certificate, strict, tiers
        question = self.get("question", dict)
        self.verb, self.claim = question.get("verb"), certificate.get("claim")
        if self.verb not in VERBS or self.claim not in CLAIMS:
            raise InputError(f"The certificate's verb {self.verb!r} or claim {self.claim!r} is not one that exists.")
        self.get("data", dict)
        self.scale = self.number("scale")
        if not self.scale > 0:
            raise InputError(f"The certificate's 'scale' must be a positive number; it is {self.scale!r}.")
        self.eps, self.kl, self.max_norm = (question.get(name) for name in ("eps", "kl", "max_norm"))
        allowed = certificate.get("allowed")
        rows = np.arange(len(keys)) if allowed is None else self.indices(allowed, len(keys))
        self._place(keys, rows, question)

    def _place(self, keys: Array, rows: NDArray[np.intp], question: Mapping[str, Any]) -> None:
        """Points that compete, anchors, and for matching the target."""
        self.target, self.chosen = None, np.zeros(0, dtype=np.intp)
        if self.verb == "match":
            self.target = _distribution(self._vector(question.get("target"), "target", len(keys)), rows)
            self.points, self.anchors = keys[rows], np.zeros((0, keys.shape[1]))
            return
        chosen = self.indices(question.get("keys"), len(keys))
        if self.verb == "copy" and len(chosen) != 1:
            raise InputError(f"The certificate is about copying {len(chosen)} keys at once; copying is of one key.")
        if not np.isin(chosen, rows).all():
            raise InputError("The certificate names a key that its own mask forbids.")
        self.chosen, self.anchors = chosen, keys[chosen]
        self.points = keys[np.setdiff1d(rows, chosen)] if self.verb == "copy" else keys[rows]

    def get(self, name: str, kind: type) -> Any:
        value = self.certificate.get(name)
        if not isinstance(value, kind):
            raise InputError(f"The certificate's {name!r} is missing or not a {kind.__name__}; it cannot be checked.")
        return value

    def number(self, name: str) -> float:
        value: Any = self.certificate.get(name)
        if not _is_number(value):
            raise InputError(f"The certificate's {name!r} must be a finite number; it is {_short(value)}.")
        return float(value)

    def honest(self, name: str, proved: float, *, upper: bool) -> bool:
        """Is the number that the certificate may state under this name no sharper than the one proved?"""
        if self.certificate.get(name) is None:
            return True
        return self.number(name) >= proved if upper else self.number(name) <= proved

    def _vector(self, value: Any, name: str, length: int) -> Array:
        try:
            vector = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            vector = np.empty(0)
        if vector.shape != (length,) or not np.isfinite(vector).all():
            raise InputError(f"The certificate's {name!r} must be {length} finite numbers.")
        return vector

    def indices(self, value: Any, count: int) -> NDArray[np.intp]:
        good = isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
        if not good or not value or min(value) < 0 or max(value) >= count or len(set(value)) < len(value):
            raise InputError(f"The certificate's list of keys must be distinct whole numbers from 0 to {count - 1}.")
        return np.array(value, dtype=np.intp)

    def query(self) -> Array:
        return self._vector(self.certificate.get("query"), "query", self.points.shape[1])

    def direction(self) -> Array | list[int]:
        """A direction in floats, or in whole numbers where floats have too few digits for it."""
        value, length = self.get("direction", list), self.points.shape[1]
        if len(value) == length and all(type(x) is int for x in value):
            return list(value)
        return self._vector(value, "direction", length)

    def dual(self, name: str) -> tuple[Array, Array]:
        """Non-negative weights over the points and a mixture over the anchors, each with a positive sum."""
        entry = self.get(name, dict)
        weights = self._vector(entry.get("weights"), f"{name} weights", len(self.points))
        mixture = self._vector(entry.get("mixture", []), f"{name} mixture", len(self.anchors))
        for vector in (weights, mixture):  # far outside that range their own sums would overflow or underflow
            if len(vector) and not (vector.min() >= 0 and 1e-100 < vector.max() < 1e100):
                raise InputError(f"The certificate's {name} weights must be non-negative, the largest near 1.")
        return weights, mixture

    # What the two sides give, in nats ------------------------------------------------------------------------------

    def value(self, query: Array, *, refine: bool) -> flint.arb:
        """F(q), from above: for copying ln sum_i exp(s_i - s_j), for matching the divergence."""
        if self.target is not None:
            return self._divergence(self.target, query, refine=refine)
        totals = [self._total(anchor, query, refine=refine) for anchor in self.anchors]
        worst = max(total.upper() for total in totals)  # exact numbers, so that the order is certain
        return worst.log() if len(self.points) else flint.arb(-math.inf)

    def meets(self, query: Array, *, refine: bool) -> bool:
        """Does the query meet the demand? The zero query weighs all keys alike, so counting decides it exactly."""
        if self.target is None and not query.any():
            eps = Fraction(self.asked(self.eps, "eps"))
            return len(self.points) <= (eps if self.verb == "copy" else eps + len(self.anchors))
        return bool(self.value(query, refine=refine) <= self.limit())

    def copies(self) -> int:
        """How many competing keys equal the key to be copied, number for number."""
        return int((self.points == self.anchors[0]).all(axis=1).sum()) if self.verb == "copy" else 0

    def _total(self, anchor: Array, query: Array, *, refine: bool) -> flint.arb:
        """sum over the points of exp(s_i - s_anchor), from above."""
        lead, rad = self._lead(anchor, query, refine=refine)
        return evaluate.sum_exp(-lead, rad, strict=self.strict)

    def _lead(self, anchor: Array, query: Array, *, refine: bool) -> tuple[Array, Array]:
        """scale (anchor - k_i).q for every point, as an enclosure."""
        if refine:
            mid, rad = rigor.margins(self.points, anchor, query)
        else:
            both, error = rigor.dot_enclosure(np.concatenate([self.points, anchor[None, :]]), query)
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not a number, and proves nothing
                mid = both[-1] - both[:-1]
                rad = (error[:-1] + error[-1]) * (1 + 4 * rigor.U) + 2 * rigor.U * np.abs(mid)
        if self.scale == 1:
            return mid, rad
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.scale * mid
            return scaled, (self.scale * rad + 2 * rigor.U * np.abs(scaled)) * (1 + 4 * rigor.U) + rigor.TINY

    def _divergence(self, target: Array, query: Array, *, refine: bool) -> flint.arb:
        """KL(p || softmax) = ln sum exp(s_i - s_0) + sum p_i (s_0 - s_i) - H(p), from above."""
        lead, rad = self._lead(self.points[int(np.argmax(target))], query, refine=refine)
        total = evaluate.sum_exp(-lead, rad, strict=self.strict)
        share, high, error = flint.arb(0), flint.arb(0), rad[target > 0]
        for p, x, r in zip(target[target > 0], lead[target > 0], error, strict=True):
            share += flint.arb(float(p))
            high += flint.arb(float(p)) * (flint.arb(float(x)) + flint.arb(float(r)))
        return total.log() + high / share - evaluate.entropy_ball(target[target > 0])

    def entropy(self, weights: Array) -> flint.arb:
        """What the weights prove in nats, from below: H(w), less the target's entropy where one is matched."""
        entropy = evaluate.entropy(weights, strict=self.strict)
        if self.target is None:
            return entropy
        return entropy - evaluate.entropy_ball(self.target[self.target > 0])

    def slack_above(self, weights: Array, mixture: Array, *, refine: bool) -> float:
        """scale ||P^T w - A^T mu||, from above."""
        if self.target is not None:
            length = evaluate.slack_to_target_above(self.points, weights, self.target, refine=refine)
        else:
            length = evaluate.slack_above(self.points, weights, self.anchors, mixture, refine=refine)
        return self.scale * length * (1 + 4 * rigor.U) + rigor.TINY

    def limit(self) -> flint.arb:
        """The value of F that the question asks for: ln eps, ln(|S| + eps), or the KL itself."""
        if self.verb == "match":
            return flint.arb(float(self.asked(self.kl, "kl")))
        eps = flint.arb(float(self.asked(self.eps, "eps")))
        return eps.log() if self.verb == "copy" else (eps + len(self.anchors)).log()

    def asked(self, value: Any, name: str) -> float:
        if not _is_number(value) or value <= 0:
            raise InputError(
                f"The certificate's question must give {name!r} as a positive number; it is {_short(value)}."
            )
        return float(value)

    def attention(self, value: float, *, up: bool) -> float:
        """The attention that a value F stands for (the divergence itself for matching), rounded to the safe side."""
        if self.verb == "match":
            return value
        if value == math.inf:
            return 0.0
        growth = flint.arb(value).exp()
        share = 1 / (1 + growth) if self.verb == "copy" else 1 / growth
        return min(evaluate.above(share), 1.0) if up else max(evaluate.below(share), 0.0)

    def words(self) -> str:
        """The question that the certificate answers, so that nobody takes it for the answer to another."""
        asked = {"eps": self.eps, "kl": self.kl, "max_norm": self.max_norm}
        about = ", ".join(f"{name} {value:.12g}" for name, value in asked.items() if _is_number(value))
        chosen = ", ".join(map(str, self.chosen.tolist()))
        what = f"key{'s' * (len(self.chosen) > 1)} {chosen} (counted from 0)" if chosen else "the target stored in it"
        verb = f"the most that can ever be done: {self.verb}" if self.claim == "ceiling" else self.verb
        masked = "" if self.certificate.get("allowed") is None else ", with a mask"
        return f"{verb} {what}{', ' * bool(about)}{about}, scale {self.scale:.12g}{masked}"

    def measure(self) -> str:
        return {"copy": "attention", "share": "least attention", "match": "divergence"}[self.verb]


Checked = tuple[list[tuple[str, bool]], dict[str, float]]


def _check_shortest(problem: _Problem) -> Checked:
    query, (weights, mixture) = problem.query(), problem.dual("dual")
    claimed, wanted = problem.number("norm"), problem.number("gap")
    norm, limit = evaluate.norm_above(query), problem.limit()
    meets, honest, lower, gap = False, False, 0.0, math.inf
    for refine in problem.tiers:
        meets = meets or problem.meets(query, refine=refine)
        if norm > 0:
            numerator = evaluate.below(problem.entropy(weights) - limit)
            slack = problem.slack_above(weights, mixture, refine=refine)
            lower = max(lower, numerator / slack * (1 - 4 * rigor.U) if slack > 0 else 0.0)
        gap = norm / lower - 1 if lower > 0 else (0.0 if norm == 0 else math.inf)
        honest = problem.honest("lower_bound", lower, upper=False)
        if meets and gap <= wanted and honest:
            break
    statements = [
        (f"the query meets the demand ({problem.verb})", meets),
        (f"its norm is at most {claimed:.12g}", norm <= claimed),
        (f"no query shorter than {lower:.12g} does: the gap is at most {wanted:.1e}", gap <= wanted and honest),
    ]
    return statements, {"norm": norm, "lower_bound": lower, "gap": gap}


def _check_strongest(problem: _Problem) -> Checked:
    query, (weights, mixture) = problem.query(), problem.dual("dual")
    radius, wanted = problem.asked(problem.max_norm, "max_norm"), problem.number("gap")
    norm = evaluate.norm_above(query)
    best, gap = math.inf, math.inf
    bound = 0.0 if problem.verb == "match" else -math.inf  # a divergence is never negative
    for refine in problem.tiers:
        best = min(best, evaluate.above(problem.value(query, refine=refine)))
        reach = radius * problem.slack_above(weights, mixture, refine=refine) * (1 + 4 * rigor.U)
        bound = max(bound, evaluate.below(problem.entropy(weights) - flint.arb(reach)))
        gap = _gap_in_nats(problem, best, bound)
        reached, limit = problem.attention(best, up=False), problem.attention(bound, up=True)
        does = best < math.inf and problem.honest("reached", reached, upper=problem.verb == "match")
        most = gap <= wanted and problem.honest("bound", limit, upper=problem.verb != "match")
        if does and most:
            break
    what = problem.measure()
    statements = [
        (f"the query's norm is at most {radius:.12g}", norm <= radius),
        (f"its {what} is {reached:.12g} or better", does),
        (f"no query of that norm gets past {limit:.12g}: within {wanted:.1e} nats", most),
    ]
    return statements, {"norm": norm, "reached": reached, "bound": limit, "gap": gap}


def _gap_in_nats(problem: _Problem, best: float, bound: float) -> float:
    """The gap in -ln alpha; for copying F = ln((1 - alpha) / alpha), so -ln alpha = ln(1 + e^F)."""
    if problem.verb == "copy":
        return float(np.logaddexp(0, best) - np.logaddexp(0, bound))
    return best - bound


def _check_unreachable(problem: _Problem) -> Checked:
    copies = problem.copies()
    if copies and problem.certificate.get("combination") is None:
        return _too_many_copies(problem, copies)
    value = _combination_value(problem)
    proved = value is not None and bool(flint.arb(value) > problem.limit())
    bound = problem.attention(value, up=True) if value is not None else math.nan
    proved = proved and problem.honest("bound", bound, upper=problem.verb != "match")
    statements = [
        ("the weights can be made to balance exactly, all of them positive", value is not None),
        (f"so no query at all gets past {bound:.12g}, which is short of the demand", proved),
    ]
    return statements, {"bound": bound}


def _too_many_copies(problem: _Problem, copies: int) -> Checked:
    """Each copy has the key's own weight, and every further key has some: the others' total exceeds eps."""
    eps = Fraction(problem.asked(problem.eps, "eps"))
    proved = copies > eps or (copies == eps and len(problem.points) > copies)
    bound = _one_in(1 + copies, up=True)
    proved = proved and problem.honest("bound", bound, upper=True)
    return [(f"{copies} other keys are equal to it, so no query gets it past {bound:.12g}", proved)], {"bound": bound}


def _one_in(count: int, *, up: bool) -> float:
    """1/count, on the safe side of it."""
    near = 1 / count
    if up:
        return near if Fraction(near) >= Fraction(1, count) else math.nextafter(near, math.inf)
    return near if Fraction(near) <= Fraction(1, count) else math.nextafter(near, 0)


def _check_ceiling(problem: _Problem) -> Checked:
    if problem.verb == "copy" and problem.certificate.get("combination") is None:
        ceiling: float | None = _one_in(1 + problem.copies(), up=True)
    else:
        value = _ceiling_value(problem) if problem.verb == "copy" else _combination_value(problem)
        ceiling = None if value is None else problem.attention(value, up=True)
    proved = ceiling is not None and problem.honest("ceiling", ceiling, upper=problem.verb != "match")
    ceiling = 1.0 if ceiling is None else ceiling
    reached, how = _reached(problem, problem.copies())
    wanted = problem.number("gap")
    close = abs(ceiling - reached) <= wanted
    close = close and problem.honest("reached", reached, upper=problem.verb == "match")
    statements = [
        (f"no query ever gets past {ceiling:.9g}", proved),
        (f"{how} comes to {reached:.9g}, within {wanted:.0e} of that", close),
    ]
    return statements, {"ceiling": ceiling, "reached": reached}


def _ceiling_value(problem: _Problem) -> float | None:
    """ln(m + e^H0) from below: m copies of the key, and H0 from an exact combination of the others."""
    same = (problem.points == problem.anchors[0]).all(axis=1)
    entropy = _combination_value(problem, keep=~same)
    if entropy is None:
        return None
    return evaluate.below((flint.arb(int(same.sum())) + flint.arb(entropy).exp()).log())


def _reached(problem: _Problem, copies: int) -> tuple[float, str]:
    """What the stored query really gets, or what a direction gets in the limit."""
    if problem.verb == "copy" and problem.certificate.get("query") is None:
        distinct = problem.points[~(problem.points == problem.anchors[0]).all(axis=1)]
        wins = rigor.strictly_wins(np.concatenate([problem.anchors, distinct]), 0, problem.direction())
        return (_one_in(1 + copies, up=False) if wins else 0.0), "a query along the stored direction, made long enough,"
    query = problem.query()
    value = min(evaluate.above(problem.value(query, refine=refine)) for refine in problem.tiers)
    return problem.attention(value, up=False), f"the stored query of norm {evaluate.norm_above(query):.6g}"


def _combination_value(problem: _Problem, keep: NDArray[np.bool_] | None = None) -> float | None:
    """H(w) from below (less H(p) when matching) for exact weights near the stored ones that balance exactly.

    The weights outside the stored basis stay as they are; those inside solve the equations, enclosed by a verified
    approximate inverse. None where that fails. Coordinates that are exact affine functions of others on the rows
    involved are left out: their equations follow.
    """
    weights, mixture = problem.dual("combination")
    entry = problem.get("combination", dict)
    points = problem.points
    if keep is not None:
        if weights[~keep].any():
            return None
        points, weights = points[keep], weights[keep]
    support = np.flatnonzero(weights)
    rows, weights = points[support], weights[support]
    basis = np.flatnonzero(np.isin(support, problem.indices(entry.get("basis"), len(points))))
    if problem.target is not None:
        present = problem.target > 0
        anchors, mixture = problem.points[present], problem.target[present]
    else:
        anchors = problem.anchors
    enclosed = _balanced(rows, weights, basis, anchors, mixture)
    if enclosed is None:
        return None
    entropy = rigor.entropy_bounds(*enclosed)[0]
    if problem.target is None:
        return entropy
    return evaluate.below(flint.arb(entropy) - evaluate.entropy_ball(problem.target[problem.target > 0]))


def _balanced(
    rows: Array, weights: Array, basis: NDArray[np.intp], anchors: Array, mixture: Array
) -> tuple[Array, Array] | None:
    """Enclosures (mid, rad) of positive weights with sum 1 and sum w_i k_i = sum mu_m a_m / M, or None."""
    columns = _independent_columns(np.concatenate([rows, anchors]), len(basis) - 1)
    if columns is None:
        return None
    rows, anchors = rows[:, columns], anchors[:, columns]
    fixed = np.ones(len(rows), dtype=bool)
    fixed[basis] = False
    # relative to an anchor where that is exact: the weights add up to 1, so a common offset cancels
    shifted, lost = rigor.two_sum(rows, -anchors[0])
    shifted_anchors, lost_too = rigor.two_sum(anchors, -anchors[0])
    if not lost.any() and not lost_too.any():
        rows, anchors = shifted, shifted_anchors
    coefficients = np.concatenate([mixture / math.fsum(mixture), -weights[fixed]])
    stacked = np.concatenate([anchors, rows[fixed]])
    mid, rad = rigor.dot_enclosure(np.ascontiguousarray(stacked.T), coefficients, refine=True)
    if len(mixture) > 1:  # the quotients mu_m / M are rounded; the mixture itself is not
        rad = rad + 4 * rigor.U * np.abs(anchors).max(axis=0)
    mid, rad = np.append(mid, 1 - math.fsum(weights[fixed])), np.append(rad, 4 * rigor.U)
    matrix = np.concatenate([rows[basis], np.ones((len(basis), 1))], axis=1).T
    unit = np.ldexp(1.0, np.frexp(np.abs(matrix).max(axis=1))[1])  # powers of two: scaling is exact
    solved = rigor.solve_enclosure(matrix / unit[:, None], (mid / unit, rad / unit * (1 + 4 * rigor.U)))
    if solved is None or not (solved[0] > solved[1]).all():
        return None
    full_mid, full_rad = weights.copy(), np.zeros(len(weights))
    full_mid[basis], full_rad[basis] = solved
    return full_mid, full_rad


def _independent_columns(rows: Array, wanted: int) -> list[int] | None:
    """All columns if `wanted` is their number; else columns of which the others are exact affine functions."""
    if wanted == rows.shape[1]:
        return list(range(wanted))
    if rows.size > 200_000:
        return None  # exact elimination would take too long
    whole, _ = rigor.integers(rows)
    table = [[1, *map(int, row)] for row in whole]
    reduced, rank = flint.fmpq_mat(flint.fmpz_mat(table)).rref()
    if rank != wanted + 1:
        return None
    columns, place = [], 0
    for r in range(rank):
        while reduced[r, place] == 0:
            place += 1
        columns.append(place - 1)
    return columns[1:]
