"""The direct effect of a head: what it adds to the output by itself, with everything after it held as it was.

    run once, and keep what every matrix product of the layers gave;
    run again with the head giving zero; of all later products in the layers, the old results are used.

What is left is the way along the residual stream: additions and normalisations, then whatever reads the stream out.
Later heads and networks do not react, so this is the head's own word, not what others make of it; an ablation is both.
In an encoder that a decoder reads by cross-attention there is no direct way, and the effect is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.array_types import Float
from regard.progress import Progress
from regard_models.capturing.attention_capture import run_model
from regard_models.capturing.dispatch_watch import Watch, is_inside
from regard_models.capturing.projections import LinearMaps, match_output_map
from regard_models.editing.patching import main_tensor
from regard_models.head_measures.loss import MOVED, Yardstick, logits
from regard_models.inputs.model_input import ModelInput
from regard_models.kernels.attention_call import AttentionCall, Result

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
