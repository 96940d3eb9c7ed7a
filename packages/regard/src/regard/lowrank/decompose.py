"""Singular values: through the Gram matrix where that is safe, in full where it is not, through two factors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import CouldNotFindOut, InputError
from regard.lowrank.certificate import certify, residual_above
from regard.lowrank.singular import Spectrum, unit_of
from regard.rigor.floats import U
from regard.rigor.matrices import LEAST, PAY, difference, gram, norm_above, scale, squares, symmetric_norm

TALL = 1.5  # from this many times more rows than columns the Gram matrix is the faster way
SURE = 1e-8  # the certified error, relative to sigma_1, up to which the Gram matrix is good enough by default


def spectrum(matrix: npt.ArrayLike, *, tolerance: float = SURE, method: str = "auto", name: str = "matrix") -> Spectrum:
    """The singular values ``sigma_1 >= sigma_2 >= ...`` of a matrix, each between proved bounds.

    For a tall (or wide) matrix they are the roots of the eigenvalues of the Gram matrix ``G = A^T A``. With
    W = V diag(s), whatever V and s are, |sigma_i^2 - s_i^2| <= ||G - W W^T|| + ||W^T W - diag(s^2)||; that
    number plus what rounding did to G is the bound. It is blunt for values far below sigma_1 (u cond^2):
    where it exceeds ``tolerance`` times sigma_1, the full decomposition is taken instead, and certified from
    its residual. ``method`` "gram" or "full" insists. A huge matrix: see :func:`sketch`.

    ``matrix``: m x n. ``name``: what to call it in print.

    >>> result = spectrum([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> result.singular_values.tolist(), result.stable_rank.__round__(6)
    ([3.0, 2.0], 1.444444)
    >>> result.truncate(1).matrix().tolist()
    [[3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    a = check_array(matrix, what=name)
    if method not in ("auto", "gram", "full"):
        raise InputError(f"method must be 'auto', 'gram' or 'full', not {method!r}.")
    if not 0 < tolerance < math.inf:
        raise InputError(f"tolerance must be a positive number such as 1e-8, not {tolerance}.")
    big, small = max(a.shape), min(a.shape)
    if method == "gram" or (method == "auto" and big >= TALL * small):
        values = _gram_spectrum(a, name)
        if method == "gram" or values.error_bound <= tolerance * values.upper[0]:
            return values
    return _full_spectrum(a, name, tolerance)


def _gram_spectrum(a: Float, name: str) -> Spectrum:
    unit, total = _measure_norm(a, name)
    tall = a if a.shape[0] >= a.shape[1] else a.T
    # a power of two scales without rounding, and keeps squares away from overflow and underflow
    upright = np.ascontiguousarray(tall if unit == 1 else tall * unit)
    product, slack = gram(upright, total=total * PAY)
    eigenvalues, vectors = np.linalg.eigh(product)  # reads the lower triangle only
    s = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    right = np.ascontiguousarray(vectors[:, ::-1])
    # what is known of sigma^2, absolutely; a value is known to its root, which is why small ones are blurred
    spread = (slack + _eigen_slack(product, right * s, s)) * PAY + LEAST
    lower = np.sqrt(np.maximum(s * s * (1 - 4 * U) - spread, 0.0)) * (1 - 4 * U)
    upper = np.sqrt(s * s * (1 + 4 * U) + spread) * (1 + 4 * U)
    return _summary(
        name=name, shape=a.shape, method="gram", values=s / unit, lower=lower / unit, upper=upper / unit,
        frobenius=math.sqrt(total) / unit, left=None, right=right, floor=math.sqrt(spread) / unit, source=(a,),
    )  # fmt: skip


def _eigen_slack(product: Float, w: Float, s: Float) -> float:
    """At least ||G - W W^T|| + ||W^T W - diag(s^2)||: how far the eigenvalues of G can be from s^2."""
    inner, slack_inner = gram(w)
    outer, slack_outer = gram(np.ascontiguousarray(w.T))
    inner[np.diag_indices(len(s))] -= s * s
    slack = slack_inner + slack_outer + 4 * U * float(s @ s)
    return symmetric_norm(product - outer) + symmetric_norm(inner) + slack * PAY


def _full_spectrum(a: Float, name: str, tolerance: float) -> Spectrum:
    unit, total = _measure_norm(a, name)
    scaled = a if unit == 1 else a * unit
    u, s, v = _svd(scaled, name)
    # plain products first; those without rounding cost several times as much and are needed only by hard matrices
    for quick in (True, False):
        residual = residual_above((scaled,), u, s, v, quick=quick)
        proof = certify(u, s, v, residual=residual, quick=quick)
        if np.max(proof.upper - proof.lower) <= tolerance * s[0]:
            break
    return _summary(
        name=name, shape=a.shape, method="full", values=s / unit, lower=proof.lower / unit,
        upper=proof.upper / unit, frobenius=math.sqrt(total) / unit, left=u, right=v,
        floor=residual / unit, source=(a,),
    )  # fmt: skip


def _measure_norm(a: Float, name: str) -> tuple[float, float]:
    """A power of two that makes squares safe, 1 for all usual matrices, and ||A||_F^2 in that unit."""
    total = squares(a)
    if 1e-150 < total < 1e150:  # then there is no need for another pass through the matrix
        return 1.0, total
    unit_of(a, name)  # which refuses what no power of two makes safe
    top = float(np.max(np.abs(a)))
    return scale(top), squares(a * scale(top))


def product_spectrum(left: npt.ArrayLike, right: npt.ArrayLike, *, name: str = "product") -> Spectrum:
    """The singular values of ``A B^T``, such as W_Q W_K^T, without forming it where that pays.

    A = Q_A R_A and B = Q_B R_B give A B^T = Q_A (R_A R_B^T) Q_B^T, so the small core R_A R_B^T has the same
    singular values: O((m + n) r^2) work for factors of r columns. It pays while r < min(m, n); otherwise the
    product is formed. The bound adds up what each step can have lost, so it is relative to ||A|| ||B||:
    where the product nearly cancels, it is wide. All but the first r singular values are exactly 0.

    ``left``: A, m x r. ``right``: B, n x r. (torch stores Linear weights as out x in: pass their transposes.)

    >>> product_spectrum([[1.0], [2.0], [2.0]], [[0.0], [4.0], [3.0]]).singular_values.round(12).tolist()
    [15.0]
    """
    a, b = check_array(left, what="left factor"), check_array(right, what="right factor")
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"A B^T needs factors with equally many columns, but they have shapes {a.shape} and {b.shape}; "
            "transpose one of them."
        )
    # each factor in its own unit: their product may be of usual size while one of them is not
    units = unit_of(a, "left factor"), unit_of(b, "right factor")
    unit = units[0] * units[1]
    if not 1e-280 < unit < 1e280:
        size = -sum(math.log10(u) for u in units)
        raise InputError(f"{name}: the factors' sizes multiply to about 1e{size:+.0f}; rescale one of them.")
    pays = a.shape[1] < min(len(a), len(b))
    form = _decompose_factors if pays else _decompose_formed
    u, s, v, residual, frobenius = form(a * units[0], b * units[1], name)
    proof = certify(u, s, v, residual=residual)
    return _summary(
        name=name, shape=(len(a), len(b)), method="factors" if pays else "formed", values=s / unit,
        lower=proof.lower / unit, upper=proof.upper / unit, frobenius=frobenius / unit, left=u, right=v,
        floor=residual / unit, source=(a, b),
    )  # fmt: skip


Factors = tuple[Float, Float, Float, float, float]


def _decompose_formed(a: Float, b: Float, name: str) -> Factors:
    product = a @ b.T
    u, s, v = _svd(product, name)
    return u, s, v, residual_above((a, b), u, s, v), math.sqrt(squares(product))


def _decompose_factors(a: Float, b: Float, name: str) -> Factors:
    (qa, ra), (qb, rb) = np.linalg.qr(a), np.linalg.qr(b)
    core = ra @ rb.T
    small_u, s, small_v = _svd(core, name)
    u, v = qa @ small_u, qb @ small_v
    # A B^T - U S V^T, step by step; each line is one step's loss times the size of what surrounds it.
    around_a, around_b = _stretch(qa), _stretch(qb)
    residual = _gap(a, qa, ra) * norm_above(b)
    residual += around_a * norm_above(ra) * _gap(b, qb, rb)
    residual += around_a * around_b * residual_above((ra, rb), small_u, s, small_v)
    residual += around_a * _stretch(small_u) * float(s[0]) * _gap(v, qb, small_v)
    residual += _gap(u, qa, small_u) * float(s[0]) * _stretch(v)
    return u, s, v, residual * PAY, math.sqrt(squares(core))


def _gap(target: Float, left: Float, right: Float) -> float:
    """At least ||T - X Y||_F."""
    rest, slack = difference(target, np.ascontiguousarray(left.T), right)
    return norm_above(rest) + slack


def _stretch(q: Float) -> float:
    """At least ||Q||_2, near 1 for nearly orthonormal columns."""
    return math.sqrt(1 + _gap(np.eye(q.shape[1]), q.T, q)) * PAY


def _svd(a: Float, name: str) -> tuple[Float, Float, Float]:
    try:
        u, s, vt = np.linalg.svd(a, full_matrices=False)
    except np.linalg.LinAlgError:
        raise CouldNotFindOut(f"The singular values of {name} did not converge; rescale its rows.") from None
    return u, s, np.ascontiguousarray(vt.T)


def _summary(  # noqa: PLR0913 - all that a spectrum is made of
    *, name: str, shape: tuple[int, int], method: str, values: Float, lower: Float, upper: Float,
    frobenius: float, left: Float | None, right: Float, floor: float, source: tuple[Float, ...],
) -> Spectrum:  # fmt: skip
    """Everything that follows from singular values and their bounds."""
    # Never state less than this: an independent recomputation must be able to confirm it.
    least = 64 * U * frobenius
    lower, upper = np.clip(lower, 0.0, np.maximum(values - least, 0.0)), np.maximum(upper, values + least)
    if not all(part.any() for part in source):  # zero itself; a product can also cancel to 0 in floats alone
        lower, upper, floor = np.zeros_like(values), np.zeros_like(values), 0.0
    # relative to sigma_1, so that no square overflows; their sum is the stable rank
    share = np.cumsum(_unit(values) ** 2)
    p = values / values.sum() if values[0] > 0 else np.zeros(0)
    return Spectrum(
        name=name,
        shape=shape,
        method=method,
        singular_values=values,
        lower=lower,
        upper=upper,
        frobenius=frobenius,
        energy=share / share[-1] if share[-1] > 0 else np.ones_like(values),
        bound=frobenius / np.sqrt(np.arange(1, len(values) + 1)),
        effective_rank=float(np.exp(-np.sum(p[p > 0] * np.log(p[p > 0])))) if len(p) else 0.0,
        stable_rank=float(share[-1]),
        rank_at_least=int(np.count_nonzero(lower > 0)),
        _left=left,
        _right=right,
        _floor=floor,
        _source=source,
    )


def _unit(values: Float) -> Float:
    return values / values[0] if values[0] > 0 else np.zeros_like(values)
