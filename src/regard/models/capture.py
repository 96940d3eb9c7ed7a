"""Capture the attention that a model really used: every layer, every head, whatever kernel ran.

    W = the weights of one head, queries x keys;     output = W V

The model runs as it always does, once, and its output is returned untouched. Beside each attention call the weights
are taken from the kernel or computed again from what it got, and checked: W V must be the kernel's own output. That
check alone proves less than it seems (each row of W has more keys than V has columns, so there is room to be wrong in);
``verify=True`` runs the kernel once more with columns of an identity for V, which gives W itself.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regard.errors import CouldNotFindOut, InputError
from regard.models.capture_file import CaptureFile, facts_of
from regard.models.edit import was_edited
from regard.models.given import call as call_by_name
from regard.models.kernels.call import AttentionCall, Part, Result, first_tensor
from regard.models.missed import missed_modules
from regard.models.records import AttentionRecord, Capture, Float32, Tokens
from regard.models.watching import Watch, begins

Run = Callable[[nn.Module, Any], Any]
KEPT = ("q", "k", "v")
_BLOCK = 1 << 24  # numbers that are computed at once: 64 MB in float32


def capture(
    model: nn.Module,
    inputs: Any,
    *,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    keep: Sequence[str] = (),
    verify: bool = False,
    stream: str | os.PathLike[str] | None = None,
    run: Run | None = None,
    tokens: Tokens | None = None,
    target_tokens: Tokens | None = None,
    name: str | None = None,
) -> Capture:
    """Run a model and record the attention weights of every layer and head.

    ``inputs``: a tensor, a tuple of arguments or a dictionary of named ones. ``layers`` are numbers in the order in
    which the layers run, or names of modules (also beginnings of names); ``heads`` are numbers; None is all. ``keep``
    may name "q", "k" and "v". ``stream`` is a .safetensors file to which the weights go while the model runs. ``run``
    is what is done instead of one forward, for instance ``lambda model, inputs: model.generate(**inputs)``. The
    model's mode (train or eval) and torch's gradient mode are left as they are.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> words = torch.randn(1, 5, 8)
    >>> captured = capture(attention, (words, words, words))
    >>> captured.records[0].shape, captured.records[0].residual < 1e-5
    ((1, 2, 5, 5), True)
    """
    _refuse(model, keep)
    wanted = Wanted(layers=_listed(layers), heads=_listed(heads), keep=tuple(keep), verify=verify)
    label = name or type(model).__name__
    with contextlib.ExitStack() as opened:
        file = None if stream is None else opened.enter_context(CaptureFile(stream))
        recorder = Recorder(model, wanted, file)
        with recorder:
            output = run_model(model, inputs, run)
        notes = []
        if is_compiled(model):
            output, note = compiled_output(model, inputs, run, output)
            notes.append(note)
        missed = missed_modules(recorder, recorder.emitted)
        _refuse_nothing(recorder, missed, label)
        result = Capture(
            records=tuple(recorder.records), tokens=tokens, target_tokens=target_tokens, output=output, missed=missed,
            notes=tuple(notes), name=label,
        )  # fmt: skip
        if file is not None:
            file.finish(facts_of(result))
    if stream is None:
        return result
    return replace(Capture.read(stream), output=output)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of the attention is to be recorded."""

    layers: tuple[int | str, ...] | None = None
    heads: tuple[int, ...] | None = None
    keep: tuple[str, ...] = ()
    verify: bool = False

    def layer(self, index: int, module: str) -> bool:
        return self.layers is None or any(
            index == layer if isinstance(layer, int) else begins(module, layer) for layer in self.layers
        )

    def heads_of(self, call: AttentionCall, index: int) -> list[int]:
        if self.heads is None:
            return list(range(call.heads))
        if wrong := [head for head in self.heads if not 0 <= head < call.heads]:
            raise InputError(f"Layer {index} has no head {wrong[0]}; it has {call.heads}, counted from 0.")
        return list(self.heads)


class Recorder(Watch):
    """Makes a record of every wanted call."""

    def __init__(self, model: nn.Module, wanted: Wanted, file: CaptureFile | None) -> None:
        super().__init__(model, keep_pairs="q" in wanted.keep or "k" in wanted.keep)
        self.wanted, self.file = wanted, file
        self.records: list[AttentionRecord] = []
        self.emitted: set[str] = set()

    def seen(self, call: AttentionCall, result: Result) -> Result:
        module = self.stack.name
        index, times = self.sites.next(module)
        self.emitted.add(module)
        if self.wanted.layer(index, module):
            heads = self.wanted.heads_of(call, index)
            arrays = self._arrays(call, heads)
            checks = Checks(call, edited=was_edited(first_tensor(result)))
            weights, used = self._weights(call, heads, checks)
            if was_edited(first_tensor(result)):
                call.notes.append("edited: these are the weights that the layer had computed itself")
            self.records.append(
                AttentionRecord(
                    index=index, module=module, call=times, step=max(0, self.stack.runs - 1), kernel=call.kernel,
                    weights=weights, used=used, heads=tuple(heads), allowed=_mask(call), residual=checks.residual(call),
                    tolerance=None if checks.dropped else call.tolerance(),
                    verified=probed(call) if self.wanted.verify else None,
                    notes=(*call.notes, *checks.remarks()), scale=call.scale, **arrays,
                )
            )  # fmt: skip
        return result

    def _weights(self, call: AttentionCall, heads: list[int], checks: Checks) -> tuple[Float32, Float32 | None]:
        """The weights block by block, into memory or into the file, checked on the way; and those after dropout."""
        shape = (call.batch, len(heads), call.queries, call.keys)
        sink = Sink(self.file, f"{len(self.records)}.weights", shape)
        dropped: list[Tensor] = []
        for part in blocks(shape, heads):
            weights, used = call.weights(part), call.used(part)
            sink.take(weights)
            if used is not None:
                dropped.append(used)
            checks.take(call, weights, weights if used is None else used, part)
        if not dropped:
            return sink.array, None
        after = Sink(self.file, f"{len(self.records)}.used", shape)
        for block in dropped:
            after.take(block)
        return sink.array, after.array

    def _arrays(self, call: AttentionCall, heads: list[int]) -> dict[str, Float32 | None]:
        part = Part(slice(0, call.batch), heads, slice(0, call.queries))
        asked = {"q": call.queries_of, "k": call.keys_of, "v": call.values}
        found = {what: _numpy(asked[what](part)) for what in self.wanted.keep}
        if hidden := [what for what in self.wanted.keep if found[what] is None]:
            call.notes.append(f"{' and '.join(hidden)} could not be seen")
        if self.file is not None:
            for what, array in found.items():
                if array is not None:
                    self.file.put(f"{len(self.records)}.{what}", array)
            found = dict.fromkeys(found)
        return found


class Sink:
    """Where weights go: an array in memory, or the file."""

    def __init__(self, file: CaptureFile | None, name: str, shape: tuple[int, ...]) -> None:
        self.file, self.done = file, 0
        self.array: Float32 = np.zeros(shape, np.float32) if file is None else _placeholder(shape)
        if file is not None:
            file.begin(name, shape)

    def take(self, block: Tensor) -> None:
        """Blocks come in the order in which they lie in memory."""
        flat = block.to(torch.float32).to("cpu").numpy().reshape(-1)
        if self.file is not None:
            self.file.append(flat)
        else:
            self.array.reshape(-1)[self.done : self.done + flat.size] = flat
            self.done += flat.size


class Checks:
    """What is measured while the weights pass by."""

    def __init__(self, call: AttentionCall, *, edited: bool = False) -> None:
        self.dropped, self.error = call.dropped or edited, 0.0
        self.slack = max(1e-3, 8 * torch.finfo(call.dtype).eps)  # of a row's sum
        self.least, self.most, self.empty, self.finite = math.inf, -math.inf, 0, True

    def take(self, call: AttentionCall, weights: Tensor, used: Tensor, part: Part) -> None:
        if not self.dropped:
            self.error = _worse(self.error, call.error(used, part))
        sums = weights.sum(dim=-1)
        blank = (weights == 0).all(dim=-1)
        self.finite &= bool(torch.isfinite(sums).all())
        self.empty += int(blank.sum())
        if not bool(blank.all()):
            real = sums[~blank]
            self.least, self.most = min(self.least, float(real.min())), max(self.most, float(real.max()))

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


def probed(call: AttentionCall) -> bool:
    """Whether the kernel, run on columns of the identity instead of V, gives the weights that were recorded."""
    limit = 2 * call.rounding()
    for first in range(0, call.keys, call.probe_width):
        columns = slice(first, min(call.keys, first + call.probe_width))
        found = call.probe(columns).to(call.work)
        for part in blocks(call.shape, list(range(call.heads))):
            ours = call.weights(part)[..., columns]
            theirs = found[part.examples][:, part.heads][:, :, part.rows]
            if not bool(((ours - theirs).abs() <= limit).all()):
                return False
    return True


def run_model(model: nn.Module, inputs: Any, run: Run | None = None) -> Any:
    """One forward with a tensor, a tuple or a dictionary of inputs, or whatever ``run`` does with them."""
    try:
        if run is not None:
            return run(model, inputs)
        if isinstance(inputs, Mapping):
            return call_by_name(model, inputs)
        return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
    except (InputError, CouldNotFindOut, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # somebody's code: whatever it raises is about their input
        reason = (str(error) or "no message").strip().partition("\n")[0][:200].rstrip(". ")
        raise InputError(
            f"{type(model).__name__} cannot run on this input: {type(error).__name__}: {reason}; check the example."
        ) from error


def is_compiled(model: nn.Module) -> bool:
    """Whether ``torch.compile`` wraps the model or something in it."""
    return any("OptimizedModule" in type(module).__name__ for module in model.modules())


def compiled_output(model: nn.Module, inputs: Any, run: Run | None, eager: Any) -> tuple[Any, str]:
    """A compiled model's own output, and a sentence on it: compiled code runs eagerly while it is watched."""
    if run is not None or model.training:
        return eager, "compiled code was run eagerly: the compiled model's output may differ in its last digits"
    own = run_model(model, inputs)
    pairs = zip(tree_leaves(own), tree_leaves(eager), strict=False)
    floats = [(a, b) for a, b in pairs if isinstance(a, Tensor) and a.is_floating_point()]
    off = max((float((a - b).abs().max()) for a, b in floats if a.numel()), default=0.0)
    return (
        own,
        f"compiled code was run eagerly for the record; its own output, given here, differs by {off:.1e} at most",
    )


def _refuse(model: object, keep: Sequence[str]) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, but a {type(model).__name__} came.")
    if wrong := [what for what in keep if what not in KEPT]:
        raise InputError(f"keep may name q, k and v, not {wrong[0]!r}.")


def _refuse_nothing(recorder: Recorder, missed: Sequence[Any], label: str) -> None:
    layers, seen = recorder.wanted.layers, len(recorder.sites.numbers)
    if seen == 0 and missed:
        reasons = "; ".join(f"{miss.module or label}: {miss.why}" for miss in missed[:3])
        raise CouldNotFindOut(f"No attention weights of {label} could be captured. {reasons}.")
    if seen == 0:
        raise InputError(f"No attention ran inside {label}: no product of weights with values, and no fused kernel.")
    for layer in layers or ():
        if isinstance(layer, int) and not 0 <= layer < seen:
            raise InputError(f"There is no layer {layer}: {seen} attention layers ran, counted from 0.")
        if isinstance(layer, str) and not any(begins(module, layer) for module, _ in recorder.sites.numbers):
            from regard.formats import nearest

            names = sorted({module for module, _ in recorder.sites.numbers})
            raise InputError(f"No attention ran in a module called {layer!r}; {nearest(layer, names)}")


def _listed(given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, (int, str)) else tuple(given)


def _mask(call: AttentionCall) -> npt.NDArray[np.bool_] | None:
    mask = call.allowed()
    return None if mask is None else mask.to("cpu").contiguous().numpy()


def _numpy(tensor: Tensor | None) -> Float32 | None:
    return None if tensor is None else tensor.detach().to("cpu", torch.float32).contiguous().numpy()


def _placeholder(shape: tuple[int, ...]) -> Float32:
    """The shape without the numbers, until the file is complete and mapped."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def _worse(one: float, other: float) -> float:
    return other if math.isnan(other) or other > one else one
