"""Huge matrices: a randomised range finder that reads the matrix in blocks of rows, with a bound afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.array_types import Float
from regard.arrays import refuse_rounded
from regard.errors import InputError
from regard.lowrank.decompose import spectrum
from regard.lowrank.sketches import Matrix, Sketch, Steps, blocks, direct_residual, refuse_nonfinite
from regard.progress import Progress
from regard.rigor.floats import U
from regard.rigor.matrices import PAY, difference, gamma, norm_above, squares


def sketch(
    matrix: Matrix,
    *,
    rank: int,
    seed: int,
    oversample: int = 10,
    passes: int = 2,
    probes: int = 10,
    probe_passes: int = 2,
    failure_probability: float = 1e-10,
    name: str = "matrix",
    progress: Progress | None = None,
) -> Sketch:
    """A low-rank approximation of a matrix too large to decompose, and certain and probable bounds on its error.

    Q is an orthonormal basis of (A^T A)^p Omega, Omega Gaussian with rank + oversample columns, p = passes - 1,
    and Y = A Q. For exactly orthonormal Q, ||A - Y Q^T||_F^2 = ||A||_F^2 - ||Y||_F^2: certain and free. Where
    too much of it cancels, one more pass measures it directly. And with E = A - A Q Q^T, Gaussian probes w_j,

        ||E||_2^2 <= (alpha sqrt(2/pi) max_j ||(E^T E)^t w_j||)^(1/t),  false with probability <= alpha^(-probes),

    t = probe_passes, the first of which rides on the last pass: for t = 1/2 this is the bound of Halko,
    Martinsson and Tropp (2011, lemma 4.1); larger t makes it sharper. Memory: (m + 2 n) (rank + oversample) numbers and
    one block of rows. Weak where singular values hardly decay: then raise ``passes``.

    ``matrix``: m x n, any real type, memory-mapped if you like. ``seed``: of everything random here.
    ``probes`` = 0 leaves only the certain bound.

    >>> a = np.outer([1.0, 2.0, 2.0], [0.0, 4.0, 3.0])
    >>> result = sketch(a, rank=1, seed=0, oversample=1)
    >>> result.singular_values[:1].round(9).tolist(), result.residual < 1e-6
    ([15.0], True)
    """
    _refuse(matrix, rank, oversample, passes, probes, probe_passes, failure_probability, name)
    rng = np.random.default_rng(seed)
    columns = min(rank + oversample, *matrix.shape)
    step = Steps(progress, len(matrix) * (passes + probe_passes - 1))
    # the first basis is not made orthonormal: _twice and QR of the first pass do that, and ``passes`` is at least 2
    basis = rng.standard_normal((matrix.shape[1], columns))
    for _ in range(passes - 1):
        basis = np.linalg.qr(_gram_product(matrix, basis, step, name))[0]
    # drawn after the basis and never used for it: probes that had shaped the basis would flatter it
    vectors = rng.standard_normal((matrix.shape[1], probes))
    image, total, chain = _last_pass(matrix, basis, vectors, step)
    kept = _CertifiedBasis.of(matrix, basis, image, total, name)
    for _ in range(probe_passes - 1):
        chain.append(_project_out(basis, _gram_product(matrix, chain[-1], step, name)))
    # The Gram matrix knows errors down to 1e-8 of the norm; where less is left out, that is too blunt.
    core = spectrum(image, name="sketch", method="auto" if kept.residual > 1e-4 * kept.frobenius else "full")
    above, below = _probe_bounds(chain, kept, failure_probability)
    return Sketch(
        name=name,
        shape=kept.shape,
        columns=columns,
        passes=passes + probe_passes - 1 + (kept.residual_by != "identity"),
        seed=seed,
        singular_values=core.singular_values,
        # sigma_i(A Q) <= ||Q|| sigma_i(A), and sigma_i(A)^2 <= sigma_i(A Q)^2 + ||A - A Q Q^T||^2 for orthonormal Q
        lower=np.maximum((core.lower - kept.drift) / math.sqrt(1 + kept.skew) * (1 - 8 * U), 0.0),
        upper=np.hypot((core.upper + kept.drift) / math.sqrt(1 - kept.skew), kept.residual) * (1 + 8 * U),
        frobenius=kept.frobenius,
        residual=kept.residual,
        residual_by=kept.residual_by,
        probable_residual=min(above, kept.residual),
        residual_below=min(below, kept.residual),
        probes=probes,
        failure_probability=failure_probability,
        _core=core,
        _basis=basis,
        _skew=kept.skew,
        _drift=kept.drift,
    )


@dataclass(frozen=True, eq=False)
class _CertifiedBasis:
    """The basis and what is certain about A - Y Q^T."""

    shape: tuple[int, int]
    basis: Float
    skew: float  # >= ||Q^T Q - I||
    drift: float  # >= what Y differs from A Q, and Q from orthonormal, can add to an error
    frobenius: float
    residual: float
    residual_by: str

    @staticmethod
    def of(matrix: Matrix, basis: Float, image: Float, total: float, name: str) -> _CertifiedBasis:
        if total != 0 and not 1e-150 < total < 1e150:
            raise InputError(f"{name}: its norm must lie between 1e-75 and 1e75 to be sketched; rescale it.")
        n, columns = basis.shape
        gap, slack = difference(np.eye(columns), basis, basis)
        skew = norm_above(gap) + slack
        norm = math.sqrt(total)
        rounding = gamma(n + 1) * norm * math.sqrt(columns) * PAY**2
        least = max(0.0, math.sqrt(squares(image)) / (1 + gamma(n + 4)) - rounding)
        square = total * (1 + gamma(n + 8)) - (1 - skew) * least**2
        by, residual = "identity", math.sqrt(max(square, 0.0)) * PAY + 2 * rounding
        if square < 1e-8 * total:  # cancelled: the identity knows too few digits
            by, residual = "direct measurement", direct_residual(matrix, image, basis, None)[1]
        shape = (matrix.shape[0], matrix.shape[1])
        return _CertifiedBasis(shape, basis, skew, rounding + 2 * skew * norm, norm, residual, by)


def _probe_bounds(chain: list[Float], kept: _CertifiedBasis, failure: float) -> tuple[float, float]:
    """Bounds on ||E||_2: probable from above by (E^T E)^t w, certain from below by a Rayleigh quotient.

    ``chain`` holds w, E^T E w, (E^T E)^2 w, ...; an application rounds by at most ``noise`` times the vector,
    and the next one stretches that by at most ||E||^2.
    """
    columns, power = kept.basis.shape[1], len(chain) - 1
    if chain[0].shape[1] == 0:
        return math.inf, 0.0
    noise = 8 * math.sqrt(columns) * gamma(sum(kept.shape) + columns + 8) * kept.frobenius**2
    sizes = [np.linalg.norm(vectors, axis=0) * PAY for vectors in chain]
    error = np.zeros_like(sizes[0])
    for size in sizes[:-1]:
        error = kept.residual**2 * error + noise * (size + error)
    # all probes must be unlucky at once: alpha^-probes = failure
    alpha = failure ** (-1 / len(error))
    above = (alpha * math.sqrt(2 / math.pi) * float(np.max(sizes[-1] + error)) * PAY) ** (1 / power)
    quotient = sizes[-1] / np.where(sizes[-2] > 0, sizes[-2], np.inf) / PAY - noise
    below = math.sqrt(max(0.0, float(np.max(quotient)))) / PAY
    return math.hypot(math.sqrt(above), 2 * kept.drift) * PAY, below


def _gram_product(matrix: Matrix, vectors: Float, step: Steps, name: str) -> Float:
    """A^T A X in one pass."""
    total = np.zeros_like(vectors)
    with np.errstate(all="ignore"):  # what overflows is refused by name
        for rows, block in blocks(matrix, step):
            image = block @ vectors
            refuse_nonfinite(block, image, rows, name)
            total += block.T @ image
    return total


def _project_out(basis: Float, vectors: Float) -> Float:
    """The part of the vectors at right angles to the basis; twice, so that rounding leaves nothing behind."""
    for _ in range(2):
        vectors = vectors - basis @ (basis.T @ vectors)
    return vectors


def _last_pass(matrix: Matrix, basis: Float, probes: Float, step: Steps) -> tuple[Float, float, list[Float]]:
    """A Q, ||A||_F^2, and the probes with E^T E applied to them, in one reading."""
    columns, outside = basis.shape[1], _project_out(basis, probes)
    both = np.hstack([basis, outside])
    image, back, parts = np.empty((len(matrix), columns)), np.zeros_like(probes), []
    for rows, block in blocks(matrix, step):
        product = block @ both
        image[rows] = product[:, :columns]
        # E = A (I - Q Q^T): projecting the probes before and the result after applies E^T E without forming E
        back += block.T @ product[:, columns:]
        parts.append(squares(block))
    return image, math.fsum(parts), [probes, _project_out(basis, back)]


def _refuse(
    matrix: object, rank: int, oversample: int, passes: int, probes: int, probe_passes: int, failure: float,
    name: str,
) -> None:  # fmt: skip
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "iuf":
        shape = getattr(matrix, "shape", type(matrix).__name__)
        raise InputError(f"{name} must be a real NumPy array with 2 dimensions and at least one entry, not {shape}.")
    refuse_rounded(matrix, name)
    most = min(matrix.shape)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= most:
        raise InputError(f"rank must be a whole number from 1 to {most} for {name}, not {rank}.")
    for what, value, least in (
        ("oversample", oversample, 0),
        ("passes", passes, 2),
        ("probes", probes, 0),
        ("probe_passes", probe_passes, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{what} must be a whole number of at least {least}, not {value}.")
    if not 0 < failure < 1:
        raise InputError(f"failure_probability must lie between 0 and 1, not {failure}.")
