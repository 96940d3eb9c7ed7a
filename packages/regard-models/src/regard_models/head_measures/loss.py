"""What a change inside a model is measured by: its loss, where there is one, or else how far its output moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard_models.editing.patching import main_tensor
from regard_models.inputs.model_input import ModelInput

MOVED = "|changed - usual| / |usual| of the output"


@dataclass(frozen=True, eq=False)
class Yardstick:
    """``effect(output)`` of a changed run against the usual one; ``name`` says what it is."""

    name: str
    effect: Callable[[Any], float]
    loss: float | None = None  # of the usual run, in nats per token, where there is one


def yardstick(given: ModelInput, usual: Any) -> Yardstick:
    """The model's own loss if the example has labels; the next token's for a model that writes; else the movement."""
    loss = loss_of(given, usual)
    if loss is not None:
        return Yardstick("change of the loss, in nats per token", lambda out: (loss_of(given, out) or 0.0) - loss, loss)
    before = main_tensor(usual)
    size = float(before.norm()) or 1.0
    return Yardstick(MOVED, lambda out: float((main_tensor(out) - before).norm()) / size)


def loss_of(given: ModelInput, output: Any) -> float | None:
    """The loss that the output carries, or the next token's cross-entropy; None where there is neither."""
    own = getattr(output, "loss", None)
    if isinstance(own, Tensor) and own.numel() == 1:
        return float(own)
    scores, ids = logits(given, output), written_ids(given)
    if scores is None or ids is None or ids.shape[1] < 2:
        return None
    return float(F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten().to(scores.device)))


def logits(given: ModelInput, output: Any) -> Tensor | None:
    """The output, if it is one number for every place and token (batch, places, vocabulary)."""
    if not given.streams:
        return None
    scores, last = main_tensor(output), given.streams[-1]
    tokens = given.inputs.get(last.name)
    if scores.dim() != 3 or last.vocabulary is None or not isinstance(tokens, Tensor):
        return None
    fits = scores.shape[:2] == tokens.shape[:2] and scores.shape[2] >= last.vocabulary > 1
    return scores if fits and given.batch_first else None


def written_ids(given: ModelInput) -> Tensor | None:
    """The ids that a causal model writes, None for one that does not write."""
    last = given.streams[-1] if given.streams else None
    tokens = None if last is None else given.inputs.get(last.name)
    is_ids = isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dim() == 2
    return tokens.to(torch.int64) if last is not None and last.causal and is_ids else None  # type: ignore[union-attr]
