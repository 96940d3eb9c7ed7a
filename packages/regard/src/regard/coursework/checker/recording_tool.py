"""The tool that records a person's Transformer: it runs beside their code, in the jail if there is one.

Nothing is judged here, and nothing that helps to answer is sent along: the reference and the list of known mistakes
stay outside.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from regard.errors import InputError
from regard.tracing.part_recorder import record


def respond(thing: Any, file: ModuleType, asked: dict[str, Any]) -> bytes:
    """The recording of what is named in the file, with the file's own declaration, as bytes."""
    declared = getattr(file, "REGARD", {})
    if not isinstance(declared, dict):
        raise InputError(f"REGARD must be a dictionary; it is of type {type(declared).__name__}.")
    recording = record(thing, name=str(asked["name"]), declared=declared, seed=int(asked["seed"]))
    padding, future = str(declared.get("padding", "either")), str(declared.get("future", "read"))
    return replace(recording, padding=padding, future=future).to_bytes()
