"""Rechecks a certificate of `winnable` from the rows alone, with code that shares nothing with the search.

Wins are float64 products with a Cauchy-Schwarz bound, then ball arithmetic (FLINT) at growing precision until the
sign is certain; combinations are solved again in ball arithmetic, or multiplied out in exact rationals.
Its few lines of arithmetic are its own on purpose: what `regard.rigor` had wrong, this would find.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.design.winnable_rows import LARGEST, WAYS, Way
from regard.errors import InputError
from regard.files import read_file
from regard.results import Result

STEP = 2048  # rows that one step compares
MOST_DIGITS = 2_000_000  # of one rational: reading more could take minutes


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedWinnable(Result):
    """Which of the certificate's verdicts were proved again; `failed` maps a row to what is wrong with its proof."""

    checked: int
    undecided: int
    failed: dict[int, str]

    @property
    def answer(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        if not self.failed:
            rest = f"; {self.undecided:,} rows are undecided in it" if self.undecided else ""
            return f"The certificate holds: {self.checked:,} verdicts were proved again from the rows alone{rest}."
        row, reason = next(iter(self.failed.items()))
        return (
            f"The certificate does not hold: {len(self.failed):,} of {self.checked:,} verdicts could not be proved "
            f"again; the first is row {row} (counted from 0): {reason}."
        )


def verify_winnable(
    rows: ArrayLike, certificate: dict[str, Any] | str | os.PathLike[str], *, only: Sequence[int] | None = None
) -> CheckedWinnable:
    """Proves every verdict of a certificate again, or those of the rows in `only`.

    rows: the matrix the certificate is about. certificate: its dictionary, or the JSON file that holds it.

    >>> from regard.design.winnable_rows import winnable
    >>> square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
    >>> print(verify_winnable(square, winnable(square, jobs=1).to_dict()))
    The certificate holds: 5 verdicts were proved again from the rows alone.
    """
    stored = _as_stored(np.asarray(rows))
    ways, proofs = _read(certificate, stored)
    chosen = range(len(ways)) if only is None else sorted({int(j) for j in only})
    K = np.asarray(stored, dtype=np.float64)
    failed = _screened(K, [j for j in chosen if ways[j] == Way.CENTRED], None)
    if any(ways[j] == Way.WHITENED for j in chosen):
        failed |= _screened(K, [j for j in chosen if ways[j] == Way.WHITENED], _inverse_covariance(K))
    for j in chosen:
        if ways[j] in (Way.OWN_QUERY, Way.NEVER):
            reason = _own_proof(K, j, ways[j], proofs.get(j))
            if reason:
                failed[j] = reason
    undecided = sum(ways[j] == Way.UNDECIDED for j in chosen)
    failed = {j: failed[j] for j in sorted(failed)}
    return CheckedWinnable(checked=len(chosen) - undecided, undecided=undecided, failed=failed)


def _as_stored(rows: NDArray[Any]) -> NDArray[Any]:
    """Floats as they are; integers as float64, if that holds each of them exactly."""
    if rows.dtype.kind == "f":
        return rows
    floats = rows.astype(np.float64)
    large = np.abs(floats) >= 2.0**53
    if any(int(a) != int(b) for a, b in zip(rows[large], floats[large], strict=True)):
        raise InputError("the rows hold integers beyond 2^53 that float64 rounds: use the matrix of the certificate")
    return floats


def _read(
    certificate: dict[str, Any] | str | os.PathLike[str], stored: NDArray[Any]
) -> tuple[str, dict[int, dict[str, Any]]]:
    try:
        read = certificate if isinstance(certificate, dict) else json.loads(read_file(certificate, most=LARGEST))
        ways, proofs = str(read["ways"]), {int(p["row"]): dict(p) for p in read["proofs"]}
        name, mark = read["format"], read["fingerprint"]
    except OSError as error:
        raise InputError(f"{certificate} cannot be read: {error.strerror or error}; check the path") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, InputError):  # it is no file, or too large a one
            raise
        raise InputError(f"this is not a certificate of winnable ({repr(error)[:120]}): make one with --out") from None
    if name != "regard winnable 1" or len(ways) != len(stored) or set(ways) - set(WAYS):
        raise InputError(
            f"the certificate (format {name!r}, {len(ways)} rows) does not fit {len(stored)} rows: "
            "use the matrix it was made from"
        )
    if mark != _fingerprint(stored):
        raise InputError("the certificate is about other numbers than these rows: use the matrix it was made from")
    return ways, proofs


def _fingerprint(stored: NDArray[Any]) -> str:
    head = f"{stored.shape} {stored.dtype.str}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(stored).tobytes()).hexdigest()


def _inverse_covariance(K: Float) -> Float:
    size = float(np.abs(K).max()) or 1.0
    X = (K - K.mean(axis=0)) / size
    covariance = X.T @ X / len(K)
    ridge = 1e-6 * np.trace(covariance) / K.shape[1] + np.finfo(np.float64).tiny
    return np.asarray(np.linalg.pinv(covariance + ridge * np.eye(K.shape[1])), dtype=np.float64)


def _screened(K: Float, which: list[int], matrix: Float | None) -> dict[int, str]:
    """Rows whose recipe, applied again, does not win."""
    failed, centre = {}, K.mean(axis=0)
    for start in range(0, len(which), 256):
        some = which[start : start + 256]
        Q = K[some] - centre
        Q = Q if matrix is None else Q @ matrix
        for j, q, rivals in zip(some, Q, _unsure(K, some, Q), strict=True):
            if not all(_beats(K[j], K[i], q) for i in rivals):
                failed[j] = "the query that its recipe gives does not make it the strict argmax"
    return failed


def _unsure(K: Float, some: list[int], Q: Float) -> list[NDArray[np.intp]]:
    """For each query, the rows that float64 cannot prove to score less than the query's own row."""
    d = K.shape[1]
    top = max(float(np.abs(K).max()), 1e-300)
    lengths = _length_above(Q)
    plain = 1e-100 < top < 1e100 and float(lengths.max()) < 1e100
    if not plain:
        return [np.delete(np.arange(len(K)), j) for j in some]
    own = np.einsum("ij,ij->i", K[some], Q)
    unsure: list[list[NDArray[np.intp]]] = [[] for _ in some]
    for start in range(0, len(K), STEP):
        part = K[start : start + STEP]
        # |fl(x.y) - x.y| <= (d + 2) 2^-53 ||x|| ||y|| and a little for the norms' own rounding and underflow
        reach = _length_above(part)[None, :] + _length_above(K[some])[:, None]
        bound = 1.01 * (d + 4) * 2.0**-53 * reach * lengths[:, None] + 1e-300
        close = ~(own[:, None] - Q @ part.T > bound)
        for row, j in enumerate(some):
            near = np.flatnonzero(close[row]) + start
            unsure[row].append(near[near != j])
    return [np.concatenate(parts) for parts in unsure]


def _length_above(X: Float) -> Float:
    """The rows' lengths, no less than they are (to a few roundings) even where the squares underflow or overflow."""
    with np.errstate(over="ignore"):  # to infinity, with which nothing is proved
        return np.asarray(np.linalg.norm(X, axis=1) + 1e-150)


def _beats(winner: Float, loser: Float, q: Sequence[Any] | Float) -> bool:
    """(winner - loser).q > 0, certainly: in balls, with more and more digits until they are exact."""
    query = [x if isinstance(x, flint.fmpz) else float(x) for x in q]
    # 16384 bits hold every such sum of float64 products exactly
    for bits in (128, 512, 16384):
        with flint.ctx.workprec(bits):
            total = flint.arb(0)
            for a, b, x in zip(winner.tolist(), loser.tolist(), query, strict=True):
                total += (flint.arb(a) - flint.arb(b)) * flint.arb(x)
            if total > 0:
                return True
            if total <= 0:
                return False
    return False


def _own_proof(K: Float, j: int, way: str, proof: dict[str, Any] | None) -> str | None:
    """What is wrong with the proof of row j; None if it holds."""
    if proof is None:
        return "the certificate holds no proof of it"
    if way == Way.OWN_QUERY:
        return None if _query_wins(K, j, proof.get("query")) else "its query does not make it the strict argmax"
    support, weights = proof.get("support") or [], proof.get("weights") or []
    if not isinstance(support, list) or not isinstance(weights, list):
        return "its combination names rows or weights that do not fit"
    inside = all(isinstance(i, int) and 0 <= i < len(K) and i != j for i in support)
    if not inside or len(set(support)) != len(support) or len(weights) != len(support) or not support:
        return "its combination names rows or weights that do not fit"
    exact = all(isinstance(w, str) for w in weights)
    holds = _combines_exactly(K, j, support, weights) if exact else _combines_in_balls(K, j, support)
    return None if holds else "its rows do not combine to it with positive weights"


def _query_wins(K: Float, j: int, query: Any) -> bool:
    if not isinstance(query, list) or len(query) != K.shape[1]:
        return False
    try:
        if isinstance(query[0], str):
            whole = [flint.fmpz(x) for x in query]
            return all(_beats(K[j], K[i], whole) for i in range(len(K)) if i != j)
        q = np.array(query, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    if q.shape != (K.shape[1],):
        return False
    return bool(np.isfinite(q).all()) and all(_beats(K[j], K[i], q) for i in _unsure(K, [j], q[None, :])[0])


def _combines_exactly(K: Float, j: int, support: list[int], weights: list[str]) -> bool:
    try:
        w = [_rational(text) for text in weights]
    except (ValueError, ZeroDivisionError):
        return False
    if sum(w, flint.fmpq(0)) != 1 or any(x <= 0 for x in w):
        return False
    common = flint.fmpz(1)  # one denominator for all, or every sum would pay for a greatest common divisor
    for x in w:
        common = common.lcm(x.q)
    whole = [(x * common).p for x in w]
    for column, target in zip(K[support].T.tolist(), K[j].tolist(), strict=True):
        stored = [_stored(k) for k in (*column, target)]
        power = max(int(k.q) for k in stored)  # denominators of floats are powers of two
        scaled = [(k * power).p for k in stored]
        if sum((x * k for x, k in zip(whole, scaled[:-1], strict=True)), flint.fmpz(0)) != common * scaled[-1]:
            return False
    return True


def _combines_in_balls(K: Float, j: int, support: list[int]) -> bool:
    """d + 1 rows: the one solution of sum w k = k_j, sum w = 1 is enclosed, and must be positive."""
    d = K.shape[1]
    if len(support) != d + 1:
        return False
    differences = [list(map(_ball_difference, K[i].tolist(), K[j].tolist())) for i in support]
    for bits in (64, 192):
        with flint.ctx.workprec(bits):
            entries = [row[c] for c in range(d) for row in differences] + [flint.arb(1)] * (d + 1)
            right = flint.arb_mat(d + 1, 1, [flint.arb(0)] * d + [flint.arb(1)])
            try:
                w = flint.arb_mat(d + 1, d + 1, entries).solve(right)
            except ZeroDivisionError:
                continue
            if all(w[i, 0] > 0 for i in range(d + 1)):
                return True
    return False


def _ball_difference(a: float, b: float) -> flint.arb:
    with flint.ctx.workprec(256):
        return flint.arb(a) - flint.arb(b)


def _rational(text: str) -> flint.fmpq:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a rational of {len(text):,} digits")
    above, _, below = text.partition("/")
    return flint.fmpq(flint.fmpz(above), flint.fmpz(below or "1"))  # Python's int refuses long strings


def _stored(x: float) -> flint.fmpq:
    return flint.fmpq(*x.as_integer_ratio())
