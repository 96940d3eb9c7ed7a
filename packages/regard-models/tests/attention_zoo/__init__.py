"""Attention in every shape it comes in, and what a capture of each must show.

A case builds a module and its inputs. :func:`examine` runs it without and with a capture and compares: the outputs bit
for bit, W V with the kernel's output, the identity probe, and, where a case has one, a slow NumPy version of the
weights. Sizes are distinct primes where axes could be confused.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from regard_models.capturing.attention_capture import capture, run_model

GRAD_MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
BATCH, LENGTH, OTHER, WIDTH, HEADS = 3, 7, 5, 20, 4  # 4 heads of width 5


@dataclass(frozen=True)
class Case:
    """One way to compute attention. ``expected`` gives the first record's weights by another road, in float64."""

    name: str
    build: Callable[[], tuple[nn.Module, Any]]
    expected: Callable[[nn.Module, Any], np.ndarray] | None = None
    run: Callable[[nn.Module, Any], Any] | None = None
    modes: tuple[str, ...] = tuple(GRAD_MODES)
    layers: int | None = None
    eager_twin: bool = False  # compiled flex kernels: compared with themselves run eagerly


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came out of one case in one gradient mode."""

    case: str
    mode: str
    kernels: tuple[str, ...]
    records: int
    layers: int
    identical: bool
    residual: float
    verified: bool
    sound: bool
    missed: int
    off: float | None  # largest difference from the expected weights

    @property
    def good(self) -> bool:
        fits = self.off is None or self.off < 1e-5
        return self.identical and self.verified and self.sound and fits and self.records > 0 and not self.missed


def examine(case: Case, mode: str) -> Row:
    """Run a case plainly and captured, and compare."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), GRAD_MODES[mode](), _eager(case.eager_twin):
        warnings.simplefilter("ignore")  # torch's own, about prototypes
        module, inputs = case.build()
        torch.manual_seed(1)  # for dropout
        plain = run_model(module, inputs, case.run)
        torch.manual_seed(1)
        found = capture(module, inputs, verify=True, run=case.run)
    first = found.records[0]
    off = None
    if case.expected is not None:
        expected = case.expected(module, inputs)
        off = math.inf if expected.shape != first.shape else float(np.abs(first.weights - expected).max())
    residuals = [r.residual for r in found.records if r.residual is not None]
    return Row(
        case=case.name, mode=mode, kernels=tuple(sorted({r.kernel for r in found.records})), records=len(found.records),
        layers=len(found.layers), identical=same(plain, found.output), residual=max(residuals, default=math.nan),
        verified=all(r.verified for r in found.records), sound=found.answer, missed=len(found.missed), off=off,
    )  # fmt: skip


def _eager(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    return torch.compiler.set_stance("force_eager") if wanted else contextlib.nullcontext()


def same(one: Any, other: Any) -> bool:
    """Whether two outputs are bit for bit the same, NaN and all."""
    left, right = _tensors(one), _tensors(other)
    return len(left) == len(right) > 0 and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(nan=7.0), b.nan_to_num(nan=7.0)) and torch.equal(a != a, b != b)
        for a, b in zip(left, right, strict=True)
    )


def _tensors(output: Any) -> list[torch.Tensor]:
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    leaves += (
        [leaf for leaf in getattr(output, "values", list)() if isinstance(leaf, torch.Tensor)] if not leaves else []
    )
    return [part for leaf in leaves for part in (leaf.unbind() if leaf.is_nested else [leaf])]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Row by row, the obvious way; a row of minus infinities is zero."""
    top = np.where(np.isfinite(scores.max(-1, keepdims=True)), scores.max(-1, keepdims=True), 0.0)
    grown = np.exp(scores - top)
    total = grown.sum(-1, keepdims=True)
    return np.divide(grown, total, out=np.zeros_like(grown), where=total > 0)


def heads_of(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, heads: int) -> np.ndarray:
    """states W^T + b in float64, split into heads: batch x heads x length x width."""
    rows = states.detach().double().numpy() @ weight.detach().double().numpy().T
    rows = rows if bias is None else rows + bias.detach().double().numpy()
    batch, length, width = rows.shape
    return rows.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
