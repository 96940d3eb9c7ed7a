"""Every head of a model, measured: the instruments of this project turned on real heads.

    cheap, always        how it spreads its weights, its pattern, how far its keys swing, what it adds, its twin
    asked for (``also``)  ceilings: which tokens can never win;  rank: how many directions it uses, what fewer cost;
                          ablation: the model without it;  direct: its own word in the output;  noise: how fragile it is

A measure that needs what is not there (keys, values, a model that can be run) is "not applicable", with the reason.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError
from regard.progress import Progress
from regard_models.capturing.records import AttentionRecord, Capture
from regard_models.head_measures.head_measurements import HeadMeasurements
from regard_models.head_measures.head_report import Heads
from regard_models.head_measures.weight_patterns import EPS

if TYPE_CHECKING:
    from regard_models.inputs.model_input import ModelInput

ALSO = ("ceilings", "rank", "ablation", "direct", "noise")
KEEP = ("q", "k", "v", "w_q", "w_k", "w_v", "w_o")


def heads(  # noqa: PLR0913 - a verb's options, each with a default
    source: Any,
    inputs: Any = None,
    *,
    text: str | Sequence[str] | None = None,
    tokenizer: Any = None,
    tokens: Sequence[Any] | None = None,
    layers: Sequence[int] | None = None,
    only: Sequence[int] | None = None,
    also: Sequence[str] = (),
    example: int = 0,
    eps: float = EPS,
    rank: int | None = None,
    progress: Progress | None = None,
) -> Heads:
    """Measure the heads of a model, of a capture, or of plain weights.

    ``source``: a torch module (with ``inputs``, or a ``text`` and a ``tokenizer``), a :class:`Capture`, or weights as
    :meth:`Capture.from_arrays` takes them, with their ``tokens``. ``layers`` and ``only`` choose layers and heads by
    number. ``also`` names the costly measures: ceilings, rank, ablation, direct, noise. ``eps``: a head copies from a
    weight of 1/(1 + eps) on. A list of texts, or of inputs, gives the mean of each measure over them, each run by
    itself. ``rank``: of the low-rank replacement, instead of the least that keeps 90 % of the energy.

    >>> result = heads(np.eye(4)[None, None], tokens=list("abab"))
    >>> result.measures["same"].tolist(), result.measures["effective"].tolist(), result.kinds
    ([[1.0]], [[1.0]], (('same',),))
    """
    _refuse(also, eps, rank)
    options: dict[str, Any] = {
        "layers": layers,
        "only": only,
        "also": also,
        "example": example,
        "eps": eps,
        "rank": rank,
    }
    if (prompts := _prompts(source, inputs, text, tokenizer)) is not None:
        return mean_heads([heads(one, **options, progress=progress) for one in prompts])
    given = _model(source, inputs, text if isinstance(text, str) else None, tokenizer)
    with eval_mode(given) as was_training:
        captured = _capture_model(given, tokens) if given is not None else _weights(source, tokens)
        records = _select_records(captured, layers, only, example)
        bench = HeadMeasurements(captured, records, example=example, eps=eps, given=given)
        bench.measure_cheap()
        for name in [name for name in ALSO if name in also]:
            getattr(bench, name)(**({"rank": rank} if name == "rank" else {}), progress=progress)
    notes = ("it was in training mode and is measured in eval mode",) if was_training else ()
    return bench.result((*captured.notes, *notes))


def _prompts(source: Any, inputs: Any, text: Any, tokenizer: Any) -> list[ModelInput] | None:
    """The model with each of several inputs or texts; None where there is one."""
    if isinstance(source, list) and source and all(hasattr(one, "streams") for one in source):
        return source
    several = text if isinstance(text, (list, tuple)) else inputs if isinstance(inputs, list) else None
    if several is None:
        return None
    if not several:
        raise InputError("The list of prompts is empty; give at least one.")
    from regard_models.inputs.model_input import model_input

    if isinstance(text, (list, tuple)):
        return [model_input(source, text=one, tokenizer=tokenizer) for one in several]
    return [model_input(source, one, tokenizer=tokenizer) for one in several]


def mean_heads(results: Sequence[Heads]) -> Heads:
    """The mean of every measure over prompts; a head is called what it is called most often."""
    first = results[0]
    if any((one.modules, one.numbers) != (first.modules, first.numbers) for one in results):
        raise InputError("The prompts ran different attention layers, so no mean over them can be taken.")
    if len(results) == 1:
        return first
    names = [name for name in first.measures if all(name in one.measures for one in results)]
    measures = {name: _mean([one.measures[name] for one in results]) for name in names}
    kinds = tuple(tuple(_most_often(kind) for kind in zip(*rows, strict=True))
                  for rows in zip(*(one.kinds for one in results), strict=True))  # fmt: skip
    twins = [one.twins or {} for one in results]
    shared = {head: _most_often(one.get(head, "") for one in twins) for head in twins[0]}
    missing = {name: why for one in results for name, why in one.not_applicable.items()}
    shapes = tuple(shape for one in results for shape in one.shapes)
    note = f"means over {len(results)} prompts; what is proved of single tokens is left out: ask for one prompt"
    return replace(first, measures=measures, kinds=kinds, twins=shared or None, not_applicable=missing,
                   tokens=None, shapes=shapes,
                   rollout=None, ceilings=(), noise=(), notes=(*first.notes, note))  # fmt: skip


def _mean(tables: Sequence[Any]) -> Any:
    """The mean over the prompts in which there is a number; NaN where there is none."""
    stack = np.stack(tables)
    there = ~np.isnan(stack)
    count = there.sum(axis=0)
    return np.divide(np.where(there, stack, 0.0).sum(axis=0), count, out=np.full(count.shape, np.nan), where=count > 0)


def _most_often(words: Iterable[str]) -> str:
    return Counter(words).most_common(1)[0][0]


def _model(source: Any, inputs: Any, text: str | None, tokenizer: Any) -> ModelInput | None:
    """The model with its inputs; None where weights were given."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(source, Capture):
        return None
    from regard_models.inputs.model_input import ModelInput, model_input

    if isinstance(source, ModelInput):
        return source
    return model_input(source, inputs, text=text, tokenizer=tokenizer) if isinstance(source, torch.nn.Module) else None


def _weights(source: Any, tokens: Sequence[Any] | None) -> Capture:
    return source if isinstance(source, Capture) else Capture.from_arrays(source, tokens=tokens)


@contextlib.contextmanager
def eval_mode(given: ModelInput | None) -> Iterator[bool]:
    """Eval mode while it lasts, and whether that is a change; every submodule gets its own mode back."""
    modules = [] if given is None else [*given.module.modules()]
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield any(modes)
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _capture_model(given: ModelInput, tokens: Sequence[Any] | None) -> Capture:
    import torch

    from regard_models.capturing.attention_capture import capture
    from regard_models.capturing.given_weights import words_of

    words = given.tokens or ids_as_words(given, 0)
    target = ids_as_words(given, -1) if len(given.streams) > 1 else None
    with torch.no_grad():
        recorded = capture(given.module, given.inputs, keep=KEEP, tokens=words, target_tokens=target, name=given.name)
    return recorded if tokens is None else replace(recorded, tokens=words_of(tokens, recorded.records[0]))


def ids_as_words(given: ModelInput, which: int) -> list[list[str]] | None:
    """The ids of a stream of tokens as words, so that repeats can be seen."""
    stream = given.streams[which].name if given.streams else ""
    ids = given.inputs.get(stream)
    if ids is None or not hasattr(ids, "is_floating_point") or ids.is_floating_point() or ids.dim() != 2:
        return None
    rows = ids if given.batch_first else ids.T
    return [[str(number) for number in row] for row in rows.tolist()]


def _select_records(
    captured: Capture, layers: Sequence[int] | None, only: Sequence[int] | None, example: int
) -> list[AttentionRecord]:
    records = [record for record in captured.records if record.step == 0]
    if layers is not None:
        records = [captured.record(layer) for layer in layers]
    if not records:
        raise InputError(f"{captured.name} holds no attention weights.")
    for record in records:
        if not 0 <= example < record.shape[0]:
            raise InputError(f"There is no example {example}; the batch has {record.shape[0]}, counted from 0.")
        if not np.isfinite(record.weights[example]).all():
            raise InputError(
                f"Layer {record.index} ({record.module}) has weights that are NaN or infinite, so its heads cannot be "
                "measured; regard model audit says where they begin."
            )
    return records if only is None else [select_heads(record, only) for record in records]


def select_heads(record: AttentionRecord, numbers: Sequence[int]) -> AttentionRecord:
    """A record with some of its heads."""
    for number in numbers:
        record.head(number)  # says so if it is not there
    at = [record.heads.index(number) for number in numbers]
    arrays = {name: getattr(record, name) for name in ("weights", "used", "q", "k", "v")}
    maps = {name: getattr(record, name) for name in ("w_q", "w_k", "w_v", "w_o")}
    mask = record.allowed
    cut = {name: None if a is None else a[:, at] for name, a in arrays.items()}
    cut |= {name: None if a is None else a[at] for name, a in maps.items()}
    mask = mask[:, at] if mask is not None and mask.shape[1] == len(record.heads) > 1 else mask
    return replace(record, heads=tuple(numbers), allowed=mask, **cut)  # type: ignore[arg-type]


def _refuse(also: Sequence[str], eps: float, rank: int | None) -> None:
    if isinstance(also, str) or any(name not in ALSO for name in also):
        wrong = also if isinstance(also, str) else next(name for name in also if name not in ALSO)
        raise InputError(f"also may list {', '.join(ALSO[:-1])} and {ALSO[-1]}, not {wrong!r}.")
    if not 0 < eps < 1:
        raise InputError(f"eps is {eps:g}; it must lie between 0 and 1: a head copies from a weight of 1/(1 + eps) on.")
    if rank is not None and rank < 1:
        raise InputError(f"rank is {rank}; it must be 1 or more.")
