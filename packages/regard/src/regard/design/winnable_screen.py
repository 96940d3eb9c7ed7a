"""The fast half of `winnable`: try one cheap query for every row at once, in float32, with a rigorous bound.

For queries q_j (stored in float32) the products k_i.q_j come from a float32 matrix product whose error is at most
b_i ||q_j||, b_i = gamma ||k_i||. One more column, (k_i, b_i).(q_j, ||q_j||), adds that bound to every product
for free, so row j is proved to win where its own score, in float64, is above the largest of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Array, Float, Single
from regard.rigor import SLACK, check_arithmetic, product_bound, row_chunks

BLOCK = 1 << 20  # numbers that one step holds as float64: 8 MB
QUERIES = 512  # rows that one task screens
U32 = 2.0**-24


@dataclass(frozen=True, kw_only=True, eq=False)
class Screen:
    """What a task needs: the rows over 2^exponent in float32 with their bound, the mean, a matrix for queries."""

    keys: Single  # n x (d + 1), the last column the bound b_i
    exponent: int
    centre: Float
    whiten: Float | None = None


def prepare(rows: Array) -> Screen:
    """One pass for the scale and the mean, one for the float32 rows and their bounds."""
    n, d = rows.shape
    top, total = 0.0, np.zeros(d)
    for part in row_chunks(n, d, BLOCK):
        chunk = np.asarray(rows[part], dtype=np.float64)
        top, total = max(top, float(np.abs(chunk).max())), total + chunk.sum(axis=0) / n
    # a power of two, so that dividing by it rounds nothing: entries are then at most 1 and float32 cannot overflow
    exponent = int(np.frexp(top)[1])
    keys = np.empty((n, d + 1), dtype=np.float32)
    # d + 2: rounding the entries to float32, the products, and the bound's own column
    bound = product_bound(d + 2, unit=U32)
    for part in row_chunks(n, d, BLOCK):
        chunk = np.ldexp(np.asarray(rows[part], dtype=np.float64), -exponent)
        keys[part, :d] = chunk
        keys[part, d] = _up(bound * np.linalg.norm(chunk, axis=1))
    return Screen(keys=keys, exponent=exponent, centre=total)


def whitening(rows: Array, centre: Float) -> Float:
    """The inverse covariance of the rows, kept away from singular; q = W (k_j - centre) points where j stands out."""
    n, d = rows.shape
    covariance = np.zeros((d, d))
    top = max(float(np.abs(rows[part]).max()) for part in row_chunks(n, d, BLOCK)) or 1.0
    for part in row_chunks(n, d, BLOCK):
        chunk = (np.asarray(rows[part], dtype=np.float64) - centre) / top
        covariance += chunk.T @ chunk / n
    # any W proves as well as any other: a win is a win, whatever made the query
    ridge = 1e-6 * np.trace(covariance) / d + np.finfo(np.float64).tiny
    return np.asarray(np.linalg.inv(covariance + ridge * np.eye(d)), dtype=np.float64)


def queries(chunk: Float, centre: Float, whiten: Float | None) -> Single:
    """The screening queries of some rows, as float32 of largest entry near 1."""
    with np.errstate(over="ignore", invalid="ignore"):  # a query that is no query wins nothing
        q = chunk - centre
        q = q if whiten is None else q @ whiten
        top = np.abs(q).max(axis=1)
        return np.ldexp(q, -np.frexp(np.where(top > 0, top, 1.0))[1][:, None]).astype(np.float32)


def winners(rows: Array, which: NDArray[np.intp], screen: Screen) -> NDArray[np.bool_]:
    """For each row in `which`: is it proved that its screening query makes it the strict argmax?"""
    check_arithmetic()  # here, since every process and thread has its own
    d = rows.shape[1]
    chunk = np.asarray(rows[which], dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        q = queries(chunk, screen.centre, screen.whiten)
        best = _best_of_others(q, which, screen.keys)
        wide = q.astype(np.float64)
        own = np.ldexp(chunk, -screen.exponent)
        score = np.einsum("ij,ij->i", own, wide)
        doubt = product_bound(d) * np.linalg.norm(own, axis=1) * np.linalg.norm(wide, axis=1)
        underflow = 8 * (d + 2) * 2.0**-120  # of float32 products, and of rows far below the largest
        return np.asarray(best < score - SLACK * doubt - underflow, dtype=np.bool_)


def best_rivals(rows: Array, j: int, screen: Screen, count: int) -> NDArray[np.intp]:
    """The rows of the highest score under row j's screening query: the first cutting planes of a search."""
    q = queries(np.asarray(rows[j : j + 1], dtype=np.float64), screen.centre, screen.whiten)[0]
    scores = screen.keys[:, :-1] @ q
    scores[j] = -np.inf
    if count >= len(scores):
        return np.delete(np.arange(len(scores)), j)
    return np.asarray(np.argpartition(-scores, count)[:count], dtype=np.intp)


def _best_of_others(q: Single, which: NDArray[np.intp], keys: Single) -> Float:
    """max over i != j of fl(k_i.q_j + b_i ||q_j||), which is at least max k_i.q_j."""
    lengths = _up(np.linalg.norm(q.astype(np.float64), axis=1))
    wide = np.concatenate([q, lengths[:, None]], axis=1)
    best = np.full(len(q), -np.inf, dtype=np.float32)
    step = 4096
    for start in range(0, len(keys), step):
        scores = wide @ keys[start : start + step].T
        own = np.flatnonzero((which >= start) & (which < start + step))
        scores[own, which[own] - start] = -np.inf
        best = np.maximum(best, scores.max(axis=1))  # a NaN stays, and proves nothing
    return best.astype(np.float64)


def _up(x: Float) -> Single:
    """float32 numbers above x, with room for the rounding of x itself."""
    return np.nextafter((x * (1 + 1e-6)).astype(np.float32), np.float32(np.inf))
