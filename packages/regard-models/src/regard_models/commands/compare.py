"""``regard model compare``: two models that should be equal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.output import AsJson, show
from regard_models.commands.options import Device, Limit, Masks, ModelArgument, contain_run, load_model_input


def compare(
    mine: ModelArgument,
    theirs: ModelArgument,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="MINE=THEIRS",
            help="Pair names that begin with MINE and THEIRS; may be given several times.",
        ),
    ] = None,
    copy_weights: Annotated[
        bool, typer.Option("--copy-weights", help="Give the first model the second's weights, where names pair.")
    ] = False,
    mask: Masks = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Allow a difference of this many roundings of the first model's type.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The seed of the drawn tokens.")] = 0,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """Two models that should be equal (a port and its original): the first submodule that differs, and by how much.

    Both are run on one input in float64 copies; usual mistakes are undone one by one ("equal if ...").

    A FILE.py is run as your own code, with your rights: only name files that you trust.

    Example: regard model compare mine.py:build theirs.py:build --map blocks=transformer.h

    Exit code 0: equal on this input (which is no proof); 1: not.
    """
    given = [load_model_input(name, device=device, limit=limit, masks=mask) for name in (mine, theirs)]
    from regard_models.comparing.comparison import compare as examine
    from regard_models.comparing.first_difference import parsed_names

    options: dict[str, Any] = {"copy_weights": copy_weights, "tolerance": tolerance, "seed": seed}
    with contain_run(f"{mine} or {theirs}", limit):
        comparison = examine(given[0], given[1], names=parsed_names(names), **options)
    show(comparison, as_json=as_json)
