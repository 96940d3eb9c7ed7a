"""``regard lab``: the pages where one drags a query and sees it all; ``regard lab export``: the same without Python."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

import regard.lab  # the server loads when it is first used: torch begins to load before it
from regard.cli.output import AsJson, Group, Progress, echo, show
from regard.errors import InputError
from regard.lab.run_list import has_runs
from regard.web.access import checked_origins
from regard.web.background_tasks import start_early
from regard.web.local_server import serve_pages

app = typer.Typer(cls=Group, invoke_without_command=True, subcommand_metavar="[export DIR]")

Hide = Annotated[
    list[str] | None,
    typer.Option("--hide", metavar="PARTS", help="Hide these on every page: answers, lines, why; separated by commas."),
]
Runs = Annotated[
    str, typer.Option("--runs", metavar="DIR", help="The folder of runs that the translator's page shows.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="What the Models page looks at: FILE.py:build (the file is run), a Hugging Face folder, a run folder.",
    ),
]


@app.callback()
def lab(
    context: typer.Context,
    port: Annotated[int | None, typer.Option(help="The port; left out, 8321, or a free one if 8321 is taken.")] = None,
    runs: Runs = "runs",
    folder: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A folder whose files the pages may open; left out, the one you are in."),
    ] = None,
    model: Model = None,
    embed: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A site whose pages may show the lab in a frame; repeat for more."),
    ] = None,
    hide: Hide = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open no browser.")] = False,
) -> None:
    """Open the lab in the browser: a small server on this machine, for you alone. Ctrl-C stops it.

    The address that it prints lets a browser in: give it to nobody.

    Example:

    regard lab

    For a class, without verdicts, proofs and shortest queries, in a frame of the course's page:

    regard lab --hide answers --embed https://course.example
    """
    if context.invoked_subcommand is not None:
        given = [word for word in (port, folder, model, embed, hide, no_browser or None) if word is not None]
        if given or runs != "runs":  # passed over in silence, --hide would hide nothing
            raise InputError("Options come behind the verb: regard lab export DIR --hide answers.")
        return

    _import_torch_early(Path(runs))
    origins = checked_origins(embed or [])
    with (
        contextlib.suppress(KeyboardInterrupt),
        regard.lab.Lab(
            port=port, runs=runs, folders=folder or ["."], model=model, embed=origins, hide=hide or []
        ) as server,
    ):
        if server.embed:
            echo(f"In a page on {' or '.join(server.embed)}: {server.frame_tag()}")
        # while the browser opens: what the first page needs is then loaded
        Thread(target=server.warm_up, daemon=True).start()
        serve_pages(server, "The lab", no_browser=no_browser)
    echo("\nStopped.")


def _import_torch_early(runs: Path) -> None:
    """Importing torch takes longest: the process that will translate begins with it before the lab itself begins.

    Where there is no run, the package's own translates, which needs no torch.
    """
    own = "regard.lab.pages.translator"
    if has_runs(runs) and find_spec("torch") is not None:
        start_early(own, imports=["torch", "regard.translator.models.run", own])


@app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.", show_default=False)],
    pages: Annotated[
        str | None, typer.Option(metavar="PAGES", help="Only these, with commas between: copy,noise.")
    ] = None,
    hide: Hide = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export in DIR.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the pages as a folder of files that needs no Python: open DIR/index.html, or put it on any web host.

    regard lab export lab-files --pages copy,noise

    Sliders and choices move between states that are computed now, some minutes for all pages; nothing is requested from
    anywhere when the pages are read.
    """
    named = None if pages is None else [name.strip() for name in pages.split(",") if name.strip()]
    show(
        regard.lab.export(out, pages=named, hide=hide or [], force=force, progress=Progress("computing")),
        as_json=as_json,
    )
