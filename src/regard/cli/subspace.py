"""``regard subspace``: vectors out of sums of vectors."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import AsJson, note, show

app = typer.Typer(help="Vectors out of sums of vectors.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Vectors out of sums of vectors."""


@app.command()
def extract(
    a: Annotated[str, typer.Argument(metavar="A", help="Basis of the part to recover, one vector per column.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Basis of the part to remove, one vector per column.")],
    rows: Annotated[bool, typer.Option("--rows", help="The basis vectors are the rows of A and B.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Count singular values and angles up to this as zero, for measured data.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="M.npy", help="Write the matrix M to this .npy or .csv.")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the smallest angle (.svg, .png, .pdf).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The matrix M with M (v_a + v_b) = v_a, for all v_a in span(A) and v_b in span(B).

    It exists exactly when the spans meet only in 0; otherwise the answer is no (exit code 1), with a common
    vector. A and B are .npy, .npz:NAME, .csv, .tsv or .safetensors:NAME files, or the numbers themselves.

    Example, the line along (1,0) and the diagonal; M is [[1, -1], [0, 0]] and amplifies noise by 1.41421:

    regard subspace extract "1; 0" "1; 1" --out M.npy

    The same with vectors as rows: regard subspace extract --rows "1,0" "1,1"
    """
    from regard.arrays import WRITTEN, check_target, load_array, save_array
    from regard.pictures import ENDINGS
    from regard.subspace import extract as find

    for path, endings in ((out, WRITTEN), (plot, ENDINGS)):
        if path is not None:
            check_target(path, endings)
    bases = []
    for spec, name in ((a, "A"), (b, "B")):
        loaded = load_array(spec, what=name)
        for message in loaded.notes:
            note(message)
        bases.append(loaded.array.T if rows else loaded.array)
    result = find(bases[0], bases[1], tolerance=tolerance)
    if result.matrix is None and (out or plot):
        note("the answer is no, so there is nothing to write or draw")
    if result.matrix is not None and plot:
        result.plot(plot)
    if result.matrix is not None and out:
        save_array(out, result.matrix)
    show(result, as_json=as_json)
