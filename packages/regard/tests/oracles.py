"""Slow, obvious versions of what the design verbs compute, for small instances: general solvers, exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax


def constraint(points, anchors, query):
    """F(q) = max_m ( LSE(P q) - a_m.q )."""
    return logsumexp(points @ query) - (anchors @ query).min()


def shortest_norm(points, anchors, limit, *, starts=(0.1, 1.0, 10.0)):
    """min ||q|| subject to LSE(P q) - a_m.q <= limit for every anchor, by SLSQP from several starts."""
    direction = anchors.mean(axis=0) - points.mean(axis=0)
    best = np.inf
    for factor in starts:
        found = minimize(
            lambda q: 0.5 * q @ q,
            factor * direction + 1e-3,
            jac=lambda q: q,
            constraints={
                "type": "ineq",
                "fun": lambda q: limit - (logsumexp(points @ q) - anchors @ q),
                "jac": lambda q: anchors - softmax(points @ q) @ points,
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-15},
        )
        if constraint(points, anchors, found.x) <= limit + 1e-7:
            best = min(best, float(np.linalg.norm(found.x)))
    return best


def strongest_value(points, anchors, radius):
    """min F(q) over ||q|| <= radius, by SLSQP with F as a further variable."""
    d = points.shape[1]
    start = np.append(np.zeros(d), constraint(points, anchors, np.zeros(d)))
    found = minimize(
        lambda x: x[-1],
        start,
        jac=lambda x: np.append(np.zeros(d), 1.0),
        constraints=[
            {"type": "ineq", "fun": lambda x: x[-1] - (logsumexp(points @ x[:-1]) - anchors @ x[:-1])},
            {"type": "ineq", "fun": lambda x: radius**2 - x[:-1] @ x[:-1]},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    query = found.x[:-1] * min(1.0, radius / max(np.linalg.norm(found.x[:-1]), 1e-300))
    return constraint(points, anchors, query)


def largest_entropy(points, target):
    """max H(w) over w >= 0 with sum 1 and sum w p = target, by SLSQP on the weights themselves."""
    n = len(points)
    equations = np.concatenate([points.T, np.ones((1, n))])
    right = np.append(target, 1.0)
    start = np.maximum(np.linalg.lstsq(equations, right, rcond=None)[0], 1e-3)
    found = minimize(
        lambda w: float(np.sum(w * np.log(np.maximum(w, 1e-300)))),
        start / start.sum(),
        jac=lambda w: 1 + np.log(np.maximum(w, 1e-300)),
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda w: equations @ w - right, "jac": lambda w: equations},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return -found.fun if np.abs(equations @ found.x - right).max() < 1e-7 else -np.inf


def exact(array):
    """Float64 numbers as fractions, row by row."""
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(array)]


def exact_weights(keys, query, *, allowed=None, scale=1.0, bits=600):
    """The attention weights of stored numbers, as balls of that many bits around the exact real ones."""
    rows = exact(keys)
    (q,) = exact(query)
    scores = [Fraction(scale) * sum((a * b for a, b in zip(row, q, strict=True)), Fraction(0)) for row in rows]
    use = range(len(rows)) if allowed is None else np.flatnonzero(allowed)
    top = max(scores[i] for i in use)
    with flint.ctx.workprec(bits):
        parts = {int(i): ball(scores[i] - top).exp() for i in use}
        total = sum(parts.values(), flint.arb(0))
        return [parts[i] / total if i in parts else flint.arb(0) for i in range(len(rows))]


def exact_divergence(target, weights, *, bits=600):
    """KL(p || w) for p = target / sum(target) and weights given as balls."""
    with flint.ctx.workprec(bits):
        total = sum((flint.arb(float(p)) for p in target), flint.arb(0))
        shares = [flint.arb(float(p)) / total for p in target]
        return sum((p * (p / w).log() for p, w in zip(shares, weights, strict=True) if p > 0), flint.arb(0))


def exact_entropy(weights, *, bits=600):
    """H(w / sum w) of stored numbers."""
    with flint.ctx.workprec(bits):
        positive = [flint.arb(float(w)) for w in weights if w > 0]
        total = sum(positive, flint.arb(0))
        return -sum(((w / total) * (w / total).log() for w in positive), flint.arb(0))


def gives(weight, share, *, bits=600):
    """Is the weight at least that fraction, as far as that many bits can tell?"""
    with flint.ctx.workprec(bits):
        return not weight < ball(share)


def ball(fraction):
    return flint.arb(flint.fmpq(fraction.numerator, fraction.denominator))


def directions(count):
    """Unit vectors in the plane at even angles."""
    angles = np.arange(count) * (2 * np.pi / count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
