"""The tool that asks a student's model for scores: it runs beside their code, with the weights that were handed in."""

from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import load

from regard.errors import InputError
from regard.sandbox.child import encode_result, unpack_array

kept: dict[str, dict[str, torch.Tensor]] = {"weights": {}}


def respond(thing: Any, file: ModuleType, asked: dict[str, Any]) -> bytes:
    """First the weights are read; then each question is one call of the student's function, without gradients."""
    if asked["wanted"] == "weights":
        kept["weights"] = _read(base64.b64decode(asked["data"]))
        return b"read"
    with torch.no_grad():
        scores = thing(unpack_array(asked["source"]), unpack_array(asked["prefix"]), kept["weights"])
    return json.dumps(encode_result(scores, most=int(asked["most"]))).encode("ascii")


def _read(data: bytes) -> dict[str, torch.Tensor]:
    try:
        return load(data) if data else {}
    except Exception as error:
        raise InputError(f"the file of weights cannot be read ({type(error).__name__}); save it anew.") from None
