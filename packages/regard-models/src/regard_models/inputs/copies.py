"""A copy of a model that stands alone.

``copy.deepcopy`` leaves functions as they are. A forward that somebody replaced by a function of their own
(``layer.forward = wrapped``) would go on calling the layer it was taken from: a copy in float64 would compute with the
weights of the original. Here what such a function holds is copied with the model.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

LARGE = 2**28  # bytes of weights from which on copies in the same type share them: nothing writes into them


def weight_bytes(module: nn.Module) -> int:
    """The memory that the weights take."""
    return sum(p.numel() * p.element_size() for p in module.parameters())


def copy_module(module: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """A deep copy, replaced functions included; in another type, if one is given, weight by weight.

    The weights of a large model are not copied but shared, where the type stays.

    >>> def with_more(part):
    ...     given = part.forward
    ...     part.forward = lambda x: given(x) + 1
    ...     return part
    >>> other = copy_module(with_more(nn.Linear(1, 1)))
    >>> other.forward.__closure__[0].cell_contents.__self__ is other
    True
    """
    seen: dict[int, Any] = {}
    plain = {p for p in module.parameters() if type(p) is nn.Parameter}
    if dtype is not None:
        wide = {p: nn.Parameter(p.detach().to(dtype), p.requires_grad) for p in plain if p.is_floating_point()}
        seen.update({id(p): made for p, made in wide.items() if made.dtype is not p.dtype})
    elif weight_bytes(module) > LARGE:
        seen.update({id(p): p for p in plain})
    for value in (v for part in module.modules() for v in (*part._buffers.values(), *vars(part).values())):
        if isinstance(value, Tensor) and value.grad_fn is not None:  # what a call left behind: torch copies no graphs
            seen[id(value)] = value.detach().clone()
    made = copy.deepcopy(module, seen)
    for part in made.modules():
        for name, value in list(vars(part).items()):
            vars(part)[name] = _copy_function(value, seen)
    return made if dtype is None else made.to(dtype)


def _copy_function(value: Any, seen: dict[int, Any]) -> Any:
    """A function of the model's author with copies of what it holds; anything else as it is."""
    if not isinstance(value, FunctionType) or not value.__closure__ or value.__module__.startswith("torch."):
        return value
    if id(value) in seen:
        return seen[id(value)]
    cells = tuple(CellType() for _ in value.__closure__)
    made = FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)
    made.__kwdefaults__ = value.__kwdefaults__
    seen[id(value)] = functools.update_wrapper(made, value)
    for cell, given in zip(cells, value.__closure__, strict=True):
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            cell.cell_contents = _copy_value(given.cell_contents, seen)
    return made


def _copy_value(value: Any, seen: dict[int, Any]) -> Any:
    if isinstance(value, FunctionType):
        return _copy_function(value, seen)
    try:
        return copy.deepcopy(value, seen)
    except Exception:  # a lock, a file, a library: shared
        return value
