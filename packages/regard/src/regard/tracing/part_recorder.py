"""Recording a part: an attention function, a module that maps states to states, a table of positions, a loss.

Students write these first, and strangers publish them. What a thing is follows from its constructor, its arguments'
names and, for a module, from its trace; ``REGARD = {"kind": ...}`` in the file settles it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing import seeded_draws
from regard.tracing.constructor_arguments import PLACES, SIZES, BuiltModel, argument_roles, build, plain_name, role_of
from regard.tracing.dataflow import Dataflow
from regard.tracing.model_recorder import (
    Inputs,
    Probe,
    make_recording,
    prepare_model,
    record_model,
    recording_settings,
    scores,
)
from regard.tracing.recording import KINDS, ForwardPass, Recording
from regard.tracing.seeded_draws import SHAPES
from regard.tracing.tracer import array, files_of, trace

MASK_SHAPES = ("N11T", "N1T", "NTT", "NT")


def record(
    thing: Any, *, name: str = "", declared: Mapping[str, Any] | None = None, seed: int = 0, pad: int | None = None
) -> Recording:
    """Record whatever it is: a class, a module or a function."""
    declared = declared or {}
    kind = declared.get("kind") or kind_of(thing, declared.get("arguments"))
    if "kind" not in declared and inspect.isclass(thing) and _has_tables(thing, declared, seed):
        kind = "translator"
    if kind not in KINDS:
        raise InputError(f"REGARD says that the kind is {kind!r}; it must be one of {', '.join(KINDS)}.")
    title = name or getattr(thing, "__name__", type(thing).__name__)
    if kind == "translator":
        return record_model(thing, name=title, declared=declared, seed=seed, pad=pad)
    with recording_settings(seed):
        if inspect.isclass(thing) or isinstance(thing, nn.Module):
            return _record_module(thing, title, declared, seed, kind)
        if kind == "loss":
            return _record_loss(thing, title, seed)
        if kind == "positions":
            return _record_table(thing, title)
        return _record_attention(thing, title, seed)


def kind_of(thing: Any, declared: Mapping[str, Any] | None = None) -> str:
    """What it seems to be; a module that maps states to states is told apart later, by its trace."""
    declared = declared or {}
    if isinstance(thing, nn.Module):
        return "translator" if any(isinstance(m, nn.Embedding) for m in thing.modules()) else "layer"
    if inspect.isclass(thing):
        roles = list(argument_roles(inspect.signature(thing).parameters, declared).values())
        return "translator" if "source_words" in roles else "layer"
    if not callable(thing):
        raise InputError(f"{thing!r} is of type {type(thing).__name__}; name a class, a module or a function.")
    arguments = list(inspect.signature(thing).parameters)
    names, roles = [plain_name(p) for p in arguments], [declared.get(p, role_of(p)) for p in arguments]
    if len(names) >= 3 and {name[:1] for name in names[:3]} == {"q", "k", "v"}:
        return "attention"
    if "source_words" in roles:
        return "translator"
    if len(names) >= 2 and (
        "target" in names[1] or names[1] in ("y", "labels", "label", "gold", "truth", "tgt", "trg")
    ):
        return "loss"
    if any(role in ("longest", "width") for role in roles[:2]):
        return "positions"
    return "attention" if len(names) >= 3 else "translator"


def _has_tables(thing: Any, declared: Mapping[str, Any], seed: int) -> bool:
    """Whether a class whose arguments name no width, because its sizes are fixed, makes a model with tables to read."""
    arguments = declared.get("arguments", {})
    if "width" in argument_roles(inspect.signature(thing).parameters, arguments).values():
        return False
    with recording_settings(seed):
        model = build(thing, declared).model
    return isinstance(model, nn.Module) and any(isinstance(m, nn.Embedding) for m in model.modules())


# modules


def _record_module(thing: Any, name: str, declared: Mapping[str, Any], seed: int, kind: str) -> Recording:
    built = prepare_model(thing, declared, seed=seed)
    model = built.model
    width = built.sizes.get("width") or built.sizes.get("head_width") or _width(model)
    files = files_of(model) | files_of(thing)
    call = _find_call(model, states((2, PLACES), width, seed), files)
    asked = Probe(make=lambda shape: {"x": states(shape, width, seed)}, call=lambda given: call(given["x"], None))
    seen = make_recording(built, asked, files=files, seed=seed, name=name)
    kind = declared.get("kind") or _kind_by_trace(seen.runs[0])
    masked = (
        _run_with_mask(model, call, states(SHAPES[0], width, seed), files)
        if kind in ("multi-head attention", "layer")
        else None
    )
    return Recording(**{**vars(seen), "kind": kind, "masked": masked})


def states(shape: tuple[int, int], width: int, seed: int) -> Tensor:
    """Random states (N, T, width)."""
    return torch.from_numpy(seeded_draws.states(shape, width, seed))


def _width(model: nn.Module) -> int:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.LayerNorm):
            return int(module.normalized_shape[-1])
    return int(SIZES["width"])


Calling = Callable[[Tensor, Tensor | None], Tensor]


def _find_call(model: nn.Module, x: Tensor, files: frozenset[str]) -> Calling:
    """How forward takes the states: once, or as queries, keys and values; other arguments None, or a mask of ones."""
    known = [p for p in inspect.signature(model.forward).parameters.values() if p.kind in (0, 1)]
    needed = [p for p in known if p.default is p.empty]
    count = max(1, sum(not _is_mask(p.name) for p in needed))
    places = [index for index, p in enumerate(known) if _is_mask(p.name)]
    fillers: list[Tensor | None] = [None, torch.ones(x.shape[0], 1, 1, x.shape[1])]
    error: Exception | None = None
    for times in dict.fromkeys([count, 1, 3]):
        for filler in fillers:
            call = _make_call(model, times, len(needed), places, filler)
            try:
                with torch.no_grad():
                    call(x, None)
                return call
            except Exception as raised:
                error = error or raised
    raise error if error is not None else InputError("forward could not be called.")


def _is_mask(name: str) -> bool:
    return any(part in name.lower() for part in ("mask", "padding", "valid", "pad"))


def _make_call(model: nn.Module, times: int, needed: int, places: list[int], filler: Tensor | None) -> Calling:
    def call(x: Tensor, mask: Tensor | None) -> Tensor:
        given = mask
        if mask is None and filler is not None:
            given = torch.ones(x.shape[0], 1, 1, x.shape[1])
        arguments: list[Any] = [x] * times
        length = max(needed, places[0] + 1 if places and given is not None else 0)
        arguments += [None] * (length - len(arguments))
        if places and places[0] < len(arguments):
            arguments[places[0]] = given
        return scores(lambda _: model(*arguments), x)

    return call


def _kind_by_trace(run: ForwardPass) -> str:
    """A module from states to states: what it holds says what it is."""
    flow = Dataflow(run)
    kinds = [anchor.kind for anchor in flow.anchors]
    if "meeting" in kinds and "linear" not in kinds:
        return "attention"
    if "meeting" in kinds:
        last = max(i for i, kind in enumerate(kinds) if kind == "meeting")
        return "layer" if kinds[last + 1 :].count("linear") >= 3 or _has_inner(flow, last) else "multi-head attention"
    if "linear" in kinds:
        return "feed-forward"
    tables = [one for one in flow.applied if one.op == "add" and one.value.size > one.value.shape[-1]]
    return "positions" if tables else "norm"


def _has_inner(flow: Dataflow, last: int) -> bool:
    after = [a for a in flow.anchors[last + 1 :] if a.kind == "linear" and a.weight is not None]
    return any(a.weight is not None and a.weight.shape[0] != a.weight.shape[1] for a in after[-2:]) and len(after) >= 2


def _run_with_mask(model: nn.Module, call: Calling, x: Tensor, files: frozenset[str]) -> ForwardPass | None:
    """The part with a mask of padding, in the first shape and type that it takes; None where it takes none."""
    if not any(_is_mask(p) for p in inspect.signature(model.forward).parameters):
        return None
    real = torch.from_numpy(seeded_draws.words_kept(SHAPES[0]))
    for shape in MASK_SHAPES:
        for kind in (torch.bool, torch.float64):
            mask = mask_of(real, shape).to(kind)
            run = trace(model, {"x": x}, lambda mask=mask: call(x, mask), files=files)  # type: ignore[misc]
            if run.raised is None:
                return ForwardPass(**{**vars(run), "inputs": {**run.inputs, "padding": ~array(real)}})
    return None


def mask_of(real: Tensor, shape: str) -> Tensor:
    """True at keys that are words, in one of the shapes that people use."""
    n, t = real.shape
    return {
        "N11T": real[:, None, None, :],
        "N1T": real[:, None, :],
        "NTT": real[:, None, :].expand(n, t, t),
        "NT": real,
    }[shape]


# functions


def _record_attention(function: Callable[..., Any], name: str, seed: int) -> Recording:
    """attention(q, k, v): three axes, then four, then two; queries and keys of different lengths if it can."""
    files = files_of(function)
    names = [plain_name(p)[:1] for p in inspect.signature(function).parameters][:3]
    order = tuple(names.index(letter) for letter in "qkv") if set(names) == {"q", "k", "v"} else (0, 1, 2)
    error: Exception | None = None
    for axes in (3, 4, 2):
        for shorter in (True, False):
            make = _vectors(axes, shorter, seed)
            asked = Probe(make=make, call=_function_call(function, order, axes))
            try:
                with torch.no_grad():
                    asked.call(make(SHAPES[0]))
            except Exception as raised:
                error = error or raised
                continue
            built = BuiltModel(model=function, sizes={}, arguments={})
            about = {"name": name, "kind": "attention"}
            return make_recording(built, asked, files=files, seed=seed, **about)
    raise error if error is not None else InputError(f"{name} could not be called.")


def _vectors(axes: int, shorter: bool, seed: int) -> Callable[[tuple[int, int]], Inputs]:
    def make(shape: tuple[int, int]) -> Inputs:
        drawn = seeded_draws.vectors(shape, axes=axes, shorter=shorter, seed=seed)
        return {name: torch.from_numpy(value) for name, value in drawn.items()}

    return make


def _function_call(function: Callable[..., Any], order: tuple[int, ...], axes: int) -> Callable[[Inputs], Tensor]:
    def call(given: Inputs) -> Tensor:
        parts = [given["query"], given["key"], given["value"]]
        if axes == 4:
            parts = [p.reshape(*p.shape[:2], 2, -1).transpose(1, 2) for p in parts]
        if axes == 2:
            parts = [p[0] for p in parts]
        arranged: list[Any] = [None] * 3
        for part, place in zip(parts, order, strict=True):
            arranged[place] = part
        returned = function(*arranged)
        wanted = (*parts[0].shape[:-1], parts[2].shape[-1])
        for one in returned if isinstance(returned, (tuple, list)) else (returned,):
            if isinstance(one, Tensor) and tuple(one.shape) == wanted:
                return one.transpose(1, 2).flatten(2) if axes == 4 else one[None] if axes == 2 else one
        came = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        raise ValueError(f"returned {came} where an output of shape {wanted} is wanted")

    return call


def _record_table(function: Callable[..., Any], name: str) -> Recording:
    """A table of positions from a length and a width, in that order or in the order of its arguments' names."""
    roles = [role_of(p) for p in inspect.signature(function).parameters]
    sizes = {"longest": PLACES + 4, "width": int(SIZES["width"])}
    order = [sizes.get(role or "") for role in roles[:2]]
    arguments = order if None not in order else [sizes["longest"], sizes["width"]]
    files = files_of(function)

    def call() -> Tensor:
        table = torch.as_tensor(function(*arguments), dtype=torch.float64)
        return table.reshape(-1, table.shape[-1])[None]

    run = trace(function, {}, call, files=files)
    return Recording(name=name, runs=(run,), kind="positions", sizes=sizes)


def _record_loss(function: Callable[..., Any], name: str, seed: int) -> Recording:
    """loss(scores, targets): its value, and its gradient with respect to the scores, for padded targets."""
    drawn = seeded_draws.losses(seed)
    given, targets = torch.from_numpy(drawn["scores"]).requires_grad_(), torch.from_numpy(drawn["targets"])
    files = files_of(function)
    value = function(given, targets)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError(f"{name} must return one number, a tensor; it returned {type(value).__name__}.")
    (gradient,) = torch.autograd.grad(value, given, allow_unused=True)
    slope = torch.zeros_like(given) if gradient is None else gradient
    run = ForwardPass(
        inputs={**drawn, "value": array(value.reshape(()))},
        output=array(slope),
    )
    return Recording(name=name, runs=(run,), kind="loss", pad=0, source=next(iter(files), ""))
