from __future__ import annotations

import typer

app = typer.Typer(
    help="Queries that copy, share or match, the shortest ones, with certificates.", no_args_is_help=True
)


@app.command()
def copy() -> None:
    """Placeholder."""


@app.command()
def share() -> None:
    """Placeholder."""
