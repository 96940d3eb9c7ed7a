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
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only say the address.")] = False,
) -> None:
    """Open the lab in the browser: a small server on this machine, for this machine. Ctrl-C stops it.

    Example:

    regard lab
    """
    import contextlib
    import webbrowser
    from threading import Thread

    from regard.lab import Lab

    with contextlib.suppress(KeyboardInterrupt), Lab(port=port, runs=runs) as server:
        typer.echo(f"The lab is at {server.address} (Ctrl-C stops it).")
        Thread(target=server.warm_up, daemon=True).start()
        if not no_browser:
            webbrowser.open(server.address)
        server.serve_forever(poll_interval=0.1)
    typer.echo("\nStopped.")
