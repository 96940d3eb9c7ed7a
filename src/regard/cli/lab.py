"""``regard lab``: the pages where one drags a query and sees it all."""

from __future__ import annotations

from typing import Annotated

import typer


def lab(
    port: Annotated[
        int | None, typer.Option(help="The port; left out, 8321, or a free one where that is taken.")
    ] = None,
    runs: Annotated[
        str, typer.Option(metavar="DIR", help="The folder of runs that the translator's page shows.")
    ] = "runs",
    folder: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A folder whose files the pages may open; left out, the one you are in."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="What the Models page looks at: FILE.py:build (the file is run), a Hugging Face folder, a run folder.",
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only say the address.")] = False,
) -> None:
    """Open the lab in the browser: a small server on this machine, for you alone. Ctrl-C stops it.

    The address that it prints lets a browser in: give it to nobody.

    Example:

    regard lab
    """
    import contextlib
    import signal
    import webbrowser
    from threading import Thread

    from regard.lab import Lab
    from regard.lab.access import private_link

    with (
        contextlib.suppress(KeyboardInterrupt),
        Lab(port=port, runs=runs, folders=folder or ["."], model=model) as server,
        private_link(server.opening) as link,
    ):
        for ending in ("SIGTERM", "SIGHUP"):  # a window closed, a machine shut down: as Ctrl-C does it
            if hasattr(signal, ending):
                signal.signal(getattr(signal, ending), signal.default_int_handler)
        typer.echo(f"The lab is at {server.opening} (Ctrl-C stops it).")
        Thread(target=server.warm_up, daemon=True).start()
        if not no_browser:
            webbrowser.open(link)
        server.serve_forever(poll_interval=0.1)
    typer.echo("\nStopped.")
