"""``regard design winnable``: which rows of an embedding can ever be the argmax."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import AsJson, Progress, as_typed, echo, note, show


def winnable(
    rows: Annotated[
        str,
        typer.Argument(
            metavar="ROWS", help="The matrix: .npy, .npz:NAME, .safetensors:NAME, .csv, .tsv, or the numbers."
        ),
    ],
    out: Annotated[
        str | None, typer.Option(metavar="FILE.json", help="Write the certificate: every verdict with its proof.")
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", help="Prove a saved certificate again from the rows, and nothing else."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", help="Keep what is known in this file; a later run goes on from it."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes; -1 takes every core.")] = -1,
    seconds: Annotated[float, typer.Option(metavar="S", help="How long exact rationals may take on one row.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Every row: can any query make it the strict argmax of K q?

    Strict, and in exact arithmetic on the stored numbers: a row wins with a query that is proved to beat every
    other row, or never wins, because other rows combine to it with positive weights, which is proved too. Exit
    code 0: every row can win; 1: some never can; 3: some could not be decided. Rows are counted from 0.

    Example, the corners of a square can win and its centre (row 4) never can, half of row 0 and half of row 2:

    regard design winnable "0,0; 2,0; 2,2; 0,2; 1,1" --json

    A model's embedding: regard design winnable model.safetensors:embeddings.word_embeddings.weight --out proof.json
    """
    from regard.arrays import check_target, load_array
    from regard.design.winnable_check import verify_winnable
    from regard.design.winnable_rows import winnable as decide

    for path in (out, resume):
        if path is not None:
            check_target(path, (".json",))
    loaded = load_array(rows, what="rows", dtype=None)
    for message in loaded.notes:
        note(message)
    if verify is not None:
        show(verify_winnable(loaded.array, verify), as_json=as_json)
    result = decide(loaded.array, jobs=jobs, seconds=seconds, checkpoint=resume, progress=Progress("Rows"))
    if out is not None:
        result.save(out)
    if result.undecided_rows:
        echo(result.to_json() if as_json else as_typed(str(result)))
        raise typer.Exit(3)
    show(result, as_json=as_json)
