from __future__ import annotations

import typer

app = typer.Typer(help="Vectors out of sums of vectors.", no_args_is_help=True)


@app.command()
def extract() -> None:
    """Placeholder."""


@app.command()
def angles() -> None:
    """Placeholder."""
