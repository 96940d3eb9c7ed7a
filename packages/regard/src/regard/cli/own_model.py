"""`regard translator` with a model of your own: what names it, and what it is scored on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.output import note
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translator.data.corpus import Pairs
    from regard.translator.engines.run import Run
    from regard.translator.models.own_translator import OwnCode
    from regard.translator.runs.settings import Settings

OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A model of your own, my.py:NAME: a class, or a function that returns a module. The file is run as your "
        "own code, with your rights: only name files that you trust.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option(help="Which pairs: test or validation.")]


def own_code(spec: str | None) -> OwnCode | None:
    """The code that --model names, if it was given; its file is run."""
    if spec is None:
        return None
    from regard.extras import require

    require("A model of your own", "torch", extra="translator")
    from regard.translator.models.own_code import load_code

    return load_code(spec)


def opened_model(spec: str, settings: Settings, split: str, device: str) -> tuple[Run, Pairs]:
    """A model without a run folder, and the pairs it is scored on, with the vocabularies that our runs would have."""
    from regard.translator.training.preparation import own_run, own_settings, tokens_of

    code = own_code(spec)
    words, pairs, scored_on = tokens_of(settings, split)
    note(f"{spec} is scored on {scored_on}, with {len(words[0]):,} source and {len(words[1]):,} target words.")
    if code is None:  # never: a spec was given
        raise InputError("There is no model to score.")
    return own_run(code, own_settings(settings), words, device=device), pairs
