"""How many directions a head really uses: the effective rank of W_Q W_K^T and of W_V W_O, and what fewer would cost.

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

from regard.array_types import Float
from regard.lowrank import Spectrum, product_spectrum
from regard.progress import Progress
from regard.results import Result as Answer
from regard_models.capturing.attention_capture import run_model
from regard_models.capturing.dispatch_watch import Watch
from regard_models.capturing.projections import HeadMap, LinearMap, LinearMaps
from regard_models.capturing.recorder import Recorder, RecordingOptions
from regard_models.head_measures.effects import Yardstick, no_fast_path, yardstick
from regard_models.inputs.model_input import ModelInput
from regard_models.kernels.attention_call import AttentionCall, Result

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
