"""The same two models wrapped: compiled, traced, exported, checkpointed, quantised, in other number types."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attention_zoo import BATCH, LENGTH, WIDTH, Case
from attention_zoo.by_hand import FusedInside, Plain, Projections


class Stack(nn.Module):
    def __init__(self, kind: type[Projections]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Checkpointed(Stack):
    reentrant = False

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


class Reentrant(Checkpointed):
    reentrant = True


def _words(dtype: torch.dtype = torch.float32, **options: Any) -> Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype, **options)


def _inner_compiled(model: nn.Module) -> nn.Module:
    model.layers[1] = torch.compile(model.layers[1])  # type: ignore[index, operator]
    return model


def _exported(model: nn.Module) -> nn.Module:
    return torch.export.export(model, (_words(),)).module()  # type: ignore[return-value]


def _int8(model: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})  # type: ignore[no-any-return]


def _wrapped(wrap: Callable[[nn.Module], nn.Module], kind: type[Projections]) -> Callable[[], tuple[nn.Module, Any]]:
    return lambda: (wrap(Stack(kind).eval()), _words())


def _typed(dtype: torch.dtype, kind: type[Projections]) -> Callable[[], tuple[nn.Module, Any]]:
    return lambda: (copy.deepcopy(Stack(kind)).eval().to(dtype), _words(dtype))


def _autocast(model: nn.Module, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(x)


def cases(kind: type[Projections], said: str) -> list[Case]:
    quiet = ("no_grad",)
    return [
        Case(f"compile, {said}", _wrapped(torch.compile, kind), modes=quiet, layers=2),
        Case(f"compile inside, {said}", _wrapped(_inner_compiled, kind), modes=quiet, layers=2),
        Case(f"jit.trace, {said}", _wrapped(lambda m: torch.jit.trace(m, (_words(),)), kind), modes=quiet, layers=2),
        Case(f"export, {said}", _wrapped(_exported, kind), modes=quiet, layers=2),
        Case(f"checkpointing, {said}", lambda: (Checkpointed(kind), _words(requires_grad=True)), modes=("grad",)),
        Case(
            f"checkpointing, reentrant, {said}", lambda: (Reentrant(kind), _words(requires_grad=True)), modes=("grad",)
        ),
        Case(f"int8, {said}", _wrapped(_int8, kind), modes=quiet, layers=2),
        Case(f"autocast, {said}", _wrapped(lambda m: m, kind), run=_autocast, layers=2),
        Case(f"bfloat16, {said}", _typed(torch.bfloat16, kind), layers=2),
        Case(f"float16, {said}", _typed(torch.float16, kind), layers=2),
        Case(f"float64, {said}", _typed(torch.float64, kind), layers=2),
    ]


SCRIPTED = Case(
    "jit.script, MultiheadAttention",
    lambda: (torch.jit.script(nn.MultiheadAttention(WIDTH, 4, batch_first=True).eval()), (_words(),) * 3),
    modes=("no_grad",),
)
CASES = [*cases(FusedInside, "fused"), *cases(Plain, "by hand"), SCRIPTED]
