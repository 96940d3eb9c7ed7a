"""From attention calls to records: the weights block by block, into memory or a file, checked on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.array_types import Single
from regard.errors import InputError
from regard_models.capturing.capture_file import CaptureFile
from regard_models.capturing.dispatch_watch import Watch, is_inside
from regard_models.capturing.projections import MAPS, HeadMap, LinearMaps, find_input_maps, match_output_map
from regard_models.capturing.records import AttentionRecord
from regard_models.kernels.attention_call import AttentionCall, Part, Result, first_tensor
from regard_models.kernels.tensor_marks import was_edited

_BLOCK = 1 << 24  # numbers that are computed at once: 64 MB in float32


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """What of the attention is to be recorded."""

    layers: tuple[int | str, ...] | None = None
    heads: tuple[int, ...] | None = None
    keep: tuple[str, ...] = ()
    verify: bool = False

    def includes_layer(self, index: int, module: str) -> bool:
        return self.layers is None or any(
            index == layer if isinstance(layer, int) else is_inside(module, layer) for layer in self.layers
        )

    def heads_of(self, call: AttentionCall, index: int) -> list[int]:
        if self.heads is None:
            return list(range(call.heads))
        if wrong := [head for head in self.heads if not 0 <= head < call.heads]:
            raise InputError(f"Layer {index} has no head {wrong[0]}; it has {call.heads}, counted from 0.")
        return list(self.heads)


class Recorder(Watch):
    """Makes a record of every wanted call."""

    def __init__(self, model: nn.Module, wanted: RecordingOptions, file: CaptureFile | None) -> None:
        super().__init__(model, keep_pairs=bool({"q", "k", "w_q", "w_k"} & set(wanted.keep)))
        self.wanted, self.file = wanted, file
        self.records: list[AttentionRecord] = []
        self.emitted: set[str] = set()
        self.maps = MapFinder(tuple(name for name in wanted.keep if name in MAPS))

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        module = self.stack.name
        index, times = self.sites.next(module)
        self.emitted.add(module)
        if self.wanted.includes_layer(index, module):
            heads = self.wanted.heads_of(call, index)
            arrays = self._arrays(call, heads)
            checks = Checks(call, edited=was_edited(first_tensor(result)))
            weights, used = self._weights(call, heads, checks)
            if was_edited(first_tensor(result)):
                call.notes.append("edited: these are the weights that the layer had computed itself")
            self.maps.find_before(len(self.records), call)
            self.records.append(
                AttentionRecord(
                    index=index, module=module, call=times, step=max(0, self.stack.runs - 1), kernel=call.kernel,
                    weights=weights, used=used, heads=tuple(heads), allowed=_mask(call), residual=checks.residual(call),
                    tolerance=None if checks.dropped else call.tolerance(),
                    verified=passes_identity_probe(call) if self.wanted.verify else None,
                    notes=(*call.notes, *checks.remarks()), scale=call.scale, **arrays,
                )
            )  # fmt: skip
        return result

    def new_run(self) -> None:
        super().new_run()
        self.maps.linear.new_run()

    def handle_operator(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        self.maps.find_after(name, args, kwargs, result)
        return result

    def finish(self) -> None:
        """Put the maps that were found into their records, or into the file."""
        for number, record in enumerate(self.records):
            maps = self.maps.by_call[number]
            matrices: dict[str, Any] = {name: _numpy(each.matrix[list(record.heads)]) for name, each in maps.items()}
            hidden = [name for name in self.maps.wanted if name not in matrices]
            notes = (*record.notes, f"{' and '.join(hidden)} could not be found") if hidden else record.notes
            if self.file is not None:
                for name, matrix in matrices.items():
                    self.file.put(f"{number}.{name}", matrix)
                matrices = {}
            self.records[number] = replace(record, notes=notes, **matrices)

    def _weights(self, call: AttentionCall, heads: list[int], checks: Checks) -> tuple[Single, Single | None]:
        """The weights block by block, into memory or into the file, checked on the way; and those after dropout."""
        shape = (call.batch, len(heads), call.queries, call.keys)
        sink = Sink(self.file, f"{len(self.records)}.weights", shape)
        dropped: list[Tensor] = []
        for part in blocks(shape, heads):
            weights, used = call.weights(part), call.weights_after_dropout(part)
            sink.take(weights, own=call.fresh)
            if used is not None:
                dropped.append(used)
            checks.take(call, weights, weights if used is None else used, part)
        if not dropped:
            return sink.array, None
        after = Sink(self.file, f"{len(self.records)}.used", shape)
        for block in dropped:
            after.take(block)
        return sink.array, after.array

    def _arrays(self, call: AttentionCall, heads: list[int]) -> dict[str, Single | None]:
        part = Part(slice(0, call.batch), heads, slice(0, call.queries))
        asked = {"q": call.queries_of, "k": call.keys_of, "v": call.values}
        arrays = {what: _numpy(asked[what](part)) for what in self.wanted.keep if what in asked}
        if hidden := [what for what, array in arrays.items() if array is None]:
            call.notes.append(f"{' and '.join(hidden)} could not be seen")
        if self.file is not None:
            for what, array in arrays.items():
                if array is not None:
                    self.file.put(f"{len(self.records)}.{what}", array)
            arrays = dict.fromkeys(arrays)
        return arrays


class MapFinder:
    """Finds the maps around each call: those that made q, k and v before it, the one that reads its output after."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self.wanted, self.linear = wanted, LinearMaps()
        self.by_call: dict[int, dict[str, HeadMap]] = {}
        self.open: dict[int, Tensor] = {}  # outputs of the heads that no map has read yet

    def find_before(self, number: int, call: AttentionCall) -> None:
        made = find_input_maps(call, self.linear) if self.wanted else {}
        self.by_call[number] = {name: each for name, each in made.items() if name in self.wanted}
        if "w_o" in self.wanted and "w_o" not in made:
            self.open = {number: call.output(call.whole)}  # an output that nobody read before the next is not read

    def find_after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> None:
        if not self.wanted:
            return
        latest = self.linear.take(name, args, kwargs, result)
        if latest is None:
            return
        for number, output in [*self.open.items()]:
            if (read := match_output_map(output, latest)) is not None:
                self.by_call[number]["w_o"] = read
                del self.open[number]


class Sink:
    """Where weights go: an array in memory, or the file."""

    def __init__(self, file: CaptureFile | None, name: str, shape: tuple[int, ...]) -> None:
        self.file, self.shape, self.done = file, shape, 0
        self.array: Single = _placeholder(shape)
        if file is not None:
            file.begin(name, shape)

    def take(self, block: Tensor, *, own: bool = False) -> None:
        """The next block, in the order in which blocks lie in memory; ``own``: nobody else holds these numbers."""
        whole = block.to("cpu", torch.float32)
        if self.file is not None:
            self.file.append(whole.numpy())
        elif tuple(block.shape) == self.shape:  # all at once
            self.array = (whole if own or whole.dtype != block.dtype else whole.clone()).contiguous().numpy()
        else:
            self.array = np.empty(self.shape, np.float32) if self.done == 0 else self.array
            self.array.reshape(-1)[self.done : self.done + block.numel()] = whole.reshape(-1).numpy()
            self.done += block.numel()


class Checks:
    """What is measured while the weights pass by."""

    def __init__(self, call: AttentionCall, *, edited: bool = False) -> None:
        self.dropped, self.error = call.dropped or edited, 0.0
        self.slack = max(1e-3, 8 * torch.finfo(call.dtype).eps)  # of a row's sum
        self.least, self.most, self.empty, self.finite = math.inf, -math.inf, 0, True

    def take(self, call: AttentionCall, weights: Tensor, used: Tensor, part: Part) -> None:
        if not self.dropped:
            self.error = _worst_error(self.error, call.error(used, part))
        sums = weights.sum(dim=-1)
        self.finite &= bool(torch.isfinite(sums).all())
        blank = sums == 0
        if bool(blank.any()):
            blank &= (weights == 0).all(dim=-1)
            self.empty += int(blank.sum())
            sums = sums[~blank]
        if sums.numel():
            self.least, self.most = min(self.least, float(sums.min())), max(self.most, float(sums.max()))

    def residual(self, call: AttentionCall) -> float | None:
        if self.dropped:
            return None
        size = call.size()
        return self.error / size if size else self.error

    def remarks(self) -> Iterator[str]:
        if not self.finite:
            yield "some weights are NaN or infinite"
        elif max(self.most - 1, 1 - self.least) > self.slack:
            yield (
                f"rows do not sum to 1 but to {self.least:.3g} to {self.most:.3g}: by design with a sink, a sigmoid, "
                "a gate or a softmax in pieces, a mistake otherwise"
            )
        if self.empty:
            yield f"{self.empty} rows read nothing (fully masked, or padding)"


def blocks(shape: tuple[int, int, int, int], heads: list[int]) -> Iterator[Part]:
    """Parts of bounded size that together are the weights, in the order in which they lie in memory."""
    batch, count, queries, keys = shape
    example, head = count * queries * keys, queries * keys
    if example <= _BLOCK:
        step = max(1, _BLOCK // max(1, example))
        for first in range(0, batch, step):
            yield Part(slice(first, min(batch, first + step)), heads, slice(0, queries))
        return
    for one in range(batch):
        if head <= _BLOCK:
            step = _BLOCK // head
            for first in range(0, count, step):
                yield Part(slice(one, one + 1), heads[first : first + step], slice(0, queries))
            continue
        rows = max(1, _BLOCK // keys)
        for number in heads:
            for first in range(0, queries, rows):
                yield Part(slice(one, one + 1), [number], slice(first, min(queries, first + rows)))


def passes_identity_probe(call: AttentionCall) -> bool:
    """Whether the kernel, run on columns of the identity instead of V, gives the weights that were recorded."""
    limit = 2 * call.rounding()
    for first in range(0, call.keys, call.probe_width):
        columns = slice(first, min(call.keys, first + call.probe_width))
        probe = call.probe(columns).to(call.work)
        for part in blocks(call.shape, list(range(call.heads))):
            ours = call.weights(part)[..., columns]
            theirs = probe[part.examples][:, part.heads][:, :, part.rows]
            if not bool(((ours - theirs).abs() <= limit).all()):
                return False
    return True


def _mask(call: AttentionCall) -> npt.NDArray[np.bool_] | None:
    mask = call.allowed_mask()
    return None if mask is None else mask.to("cpu").contiguous().numpy()


def _numpy(tensor: Tensor | None) -> Single | None:
    return None if tensor is None else tensor.detach().to("cpu", torch.float32).contiguous().numpy()


def _placeholder(shape: tuple[int, ...]) -> Single:
    """The shape without the numbers, until the file is complete and mapped."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def _worst_error(one: float, other: float) -> float:
    return other if math.isnan(other) or other > one else one
