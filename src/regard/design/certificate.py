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

from regard import rigor
from regard.arrays import check_array
from regard.design import evaluate
from regard.design.problem import Problem
from regard.errors import InputError
from regard.results import Result

Array = NDArray[np.float64]

PRECISION = 128  # bits of the balls


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
    problem = Problem(certificate, keys, strict, tiers)
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


Checked = tuple[list[tuple[str, bool]], dict[str, float]]


def _check_shortest(problem: Problem) -> Checked:
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


def _check_strongest(problem: Problem) -> Checked:
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


def _gap_in_nats(problem: Problem, best: float, bound: float) -> float:
    """The gap in -ln alpha; for copying F = ln((1 - alpha) / alpha), so -ln alpha = ln(1 + e^F)."""
    if problem.verb == "copy":
        return float(np.logaddexp(0, best) - np.logaddexp(0, bound))
    return best - bound


def _check_unreachable(problem: Problem) -> Checked:
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


def _too_many_copies(problem: Problem, copies: int) -> Checked:
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


def _check_ceiling(problem: Problem) -> Checked:
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


def _ceiling_value(problem: Problem) -> float | None:
    """ln(m + e^H0) from below: m copies of the key, and H0 from an exact combination of the others."""
    same = (problem.points == problem.anchors[0]).all(axis=1)
    entropy = _combination_value(problem, keep=~same)
    if entropy is None:
        return None
    return evaluate.below((flint.arb(int(same.sum())) + flint.arb(entropy).exp()).log())


def _reached(problem: Problem, copies: int) -> tuple[float, str]:
    """What the stored query really gets, or what a direction gets in the limit."""
    if problem.verb == "copy" and problem.certificate.get("query") is None:
        distinct = problem.points[~(problem.points == problem.anchors[0]).all(axis=1)]
        wins = rigor.strictly_wins(np.concatenate([problem.anchors, distinct]), 0, problem.direction())
        return (_one_in(1 + copies, up=False) if wins else 0.0), "a query along the stored direction, made long enough,"
    query = problem.query()
    value = min(evaluate.above(problem.value(query, refine=refine)) for refine in problem.tiers)
    return problem.attention(value, up=False), f"the stored query of norm {evaluate.norm_above(query):.6g}"


def _combination_value(problem: Problem, keep: NDArray[np.bool_] | None = None) -> float | None:
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
