"""Capture the attention that a model really used: every layer, every head, whatever kernel ran.

    W = the weights of one head, queries x keys;     output = W V

The model runs as it always does, once, and its output is returned untouched. Beside each attention call the weights
are taken from the kernel or computed again from what it got, and checked: W V must be the kernel's own output. That
check alone proves less than it seems (each row of W has more keys than V has columns, so there is room to be wrong in);
``verify=True`` runs the kernel once more with columns of an identity for V, which gives W itself.

What could not be captured: modules that look like attention, ran, and left nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regard.errors import CouldNotFindOut, InputError, RegardError, suggest_name
from regard.written_numbers import at_most
from regard_models.capturing.capture_file import CaptureFile, facts_of
from regard_models.capturing.dispatch_watch import WatchError, is_inside
from regard_models.capturing.projections import MAPS
from regard_models.capturing.recorder import Recorder, RecordingOptions
from regard_models.capturing.records import Capture, Tokens, UnseenModule
from regard_models.inputs.model_input import call as call_by_name
from regard_models.inputs.model_input import original

if TYPE_CHECKING:
    from regard_models.capturing.dispatch_watch import Watch

Run = Callable[[nn.Module, Any], Any]
KEPT = ("q", "k", "v", *MAPS)


def capture(  # noqa: PLR0913 - a verb's options, each with a default
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
    may name "q", "k" and "v", and the maps that made them or read the output: "w_q", "w_k", "w_v" and "w_o".
    ``stream`` is a .safetensors file to which the weights go while the model runs. ``run``
    is what is done instead of one forward, for instance ``lambda model, inputs: model.generate(**inputs)``. The
    model's mode (train or eval) and torch's gradient mode are left as they are.

    >>> import torch
    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> words = torch.randn(1, 5, 8)
    >>> captured = capture(attention, (words, words, words))
    >>> captured.records[0].shape, captured.records[0].residual < 1e-5
    ((1, 2, 5, 5), True)
    """
    _refuse(model, keep)
    wanted = RecordingOptions(layers=_as_tuple(layers), heads=_as_tuple(heads), keep=tuple(keep), verify=verify)
    label = name or type(original(model)).__name__
    with contextlib.ExitStack() as opened:
        file = None if stream is None else opened.enter_context(CaptureFile(stream))
        recorder = Recorder(model, wanted, file)
        with recorder:
            output = run_model(model, inputs, run)
        recorder.finish()
        notes = []
        if is_compiled(model):
            output, note = compiled_output(model, inputs, run, output)
            notes.append(note)
        missed = unseen_modules(recorder, recorder.emitted)
        _refuse_empty(recorder, missed, label)
        result = Capture(
            records=tuple(recorder.records), tokens=tokens, target_tokens=target_tokens, output=output, missed=missed,
            notes=tuple(notes), name=label,
        )  # fmt: skip
        if file is not None:
            file.finish(facts_of(result))
    if stream is None:
        return result
    return replace(Capture.read(stream), output=output)  # read again, so that the weights stay on the disk


def run_model(model: nn.Module, inputs: Any, run: Run | None = None) -> Any:
    """One forward with a tensor, a tuple or a dictionary of inputs, or whatever ``run`` does with them."""
    try:
        if run is not None:
            return run(model, inputs)
        if isinstance(inputs, Mapping):
            return call_by_name(model, inputs)
        return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
    except (RegardError, WatchError, MemoryError):  # ours say what is wrong, and memory is no fault of the example
        raise
    except Exception as error:  # somebody's code: whatever it raises is about their input
        reason = (str(error) or "no message").strip().partition("\n")[0][:200].rstrip(". ")
        name, kind = type(original(model)).__name__, type(error).__name__
        raise InputError(f"{name} cannot run on this input: {kind}: {reason}; check the example.") from error


def is_compiled(model: nn.Module) -> bool:
    """Whether ``torch.compile`` wraps the model or something in it."""
    return any("OptimizedModule" in type(module).__name__ for module in model.modules())


def compiled_output(model: nn.Module, inputs: Any, run: Run | None, eager: Any) -> tuple[Any, str]:
    """A compiled model's own output, and a sentence on it: compiled code runs eagerly while it is watched."""
    # a second run need not give the same: generate() may sample, and dropout draws anew
    if run is not None or model.training:
        return eager, "compiled code was run eagerly: the compiled model's output may differ in its last digits"
    own = run_model(model, inputs)  # unwatched, so it runs compiled
    pairs = zip(tree_leaves(own), tree_leaves(eager), strict=False)
    floats = [(a, b) for a, b in pairs if isinstance(a, Tensor) and a.is_floating_point()]
    off = max((float((a - b).abs().max()) for a, b in floats if a.numel()), default=0.0)
    return (
        own,
        "compiled code was run eagerly for the record; its own output, given here, differs by "
        f"{at_most(off, 2)} at most",
    )


def _refuse(model: object, keep: Sequence[str]) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, but a {type(model).__name__} came.")
    if wrong := [what for what in keep if what not in KEPT]:
        raise InputError(f"keep may name {', '.join(KEPT[:-1])} and {KEPT[-1]}, not {wrong[0]!r}.")


def _refuse_empty(recorder: Recorder, missed: Sequence[Any], label: str) -> None:
    layers, seen = recorder.wanted.layers, len(recorder.sites.numbers)
    if seen == 0 and missed:
        reasons = "; ".join(f"{miss.module or label}: {miss.why}" for miss in missed[:3])
        raise CouldNotFindOut(f"No attention weights of {label} could be captured. {reasons}.")
    if seen == 0:
        raise InputError(
            f"No attention ran inside {label}: no product of weights with values, and no fused kernel; an input "
            "without tokens has none either."
        )
    for layer in layers or ():
        if isinstance(layer, int) and not 0 <= layer < seen:
            raise InputError(f"There is no layer {layer}: {seen} attention layers ran, counted from 0.")
        if isinstance(layer, str) and not any(is_inside(module, layer) for module, _ in recorder.sites.numbers):
            names = sorted({module for module, _ in recorder.sites.numbers})
            raise InputError(f"No attention ran in a module called {layer!r}; {suggest_name(layer, names)}")


def _as_tuple(given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, (int, str)) else tuple(given)


_WORDS = ("attention", "attn")
_PARTS = (nn.Linear, nn.Dropout, nn.LayerNorm, nn.Identity, nn.Softmax, nn.Embedding, nn.ModuleList, nn.Sequential)


def unseen_modules(watch: Watch, emitted: Iterable[str]) -> tuple[UnseenModule, ...]:
    """The innermost modules that are called attention, ran, and in which no attention was seen."""
    # whatever is around a module that was heard has been heard, too
    heard = {name for module in emitted for name in _with_ancestors(module)}
    silent = [
        name for name, module in watch.stack.ran.items() if name not in heard and _looks_like_attention(name, module)
    ]
    innermost = [name for name in silent if not any(other != name and _is_inside(other, name) for other in silent)]
    return tuple(UnseenModule(module=name, why=_reason(watch, name)) for name in innermost)


def _looks_like_attention(name: str, module: nn.Module) -> bool:
    kind = type(module).__name__.lower()
    own = kind if next(module.children(), None) is None else f"{name.rpartition('.')[2].lower()} {kind}"
    plain = isinstance(module, _PARTS) or any(part in own for part in ("norm", "dropout", "mask", "output", "proj"))
    return any(word in own for word in _WORDS) and not plain


def _reason(watch: Watch, name: str) -> str:
    foreign = sorted(op for module, ops in watch.foreign.items() if _is_inside(module, name) for op in ops)
    if foreign:
        return f"it ran {', '.join(foreign)}, an operator that is not known here"
    if any(_is_inside(module, name) for module in watch.unshaped):
        return (
            "what it multiplies the values by is no softmax's: as in linear attention, which has no weights, or where "
            "heads are mixed after their softmax"
        )
    return (
        "it ran, but no weights were seen: linear attention has none, and a kernel outside torch's operators hides them"
    )


def _is_inside(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".") or name == ""


def _with_ancestors(module: str) -> list[str]:
    parts = module.split(".")
    return ["", *(".".join(parts[: n + 1]) for n in range(len(parts)))]
