"""``regard model``: any torch model, ours or somebody's.

One file per command; each loads, calls and prints. It may import every room here and :mod:`regard.cli`, which finds it
by an entry point. Begin with ``audit.py``; ``options.py`` has what all commands share.
"""

from __future__ import annotations

import typer

from regard.cli.output import Group
from regard_models.commands import audit, capture, compare, heads, look, patch

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
