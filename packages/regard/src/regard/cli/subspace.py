"""``regard subspace``: vectors out of sums of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.arrays import WRITTEN, save_array
from regard.cli.output import AsJson, Details, Group, Plot, check_file, load, note, show
from regard.pictures import ENDINGS
from regard.subspace import extract as find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

app = typer.Typer(cls=Group, help="Recover vectors from sums of vectors.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Recover vectors from sums of vectors."""


@app.command()
def extract(
    a: Annotated[str, typer.Argument(metavar="A", help="Vectors that span the part to recover.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Vectors that span the part to remove.")],
    rows: Annotated[
        bool | None,
        typer.Option(
            "--rows/--columns",
            help="Whether the vectors are rows or columns; default columns, unless there are too many.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Count singular values and angles up to this as zero, for measured data.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="M.npy", help="Write the matrix M to this .npy or .csv.")] = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The matrix M with M (v_a + v_b) = v_a, for all v_a in span(A) and v_b in span(B).

    It exists exactly when the spans meet only in 0; otherwise the answer is no (exit code 1), with a common
    vector. A and B are .npy, .npz:NAME, .csv, .tsv or .safetensors:NAME files, or the numbers themselves.

    Example, the line along (1,0) and the diagonal; M is [[1, -1], [0, 0]] and amplifies noise by 1.41421:

    regard subspace extract "1; 0" "1; 1" --out M.npy

    Vectors are columns, as in the coursework; one row of several numbers is read as a vector, and --rows reads
    any A and B row by row: regard subspace extract "1,0" "1,1"
    """
    check_file(out, WRITTEN)
    check_file(plot, ENDINGS)
    bases = [load(a, "A"), load(b, "B")]
    # as columns, both would have more vectors than dimensions
    by_rows = all(array.shape[1] > array.shape[0] for array in bases) if rows is None else rows
    bases = [array.T if by_rows else array for array in bases]
    result = find(bases[0], bases[1], tolerance=tolerance)
    if rows is None and (by_rows or not result.exists):  # a "no" may come from reading them the wrong way round
        note(_reading_note(bases, by_rows=by_rows))
    if result.matrix is None and (out or plot):
        note("the answer is no, so there is nothing to write or draw")
    if result.matrix is not None and plot:
        result.plot(plot)
    if result.matrix is not None and out:
        save_array(out, result.matrix)
    show(result, as_json=as_json, details=details)


def _reading_note(bases: list[NDArray[np.float64]], *, by_rows: bool) -> str:
    counted = " and ".join(
        f"{name} as {array.shape[1]} vector{'s' * (array.shape[1] != 1)} of {array.shape[0]} "
        f"number{'s' * (array.shape[0] != 1)}"
        for name, array in zip("AB", bases, strict=True)
    )
    other = "--columns if they are columns" if by_rows else "--rows if they are rows"
    return f"read {counted}, one per {'row' if by_rows else 'column'} ({other})"
