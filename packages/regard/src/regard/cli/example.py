"""``regard example``: files to begin with, so that every line of the documentation runs in an empty folder."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import echo
from regard.errors import InputError, suggest_name
from regard.examples import EXAMPLES
from regard.examples import example as numbers
from regard.files import write_new_file
from regard.noise import EXAMPLE
from regard.symmetry.maps import TEMPLATE

PROGRAMS = {
    "model": "my_model.py: a torch model, and a port of it with one mistake, for regard model",
    "map": "my_map.py: maps from rows to rows, for regard symmetry",
    "noise": "model.toml: a noise model, every setting explained, for regard noise study",
}


def example(
    name: Annotated[str | None, typer.Argument(help="Which one; without a name, the list.", show_default=False)] = None,
    file: Annotated[
        str | None, typer.Argument(help="Write it here (.csv, .py, .toml); left out, print it.", show_default=False)
    ] = None,
) -> None:
    """Print an example to begin with: keys, queries, a matrix, a torch model, a map, a noise model.

    regard example keys > keys.csv

    writes twelve keys in three dimensions, which every verb of regard design takes; example:keys names the same numbers
    without a file.
    """
    if name is None:
        echo(_listing())
        return
    text = _text(name)
    if file is None:
        echo(text, nl=False)
        return
    endings = {"model": (".py",), "map": (".py",), "noise": (".toml",)}.get(name, (".csv", ".txt"))
    write_new_file(file, text, endings=endings)
    echo(f"Wrote {file}.")


def _listing() -> str:
    known = EXAMPLES | PROGRAMS
    lines = [f"  {name:<12}{what}" for name, what in known.items()]
    return "\n".join(["Examples, for `regard example NAME > FILE`; numbers also as example:NAME:", *lines])


def _text(name: str) -> str:
    if name == "noise":
        return EXAMPLE
    if name == "map":
        return TEMPLATE
    if name == "model":
        return MODEL
    if name not in EXAMPLES:
        raise InputError(f"There is no example {name!r}; {suggest_name(name, [*EXAMPLES, *PROGRAMS])}")
    return "".join(",".join(map(repr, row)) + "\n" for row in numbers(name).tolist())


MODEL = '''\
"""A torch model to look into: regard model audit my_model.py:build"""

import torch


def build():
    """One encoder block. Return your own module here, or (module, example of its input)."""
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True)


def port():
    """The same block as somebody copied it: it normalises before attention instead of after."""
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True, norm_first=True)
'''
