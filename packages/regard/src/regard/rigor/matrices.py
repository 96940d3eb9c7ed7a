"""Matrix products with a bound on what rounding did to them: the ground the certificates stand on.

Arithmetic: IEEE double precision, round to nearest, sums in any order, with or without fused
multiply-add; a BLAS that forms its products by sums of products (not by Strassen's method).
A sum of c products then errs by at most gamma(c) times the sum of their magnitudes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from regard.array_types import Float
from regard.rigor.floats import U, check_arithmetic

PAY = 1 + 2.0**-30  # every bound is enlarged by this, which pays for the rounding in its own evaluation
LEAST = 2.0**-1000  # and by this, which pays for underflow: matrices are scaled to about 1 beforehand


def gamma(count: int) -> float:
    """The relative error of a sum of ``count`` products in double precision, c u / (1 - c u).

    >>> gamma(1000) < 1.2e-13
    True
    """
    return count * U / (1 - count * U)


def gram(matrix: Float, *, total: float | None = None) -> tuple[Float, float]:
    """``M^T M`` (lower triangle) and a bound on the Frobenius norm of its rounding error.

    Rows come in blocks of about sqrt(m), so that no entry is a chain of many more than 2 sqrt(m) roundings,
    and ``|| |M|^T |M| ||_F <= ||M||_F^2`` turns the entrywise error into one number.
    ``total``: ||M||_F^2, if it is known already.

    >>> product, error = gram(np.array([[3.0, 0.0], [4.0, 1.0]]))
    >>> np.tril(product).tolist(), error < 1e-13
    ([[25.0, 0.0], [4.0, 1.0]], True)
    """
    from scipy.linalg.blas import dsyrk

    check_arithmetic()
    rows, columns = matrix.shape
    step = max(64, math.isqrt(rows))
    product = np.zeros((columns, columns), order="F")
    for start in range(0, rows, step):
        block = matrix[start : start + step].T
        product = dsyrk(1.0, block, beta=1.0, c=product, overwrite_c=1, lower=1)
    chain = min(step, rows) + -(-rows // step)
    return product, gamma(chain) * PAY * (squares(matrix) if total is None else total)


def squares(matrix: Float) -> float:
    """The squared Frobenius norm, right to a relative error of ``gamma(columns + 1)``.

    >>> squares(np.array([[3.0, 0.0], [4.0, 1.0]]))
    26.0
    """
    return math.fsum(np.einsum("ij,ij->i", matrix, matrix).tolist())


def scale(size: float) -> float:
    """A power of two that brings ``size`` near 1 where squares could overflow or underflow; otherwise 1.

    >>> scale(1000.0), scale(2.0**-600)
    (1.0, 2.0747577844404965e+180)
    """
    if 1e-75 < size < 1e75:
        return 1.0
    return 2.0 ** -max(min(math.frexp(size)[1], 1000), -1000)


def norm_above(matrix: Float) -> float:
    """A number not below the Frobenius norm."""
    return math.sqrt(squares(matrix) * (1 + gamma(matrix.shape[-1] + 1))) * PAY + LEAST


def symmetric_norm(lower: Float) -> float:
    """At least the Frobenius norm of a symmetric matrix known by its lower triangle."""
    return math.sqrt(2) * norm_above(np.tril(lower))


def difference(target: Float, left: Float, right: Float, *, quick: bool = False) -> tuple[Float, float]:
    """``T - X^T Y`` and a bound on the Frobenius norm of its rounding error.

    Both factors are cut into slices of so few bits that BLAS multiplies them without any rounding; only
    the final subtractions round, and those are of small numbers, so the bound stays tiny even when almost
    everything cancels (Ozaki, Ogita, Oishi and Rump 2012). ``quick`` multiplies once, in the ordinary way:
    a sixth of the work, and a bound that grows with ``||X||_F ||Y||_F``.

    >>> x = np.array([[1.0, 1e-9], [0.0, 1.0]])
    >>> rest, error = difference(np.eye(2), x, x)
    >>> float(rest[1, 1].round(23)), error < 1e-22
    (-1e-18, True)
    """
    check_arithmetic()
    rest, error = np.array(target, dtype=np.float64), 0.0
    for part, loss in _quick_parts(left, right) if quick else _exact_parts(left, right):
        if part is not None:
            rest -= part
            error += U * norm_above(rest)
        error += loss
    return rest, error * PAY + LEAST


def _quick_parts(left: Float, right: Float) -> Iterator[tuple[Float | None, float]]:
    """The product by blocks of the inner axis, each with a bound on its rounding error."""
    step = max(128, math.isqrt(len(left)))
    for start in range(0, len(left), step):
        x, y = left[start : start + step], right[start : start + step]
        yield x.T @ y, gamma(len(x)) * norm_above(x) * norm_above(y)


def _exact_parts(left: Float, right: Float) -> Iterator[tuple[Float | None, float]]:
    """The products of slices, largest first: each exact, or dropped with a bound on its Frobenius norm."""
    bits = (53 - max(len(left), 2).bit_length()) // 2
    many = -(-62 // bits)  # slices that hold 62 bits of each column's largest; what is below them is dropped, and paid
    x = _slices(left, bits, many)
    y = x if left is right else _slices(right, bits, many)
    sizes_x, sizes_y = [norm_above(part) for part in x], [norm_above(part) for part in y]
    pairs = [(i, j) for i in range(many + 1) for j in range(many + 1)]
    for i, j in sorted(pairs, key=sum):
        if (i + j) * bits >= 58:  # so small that the bound hardly notices; what is left after all slices is among them
            yield None, sizes_x[i] * sizes_y[j] * PAY
        elif x is not y or i == j:
            yield x[i].T @ y[j], 0.0
        elif i < j:  # the pair (j, i) is this one's transpose
            half = x[i].T @ x[j]
            yield half, 0.0
            yield half.T, 0.0


def _slices(matrix: Float, bits: int, many: int) -> list[Float]:
    """``many`` matrices of ``bits``-bit numbers on one grid per column, then what is left; their sum is exact."""
    parts, rest = [], matrix
    for _ in range(many):
        largest = np.max(np.abs(rest), axis=0)
        _, exponent = np.frexp(largest)
        grid = np.ldexp(0.75, exponent + 54 - bits)  # adding it rounds to multiples of 2^(exponent + 1 - bits)
        part = (rest + grid) - grid
        parts.append(part)
        rest = rest - part
    return [*parts, rest]
