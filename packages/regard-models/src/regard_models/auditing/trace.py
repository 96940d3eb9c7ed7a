"""Which submodule broke a property: the first one whose protected inputs agree and whose outputs do not.

Hooks on all modules keep a small sketch of what goes in and comes out: the protected part, with random signs, summed
into a few dozen buckets. Two runs and a third with disturbed roundings are then compared call by call. Submodules
end before the module that calls them, so the first in the order of ending is the innermost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import _disable_current_modes

from regard.torch_arithmetic import FACTOR
from regard_models.auditing.experiment import Experiment, View, measure
from regard_models.auditing.finding import Culprit
from regard_models.auditing.subject import Subject
from regard_models.inputs.model_input import call, original

_BUCKETS = 32
_BOUND = 1e6  # masks hold huge numbers, which would swamp a sum


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """One call of one module: sketches of the protected parts of its inputs and outputs."""

    module: nn.Module
    name: str
    call: int
    inputs: list[Tensor]
    outputs: list[Tensor]
    placed: list[bool]  # which outputs have an axis of places
    squares: bool  # a tensor of places by places came in
    masked: bool  # a mask did
    nan_in: bool  # NaN or plus infinity came in, or went out
    nan_out: bool


class Recorder:
    """Keeps a record of every call of a submodule while it is entered."""

    def __init__(self, names: dict[int, str], seen: View) -> None:
        self.names, self.seen = names, seen
        self.records: list[Record] = []
        self.calls: dict[int, int] = {}
        self.signs = torch.empty(0, dtype=torch.int8)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        handle = register_module_forward_hook(self._hook, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()
            # torch forgets to take out that a hook wanted keywords, and warns about hooks for ever after
            getattr(torch.nn.modules.module, "_global_forward_hooks_with_kwargs", {}).pop(handle.id, None)

    def _hook(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if id(module) not in self.names:
            return
        count = self.calls.get(id(module), 0)
        self.calls[id(module)] = count + 1
        with torch.no_grad(), _disable_current_modes():
            tensors = list(tensors_in((args, kwargs)))
            record = Record(
                module=module,
                name=self.names[id(module)],
                call=count,
                inputs=[self.sketch(t) for t in tensors],
                outputs=[self.sketch(t) for t in tensors_in(output)],
                placed=[self.seen.has_places(t) for t in tensors_in(output)],
                nan_in=any(is_bad(t) for t in tensors),
                nan_out=any(is_bad(t) for t in tensors_in(output)),
                squares=any(_is_square(t, self.seen) for t in tensors),
                masked=_has_mask(args, kwargs),
            )
        self.records.append(record)

    def sketch(self, x: Tensor) -> Tensor:
        """The protected part of a tensor in a few numbers, the last of them its size."""
        flat = self.seen.of_inner(x.detach()).reshape(-1).to(torch.float64)
        flat = flat.nan_to_num(nan=3 * _BOUND, posinf=2 * _BOUND, neginf=-_BOUND).clamp_(-_BOUND, 3 * _BOUND)
        norm, whole = flat.norm(), len(flat) - len(flat) % _BUCKETS
        if len(self.signs) < len(flat):
            generator = torch.Generator().manual_seed(0)
            self.signs = torch.randint(0, 2, (2 * len(flat),), generator=generator, dtype=torch.int8).mul_(2).sub_(1)
        flat.mul_(self.signs[: len(flat)].to(flat.device))  # logits are large
        buckets = flat[:whole].view(_BUCKETS, whole // _BUCKETS).sum(1)
        buckets[: len(flat) - whole] += flat[whole:]
        return torch.cat([buckets, norm[None], torch.tensor([float(len(flat))], device=flat.device)])


def tensors_in(value: Any, depth: int = 4) -> Iterator[Tensor]:
    """The tensors in arguments or results, nested in tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        if not value.is_complex() and not value.is_nested:
            yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif depth and dataclasses.is_dataclass(value):
        yield from tensors_in(vars(value), depth - 1)
    elif depth and isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item, depth - 1)


def is_bad(x: Tensor) -> bool:
    """NaN or plus infinity; minus infinity is what masks are made of."""
    return x.is_floating_point() and bool((torch.isnan(x) | (x == torch.inf)).any())


def record_calls(
    subject: Subject,
    inputs: dict[str, Any],
    seen: View,
    *,
    wide: bool | None = None,
    jitter: int | None = None,
    unit: torch.dtype | None = None,
    run: Callable[[nn.Module, dict[str, Any]], Any] = call,
) -> list[Record]:
    """Run the model on inputs and record every call, in the order of ending."""
    return record_views(subject, inputs, [seen], wide=wide, jitter=jitter, unit=unit, run=run)[0]


def record_views(
    subject: Subject,
    inputs: dict[str, Any],
    views: Sequence[View],
    *,
    wide: bool | None = None,
    jitter: int | None = None,
    unit: torch.dtype | None = None,
    run: Callable[[nn.Module, dict[str, Any]], Any] = call,
) -> list[list[Record]]:
    """The same for several views of one run."""
    wide = subject.wide if wide is None else wide
    recorders = [Recorder(subject.names, seen) for seen in views]
    module = subject.module if wide else subject.native
    # What watches a compiled model would be compiled with it, again and again.
    plain = contextlib.nullcontext() if original(module) is module else torch.compiler.set_stance("force_eager")
    with contextlib.ExitStack() as watching, plain, torch.no_grad():
        for recorder in recorders:
            watching.enter_context(recorder.watching())
        with subject.running(wide=wide, jitter=jitter, unit=unit):
            run(module, inputs)
    return [recorder.records for recorder in recorders]


def blame(subject: Subject, experiment: Experiment, brief: Callable[[], Experiment]) -> Culprit | None:
    """The submodule that broke the experiment; by a short one like it, where that breaks too."""
    if subject.is_long:
        short = brief()
        experiment = short if measure(subject, short).is_above_rounding else experiment
    base_inputs = subject.inputs(experiment.base)
    base = record_calls(subject, base_inputs, experiment.base_view)
    noise = [
        record_calls(subject, base_inputs, experiment.base_view, jitter=jitter) for jitter in range(subject.jitters)
    ]
    other = record_calls(subject, subject.inputs(experiment.other), experiment.other_view)
    return first_to_differ(base, other, noise, subject)


def first_to_differ(
    base: list[Record],
    other: list[Record],
    noise: list[list[Record]],
    subject: Subject,
    *,
    promote: bool = True,
    floor: float = 1e-14,
    loose: bool = True,
) -> Culprit | None:
    """The first call, in the order of ending, whose inputs agree and whose outputs differ beyond rounding.

    An output without places may differ rightly (the last tokens, kept for a next step): it counts within a module that
    is guilty by its others, or, if ``loose``, where there is no such module.
    """
    found = _guilty_record(base, other, noise, floor, loose=False)
    inner = _guilty_record(base, other, noise, floor, loose=True) if found is not None or loose else None
    if inner is not None and (found is None or inner.name.startswith(f"{found.name}." if found.name else "")):
        found = inner
    if found is None:
        return None
    if promote and (_is_bare(found) or _is_fed_otherwise(found, other)):
        return culprit(_parent(found, subject), subject)
    doubt = ", or the mask that it is given" if promote and found.masked else ""
    return culprit(found.module, subject, call=found.call, doubt=doubt)


def _guilty_record(
    base: list[Record], other: list[Record], noise: list[list[Record]], floor: float, *, loose: bool
) -> Record | None:
    """The first guilty call; ``loose``: outputs without places count too."""
    theirs = {(r.name, r.call): r for r in other}
    moved = [{(r.name, r.call): r for r in run} for run in noise]
    for record in base:
        key = (record.name, record.call)
        if key not in theirs:
            continue
        disturbed = [run[key] for run in moved if key in run]
        same_inputs = _agree(record, theirs[key], disturbed, lambda r: r.inputs, floor)
        placed = None if loose else record.placed
        if same_inputs and not _agree(record, theirs[key], disturbed, lambda r: r.outputs, floor, placed=placed):
            return record
    return None


def _agree(
    mine: Record,
    theirs: Record,
    noise: list[Record],
    part: Callable[[Record], list[Tensor]],
    floor: float,
    *,
    placed: list[bool] | None = None,
) -> bool:
    for i, (a, b) in enumerate(zip(part(mine), part(theirs), strict=False)):
        if a[-1] != b[-1] or (placed is not None and not placed[i]):
            continue  # not the same number of numbers: keys of a cache, say
        shaken = [part(n)[i] for n in noise if i < len(part(n))]
        moved = max((float((s - a)[:-1].abs().max()) for s in shaken if s.shape == a.shape), default=0.0)
        least = floor * float(a[-2]) if noise else 0.0  # without noise, bit for bit
        apart = float((a - b)[:-1].abs().max())
        if not apart <= FACTOR * moved + least:
            return False
    return True


def _is_bare(record: Record) -> bool:
    """A leaf without weights that is fed scores: the fault lies with whoever made them."""
    has_weights = next(record.module.parameters(), None) is not None
    return record.squares and not has_weights and not list(record.module.children())


def _is_fed_otherwise(record: Record, other: list[Record]) -> bool:
    """A leaf whose inputs could not be compared, as they are of another size: whoever made them may be guilty."""
    theirs = next(r for r in other if (r.name, r.call) == (record.name, record.call))
    sizes = [a[-1] != b[-1] for a, b in zip(record.inputs, theirs.inputs, strict=False)]
    return any(sizes) and not list(record.module.children())


def _has_mask(args: Any, kwargs: Any) -> bool:
    """Whether a tensor among the arguments is a mask: by its name, or because it is made of True and False."""
    named = any("mask" in name and isinstance(value, Tensor) for name, value in kwargs.items())
    return named or any(t.dtype is torch.bool and t.ndim > 1 for t in tensors_in((args, kwargs)))


def _parent(record: Record, subject: Subject) -> nn.Module:
    path = record.name.rpartition(".")[0]
    return original(subject.module).get_submodule(path)


def _is_square(x: Tensor, seen: View) -> bool:
    return x.ndim >= 2 and x.shape[-1] == x.shape[-2] and x.shape[-1] in seen.places


def culprit(module: nn.Module, subject: Subject, *, call: int = 0, doubt: str = "") -> Culprit:
    """A module with its path and the line where its forward begins."""
    file, line = source_line(module)
    name = subject.names.get(id(module), "")
    return Culprit(module=name, kind=type(module).__name__, file=file, line=line, call=call, doubt=doubt)


def source_line(module: nn.Module) -> tuple[str | None, int | None]:
    """File and line of a module's forward; the path as short as it can be told from here."""
    try:
        forward = inspect.unwrap(vars(module).get("forward") or type(module).forward)
        file, line = inspect.getsourcefile(forward), inspect.getsourcelines(forward)[1]
    except (TypeError, OSError, AttributeError):  # scripted modules have no source
        return None, None
    if file is None:
        return None, None
    short = os.path.relpath(file)
    return (file if short.startswith("..") else short), line
