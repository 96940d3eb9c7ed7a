"""``regard lowrank``: singular values and best approximations of the matrices in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from regard.cli.output import AsJson, Plot, Progress, check_file, check_plot, load, note, show
from regard.errors import InputError
from regard.formats import REAL, from_safetensors, safetensors_entries
from regard.lowrank import Sketch, Spectrum, product_spectrum, sketch, study, table

if TYPE_CHECKING:
    from regard.lowrank import Study, Table

NO_CUT = "--out saves the factors of a cut: give --rank, or an --error that needs one."


def lowrank(
    context: typer.Context,
    matrix: Annotated[
        str | None,
        typer.Argument(
            metavar="[MATRIX]",
            help="A matrix: file.npy, file.npz:NAME, file.safetensors:NAME, a .csv, or '1,0; 0,1'. "
            "A .safetensors file without a NAME: all its matrices, one table.",
        ),
    ] = None,
    product: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Instead of MATRIX: the product A B^T, such as W_Q W_K^T, not formed."),
    ] = None,
    transposed: Annotated[
        bool, typer.Option("--transposed", help="With --product: A^T B, for weights stored as torch.nn.Linear does.")
    ] = False,
    rank: Annotated[int | None, typer.Option(help="The rank of the approximation.")] = None,
    error: Annotated[float | None, typer.Option(help="Find the smallest rank with at most this error instead.")] = None,
    norm: Annotated[str | None, typer.Option(help="The norm of --error: spectral (default) or frobenius.")] = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="--error is relative to the norm of the matrix.")
    ] = False,
    inputs: Annotated[
        str | None, typer.Option(help="Inputs X, one row each: also show what the cut does to softmax(scale X M X^T).")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="The scale of the scores [default: 1, or 1/sqrt(columns of A) with --product].")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Proved error of the singular values, relative to the largest, that is good enough [default: 1e-8]."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All matrices of a .safetensors file, one table.")] = False,
    randomised: Annotated[
        bool, typer.Option("--randomised", help="For huge matrices: sketch to --rank in blocks of rows, with bounds.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --randomised: the seed of the sketch [default: 0].")
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(help="With --randomised: how often to read the matrix for the basis [default: 2, the least]."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Recompute the bounds by separate code; exit 1 if they fail.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Save the factors of the cut (.safetensors or .npz): left @ right.T."),
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Singular values, the best approximation of a rank, and its exact error, with proved bounds.

    Example: regard lowrank "3,0; 0,2; 0,0" --rank 1

    prints the singular values 3 and 2 beside the coursework's ||A||_F/sqrt k, and that no matrix of rank 1 errs
    by less than 2.
    """
    if (matrix is None) == (product is None):
        raise InputError("Give one matrix, or --product A B for A B^T, and not both.")
    given = {name for name, value in context.params.items() if value is not None and value is not False}
    _refuse_idle(given)
    _check_targets(out, plot, cut=rank is not None or error is not None)
    if every or (matrix is not None and matrix.lower().endswith(".safetensors")):
        if given & {"error", "inputs", "out", "plot", "product", "tolerance", "randomised", "check"}:
            raise InputError(
                "The table of all matrices goes with --rank alone; name one tensor (file.safetensors:NAME) for the "
                "rest."
            )
        show(_table(str(matrix), rank), as_json=as_json)
    if randomised:
        answer, source = _sketch_matrix(
            matrix, inputs, plot,
            rank=rank, error=error, norm=norm or "spectral", relative=relative, seed=seed or 0,
            passes=2 if passes is None else passes,
        )  # fmt: skip
    else:
        answer, source = _study_matrix(
            matrix, product, transposed, inputs,
            rank=rank, error=error, norm=norm or "spectral", relative=relative, scale=scale,
            tolerance=1e-8 if tolerance is None else tolerance,
        )  # fmt: skip
    _save(answer, out, plot)
    if check:
        answer = _check_bounds(answer, source)
    show(answer, as_json=as_json)


def _study_matrix(
    matrix: str | None, product: tuple[str, str] | None, transposed: bool, inputs: str | None, **options: Any
) -> tuple[Study, tuple[Any, ...]]:
    options["inputs"] = None if inputs is None else _load(inputs, "inputs")
    if product is not None:
        a, b = (_load(spec, f"factor {name}") for spec, name in zip(product, "AB", strict=True))
        a, b = (a.T, b.T) if transposed else (a, b)
        options["scale"] = a.shape[1] ** -0.5 if options["scale"] is None else options["scale"]
        return study(product_spectrum(a, b, name="A Bᵀ"), **options), (a, b)
    loaded = _load(str(matrix), "matrix")
    _warn_if_long(loaded.shape)
    options["scale"] = 1.0 if options["scale"] is None else options["scale"]
    return study(loaded, name=_name(str(matrix)), **options), (loaded,)


def _sketch_matrix(
    matrix: str | None, inputs: str | None, plot: str | None, *, rank: int | None, seed: int, passes: int,
    error: float | None, **options: Any,
) -> tuple[Study, tuple[Any, ...]]:  # fmt: skip
    if matrix is None or rank is None or inputs is not None or plot is not None:
        raise InputError("--randomised needs a MATRIX and --rank, and does not go with --product, --inputs or --plot.")
    loaded = _load(matrix, "matrix", keep=True)
    known = sketch(loaded, rank=rank, seed=seed, passes=passes, name=_name(matrix), progress=Progress("Rows read"))
    return study(known, rank=rank if error is None else None, error=error, **options), (loaded,)


def _table(spec: str, rank: int | None) -> Table:
    if rank is not None and rank < 1:
        raise InputError(f"rank must be a whole number of at least 1, not {rank}.")
    return table(_tensors(spec), rank=rank)


def _tensors(path: str) -> Iterator[tuple[str, Any]]:
    """The matrices of a .safetensors file one after another, with progress."""
    if not path.lower().endswith(".safetensors"):
        raise InputError(f"--all reads .safetensors files, but this is {path!r}; leave out the tensor's name.")
    if not Path(path).is_file():
        raise InputError(f"{path!r}: there is no such file.")
    if not Path(path).stat().st_size:
        raise InputError(f"{path!r} is an empty file; it needs at least one matrix.")
    data, progress = np.memmap(path, dtype=np.uint8, mode="r"), Progress("Matrices")
    kinds, _ = safetensors_entries(data, repr(path))
    names = sorted(n for n, (kind, shape, *_) in kinds.items() if len(shape) == 2 and 0 not in shape and kind in REAL)
    if len(names) < len(kinds):
        note(f"{len(kinds) - len(names)} of {len(kinds)} tensors are not matrices of real numbers and were left out.")
    # Not by load_array, which refuses what is not finite: here one such tensor is a line among the others.
    for done, name in enumerate(names):
        progress(done, len(names))
        yield name, from_safetensors(data, name, f"{name} ({path})", [])


def _load(spec: str, what: str, *, keep: bool = False) -> Any:
    return load(spec, what, ndim=2, dtype=None if keep else np.float64)


def _name(spec: str) -> str:
    path, _, name = spec.rpartition(":") if ".safetensors:" in spec or ".npz:" in spec else ("", "", spec)
    return name if path or Path(name).suffix else "matrix"


def _warn_if_long(shape: tuple[int, ...]) -> None:
    seconds = max(shape) * min(shape) ** 2 * 8 / 1e10
    if min(shape) > 3000 and seconds > 60:
        note(f"this may take about {seconds / 60:.0f} minutes; --randomised --rank K is far quicker for a few ranks.")


def _save(answer: Study, out: str | None, plot: str | None) -> None:
    if out is not None:
        if answer.truncation is None:  # an error that rank 0 already meets
            raise InputError(NO_CUT)
        answer.truncation.save(out)
    if plot is not None and isinstance(answer.spectrum, Spectrum):  # a sketch knows only its top
        answer.plot(plot)


def _check_bounds(answer: Study, source: tuple[Any, ...]) -> Study:
    if isinstance(answer.spectrum, Sketch):
        return replace(answer, checked=answer.spectrum.check(source[0], progress=Progress("Rows read again")))
    return replace(answer, checked=answer.spectrum.check(*source))


def _check_targets(out: str | None, plot: str | None, *, cut: bool) -> None:
    """Refuse what could not be written, before the work rather than after."""
    check_plot(plot)
    check_file(out, (".safetensors", ".npz"))
    if out is not None and not cut:
        raise InputError(NO_CUT)


def _refuse_idle(given: set[str]) -> None:
    """Refuse options that would change nothing here, rather than ignore them."""
    needs = {"transposed": "product", "norm": "error", "relative": "error", "scale": "inputs"}
    for option, other in {**needs, "seed": "randomised", "passes": "randomised"}.items():
        if option in given and other not in given:
            raise InputError(f"--{option} does nothing without --{other}: add --{other} or leave out --{option}.")
    for other in ("product", "randomised"):
        if {"tolerance", other} <= given:
            raise InputError(f"--tolerance does nothing with --{other}: leave out one of the two.")
