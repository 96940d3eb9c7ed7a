"""``regard symmetry``: is a map order-blind, how far from it, which swap shows it best."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from regard.cli.output import AsJson, Details, Plot, Progress, check_plot, echo, show
from regard.errors import InputError
from regard.files import write_new_file
from regard.symmetry import load_map
from regard.symmetry import symmetry as study
from regard.symmetry.maps import TEMPLATE


def symmetry(
    map: Annotated[
        str | None,
        typer.Argument(help="FILE.py:NAME, a function or torch module. The file is run.", show_default=False),
    ] = None,
    length: Annotated[int, typer.Option(help="Rows of the input.")] = 128,
    dim: Annotated[int, typer.Option(help="Columns of the input.")] = 16,
    kind: Annotated[
        str, typer.Option(help="equivariant: map(PX) = P map(X); invariant: map(PX) = map(X).")
    ] = "equivariant",
    trials: Annotated[int, typer.Option(help="Permutations to try.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed of the input and the permutations.")] = 0,
    plot: Plot = None,
    template: Annotated[
        str | None, typer.Option(metavar="FILE.py", help="Write a file with a map to start from, and do nothing else.")
    ] = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Is a map order-blind, and if not, which swap of two rows shows it best?

    This imports FILE.py and runs the code in it: only name files you trust.

    Example, a file to start from, whose block adds its number to every row:

    regard symmetry --template my_map.py

    regard symmetry my_map.py:block --length 128

    says: not order-blind; the best swap found is rows 0 and 127, difference 127.

    Exit code 0: not refuted (which is no proof); 1: broken, with its witness.
    """
    if template is not None:
        _write_template(template)
    if map is None:
        raise InputError("Which map? Name it, as in my_map.py:block; regard symmetry --template my_map.py writes one.")
    check_plot(plot)  # before the map, whose file is run
    result = study(
        load_map(map),
        length=length,
        dim=dim,
        kind=kind,
        trials=trials,
        seed=seed,
        name=map.rpartition(":")[2],
        progress=Progress("symmetry"),
    )
    show(result, as_json=as_json, details=details, plot=plot)


def _write_template(path: str) -> NoReturn:
    write_new_file(path, TEMPLATE, endings=(".py",))
    echo(f"Wrote {path}: put your own layer in it, then run\n  regard symmetry {path}:block --length 128")
    raise typer.Exit()
