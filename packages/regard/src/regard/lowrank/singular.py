"""What is known of a matrix through its singular values, each between proved bounds.

With it, the best approximation of a rank as two thin factors, and what is proved about its error.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import as_array, check_array
from regard.errors import CouldNotFindOut, InputError
from regard.files import check_target, write_file
from regard.lowrank.certificate import Certificate, certify, residual_above
from regard.notation import readable
from regard.pictures import BLUE, GREEN, GREY, VERMILION, Axes, Figure, open_box
from regard.pictures import figure as new_figure
from regard.results import Result
from regard.rigor.floats import U
from regard.rigor.matrices import PAY, difference, gamma, norm_above
from regard.written_numbers import at_least, at_most, in_full, is_finite_number, is_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Truncation(Result):
    """``L R^T`` of rank k. No matrix of rank k errs less than ``best_..._error[0]``; this one errs at most
    ``..._error_above``."""

    name: str
    rank: int
    shape: tuple[int, int]
    best_spectral_error: tuple[float, float]
    best_frobenius_error: tuple[float, float]
    spectral_error_above: float
    frobenius_error_above: float
    left: Float = field(repr=False)  # m x k
    right: Float = field(repr=False)  # n x k
    probable_spectral_error: float | None = None  # of a sketch: not exceeded unless its probes were unlucky
    failure_probability: float | None = None

    def matrix(self) -> Float:
        """The approximation itself, m x n."""
        product: Float = self.left @ self.right.T
        return product

    def check(self, matrix: npt.ArrayLike) -> TruncationCheck:
        """Measure the error from the matrix and the factors alone, in products without rounding.

        >>> from regard.lowrank import spectrum
        >>> a = [[3.0, 0.0], [0.0, 2.0], [0.0, 1.0]]
        >>> spectrum(a).truncate(1).check(a).answer
        True
        """
        a = check_array(matrix, what="matrix to check")
        if a.shape != self.shape:
            raise InputError(f"The matrix to check has shape {a.shape}, the approximation {self.shape}.")
        rest, slack = difference(a, np.ascontiguousarray(self.left.T), np.ascontiguousarray(self.right.T))
        direction = _top_direction(rest)
        return TruncationCheck(
            frobenius_error=(max(0.0, norm_above(rest) / PAY**2 - slack), norm_above(rest) + slack),
            spectral_error_below=max(0.0, float(np.linalg.norm(rest @ direction)) / PAY - slack),
            stated_frobenius=self.frobenius_error_above,
            stated_spectral=self.spectral_error_above,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``left``, ``right`` to a .safetensors or .npz file: the approximation is left @ right.T."""
        target = check_target(path, (".safetensors", ".npz"))
        arrays = {"left": np.ascontiguousarray(self.left), "right": np.ascontiguousarray(self.right)}
        if target.suffix.lower() == ".npz":
            stream = io.BytesIO()
            np.savez(stream, **arrays)  # type: ignore[arg-type]
            write_file(target, stream.getvalue())
            return
        from safetensors.numpy import save

        write_file(target, save(arrays, metadata={"meaning": "approximation = left @ right.T"}))

    def to_dict(self) -> dict[str, object]:
        """Without the factors, which `save` writes."""
        return {key: item for key, item in super().to_dict().items() if key not in ("left", "right")}

    def __str__(self) -> str:
        m, n = self.shape
        kept = self.rank * (m + n)
        return (
            f"Rank {self.rank} of {self.name} ({kept:,} numbers instead of {m * n:,}) errs by at most "
            f"{at_most(self.spectral_error_above, 6)} in the spectral and {at_most(self.frobenius_error_above, 6)} in "
            f"the Frobenius norm{self._probable_bound()}; no matrix of that rank errs less than "
            f"{at_least(self.best_spectral_error[0], 6)} and {at_least(self.best_frobenius_error[0], 6)} (proved)."
        )

    def _probable_bound(self) -> str:
        if self.probable_spectral_error is None:
            return ""
        return (
            f" (its spectral error is at most {at_most(self.probable_spectral_error, 6)}: from the probes, false "
            f"with probability at most {in_full(self.failure_probability or 0.0)})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TruncationCheck(Result):
    """The measured error beside the stated one."""

    frobenius_error: tuple[float, float]
    spectral_error_below: float
    stated_frobenius: float
    stated_spectral: float

    @property
    def answer(self) -> bool:
        """False when the measurement contradicts a stated bound."""
        return self.frobenius_error[0] <= self.stated_frobenius and self.spectral_error_below <= self.stated_spectral

    def __str__(self) -> str:
        word = "agrees with" if self.answer else "CONTRADICTS"
        return (
            f"Measured Frobenius error at most {at_most(self.frobenius_error[1], 6)} and spectral error at least "
            f"{at_least(self.spectral_error_below, 6)}: {word} the stated {in_full(self.stated_frobenius)} and "
            f"{in_full(self.stated_spectral)}."
        )


def _top_direction(rest: Float, *, steps: int = 30) -> Float:
    """A unit vector along which the matrix is long: any one gives a true lower bound on its spectral norm."""
    # not random, so that a check says the same twice, and not all ones, which symmetric data may be blind to
    v: Float = 1 + np.arange(rest.shape[1]) / rest.shape[1]
    for _ in range(steps):
        image: Float = rest.T @ (rest @ v)
        size = math.sqrt(float(image @ image))
        if size == 0:
            break
        v = image / size
    return v / np.linalg.norm(v)


@dataclass(frozen=True, kw_only=True, eq=False)
class RankForError(Result):
    """The smallest rank whose best approximation errs by at most ``wanted``, with what proves it."""

    rank: int
    certain: bool  # False: a smaller rank could not be excluded, the bounds being too wide
    wanted: float
    norm: str
    relative: bool
    error_above: float  # the best error of this rank is at most this
    error_one_less_below: float  # and one rank less errs by at least this

    def __str__(self) -> str:
        kind = "relative " if self.relative else ""
        sure = "" if self.certain else " (a smaller one could not be excluded: the bounds are too wide)"
        less = (
            "" if self.rank == 0 else f", and one rank less errs by at least {at_least(self.error_one_less_below, 6)}"
        )
        return (
            f"Smallest rank with {kind}{self.norm} error <= {in_full(self.wanted)}: {self.rank}{sure}; "
            f"it errs by at most {at_most(self.error_above, 6)}{less}."
        )


def smallest_rank(
    pairs: list[tuple[float, float]], error: float, *, norm: str, unit: tuple[float, float] | None
) -> RankForError:
    """From bounds on the error of rank 0, 1, 2, ...; ``unit`` bounds what a relative error is relative to."""
    if norm not in ("spectral", "frobenius"):
        raise InputError(f"norm must be 'spectral' or 'frobenius', not {norm!r}.")
    if not (is_finite_number(error) and error >= 0):
        raise InputError(f"error must be a finite number, 0 or more, not {str(error)[:40]}; give 0.01, say.")
    as_array(error, "error")
    low, high = unit or (1.0, 1.0)
    # an error relative to a norm that is known only between bounds: reached for the smallest norm possible ...
    rank = next((k for k, pair in enumerate(pairs) if pair[1] <= error * low), None)
    if rank is None:
        raise CouldNotFindOut(
            f"No rank up to {len(pairs) - 1} is proved to have {norm} error <= {at_least(error * low, 6)} (the last "
            f"one: <= {at_most(pairs[-1][1], 6)}); use a larger sketch, or the exact spectrum."
        )
    below = pairs[rank - 1][0] if rank else math.inf
    return RankForError(
        rank=rank,
        # ... and missed by one rank less even for the largest
        certain=rank == 0 or below > error * high,
        wanted=float(error),
        norm=norm,
        relative=unit is not None,
        error_above=pairs[rank][1],
        error_one_less_below=below,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum(Result):
    """The singular values of a matrix, ``lower <= sigma <= upper`` proved, and what follows from them."""

    name: str
    shape: tuple[int, int]
    method: str  # "gram", "full"; for products "factors" (never formed) or "formed"
    singular_values: Float  # min(m, n) numbers, the largest first, as the next two
    lower: Float
    upper: Float
    frobenius: float
    energy: Float  # share of ||A||_F^2 in the first k values, k = 1, 2, ...
    bound: Float  # the coursework's ||A||_F / sqrt(k), k = 1, 2, ...
    effective_rank: float
    stable_rank: float
    rank_at_least: int  # values proved to be positive
    _left: Float | None = field(repr=False)  # m x min(m, n); None where the Gram matrix was the way
    _right: Float = field(repr=False)  # n x min(m, n); of the transpose where that is the tall one
    _floor: float = field(repr=False)  # what the factors may miss of the matrix, in norm
    _source: tuple[Float, ...] = field(repr=False)  # the matrix, or the two factors of the product

    @property
    def error_bound(self) -> float:
        """How far any stated singular value can be from the true one."""
        s = self.singular_values
        return float(np.max(np.maximum(self.upper - s, s - self.lower)))

    def spectral_error(self, rank: int) -> tuple[float, float]:
        """Proved bounds on the spectral error of the best approximation of ``rank``, sigma_(rank+1)."""
        at = check_rank(rank, len(self.lower), f" for {self.name}", least=0)
        none_left = at == len(self.singular_values)
        return (0.0, 0.0) if none_left else (float(self.lower[at]), float(self.upper[at]))

    def frobenius_error(self, rank: int) -> tuple[float, float]:
        """Proved bounds on the Frobenius error of the best approximation, the root of the squared tail."""
        at = check_rank(rank, len(self.lower), f" for {self.name}", least=0)
        low, high = (math.hypot(*x[at:].tolist()) for x in (self.lower, self.upper))
        return low * (1 - 4 * U), high * (1 + 4 * U)

    def rank_for_error(self, error: float, *, norm: str = "spectral", relative: bool = False) -> RankForError:
        """The smallest rank with an error of at most ``error`` in the norm ("spectral" or "frobenius").

        ``relative`` divides by the same norm of the matrix. ``certain`` is False where the bounds on the
        singular values leave room for a smaller rank.

        >>> from regard.lowrank import spectrum
        >>> spectrum([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]).rank_for_error(2.5).rank
        1
        """
        of = self.spectral_error if norm == "spectral" else self.frobenius_error
        pairs = [of(k) for k in range(len(self.lower) + 1)]
        return smallest_rank(pairs, error, norm=norm, unit=pairs[0] if relative else None)

    def truncate(self, rank: int) -> Truncation:
        """The best approximation of ``rank`` as two thin factors, its error between proved bounds."""
        k = check_rank(rank, len(self.lower), f" for {self.name}")
        right = np.ascontiguousarray(self._right[:, :k])
        if self._left is not None:
            left, forming = self._left[:, :k] * self.singular_values[:k], 4 * U * self.frobenius
        else:
            left, forming = self._project(right)
        spectral, frobenius = self.spectral_error(k), self.frobenius_error(k)
        # each value that is cut off, and the factors together, may hide as much as the floor
        lost = self._floor * math.sqrt(len(self.singular_values) - k + 1)
        return Truncation(
            name=self.name,
            rank=k,
            shape=self.shape,
            best_spectral_error=spectral,
            best_frobenius_error=frobenius,
            spectral_error_above=math.hypot(spectral[1], self._floor) * (1 + 8 * U) + forming * PAY,
            frobenius_error_above=math.hypot(frobenius[1], lost) * (1 + 8 * U) + forming * PAY,
            left=left if self._is_upright else right,
            right=right if self._is_upright else left,
        )

    def check(self, *source: npt.ArrayLike) -> SpectrumCheck:
        """Recompute enclosures of the singular values from the matrix (or the two factors of the product).

        Separate code: products without rounding and :func:`certify`, never the Gram matrix. ``answer`` is
        True when every stated interval is proved to contain its singular value.

        >>> from regard.lowrank import spectrum
        >>> a = [[3.0, 0.0], [1.0, 2.0], [0.0, 1.0]]
        >>> spectrum(a).check(a).answer
        True
        """
        arrays = tuple(check_array(part, what="matrix to check") for part in source)
        shape = (arrays[0].shape[0], arrays[-1].shape[1 if len(arrays) == 1 else 0]) if arrays else ()
        if len(arrays) != len(self._source) or shape != self.shape:
            raise InputError(f"check needs what the spectrum is of, {self.name} of shape {self.shape}.")
        proof = self._enclosure(arrays)
        inside = (self.lower <= proof.lower) & (proof.upper <= self.upper)
        apart = (proof.upper < self.lower) | (self.upper < proof.lower)
        return SpectrumCheck(
            proved=int(inside.sum()),
            refuted=int(apart.sum()),
            of=len(inside),
            widest=float(np.max(proof.upper - proof.lower)) / 2,
            lower=proof.lower,
            upper=proof.upper,
        )

    def bilinear(self, x: Float, y: Float) -> Float:
        """``X M Y^T``, through the factors where the matrix is a product."""
        product: Float = x @ self._source[0] @ (y.T if len(self._source) == 1 else (y @ self._source[1]).T)
        return product

    @property
    def size(self) -> float:
        """At least the Frobenius norm of the matrix; for a product, of its factors multiplied."""
        return math.prod(norm_above(part) for part in self._source)

    @property
    def _is_upright(self) -> bool:
        return self._left is not None or self.shape[0] >= self.shape[1]

    def _enclosure(self, source: tuple[Float, ...]) -> Certificate:
        """From U, s, V; the Gram way keeps no U, so it is A V / s. All of it near 1, as squares need."""
        units = [unit_of(part, "matrix to check") for part in source]
        scaled = [part * unit for part, unit in zip(source, units, strict=True)]
        unit = math.prod(units)
        first = scaled[0] if self._is_upright else scaled[0].T
        values, left = self.singular_values * unit, self._left
        if left is None:
            left = (first @ self._right) / np.where(values > 0, values, 1.0)
        residual = residual_above((first, *scaled[1:]), left, values, self._right)
        proof = certify(left, values, self._right, residual=residual)
        if not all(part.any() for part in source):  # zero, without any rounding
            return dataclasses.replace(proof, lower=np.zeros_like(values), upper=np.zeros_like(values))
        return dataclasses.replace(proof, lower=proof.lower / unit, upper=proof.upper / unit)

    def _project(self, right: Float) -> tuple[Float, float]:
        """A V_k, and what its rounding and the small skewness of V_k can add to the error."""
        upright = self._source[0] if self._is_upright else self._source[0].T
        k = right.shape[1]
        skew, slack = right.T @ right - np.eye(k), gamma(len(right) + 2) * k
        top = float(self.upper[0])
        tilt = (norm_above(skew * self.singular_values[:k] / (top or 1.0)) + slack) * top
        return upright @ right, tilt * PAY + gamma(len(right)) * self.frobenius * math.sqrt(k) * PAY**2

    def __str__(self) -> str:
        m, n = self.shape
        s = self.singular_values
        how = {"gram": "the Gram matrix", "full": "full decomposition"}
        how |= {"factors": "its two factors", "formed": "the formed product"}
        at = [k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if k < len(s)] + [len(s)]
        rows = [
            f"{k:6d}  {s[k - 1]:12.6g}  {self.bound[k - 1]:14.6g}  {self.frobenius_error(k)[1]:14.6g}"
            f"  {100 * self.energy[k - 1]:8.3f} %"
            for k in at
        ]
        sigma, bound = readable(["$sigma_k$", "$||A||_F/sqrt(k)$"])
        head = f"{'k':>6}  {sigma:>12}  {bound:>14}  {'tail Frobenius':>14}  {'energy':>10}"
        return (
            f"{self.name}: {m} x {n}, rank at least {self.rank_at_least} of {len(s)} (proved), effective rank "
            f"{self.effective_rank:.4g} (entropy of the singular values), stable rank {self.stable_rank:.4g}.\n"
            f"Every singular value is within {at_most(self.error_bound, 2)} of the exact one (proved, all rounding "
            f"included); by {how[self.method]}. Frobenius norm {self.frobenius:.6g}.\n"
            + "\n".join([head, *rows])
            + f"\nThe best rank k-1 has spectral error {sigma}; {bound} is never below it."
        )

    def figure(self) -> Figure:
        """The singular values under the coursework's bound, and the energy they keep, as a matplotlib figure."""
        return draw_spectrum(self)


def check_rank(rank: int, most: int, where: str, *, least: int = 1, fix: str = "") -> int:
    """The rank, if there can be an approximation of it; ``where`` follows the largest."""
    if not is_whole(rank) or not least <= rank <= most:
        raise InputError(f"rank must be a whole number from {least} to {most}{where}, not {rank}{fix}.")
    return int(rank)


def unit_of(matrix: Float, what: str) -> float:
    """The power of two that brings the largest entry to between 1/2 and 1: multiplying by it rounds nothing.

    >>> unit_of(np.array([[3.0, -5.0]]), "matrix")
    0.125
    """
    top = float(np.max(np.abs(matrix)))
    if top != 0 and not 1e-280 < top < 1e280:
        raise InputError(f"{what}: its largest entry is {top:.3g}; rescale it to between 1e-280 and 1e280.")
    return 2.0 ** -math.frexp(top)[1] if top else 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class SpectrumCheck(Result):
    """Outcome of recomputing: how many stated intervals are proved or refuted."""

    proved: int
    refuted: int
    of: int
    widest: float
    lower: Float  # one per singular value, as the next
    upper: Float

    @property
    def answer(self) -> bool:
        return self.proved == self.of

    def __str__(self) -> str:
        return (
            f"{self.proved} of {self.of} stated intervals are proved to contain their singular value, "
            f"{self.refuted} are refuted; recomputed enclosures are at most +-{at_most(self.widest, 2)}."
        )


# The picture ---------------------------------------------------------------------------------------------------------


def draw_spectrum(spectrum: Spectrum, *, rank: int | None = None) -> Figure:
    """The picture as a matplotlib figure: the singular values under their bound, and the energy kept."""
    figure = new_figure(9.6, 3.8)
    left, right = figure.subplots(1, 2)
    _values(left, spectrum, rank)
    _energy(right, spectrum, rank)
    figure.suptitle(f"{spectrum.name}: {spectrum.shape[0]} x {spectrum.shape[1]}", fontsize=11)
    return figure


def _values(axes: Axes, spectrum: Spectrum, rank: int | None) -> None:
    k = np.arange(1, len(spectrum.singular_values) + 1)
    positive = spectrum.singular_values > spectrum.upper[0] * 1e-16
    shown, dots = spectrum.singular_values[positive], "o-" if len(k) <= 40 else "-"
    axes.plot(k, spectrum.bound, "--", color=VERMILION, label=r"coursework: $||A||_F/\sqrt{k}$")
    axes.plot(k[positive], shown, dots, ms=3, color=BLUE, label=r"$\sigma_k$, error of rank $k-1$")
    if positive.any():
        axes.set_yscale("log")
    if len(k) > 40:
        axes.set_xscale("log")
    if rank is not None:
        axes.axvline(rank, color=GREY, lw=0.8, ls=":")
    axes.set_xlabel("k")
    axes.set_ylabel("singular value")
    axes.legend(frameon=False, fontsize=9, loc="best")
    open_box(axes)


def _energy(axes: Axes, spectrum: Spectrum, rank: int | None) -> None:
    k = np.arange(0, len(spectrum.energy) + 1)
    axes.plot(k, 100 * np.concatenate([[0.0], spectrum.energy]), color=GREEN)
    axes.plot(k, 100 * k / k[-1], color=GREY, lw=0.8, ls="--", label="all values equal")
    if rank is not None:
        share = 100 * float(spectrum.energy[rank - 1])
        axes.axvline(rank, color=GREY, lw=0.8, ls=":")
        axes.plot([rank], [share], "o", ms=5, color=GREEN)
        white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        text = f"rank {rank}: {share:.1f} %"
        where = (10, -4) if rank < k[-1] / 2 else (-10, -16)
        side = "left" if rank < k[-1] / 2 else "right"
        axes.annotate(text, (rank, share), xytext=where, textcoords="offset points", fontsize=9, ha=side, bbox=white)
    axes.set_xlabel("rank")
    axes.set_ylabel(r"energy kept, % of $||A||_F^2$")
    axes.set_ylim(0, 103)
    axes.set_xlim(0, k[-1])
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    open_box(axes)
