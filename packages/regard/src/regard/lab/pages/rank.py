"""Rank: the spectrum of one's own matrix, a cut, what the coursework promises about it, and what is true."""

from __future__ import annotations

import os
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import regard
from regard.array_types import Float
from regard.arrays import load_array
from regard.errors import InputError
from regard.examples import EXAMPLES
from regard.lab.page import Answer, Number, Page, State, tex
from regard.strict_json import JsonObject
from regard.written_numbers import at_most

if TYPE_CHECKING:
    from regard.lowrank import SoftmaxEffect, Spectrum

LONGEST = 20_000  # letters of an address: longer ones no server takes
LARGEST = 2000  # rows or columns: a spectrum beyond takes many seconds
SCORES = 300  # rows and columns up to which the weights are compared
CORNER = 48  # rows and columns that are drawn
MATRICES = tuple(name for name in EXAMPLES if name not in ("target", "queries"))  # those are no matrices to cut
NUMBERS = re.compile(r"[\s\d.,;+\-eE]+")


def answer(state: State) -> Answer:
    """The spectrum, the cut and its effect."""
    spec = _matrix_spec(state)
    known = _spectrum(spec, _modification_time(spec))
    rank = min(state.whole_number("rank", least=1, most=LARGEST), len(known.singular_values))
    effect = _effect(spec, _modification_time(spec), rank)
    return Answer(
        picture=_picture(spec, known, rank),
        numbers=_numbers(known, rank, effect),
        say=_say(known, rank, effect),
        formulas=_formulas(known, rank),
        python=_python(spec, rank, effect is not None),
        shell=f"regard lowrank {shlex.quote(spec)} --rank {rank}",
        state={"matrix": spec, "rank": str(rank)},
    )


# The user's matrix ---------------------------------------------------------------------------------------------------


def _matrix_spec(state: State) -> str:
    """What was typed as the command line takes it: an example, numbers, or a file below the lab's folders."""
    spec = state.text("matrix").strip()
    if len(spec) > LONGEST:
        raise InputError(
            f"Pasted numbers may take {LONGEST:,} letters, not {len(spec):,}: save them and give the path."
        )
    if NUMBERS.fullmatch(spec):
        return _inline(spec)
    if spec.startswith("example:"):
        return spec
    path = spec if "\0" in spec or os.path.exists(spec) else spec.rpartition(":")[0] or spec
    if "\0" not in path:
        state.file(path)  # before anything is said about whether it exists
    if "\0" in spec or not os.path.isfile(path):  # said here: a better guess would mean to look around in the folder
        raise InputError(f"There is no file {path!r}; type example:gaussian, numbers like 1,0; 0,1, or a file's path.")
    return spec


def _inline(text: str) -> str:
    """Pasted rows, however they are separated, as 1,0; 0,1.

    >>> _inline("1 2\\n3\\t4")
    '1,2; 3,4'
    """
    rows = [re.split(r"[\s,]+", row.strip(" \t,")) for row in re.split(r"[;\n]+", text) if row.strip(" \t,")]
    if not rows:
        raise InputError("The matrix needs at least one number, such as 3,0; 0,2.")
    return "; ".join(",".join(row) for row in rows) + (";" if len(rows) == 1 and len(rows[0]) == 1 else "")


def _modification_time(spec: str) -> float:
    """When the file was written, so that a new one is read again; 0 for what is no file."""
    path = spec if os.path.exists(spec) else spec.rpartition(":")[0]
    return os.path.getmtime(path) if path and os.path.isfile(path) else 0.0


@lru_cache(maxsize=2)  # of the largest, 32 MB each: only the one at hand is asked again
def _matrix(spec: str, stamp: float) -> Float:
    matrix: Float = load_array(spec, what="matrix").array
    if max(matrix.shape) > LARGEST:
        raise InputError(
            f"The matrix has shape {matrix.shape}; the page takes up to {LARGEST:,} rows and columns: "
            "use regard lowrank --randomised for more."
        )
    return matrix


@lru_cache(maxsize=2)
def _spectrum(spec: str, stamp: float) -> Spectrum:
    return regard.lowrank.spectrum(_matrix(spec, stamp))


@lru_cache(maxsize=256)
def _effect(spec: str, stamp: float, rank: int) -> SoftmaxEffect | None:
    """What the cut does to the weights, the matrix read as scores; None where it is too large for that."""
    known = _spectrum(spec, stamp)
    if max(known.shape) > SCORES:
        return None
    rows, columns = known.shape
    return regard.lowrank.softmax_effect(known, rank=rank, inputs=np.eye(rows), key_inputs=np.eye(columns))


# What is shown -------------------------------------------------------------------------------------------------------


def _picture(spec: str, known: Spectrum, rank: int) -> JsonObject:
    k = np.arange(1, len(known.singular_values) + 1)
    floor = max(float(known.upper[0]), 1e-300) * 1e-16
    values = [float(value) if value > floor else None for value in known.singular_values]
    corner = _matrix(spec, _modification_time(spec))[:CORNER, :CORNER]
    cut = known.truncate(rank)
    near = cut.left[:CORNER] @ cut.right[:CORNER].T
    scale = max(float(np.abs(corner).max()), 1e-300)
    return {
        "k": k,
        "bound": known.bound,
        "kept": [value if i < rank else None for i, value in enumerate(values)],
        "dropped": [value if i >= rank else None for i, value in enumerate(values)],
        "energy": 100 * known.energy,
        "at": [100 * float(known.energy[rank - 1]) if i == rank - 1 else None for i in range(len(values))],
        "most": len(values),
        "shape": list(known.shape),
        "corner": max(known.shape) > CORNER,
        "tables": [corner / scale, near / scale, (corner - near) / scale],
        "examples": list(MATRICES),
    }


def _numbers(known: Spectrum, rank: int, effect: SoftmaxEffect | None) -> tuple[Number, ...]:
    truth = {"form": ".6g", "column": "truth"}
    bound = {"form": ".6g", "column": "bound"}
    at = f"σ{_subscript(rank)} ≤ Frobenius norm / √{rank}"
    numbers = [
        Number(name="sigma", label=at, value=float(known.singular_values[rank - 1]), **truth),
        Number(name="sigma-bound", label=at, value=float(known.bound[rank - 1]), **bound),
    ]
    error = f"error ‖A − B‖ of rank {rank} ≤ Frobenius norm / √{rank + 1}"
    numbers += [
        Number(name="error", label=error, value=known.spectral_error(rank)[1], **truth),
        Number(name="error-bound", label=error, value=known.frobenius / (rank + 1) ** 0.5, **bound),
    ]
    if effect is not None:
        change = "largest change of a row of softmax(A)"
        numbers += [
            Number(name="change", label=change, value=float(effect.variation.max()), **truth),
            Number(name="change-bound", label=change, value=float(effect.variation_bound.max()), **bound),
        ]
    return (
        *numbers,
        Number(name="energy", label="energy kept, %", value=100 * float(known.energy[rank - 1])),
        Number(name="frobenius", label="Frobenius error", value=known.frobenius_error(rank)[1], form=".6g"),
        Number(name="effective", label="effective rank", value=known.effective_rank),
        Number(name="stable", label="stable rank", value=known.stable_rank),
    )


def _subscript(number: int) -> str:
    """Digits below the line.

    >>> _subscript(10)
    '₁₀'
    """
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))


def _say(known: Spectrum, rank: int, effect: SoftmaxEffect | None) -> tuple[str, ...]:
    rows, columns = known.shape
    kept = rank * (rows + columns)
    stored = f"{kept:,} numbers instead of {rows * columns:,}" if kept < rows * columns else "no numbers saved"
    error, bound = known.spectral_error(rank)[1], known.frobenius / (rank + 1) ** 0.5
    times = (
        f"the promise is {bound / error:.3g} times the truth" if error > 1e-12 * known.frobenius else "nothing is lost"
    )
    said = [
        f"Rank {rank} of {len(known.singular_values)}: {stored}; {times}.",
        f"Every singular value is within {at_most(known.error_bound, 2)} of the exact one (proved, all rounding "
        "included).",
    ]
    if effect is None:
        said.append(f"What the cut does to softmax(A) is shown up to {SCORES} rows and columns.")
    return tuple(said)


def _formulas(known: Spectrum, rank: int) -> tuple[str, ...]:
    error, norm, size = known.spectral_error(rank)[1], known.frobenius, r"\lVert A \rVert_F"
    root = (rank + 1) ** 0.5
    promise = rf"\frac{{{size}}}{{\sqrt{{{rank + 1}}}}} = \frac{{{tex(norm)}}}{{{tex(root)}}} = {tex(norm / root, 6)}"
    shown = rf"\lVert A - B \rVert = \sigma_{{{rank + 1}}} = {tex(error, 6)} \;\le\; {promise}"
    kept = float(known.energy[rank - 1])
    energy = rf"\sum_{{i \le {rank}}} \sigma_i^2 = {tex(kept)}\,{size}^2, \qquad {size}^2 = {tex(norm**2)}"
    return (shown, energy)


def _python(spec: str, rank: int, effect: bool) -> str:
    lines = [
        "import numpy as np",
        "from regard import lowrank",
        "from regard.arrays import load_array",
        f'A = load_array({spec!r}, what="matrix").array',
        "known = lowrank.spectrum(A)",
        f"print(known.singular_values[{rank - 1}], known.bound[{rank - 1}])",
        f"print(known.spectral_error({rank})[1], known.frobenius / {rank + 1} ** 0.5)",
    ]
    if effect:
        lines += [
            "m, n = A.shape  # A itself as the scores",
            f"effect = lowrank.softmax_effect(known, rank={rank}, inputs=np.eye(m), key_inputs=np.eye(n))",
            "print(effect.variation.max(), effect.variation_bound.max())",
        ]
    return "\n".join([*lines, f"B = known.truncate({rank}).matrix()"])


PAGE = Page(
    place=4,
    title="Rank",
    hint="Paste a matrix of your own, or type the path of its file; then slide the rank: promise against truth.",
    about="How much of a matrix its largest singular values keep, and how small the error of the best cut is.",
    start={"matrix": "example:gaussian", "rank": "4"},
    answer=answer,
)
