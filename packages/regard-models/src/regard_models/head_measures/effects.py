"""What a change inside a model is measured by (its loss, where there is one, or else how far its output moves), and the
direct effect of a head: what it adds to the output by itself, with everything after it held as it was.

    run once, and keep what every matrix product of the layers gave;
    run again with the head giving zero; of all later products in the layers, the old results are used.

What is left is the way along the residual stream: additions and normalisations, then whatever reads the stream out.
Later heads and networks do not react, so this is the head's own word, not what others make of it; an ablation is both.
In an encoder that a decoder reads by cross-attention there is no direct way, and the effect is 0.

Then how many directions a head really uses: the effective rank of W_Q W_K^T and of W_V W_O, and what fewer would cost.

    scores   q.k = x W_Q W_K^T y          output  alpha x W_V W_O

Both products have at most the head's width as their rank. Their singular values are proved between bounds
(:mod:`regard.lowrank`). Then the product is replaced in the model by its best approximation of a lower rank, for this
head alone, and the model is run: what matters is what that does to its loss. Biases stay as they are, and rotary
positions turn the new queries as they turned the old ones: the change is made in what the projections give.
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
from regard.lowrank import Spectrum, product_spectrum
from regard.progress import Progress
from regard.results import Result as Answer
from regard_models.capturing.attention_capture import run_model
from regard_models.capturing.dispatch_watch import Watch, is_inside
from regard_models.capturing.projections import HeadMap, LinearMap, LinearMaps, match_output_map
from regard_models.capturing.recorder import Recorder, RecordingOptions
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


ENERGY = 0.9  # the replacement has the least rank that keeps so much of the squared singular values
MAPS = ("w_q", "w_k", "w_v", "w_o")


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadRank(Answer):
    """One head's two products; ``*_effect`` is what the replacement of rank ``*_rank`` does, None if not measured."""

    layer: int
    head: int
    width: int
    qk_effective: float | None
    qk_singular_values: Float | None
    qk_rank: int | None
    qk_effect: float | None
    ov_effective: float | None
    ov_singular_values: Float | None
    ov_rank: int | None
    ov_effect: float | None
    turned: bool  # rotary positions come between W_Q and W_K: the product is that of equal places


def head_ranks(
    given: ModelInput, chosen: dict[int, list[int]], *, rank: int | None = None, progress: Progress | None = None
) -> tuple[str, list[HeadRank]]:
    """What is measured, and the ranks of the heads, given by layer; ``rank`` None is what keeps 90 % of the energy."""
    with torch.no_grad(), no_fast_path():
        recorder = Recorder(given.module, RecordingOptions(keep=MAPS), None)
        with recorder:
            usual = run_model(given.module, given.inputs)
        measure = yardstick(given, usual)
        todo = [
            (record.index, head, recorder.maps.by_call[number])
            for number, record in enumerate(recorder.records)
            # generate() runs a layer several times, with the same matrices
            if record.index in chosen and record.step == 0
            for head in chosen[record.index]
        ]
        ranks = []
        for done, (layer, head, maps) in enumerate(todo, start=1):
            ranks.append(_head_rank(given, layer, head, maps, measure, rank))
            if progress is not None:
                progress(done, len(todo))
    return measure.name, ranks


def _head_rank(
    given: ModelInput, layer: int, head: int, maps: dict[str, HeadMap], measure: Yardstick, rank: int | None
) -> HeadRank:
    qk, ov = (_spectrum(maps, pair, head) for pair in (("w_q", "w_k"), ("w_v", "w_o")))
    qk_rank, ov_rank = (_cut_rank(each, rank) for each in (qk, ov))

    def effect(change: Change | None) -> float | None:
        if change is None:
            return None
        with MapReplacement(given.module, change):
            return measure.effect(run_model(given.module, given.inputs))

    return HeadRank(
        layer=layer, head=head, width=_width(maps), turned=any(each.turned for each in maps.values()),
        qk_effective=None if qk is None else qk.effective_rank,
        qk_singular_values=None if qk is None else qk.singular_values,
        qk_rank=qk_rank, qk_effect=effect(_cut_scores(maps, head, qk, qk_rank)),
        ov_effective=None if ov is None else ov.effective_rank,
        ov_singular_values=None if ov is None else ov.singular_values,
        ov_rank=ov_rank, ov_effect=effect(_cut_output(maps, head, ov, ov_rank)),
    )  # fmt: skip


def _spectrum(maps: dict[str, HeadMap], pair: tuple[str, str], head: int) -> Spectrum | None:
    if any(name not in maps for name in pair):
        return None
    left, right = (maps[name].matrix[head].cpu().numpy() for name in pair)
    return product_spectrum(left, right.T if pair[1] == "w_o" else right, name=" ".join(pair))


def _cut_rank(spectrum: Spectrum | None, rank: int | None) -> int | None:
    if spectrum is None:
        return None
    if rank is not None:
        return min(rank, len(spectrum.singular_values))
    return int(np.searchsorted(spectrum.energy, ENERGY) + 1)  # energy[r - 1] is what rank r keeps


def _width(maps: dict[str, HeadMap]) -> int:
    return int(next(iter(maps.values())).columns.shape[1]) if maps else 0


@dataclass(frozen=True, eq=False)
class Change:
    """Which product is changed (the use of a weight), and what is added to its result."""

    use: tuple[int, int, int]
    added: Callable[[LinearMap], Tensor]


class MapReplacement(Watch):
    """While it lasts, one linear map gives something else."""

    def __init__(self, model: nn.Module, change: Change) -> None:
        super().__init__(model)
        self.change, self.linear = change, LinearMaps()

    def new_run(self) -> None:
        super().new_run()
        self.linear.new_run()

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        return result

    def handle_operator(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        latest = self.linear.take(name, args, kwargs, result)
        if latest is None or latest.use != self.change.use:
            return result
        return result + self.change.added(latest).to(result.dtype).reshape(result.shape)


def inner_cut(left: Float, right: Float, spectrum: Spectrum, rank: int) -> Float:
    """P (width x width) with left P right^T = the best approximation of left right^T of that rank."""
    cut = spectrum.truncate(rank)
    return np.asarray((np.linalg.pinv(left) @ cut.left) @ (np.linalg.pinv(right) @ cut.right).T)


def _cut_scores(maps: dict[str, HeadMap], head: int, spectrum: Spectrum | None, rank: int | None) -> Change | None:
    """Queries q P instead of q, but for their bias."""
    if spectrum is None or rank is None or (use := maps["w_q"].use) is None:
        return None
    left, right = (maps[name].matrix[head].cpu().numpy() for name in ("w_q", "w_k"))
    turn = torch.from_numpy(inner_cut(left, right, spectrum, rank) - np.eye(left.shape[1]))
    columns = maps["w_q"].columns[head]

    def correction(one: LinearMap) -> Tensor:
        here = columns.to(one.y.device)
        more = torch.zeros_like(one.y, dtype=torch.float64)  # the other heads' columns stay as they are
        more[:, here] = one.x.double() @ one.weight[:, here].double() @ turn.to(one.y.device)
        return more

    return Change(use, correction)


def _cut_output(maps: dict[str, HeadMap], head: int, spectrum: Spectrum | None, rank: int | None) -> Change | None:
    """Outputs o P instead of o, but for the values' bias, which goes through attention unchanged: its rows sum to 1."""
    if spectrum is None or rank is None or (use := maps["w_o"].use) is None:
        return None
    left, right = maps["w_v"].matrix[head].cpu().numpy(), maps["w_o"].matrix[head].cpu().numpy().T
    turn = torch.from_numpy(inner_cut(left, right, spectrum, rank) - np.eye(left.shape[1]))
    columns, factor, bias = maps["w_o"].columns[head], maps["w_o"].factor, maps["w_v"].bias
    offset = 0.0 if bias is None else bias[head]

    def correction(one: LinearMap) -> Tensor:
        here = columns.to(one.x.device)
        outputs = one.x[:, here].double() * factor - offset
        return outputs @ turn.to(one.x.device) @ (one.weight[here].double() / factor)

    return Change(use, correction)
