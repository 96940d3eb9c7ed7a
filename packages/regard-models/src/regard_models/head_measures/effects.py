"""What a change inside a model is measured by (its loss, where there is one, or else how far its output moves), and the
direct effect of a head: what it adds to the output by itself, with everything after it held as it was.

    run once, and keep what every matrix product of the layers gave;
    run again with the head giving zero; of all later products in the layers, the old results are used.

What is left is the way along the residual stream: additions and normalisations, then whatever reads the stream out.
Later heads and networks do not react, so this is the head's own word, not what others make of it; an ablation is both.
In an encoder that a decoder reads by cross-attention there is no direct way, and the effect is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from regard.array_types import Float
from regard.progress import Progress
from regard_models.capturing.attention_capture import run_model
from regard_models.capturing.dispatch_watch import Watch, is_inside
from regard_models.capturing.projections import LinearMaps, match_output_map
from regard_models.editing.patching import main_tensor
from regard_models.inputs.model_input import ModelInput
from regard_models.kernels.attention_call import AttentionCall, Result

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


# what mixes numbers across a row; norms and sums go on as usual
_PRODUCTS = {"addmm", "mm", "linear", "bmm", "baddbmm", "convolution", "_grouped_mm", "addbmm"}
LOGIT = "logits that the head itself adds to the token the model predicts, over the mean token"


class _Products(Watch):
    """Counts the products of the layers, keeps what they gave, or gives what they gave before."""

    def __init__(self, model: nn.Module, blocks: tuple[str, ...] | None) -> None:
        super().__init__(model)
        self.blocks, self.linear = blocks, LinearMaps()
        self.number = 0
        self.results: dict[int, Tensor] = {}

    def new_run(self) -> None:
        super().new_run()
        self.linear.new_run()
        self.number = 0

    def count_product(self, name: str) -> int | None:
        """The number of a product inside a layer, None for anything else."""
        if name not in _PRODUCTS:
            return None
        self.number += 1
        inside = self.blocks is None or any(is_inside(self.stack.name, block) for block in self.blocks)
        return self.number if inside else None


class _ProductRecorder(_Products):
    """The usual run: results of products, and which product reads each layer's heads."""

    def __init__(self, model: nn.Module, blocks: tuple[str, ...] | None) -> None:
        super().__init__(model, blocks)
        self.open: tuple[int, Tensor] | None = None
        self.read_at: dict[int, int] = {}
        self.modules: dict[int, str] = {}

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        index, _ = self.sites.next(self.stack.name)
        self.modules[index] = self.stack.name
        self.open = (index, call.output(call.whole).clone())
        return result

    def handle_operator(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        number = self.count_product(name)
        latest = self.linear.take(name, args, kwargs, result)
        if self.open is not None and latest is not None and match_output_map(self.open[1], latest) is not None:
            self.read_at[self.open[0]] = self.number
            self.open = None
        if number is not None:
            self.results[number] = result.clone()
        return result


class _FrozenProducts(_Products):
    """The changed run: one head gives nothing, and later products of the layers what they gave before."""

    def __init__(
        self, kept: _ProductRecorder, model: nn.Module, blocks: tuple[str, ...], *, layer: int, head: int
    ) -> None:
        super().__init__(model, blocks)
        self.kept, self.layer, self.head = kept, layer, head

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        index, _ = self.sites.next(self.stack.name)
        if index != self.layer:
            return result
        whole = call.output(call.whole).clone()
        whole[:, self.head] = 0
        return call.put(result, whole)

    def handle_operator(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        number = self.count_product(name)
        # up to the product that reads the head, nothing is held
        if number is None or number <= self.kept.read_at[self.layer]:
            return result
        return self.kept.results[number].clone()


def blocks_of(modules: list[str]) -> tuple[str, ...]:
    """The layers that attention modules lie in: names up to their first number, or else without their last part.

    >>> blocks_of(["encoder.layer.0.attention.self", "decoder.block.1.layer.1.EncDecAttention", "first.attention"])
    ('encoder.layer.0', 'decoder.block.1', 'first')
    """
    blocks = []
    for module in modules:
        parts = module.split(".")
        ends = [place + 1 for place, part in enumerate(parts) if part.isdecimal()]
        blocks.append(".".join(parts[: ends[0]] if ends else parts[:-1]))
    return tuple(dict.fromkeys(blocks))


def direct_effects(
    given: ModelInput, chosen: dict[int, list[int]], *, progress: Progress | None = None
) -> tuple[str, dict[tuple[int, int], float], str | None]:
    """What is measured, the effect by layer and head, and why there is none (None where there is)."""
    with torch.no_grad(), no_fast_path():
        first = _ProductRecorder(given.module, None)
        with first:
            usual = run_model(given.module, given.inputs)
        blocks = blocks_of([*first.modules.values()])
        if "" in blocks:  # a block without a name is the whole model: holding its products would hold the answer itself
            return "", {}, "needs layers that can be told from what reads them out; attention lies in the model itself"
        measure = _direct_yardstick(given, usual)
        effects, total, done = {}, sum(map(len, chosen.values())), 0
        for layer, heads in chosen.items():
            for head in heads:
                done += 1
                if layer in first.read_at:
                    held = _FrozenProducts(first, given.module, blocks, layer=layer, head=head)
                    with held:
                        effects[layer, head] = measure.effect(run_model(given.module, given.inputs))
                if progress is not None:
                    progress(done, total)
    why = None if effects else "needs the product that reads the heads' outputs, which was not found"
    return measure.name, effects, why


def _direct_yardstick(given: ModelInput, usual: Any) -> Yardstick:
    scores = logits(given, usual)
    if scores is None:
        before = main_tensor(usual)
        size = float(before.norm()) or 1.0
        return Yardstick(MOVED, lambda out: float((main_tensor(out) - before).norm()) / size)
    top = scores.argmax(dim=2, keepdim=True)

    def lead(output: Any) -> Float:
        now = main_tensor(output)
        return np.asarray((now.gather(2, top)[..., 0] - now.mean(dim=2)).cpu().numpy(), dtype=np.float64)

    before_lead = lead(usual)
    return Yardstick(LOGIT, lambda out: float((before_lead - lead(out)).mean()))


class no_fast_path:  # noqa: N801 - reads as a statement
    """torch.nn's fast paths do the projections too, in one operator; without them every product can be seen."""

    def __enter__(self) -> None:
        self.before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def __exit__(self, *_: object) -> None:
        torch.backends.mha.set_fastpath_enabled(self.before)
