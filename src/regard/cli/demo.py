"""``regard demo``: the tour."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where the page goes.")] = "regard-demo",
) -> None:
    """Run the main verbs on what is built in, and end with a page of pictures.

    Example:

    regard demo --out regard-demo
    """
    from regard.demo import demo as run

    page = run(out, say=typer.echo)
    typer.echo(f"\nDone. Open {page} in a browser.")
