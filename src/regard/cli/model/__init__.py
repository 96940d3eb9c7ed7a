"""``regard model``: any torch model, ours or somebody's."""

from __future__ import annotations

import typer

from regard.cli.model import audit, capture, compare, heads, look, patch
from regard.cli.output import Group

app = typer.Typer(
    cls=Group,
    help="Any torch model: audit it, compare it with its twin, see the attention that it really used.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(name="audit")(audit.audit)
app.command(name="capture")(capture.capture)
app.command(name="compare")(compare.compare)
app.command(name="heads")(heads.heads)
app.command(name="look")(look.look)
app.command(name="patch")(patch.patch)


@app.callback()
def _group() -> None:
    """Any torch model: audit it, compare it with its twin, see the attention that it really used."""
