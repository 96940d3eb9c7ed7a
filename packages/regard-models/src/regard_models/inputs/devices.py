"""Where a model is: on one device, or spread over several as accelerate does it (``device_map``).

A spread model is left where it is: moving it would undo the map, and accelerate refuses. Its inputs go to the device
where it begins; hooks carry what follows from one device to the next. Written from accelerate's documentation and
tried on the CPU with stand-ins: on real accelerators it is untested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error

_STORED = ("meta", "disk")  # kept elsewhere, and fetched when its turn comes


def check_device(device: str) -> None:
    """Refuse a device that is not there before anything is loaded."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, ValueError) as error:
        raise InputError(
            f"The device {device!r} cannot be used here ({describe_error(error)}); try --device cpu."
        ) from None


def is_spread(module: nn.Module) -> bool:
    """Whether the module carries a map of devices."""
    return isinstance(getattr(module, "hf_device_map", None), Mapping)


def place_module(module: nn.Module, device: str) -> tuple[nn.Module, torch.device, str]:
    """The module on a device or where its map has it, the device of its inputs, and what is to be said of it."""
    if not is_spread(module):
        return module.to(device), torch.device(device), ""
    first = first_device(module)
    many = len({str(d) for d in module.hf_device_map.values()})  # type: ignore[operator]
    return module, first, f"it is spread over {many} device{'s' * (many != 1)} and left there; inputs go to {first}"


def first_device(module: nn.Module) -> torch.device:
    """Where a module's inputs belong: where its hook runs it, its embedding, or its first weight that is there."""
    runs = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    if runs is not None:
        return _device(runs)
    table = next((m for m in module.modules() if isinstance(m, nn.Embedding)), None)
    weights = [*(table.parameters() if table is not None else ()), *module.parameters()]
    here: list[torch.device] = [p.device for p in weights if p.device.type not in _STORED]
    if here:
        return here[0]
    named = [d for d in getattr(module, "hf_device_map", {}).values() if str(d) not in _STORED]
    return _device(named[0]) if named else torch.device("cpu")


def move_inputs(inputs: Mapping[str, Any], device: torch.device | str) -> dict[str, Any]:
    """The inputs with their tensors on a device."""
    return {key: value.to(device) if isinstance(value, Tensor) else value for key, value in inputs.items()}


def _device(named: Any) -> torch.device:
    """accelerate writes a number for the accelerator of that number."""
    if isinstance(named, int):
        kind = torch.accelerator.current_accelerator()
        return torch.device(kind.type if kind is not None else "cuda", named)
    return torch.device(named)
