"""``regard positions``: are two positions equal, which two are nearest, how near."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import AsJson, Details, Plot, Progress, check_plot, load, show
from regard.positions import positions as study


def positions(
    dim: Annotated[int | None, typer.Option(help="Dimension; for rotary positions an even number.")] = None,
    length: Annotated[int | None, typer.Option(help="How many positions, from 0.")] = None,
    format: Annotated[str, typer.Option(help="real, float64, float32, bfloat16 or float16.")] = "real",
    kind: Annotated[str | None, typer.Option(help="sinusoidal (default), rotary or learned.")] = None,
    table: Annotated[str | None, typer.Option(help="Learned positions: an array file, one per row.")] = None,
    library: Annotated[
        str, typer.Option(help="Which sine function: reference (correctly rounded), numpy or torch.")
    ] = "reference",
    base: Annotated[float, typer.Option(help="Frequencies are base^(-2i/dim).")] = 10000,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Are any two positions equal, which two are nearest, and how near? Proved in real arithmetic.

    Example: regard positions --dim 512 --length 100000 --format bfloat16

    says: all distinct; the nearest two are 93235 and 93236, at distance 3.70974.

    Example: regard positions --dim 2 --length 1000 --format bfloat16

    says: not distinct; positions 1 and 711 are bit for bit the same (exit code 1).

    Exit code 0: all distinct; 1: two are equal, and the first such pair is named.
    """
    check_plot(plot)
    result = study(
        None if table is None else load(table, "table"),
        dim=dim,
        length=length,
        format=format,
        kind=kind,
        library=library,
        base=base,
        progress=Progress("positions"),
    )
    show(result, as_json=as_json, details=details, plot=plot)
