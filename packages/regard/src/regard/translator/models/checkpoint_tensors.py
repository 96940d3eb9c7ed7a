"""Checkpoints in torch: a model, its optimiser and its averages as tensors under names, and back again.

The files themselves, and how they know that nothing in them has changed, are in
:mod:`regard.translator.runs.checkpoint_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.files import write_file
from regard.translator.models.averaging import Average
from regard.translator.runs.checkpoint_files import Header, damage_error, metadata, read_checkpoint, seal_checkpoint


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and the facts that belong to them, in one file."""
    from safetensors.torch import save

    whole: dict[str, Tensor] = {}
    held: set[int] = set()  # the format refuses tensors that share memory, as a buffer and a slice of it do
    for name, tensor in tensors.items():
        own = tensor.detach().contiguous()
        whole[name] = own.clone() if own.untyped_storage().data_ptr() in held else own
        held.add(whole[name].untyped_storage().data_ptr())
    write_file(path, seal_checkpoint(save(whole, metadata=metadata(facts))))


def read_weights(path: Path) -> tuple[dict[str, Tensor], Header]:
    """What :func:`write_weights` wrote, if nothing in it has changed since."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    data, header = read_checkpoint(path)
    try:
        return load(data), header
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:  # a file without a digest
        raise damage_error(path, error) from None


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """The weights under their names; weights that are shared once, under their first name."""
    seen: dict[int, str] = {}
    named = model.state_dict(keep_vars=True)  # shared weights are the same object there
    for name, tensor in named.items():
        seen.setdefault(id(tensor), name)
    return {f"model.{name}": named[name] for name in seen.values()}


def optimiser_tensors(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state under the names of the weights."""
    return {
        f"optimiser.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, average: Average | None = None
) -> Header:
    """Load weights, the optimiser's state and the averaged weights from ``path``; returns what the file says."""
    tensors, header = read_weights(path)
    put_weights(path, model, tensors)
    _restore_optimiser(path, model, optimiser, tensors)
    if average is not None:
        average.restore(path, tensors)
    return header


def put_weights(path: Path, model: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights among ``tensors`` (read from ``path``) into the model, if they fit."""
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    expected = {name.removeprefix("model."): _kind(t) for name, t in model_tensors(model).items()}
    there = {name: _kind(t) for name, t in weights.items()}
    if wrong := [n for n in sorted(expected.keys() | there.keys()) if expected.get(n) != there.get(n)]:
        raise InputError(
            f"{path} does not fit this run's settings and vocabulary: {wrong[0]} has shape {there.get(wrong[0])}, "
            f"not {expected.get(wrong[0])}; the folder mixes files of different runs."
        )
    model.load_state_dict(weights, strict=False)  # the other names of shared weights are left out


def _kind(tensor: Tensor) -> str:
    """Shape and type, as a person reads them: load_state_dict would convert another type without a word."""
    usual = tensor.dtype in (torch.float32, torch.int64, torch.bool)
    return f"{tuple(tensor.shape)}" + ("" if usual else f" of {tensor.dtype}")


def _restore_optimiser(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimiser."):
            _, what, name = key.split(".", 2)
            states.setdefault(name, {})[what] = tensor
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in states:
            raise InputError(f"{path} has no optimiser state for {name}; the folder mixes files of different runs.")
        if name in states:
            if any(t.numel() != 1 and t.shape != parameter.shape for t in states[name].values()):
                raise InputError(f"{path} has optimiser state of another shape than {name}; restore it from a copy.")
            optimiser.state[parameter] = states[name]
