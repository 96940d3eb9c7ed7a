"""Examples for modules that say themselves what they take: torch.nn's Transformers, and models that begin with ids."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from regard.errors import InputError

BATCH, LENGTH, TARGET = 3, 17, 13
_WITH_ORDER = (
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    nn.MultiheadAttention,
)


def is_batch_first(module: nn.Module) -> bool:
    """Whether the batch is the first axis of the inputs: torch.nn's Transformers and recurrent layers may differ."""
    if isinstance(module, (nn.TransformerEncoder, nn.TransformerDecoder)):
        return is_batch_first(module.layers[0])
    if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return bool(module.self_attn.batch_first)
    if isinstance(module, (nn.Transformer, nn.MultiheadAttention, nn.RNNBase)):
        return bool(module.batch_first)
    return True


def example_for(module: nn.Module, label: str) -> tuple[Any, str]:
    """An example for a module that came without one, and the sentence that says so."""
    generator = torch.Generator().manual_seed(0)
    width = _width(module)
    if width is not None:
        made = _draw_vectors(module, width, generator)
        return made, f"its inputs are vectors of width {width}; an example was drawn"
    required = _required_parameters(module)
    tables = [m for m in module.modules() if isinstance(m, nn.Embedding)]
    if len(required) == 1 and tables:
        ids = torch.randint(0, tables[0].num_embeddings, (BATCH, LENGTH), generator=generator)
        return (ids,), f"{required[0]} takes ids below {tables[0].num_embeddings:,}; an example was drawn"
    raise InputError(
        f"{label} came without an example of its inputs, and none can be derived from forward({', '.join(required)}); "
        "return (module, example) from build, with the example a tensor, a tuple or a dict."
    )


def _required_parameters(module: nn.Module) -> list[str]:
    parameters = inspect.signature(module.forward).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.kind in plain and p.default is p.empty]


def _width(module: nn.Module) -> int | None:
    if isinstance(module, nn.MultiheadAttention):
        return int(module.embed_dim)
    if isinstance(module, nn.Transformer):
        return int(module.d_model)
    if isinstance(module, (nn.TransformerEncoder, nn.TransformerDecoder)):
        return _width(module.layers[0])
    if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return int(module.self_attn.embed_dim)
    return None


def _draw_vectors(module: nn.Module, width: int, generator: torch.Generator) -> Any:
    parameter = next(module.parameters())

    def draw(length: int) -> torch.Tensor:
        shape = (BATCH, length, width) if is_batch_first(module) else (length, BATCH, width)
        return torch.randn(shape, generator=generator).to(parameter.dtype)

    x = draw(LENGTH)
    if isinstance(module, nn.MultiheadAttention):
        return {"query": x, "key": x, "value": x}
    if isinstance(module, nn.Transformer):
        return {"src": x, "tgt": draw(TARGET)}
    if isinstance(module, (nn.TransformerDecoder, nn.TransformerDecoderLayer)):
        return {"memory": x, "tgt": draw(TARGET)}
    return {"src": x}
