"""Running somebody's model and writing down all that the judge will need: the half that touches other people's code.

The model is made in float64, put into eval(), and its parameters are drawn anew: on a fresh start biases are 0, gains
are 1 and two norms look like one, which would hide mistakes. Frozen parameters and buffers stay as they are.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing import seeded_draws
from regard.tracing.constructor_arguments import EVEN, PLACES, BuiltModel, build
from regard.tracing.recording import ForwardPass, Recording, Slope
from regard.tracing.seeded_draws import FRESH, LONG, SHAPES
from regard.tracing.tracer import Tracer, array, failure_from, files_of, storage_of, trace

MOST_EVENTS = 5_000  # of a short sentence: loops over pairs of words would take minutes for a long one
STEP = 1e-8  # of the differences: at 1e-6 the kinks of ReLU accuse correct models


Inputs = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """How a model is asked: inputs of a shape (sentences, places), and the tensor wanted of what it returns."""

    make: Callable[[tuple[int, int]], Inputs]
    call: Callable[[Inputs], Tensor]


def record_model(
    factory: Any, *, name: str = "", declared: Mapping[str, Any] | None = None, seed: int = 0, pad: int | None = None
) -> Recording:
    """Everything about a model from ids (N, T) to scores (N, T, words); a class, a function or the model itself."""
    declared = declared or {}
    with recording_settings(seed):
        model = (built := _model_that_runs(factory, declared, seed)).model
        files = files_of(model) | files_of(factory)
        pad = declared.get("pad", pad)
        padding = known_padding(model, files, seed) if pad is None else int(pad)
        asked = Probe(
            make=lambda shape: {"ids": ids(shape, padding, seed)},
            call=lambda given: scores(_with_ids(model, padding), given["ids"]),
        )
        title = name or getattr(factory, "__name__", type(factory).__name__)
        recording = make_recording(built, asked, files=files, seed=seed, name=title, pad=padding)
        more = {} if any(run.raised for run in recording.runs) else sentence_differences(asked)
        return replace(recording, conditions={**recording.conditions, **more})


def _model_that_runs(factory: Any, declared: Mapping[str, Any], seed: int) -> BuiltModel:
    """The model; where forward fails, one made for its full length only, or with even heads, if that runs."""
    built = prepare_model(factory, declared, seed=seed)
    if built.sizes and not _takes(built.model, SHAPES[0], seed):
        even = {**EVEN, "head_width": EVEN["head_width"] + 4}  # no square W_O: its transpose must not fit
        for change in (*([{"longest": PLACES}] if "longest" in built.sizes else []), even):
            with contextlib.suppress(InputError):
                other = prepare_model(factory, declared, seed=seed, tries=[{**built.sizes, **change}])
                if _takes(other.model, SHAPES[0], seed):
                    return other
    return built


def _takes(model: nn.Module, shape: tuple[int, int], seed: int) -> bool:
    with torch.no_grad():
        try:
            return scores(_with_ids(model, 0), ids(shape, 0, seed)) is not None
        except InputError:
            raise
        except Exception:
            return False


def make_recording(built: BuiltModel, asked: Probe, *, files: frozenset[str], seed: int, **about: Any) -> Recording:
    """Two traced runs, fresh shapes, slopes, and what hangs on the model."""
    model = built.model
    runs = [trace_run(model, asked, shape, files) for shape in SHAPES]
    if runs[1].raised is not None and runs[0].raised is None:  # it takes its full length only
        runs[1] = trace_run(model, asked, (SHAPES[1][0], PLACES), files)
    module = model if isinstance(model, nn.Module) else nn.Module()
    fresh = [evaluate_run(asked, shape, files) for shape in FRESH if shape != LONG]
    if len(runs[0].events) <= MOST_EVENTS and built.sizes.get("longest") != PLACES:
        long = evaluate_run(asked, LONG, files)
        fresh += [long] if long.raised is None or "longest" in built.sizes else []
    return Recording(
        runs=tuple(runs),
        fresh=tuple(fresh),
        parameters={key: array(value) for key, value in module.named_parameters()},
        buffers={key: array(value) for key, value in module.named_buffers()},
        slopes=() if any(run.raised for run in runs) else slopes(module, asked, seed),
        unregistered=_attributes_that_are_read(built.unregistered, asked),
        unsteady=is_unsteady(asked),
        conditions={} if any(run.raised for run in runs) else _conditions(module, asked, runs[0]),
        sizes=built.sizes,
        source=next(iter(files), ""),
        **about,
    )


@contextlib.contextmanager
def recording_settings(seed: int) -> Iterator[None]:
    """float64 by default, a seed of our own, and torch's encoder layers step by step; all are put back.

    In eval() without gradients nn.TransformerEncoder would cut padding off and hand back zeros in its place, which
    neither its own training nor any formula does.
    """
    before, quick = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
    torch.set_default_dtype(torch.float64)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_default_dtype(before)
        torch.backends.mha.set_fastpath_enabled(quick)


def prepare_model(factory: Any, declared: Mapping[str, Any], *, seed: int, **tries: Any) -> BuiltModel:
    """The model, in float64 and eval(), with fresh numbers in it."""
    ready = isinstance(factory, nn.Module)
    built = BuiltModel(model=factory, sizes={}, arguments={}) if ready else build(factory, declared, **tries)
    if not isinstance(built.model, nn.Module):
        raise InputError(
            f"{getattr(factory, '__name__', 'It')} made something of type {type(built.model).__name__}; it must "
            "be a class, or a function that makes one, derived from torch.nn.Module."
        )
    built.model.double().eval()
    redraw(built.model, seed)
    return replace(built, unregistered=unregistered_tensors(built.model))


def redraw(model: nn.Module, seed: int) -> None:
    """Fresh numbers in every trainable parameter; whoever judges knows the seed, and draws the same ones."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                ones, table = bool((parameter == 1).all()), id(parameter) in tables
                parameter.copy_(
                    torch.from_numpy(seeded_draws.parameter(seed, name, parameter.shape, ones=ones, table=table))
                )


def ids(shape: tuple[int, int], pad: int, seed: int) -> Tensor:
    """Padded sentences."""
    return torch.from_numpy(seeded_draws.sentences(shape, pad, seed))


def known_padding(model: nn.Module, files: frozenset[str], seed: int) -> int:
    """The id that the model compares its input with, or its table's padding_idx; 0 where it has neither."""
    asked = Probe(
        make=lambda shape: {"ids": ids(shape, 0, seed)}, call=lambda given: scores(_with_ids(model, 0), given["ids"])
    )
    run = trace_run(model, asked, (2, PLACES), files)
    for event in run.events:
        if event.op in ("eq", "ne") and run.nodes[event.inputs[0]].live:
            other = [run.nodes[one].value for one in event.inputs[1:]]  # a tensor of one number, or a plain one
            numbers = [*event.plain, *(v.item() for v in other if v is not None and v.size == 1)]
            if len(numbers) == 1 and float(numbers[0]).is_integer():
                return int(numbers[0])
        if event.op == "embedding" and run.nodes[event.inputs[1]].live and event.plain and event.plain[0] >= 0:
            return int(event.plain[0])
    return 0


def trace_run(model: Any, asked: Probe, shape: tuple[int, int], files: frozenset[str]) -> ForwardPass:
    """One run under the tracer."""
    given = asked.make(shape)
    return trace(model, given, lambda: asked.call(given), files=files)


def evaluate_run(asked: Probe, shape: tuple[int, int], files: frozenset[str]) -> ForwardPass:
    """One run whose output alone is kept."""
    given = asked.make(shape)
    plain = {name: array(tensor) for name, tensor in given.items()}
    with torch.no_grad():
        try:
            return ForwardPass(inputs=plain, output=array(asked.call(given)))
        except Exception as error:
            return ForwardPass(inputs=plain, output=None, raised=failure_from(error, files))


def _with_ids(model: Any, pad: int) -> Callable[[Tensor], Any]:
    """Forward of the ids alone: a mask that it must have is None, and lengths are counted."""
    known = [p for p in inspect.signature(model.forward).parameters.values() if p.kind in (0, 1)]
    needed = [p.name for p in known if p.default is p.empty][1:]
    for name in needed:
        if not _is_length(name) and "mask" not in name.lower():
            raise InputError(
                f"forward must have {name!r} besides the ids; give it a default, as in {name}=None, since a check has "
                "ids (N, T) alone."
            )
    return lambda given: model(given, *((given != pad).sum(1) if _is_length(name) else None for name in needed))


def _is_length(name: str) -> bool:
    return "len" in name.lower()


def scores(model: Any, given: Tensor) -> Tensor:
    """The scores among what the model returns: the first tensor with a row for every place."""
    returned = model(given)
    tensors = [r for r in (returned if isinstance(returned, (tuple, list)) else (returned,)) if isinstance(r, Tensor)]
    for tensor in tensors:
        if tensor.dim() == 3 and tensor.shape[:2] == given.shape[:2]:
            return tensor
    came = tuple(tensors[0].shape) if tensors else type(returned).__name__
    raise ValueError(f"forward returned {came} for an input of shape {tuple(given.shape)}; (N, T, ...) is wanted")


def slopes(model: nn.Module, asked: Probe, seed: int) -> tuple[Slope, ...]:
    """Each parameter's derivative along a random direction, by backward and by the model's own differences."""
    draw = torch.Generator().manual_seed(seed + 1)
    given = asked.make(SHAPES[0])
    with torch.no_grad():
        first = asked.call(given)
        mix = torch.randn(first.shape, generator=draw, dtype=first.dtype)
        # each number carries some tens of roundings, and the differences divide them by the step
        rounding = float((first * mix).abs().sum()) * 2**-52 * 20 / STEP

    def value() -> Tensor:
        return (asked.call(given) * mix).sum()

    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    gradients = _gradients(value, [p for _, p in trained])
    silent = {id(m.weight): m.padding_idx for m in model.modules() if isinstance(m, nn.Embedding)}
    measured = []
    for (name, parameter), gradient in zip(trained, gradients, strict=True):
        way = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
        if silent.get(id(parameter)) is not None:
            way[silent[id(parameter)]] = 0  # torch gives the row of padding no gradient, by design
        by_hand = _difference(value, parameter, way)
        backward = None if gradient is None else float((gradient * way).sum())
        measured.append(Slope(parameter=name, backward=backward, differences=by_hand, scale=rounding))
    return tuple(measured)


def _gradients(value: Callable[[], Tensor], parameters: list[nn.Parameter]) -> tuple[Tensor | None, ...]:
    if not parameters:
        return ()
    try:
        return torch.autograd.grad(value(), parameters, allow_unused=True)
    except RuntimeError:  # nothing in it has a gradient, or an operation in place has spoilt it
        return (None,) * len(parameters)


def _difference(value: Callable[[], Tensor], parameter: nn.Parameter, way: Tensor) -> float:
    """(f(p + h u) - f(p - h u)) / 2h."""
    with torch.no_grad():
        kept = parameter.detach().clone()
        parameter.copy_(kept + STEP * way)
        high = float(value())
        parameter.copy_(kept - STEP * way)
        low = float(value())
        parameter.copy_(kept)
    return (high - low) / (2 * STEP)


def unregistered_tensors(model: nn.Module) -> dict[str, list[Tensor]]:
    """Tensors that hang on the model but that it does not know: in plain attributes, and in lists of layers."""
    known = {id(one) for one in (*model.modules(), *model.parameters(), *model.buffers())}
    found = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            inside = list(value.values()) if isinstance(value, dict) else value
            strange = [v for v in (inside if isinstance(inside, (list, tuple)) else [value]) if id(v) not in known]
            tensors = [v for v in strange if isinstance(v, Tensor) and v.numel() > 1]
            tensors += [t for v in strange if isinstance(v, nn.Module) for t in (*v.parameters(), *v.buffers())]
            if tensors and not name.startswith("_"):
                found[f"{path}.{name}" if path else name] = tensors
    return found


def _attributes_that_are_read(found: Mapping[str, list[Tensor]], asked: Probe) -> tuple[str, ...]:
    """Those of them that forward computes with: a pattern whose numbers are never read does no harm."""
    tracer = Tracer({}, frozenset())
    with torch.no_grad(), tracer, contextlib.suppress(Exception):
        asked.call(asked.make(SHAPES[0]))
    read = {storage_of(tensor) for tensor in tracer.alive} if found else set()
    return tuple(name for name, tensors in found.items() if any(storage_of(t) in read for t in tensors))


def _conditions(model: nn.Module, asked: Probe, first: ForwardPass) -> dict[str, float]:
    """How far the model is from itself under other conditions; "later": after all these calls."""
    measured = condition_differences(model, asked)
    with torch.no_grad():
        return {**measured, "later": _distance(lambda: asked.call(asked.make(SHAPES[0])), torch.tensor(first.output))}


def condition_differences(model: nn.Module, asked: Probe) -> dict[str, float]:
    """How far the model is from itself with gradients, in train() without dropout, in float32, and in all three, as it
    will be trained; inf if it fails."""
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given = asked.make(SHAPES[0])
    with torch.no_grad():
        first = asked.call(given).double()
    measured = {"gradients": _distance(lambda: asked.call(given), first)}
    model.train()
    with torch.no_grad():
        measured["train"] = _distance(lambda: _without_dropout(lambda: asked.call(given)), first)
    model.eval().float()
    torch.set_default_dtype(torch.float32)
    single = {name: one.float() if one.is_floating_point() else one for name, one in given.items()}
    try:
        measured["float32"] = _distance(lambda: asked.call(single), first)
        model.train()
        measured["training"] = _distance(lambda: _without_dropout(lambda: asked.call(single)), first)
    finally:
        model.eval()
        torch.set_default_dtype(torch.float64)
        model.double().load_state_dict(kept)
    return measured


def sentence_differences(asked: Probe) -> dict[str, float]:
    """How far any sentence alone is from itself in a batch; how much earlier places change with the last word
    ("future"), and later ones with the first ("past"); and how far exchanging two words is from exchanging their
    scores ("order")."""
    given = asked.make(SHAPES[0])["ids"]
    exchanged, places = given.clone(), torch.arange(given.shape[1])
    last, first_word = given.clone(), given.clone()
    last[0, -1] = given[0, 0] if given[0, 0] != given[0, -1] else given[0, 1]
    first_word[0, 0] = given[0, 1] if given[0, 1] != given[0, 0] else given[0, -1]
    places[[1, 3]] = places[[3, 1]]
    exchanged[0] = given[0, places]
    with torch.no_grad():
        together = asked.call({"ids": given}).double()
        first, each = together[:1], [slice(n, n + 1) for n in range(len(given))]
        return {
            "alone": max(_distance(partial(asked.call, {"ids": given[one]}), together[one]) for one in each),
            "future": _distance(lambda: asked.call({"ids": last})[:1, :-1], first[:, :-1]),
            "past": _distance(lambda: asked.call({"ids": first_word})[:1, 1:], first[:, 1:]),
            "order": _distance(lambda: asked.call({"ids": exchanged})[:1], first[:, places]),
        }


def _distance(call: Callable[[], Tensor], wanted: Tensor) -> float:
    """The largest difference, against the size of the numbers; NaN equals NaN."""
    try:
        came = call().detach().double()
    except Exception:
        return float("inf")
    off = ((came - wanted).abs() / (1 + wanted.abs())).nan_to_num(0.0)
    return float("inf") if bool((came.isnan() != wanted.isnan()).any()) else float(off.max())


def _without_dropout(call: Callable[[], Tensor]) -> Tensor:
    with Tracer({}, frozenset()):
        return call()


def is_unsteady(asked: Probe) -> bool:
    """Whether two evaluations in eval() differ."""
    given = asked.make(SHAPES[0])
    with torch.no_grad():
        try:
            first, second = (asked.call(given) for _ in range(2))
        except Exception:
            return False
    return not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)
