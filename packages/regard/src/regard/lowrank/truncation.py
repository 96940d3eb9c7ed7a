"""The best approximation of a rank as two thin factors, with what is proved about its error."""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import InputError
from regard.files import write_file
from regard.results import Result
from regard.rigor.matrices import PAY, difference, norm_above
from regard.written_numbers import at_least, at_most, in_full


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
        target = Path(path)
        arrays = {"left": np.ascontiguousarray(self.left), "right": np.ascontiguousarray(self.right)}
        if target.suffix.lower() not in (".npz", ".safetensors"):
            raise InputError(f"Cannot write {target.name!r}: the name must end in .safetensors or .npz.")
        if not target.parent.is_dir():
            raise InputError(f"Cannot write {str(target)!r}: there is no such directory.")
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
