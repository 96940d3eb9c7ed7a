"""Precision: what float32, bfloat16 and float16 cost against float64, and where the error starts.

In its own type the model is judged: an error far above what rounding in that type explains means that something inside
works in a narrower one. The narrower types are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.errors import describe_error
from regard.torch_arithmetic import FACTOR
from regard.written_numbers import at_most
from regard_models.auditing.experiment import difference, largest, view
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.question import Question
from regard_models.auditing.subject import Subject
from regard_models.auditing.trace import Record, culprit, first_to_differ, record_calls
from regard_models.inputs.copies import copy_module
from regard_models.inputs.model_input import call, original

NAME = "precision"
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_CAUSE = "a cast to a narrower type inside (.half(), .bfloat16(), autocast), or a mask of -1e9 that overflows there."
_CURE = "Keep softmax and norms in the model's type or wider, and take masks from torch.finfo(scores.dtype).min."


def check(subject: Subject) -> Iterator[Finding]:
    """The model's own type first, then the narrower ones."""
    base = subject.make(lengths=subject.short_lengths())  # a CPU is slow in narrow types
    exact = {o.name: o.values for o in subject.ask(base)} if subject.wide else None
    if not subject.wide:
        sentence = f"No float64 copy runs ({subject.why_not_wide}), so there is nothing to compare with."
        yield Finding(property=NAME, check="float64", status=Status.NOT_APPLICABLE, sentence=sentence)
        return
    if subject.hangs_on_ties():
        sentence = "Rounding alone moves an answer by more than a millionth of it: choices tie, or a number is cut off "
        sentence += "just where it stands. No smaller fault is seen, whatever passes."
        yield Finding(property=NAME, check="ties", status=Status.NOTE, sentence=sentence)
    for dtype in _TYPES:
        if dtype is subject.dtype:
            yield _check_own_type(subject, base, exact or {})
        elif torch.finfo(dtype).eps >= torch.finfo(subject.dtype).eps and subject.is_large:
            sentence = f"{_type_name(dtype)} was not tried: another copy of so large a model takes too much memory."
            yield Finding(property=NAME, check=_type_name(dtype), status=Status.NOT_APPLICABLE, sentence=sentence)
        elif torch.finfo(dtype).eps >= torch.finfo(subject.dtype).eps:
            yield _check_narrower_type(subject, base, exact or {}, dtype)


def _check_own_type(subject: Subject, base: Question, exact: dict[str, Tensor]) -> Finding:
    kind = _type_name(subject.dtype)
    mine = {o.name: o.values.double() for o in subject.ask(base, wide=False)}
    if not all(bool(torch.isfinite(v).all()) for v in mine.values()):
        return Finding(
            property=NAME,
            check=kind,
            status=Status.FAILED,
            sentence=f"In {kind}, its own type, it returns NaN or infinity.",
            culprit=_first_nan(subject, base),
            cause=_CAUSE,
            cure=_CURE,
        )
    noise = _noise(subject, base, exact)
    gaps = {n: largest(difference(v, mine[n])) for n, v in exact.items() if n in mine}
    # each output against its own rounding: their sizes may differ by orders
    worst = max(gaps, key=lambda n: gaps[n] / (noise[n] or 1e-300), default=None)
    if worst is None:
        return Finding(property=NAME, check=kind, status=Status.NOT_APPLICABLE, sentence="Nothing can be compared.")
    size, rounding, scale = gaps[worst], FACTOR * noise[worst], largest(exact[worst].abs())
    share = f"{size / scale:.1g} of the largest number" if scale else "0"
    common: dict[str, Any] = {"property": NAME, "check": kind, "size": size, "rounding": rounding}
    # What was measured, and a few units of the largest number for what so few draws have missed.
    if size <= rounding + 8 * torch.finfo(subject.coarsest).eps * scale:
        sentence = f"Against float64 the error of {kind} is {size:.2g} ({share}), no more than rounding makes."
        return Finding(status=Status.PASSED, sentence=sentence, **common)
    return Finding(
        status=Status.FAILED,
        sentence=f"Against float64 the error of {kind} is {size:.2g} ({share}); rounding makes "
        f"{at_most(rounding, 1)} at most.",
        culprit=_blame(subject, base),
        cause=_CAUSE,
        cure=_CURE,
        **common,
    )


def _noise(subject: Subject, base: Question, exact: dict[str, Tensor]) -> dict[str, float]:
    """What rounding in the model's type does, measured in float64 so that no cast inside blurs it."""
    noise = dict.fromkeys(exact, 0.0)
    for jitter in range(subject.jitters):
        with torch.no_grad(), subject.running(jitter=jitter, unit=subject.coarsest):
            made = call(subject.module, subject.inputs(base))
        for o in subject.outputs(made, base):
            noise[o.name] = max(noise[o.name], largest((o.values - exact[o.name]).abs()))
    return noise


def _check_narrower_type(subject: Subject, base: Question, exact: dict[str, Tensor], dtype: torch.dtype) -> Finding:
    kind = _type_name(dtype)
    try:
        made = _run_in(subject, base, dtype)
    except Exception as error:
        sentence = f"It does not run in {kind}: {describe_error(error)}."
        return Finding(property=NAME, check=kind, status=Status.NOTE, sentence=sentence)
    if not all(bool(torch.isfinite(v).all()) for v in made.values()):
        sentence = f"In {kind} it returns NaN or infinity."
        return Finding(property=NAME, check=kind, status=Status.NOTE, sentence=sentence, cause=_CAUSE, cure=_CURE)
    gaps = {
        n: largest(difference(exact[n], v)) / (largest(exact[n].abs()) or 1.0) for n, v in made.items() if n in exact
    }
    share = max(gaps.values(), default=0.0)
    sentence = f"Against float64 the error of {kind} is {share:.1g} of the largest number."
    return Finding(property=NAME, check=kind, status=Status.PASSED, sentence=sentence, size=share)


def _run_in(subject: Subject, base: Question, dtype: torch.dtype) -> dict[str, Tensor]:
    module = copy_module(subject.native, dtype)
    inputs = {k: _cast(v, dtype) for k, v in subject.inputs(base, wide=False).items()}
    with torch.no_grad(), subject.running(wide=False):
        return {o.name: o.values.double() for o in subject.outputs(call(module, inputs), base)}


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _blame(subject: Subject, base: Question) -> Culprit | None:
    """Native against float64: the first module that is handed good numbers and returns bad ones."""
    seen, inputs = view(base), subject.inputs(base)
    wide = record_calls(subject, inputs, seen)
    noise = [
        record_calls(subject, inputs, seen, jitter=jitter, unit=subject.coarsest) for jitter in range(subject.jitters)
    ]
    native = record_calls(subject, subject.inputs(base, wide=False), seen, wide=False)
    return first_to_differ(wide, native, noise, subject, promote=False, floor=torch.finfo(subject.coarsest).eps)


def _first_nan(subject: Subject, base: Question) -> Culprit | None:
    records = record_calls(subject, subject.inputs(base, wide=False), view(base), wide=False)
    for record in records:
        if _is_bad(record):
            return culprit(record.module, subject, call=record.call)
    return culprit(original(subject.native), subject)


def _is_bad(record: Record) -> bool:
    return record.nan_out and not record.nan_in  # it makes the first NaN, and does not only pass one on


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
