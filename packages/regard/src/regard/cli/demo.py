"""``regard demo``: the tour."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.output import AsJson, echo, note
from regard.demo import TOUR
from regard.demo import demo as run


def demo(
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where the page goes.")] = "regard-demo",
    as_json: AsJson = False,
) -> None:
    """Run the main verbs on what is built in, and end with a page of pictures.

    Example:

    regard demo --out regard-demo
    """
    page = run(out, say=note if as_json else echo)
    if as_json:
        echo(json.dumps({"page": str(page), "commands": [stop.command for stop in TOUR]}, indent=1))
    else:
        echo(f"\nDone. Open {page} in a browser.")
