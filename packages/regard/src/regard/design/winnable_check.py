"""Rechecks a certificate of `winnable` from the rows alone, with code that shares nothing with the search.

Wins are float64 products with a Cauchy-Schwarz bound, then ball arithmetic (FLINT) at growing precision until the
sign is certain; combinations are solved again in ball arithmetic, or multiplied out in exact rationals.
Its few lines of arithmetic are its own on purpose: what `regard.rigor` had wrong, this would find. From there comes
only the look at the machine, whether it rounds as it should.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Array, Float
from regard.design.winnable_rows import LARGEST, WAYS, Way
from regard.errors import CouldNotFindOut, InputError
from regard.files import read_file
from regard.results import Result
from regard.rigor import check_arithmetic
from regard.strict_json import parse_json
from regard.written_numbers import is_exact_float, is_finite_number, rounded_integer_error

STEP = 2048  # rows that one step compares
MOST_DIGITS = 2_000_000  # of one rational: reading more could take minutes
STATED = {"format", "fingerprint", "ways", "proofs", "rows", "dimensions", "dtype", "legend", "resumed"}
UNCHECKED = ("resumed",)  # the history of a certificate, which no row can tell
USED = {Way.OWN_QUERY: ("query",), Way.NEVER: ("support", "weights", "radii")}  # in a proof, beside its row and kind
RATIONALS = ("exact rationals", "identical row")


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedWinnable(Result):
    """Which of the certificate's verdicts were proved again; `failed` maps a row to what is wrong with its proof.

    `wrong` maps a figure about the whole matrix to what is wrong with it, and `unchecked` names what was not checked.
    """

    checked: int
    undecided: int
    failed: dict[int, str]
    wrong: dict[str, str] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()

    @property
    def answer(self) -> bool:
        return not self.failed and not self.wrong

    def __str__(self) -> str:
        if self.wrong:
            return f"The certificate does not hold: {'; '.join(self.wrong.values())}."
        if not self.failed:
            rest = f"; {self.undecided:,} rows are undecided in it" if self.undecided else ""
            rest += f"; not checked: {', '.join(self.unchecked)}" if self.unchecked else ""
            return f"The certificate holds: {self.checked:,} verdicts were proved again from the rows alone{rest}."
        row, reason = next(iter(self.failed.items()))
        return (
            f"The certificate does not hold: {len(self.failed):,} of {self.checked:,} verdicts could not be proved "
            f"again; the first is row {row}: {reason}."
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
    check_arithmetic()
    stored = _as_stored(np.asarray(rows))
    read = _read(certificate)
    ways, proofs = _verdicts(read, stored)
    chosen = range(len(ways)) if only is None else _chosen_rows(only, len(ways))
    K = np.asarray(stored, dtype=np.float64)
    failed = _recipe_failures(K, [j for j in chosen if ways[j] == Way.CENTRED], None)
    if any(ways[j] == Way.WHITENED for j in chosen):
        failed |= _recipe_failures(K, [j for j in chosen if ways[j] == Way.WHITENED], _inverse_covariance(K))
    for j in chosen:
        if ways[j] in (Way.OWN_QUERY, Way.NEVER):
            reason = _own_proof(K, j, ways[j], proofs.get(j))
            if reason:
                failed[j] = reason
        elif j in proofs:
            failed.setdefault(j, "its letter needs no proof, and one stands there")
    undecided = sum(ways[j] == Way.UNDECIDED for j in chosen)
    failed, wrong = {j: failed[j] for j in sorted(failed)}, _wrong_figures(read, stored)
    if undecided == len(chosen) and not failed and not wrong:
        raise CouldNotFindOut(
            f"Nothing was decided of the {undecided:,} rows, so there is nothing to check: decide them first, "
            "with more time for each row (--seconds)."
        )
    return CheckedWinnable(
        checked=len(chosen) - undecided,
        undecided=undecided,
        failed=failed,
        wrong=wrong,
        unchecked=tuple(name for name in UNCHECKED if read.get(name)),
    )


def _chosen_rows(only: Sequence[int], count: int) -> list[int]:
    """The rows to look at, in order; what is no row is refused."""
    # an integer of NumPy's is a row, true and 0.5 are none
    wrong = [j for j in only if isinstance(j, bool) or not isinstance(j, int | np.integer) or not 0 <= j < count]
    if wrong or not len(only):
        came = f"{str(wrong[0])[:20]!r} is among them" if wrong else "there are none"
        raise InputError(f"only must be rows, whole numbers from 0 to {count - 1}; {came}")
    return sorted({int(j) for j in only})


def _as_stored(rows: Array) -> Array:
    """Floats as they are; integers as float64, if that holds each of them exactly."""
    if rows.ndim != 2:
        raise InputError(f"the rows must be an n x d matrix, but have shape {rows.shape}")
    if rows.dtype.kind == "f":
        return rows
    floats = rows.astype(np.float64)
    large = np.abs(floats) >= 2.0**53
    if any(int(a) != int(b) for a, b in zip(rows[large], floats[large], strict=True)):
        raise InputError("the rows hold integers beyond 2^53 that float64 rounds: use the matrix of the certificate")
    return floats


def _read(certificate: dict[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """The certificate as it stands in the file; a field that nobody would check is refused."""
    try:
        read = certificate if isinstance(certificate, dict) else parse_json(read_file(certificate, most=LARGEST))
    except OSError as error:
        raise InputError(f"{certificate} cannot be read: {error.strerror or error}; check the path") from None
    except InputError:  # it is no file, or too large a one
        raise
    except ValueError as error:
        raise _no_certificate(error) from None
    if not isinstance(read, dict) or read.get("format") != "regard winnable 1":
        raise _no_certificate('its "format" is not "regard winnable 1"')
    more = [str(name)[:40] for name in read if name not in STATED]
    if more:
        raise InputError(f"the certificate has a field {more[0]!r}, which would stand there unchecked: take it out")
    return read


def _no_certificate(why: object) -> InputError:
    return InputError(f"this is not a certificate of winnable ({str(why)[:120]}): make one with --out")


def _verdicts(read: dict[str, Any], stored: Array) -> tuple[str, dict[int, dict[str, Any]]]:
    """The letters, and the proofs by their rows, if they are about these rows."""
    ways, listed = read.get("ways"), read.get("proofs")
    if not isinstance(ways, str) or not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise _no_certificate('it needs "ways", a letter per row, and "proofs", a list')
    if len(ways) != len(stored) or set(ways) - set(WAYS):
        raise InputError(
            f"the certificate of {len(ways)} rows does not fit {len(stored)} rows: use the matrix it was made from"
        )
    if read.get("fingerprint") != _fingerprint(stored):
        raise InputError("the certificate is about other numbers than these rows: use the matrix it was made from")
    proofs: dict[int, dict[str, Any]] = {}
    for one in listed:
        row = one.get("row")
        if type(row) is not int or not 0 <= row < len(ways) or row in proofs:
            raise InputError(f"the certificate has two proofs of row {str(row)[:20]}, or no such row: take one out")
        proofs[row] = one
    return ways, proofs


def _wrong_figures(read: dict[str, Any], stored: Array) -> dict[str, str]:
    """What the certificate states of the matrix as a whole, and is not so."""
    n, d = stored.shape
    true = {"rows": n, "dimensions": d, "dtype": str(stored.dtype), "legend": dict(WAYS)}
    wrong = {
        name: f"it states {name} {str(read[name])[:60]!r}, and the matrix has {value!r}"
        for name, value in true.items()
        if name in read and (type(read[name]) is not type(value) or read[name] != value)
    }
    resumed = read.get("resumed", 0)
    if type(resumed) is not int or not 0 <= resumed <= n:
        wrong["resumed"] = f"it states {str(resumed)[:20]!r} verdicts of an earlier run, and has {n} rows"
    return wrong


def _fingerprint(stored: Array) -> str:
    head = f"{stored.shape} {stored.dtype.str}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(stored).tobytes()).hexdigest()


def _inverse_covariance(K: Float) -> Float:
    size = float(np.abs(K).max()) or 1.0
    X = (K - K.mean(axis=0)) / size
    covariance = X.T @ X / len(K)
    ridge = 1e-6 * np.trace(covariance) / K.shape[1] + np.finfo(np.float64).tiny
    return np.asarray(np.linalg.pinv(covariance + ridge * np.eye(K.shape[1])), dtype=np.float64)


def _recipe_failures(K: Float, which: list[int], matrix: Float | None) -> dict[int, str]:
    """Rows whose recipe, applied again, does not win."""
    failed, centre = {}, K.mean(axis=0)
    for start in range(0, len(which), 256):
        some = which[start : start + 256]
        Q = K[some] - centre
        Q = Q if matrix is None else Q @ matrix
        for j, q, rivals in zip(some, Q, _unproved_rivals(K, some, Q), strict=True):
            if not all(_beats(K[j], K[i], q) for i in rivals):
                failed[j] = "the query that its recipe gives does not make it the strict argmax"
    return failed


def _unproved_rivals(K: Float, some: list[int], Q: Float) -> list[NDArray[np.intp]]:
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
    used = USED[Way(way)]
    more = [name for name, value in proof.items() if name not in ("row", "kind", *used) and value is not None]
    if more:
        return f"its proof has {str(more[0])[:40]!r}, which it does not use"
    if way == Way.OWN_QUERY:
        if proof.get("kind", "strict win") != "strict win":
            return "its proof is not of the kind that it says"
        return None if _query_wins(K, j, proof.get("query")) else "its query does not make it the strict argmax"
    support, weights, radii = (proof.get(name) for name in used)
    # type, not isinstance: JSON's true would pass for row 1
    rows = isinstance(support, list) and all(type(i) is int and 0 <= i < len(K) and i != j for i in support)
    if not rows or not support or len(set(support)) != len(support):
        return "its combination names rows that do not fit"
    if not isinstance(weights, list) or len(weights) != len(support):
        return "its combination has weights that do not fit"
    if all(isinstance(w, str) for w in weights):
        return _exact_fault(K, j, proof, support, weights)
    if not _are_numbers(weights, len(support)) or not (radii is None or _are_numbers(radii, len(support))):
        return "its combination has weights or radii that are no numbers"
    if radii is not None and any(radius >= weight for radius, weight in zip(radii, weights, strict=True)):
        return "its radii do not stay below its weights, so that these need not be positive"
    if proof.get("kind", "enclosure") not in ("enclosure", "exact rationals"):
        return "its proof is not of the kind that it says"
    return _ball_fault(K, j, support, weights, [0.0] * len(support) if radii is None else radii)


def _exact_fault(K: Float, j: int, proof: dict[str, Any], support: list[int], weights: list[str]) -> str | None:
    """What is wrong with weights that are rationals; None if they combine to row j exactly."""
    if proof.get("radii") is not None:
        return "its weights are exact, and have radii all the same"
    kind = proof.get("kind", RATIONALS[0])
    if kind not in RATIONALS or (kind == "identical row") > (len(support) == 1):
        return "its proof is not of the kind that it says"
    return None if _combines_exactly(K, j, support, weights) else "its rows do not combine to it with positive weights"


def _are_numbers(values: Any, count: int) -> bool:
    """Are they so many finite float64 numbers? Integers that float64 would round are refused."""
    if not isinstance(values, list) or len(values) != count or not all(map(is_finite_number, values)):
        return False
    rounded = next((x for x in values if isinstance(x, int) and not is_exact_float(x)), None)
    if rounded is not None:
        raise rounded_integer_error(rounded, "the certificate")
    return True


def _query_wins(K: Float, j: int, query: Any) -> bool:
    if not isinstance(query, list) or len(query) != K.shape[1]:
        return False
    try:
        if all(isinstance(x, str) for x in query):
            whole = [_whole(x) for x in query]
            return all(_beats(K[j], K[i], whole) for i in range(len(K)) if i != j)
    except ValueError:
        return False
    if not _are_numbers(query, K.shape[1]):
        return False
    q = np.array(query, dtype=np.float64)
    return all(_beats(K[j], K[i], q) for i in _unproved_rivals(K, [j], q[None, :])[0])


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
        stored = [_rational_of_float(k) for k in (*column, target)]
        power = max(int(k.q) for k in stored)  # denominators of floats are powers of two
        scaled = [(k * power).p for k in stored]
        if sum((x * k for x, k in zip(whole, scaled[:-1], strict=True)), flint.fmpz(0)) != common * scaled[-1]:
            return False
    return True


def _ball_fault(K: Float, j: int, support: list[int], weights: list[float], radii: list[float]) -> str | None:
    """What is wrong with d + 1 rows whose one solution of sum w k = k_j, sum w = 1 must be positive, and as stated."""
    d = K.shape[1]
    fault = "its rows do not combine to it with positive weights"
    if len(support) != d + 1:
        return fault
    differences = [list(map(_ball_difference, K[i].tolist(), K[j].tolist())) for i in support]
    for bits in (64, 192):
        with flint.ctx.workprec(bits):
            entries = [row[c] for c in range(d) for row in differences] + [flint.arb(1)] * (d + 1)
            right = flint.arb_mat(d + 1, 1, [flint.arb(0)] * d + [flint.arb(1)])
            try:
                w = flint.arb_mat(d + 1, d + 1, entries).solve(right).entries()
            except ZeroDivisionError:
                continue
            if not all(x > 0 for x in w):
                continue
            stated = zip(w, map(flint.arb, weights), map(flint.arb, radii), strict=True)
            if all(abs(x - weight) <= radius for x, weight, radius in stated):
                return None
            fault = "its weights are not within their radii of the ones that combine to it"
    return fault


def _ball_difference(a: float, b: float) -> flint.arb:
    with flint.ctx.workprec(256):
        return flint.arb(a) - flint.arb(b)


def _rational(text: str) -> flint.fmpq:
    above, _, below = text.partition("/")
    return flint.fmpq(_whole(above), _whole(below or "1"))


def _whole(text: str) -> flint.fmpz:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits")
    return flint.fmpz(text)  # Python's int refuses long strings


def _rational_of_float(x: float) -> flint.fmpq:
    return flint.fmpq(*x.as_integer_ratio())
