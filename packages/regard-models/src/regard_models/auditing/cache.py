"""Cache: writing token by token, or three at a time, gives what reading all at once gives.

Steps of 3 are asked too because a causal mask that is aligned at the wrong corner shows there and not in steps of 1.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import describe_error
from regard.torch_arithmetic import FACTOR
from regard_models.auditing.causality import change_after
from regard_models.auditing.experiment import (
    Experiment,
    View,
    difference,
    largest,
    measure,
    protected_parts,
    view,
    worst_gap,
)
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.padding import padded_question, real_length
from regard_models.auditing.question import Output, Question
from regard_models.auditing.subject import Subject, takes
from regard_models.auditing.trace import blame, culprit, first_to_differ, record_calls
from regard_models.inputs.model_input import call, original, parameter_names

NAME = "cache"
BATCH = 2  # not 1 and not 3, the steps
_STEPS = 6  # tokens that are written with a cache, where there is room
_SHORT = 23  # up to so many tokens, steps of 1 also begin behind the first: they pass every number of cached tokens
_NAMES = (
    *("past_key_values", "past_key_value", "past_kv", "kv_cache", "cache", "past", "layer_past"),
    *("cache_params", "past_buckets_states", "mems", "state"),
)
_FLAGS = ("use_cache", "use_mems")
_OFFSETS = ("start_pos", "offset", "past_length", "first", "start", "cache_position", "position_offset", "past_len")
_CAUSE = "positions that start again at 0 with every step, a mask aligned at the wrong corner, keys cached before they "
_CAUSE += "are rotated (or rotated twice), a cache that is cut or shared between layers."
_UNCOUNTED = "positions that start again at 0 with every step, where the caller does not pass them."
_CURE = "Count positions from the length of the cache, and let query i of a step read keys up to (past + i)."


def check(subject: Subject) -> Iterator[Finding]:
    """Read all but the last few tokens, then the rest in steps of 1 and of 3."""
    name = next((n for n in _NAMES if takes(subject.module, n)), "cache" if subject.given.advance else None)
    if name is None or not subject.streams or _reads_ahead(subject):
        sentence = "Its forward takes no cache that is known here; where it keeps one elsewhere, say how with --cache."
        if name is not None:
            sentence = "It is not causal, so nothing can be cached."
        yield Finding(property=NAME, check="steps of 1", status=Status.NOT_APPLICABLE, sentence=sentence)
        return
    base = subject.make(BATCH, lengths=_lengths(subject))
    length = base.rows[-1].length
    most = length - (_STEPS if length > 2 * _STEPS else 3)
    finding = _check_steps(subject, base, name, step=1, first=1 if length <= _SHORT else most)
    if finding.status is Status.FAILED and length <= _SHORT:  # a long beginning tells the culprit better
        finding = min(_check_steps(subject, base, name, step=1, first=most), finding, key=_is_passed)
    chunks = _check_steps(subject, base, name, step=3, first=most)
    healthy = finding.status == chunks.status == Status.PASSED
    if Status.FAILED in (finding.status, chunks.status) and _can_be_told_positions(subject):
        told = replace(base, others={**base.others, str(subject.streams[-1].positions): None})
        again = [_check_steps(subject, told, name, step=step, first=most) for step in (1, 3)]
        lost = next((f for f, g in zip((finding, chunks), again, strict=True) if _is_mended(f, g)), None)
        if lost is not None:
            sentence = f"{lost.sentence} Told the positions, it gets the same."
            yield replace(lost, check="positions", sentence=sentence, cause=_UNCOUNTED, cure=_CURE)
            finding, chunks = (g if _is_mended(f, g) else f for f, g in zip((finding, chunks), again, strict=True))
    yield finding
    yield chunks
    if takes(subject.module, "use_cache"):
        yield from _check_switch(subject)
    for i, stream in enumerate(subject.streams):
        if healthy and stream.masks and subject.given.advance is None:
            yield from _check_padded(subject, name, i)
    if subject.module is not subject.native and healthy:
        yield from _check_own_type(subject, base, name, most)


def _check_switch(subject: Subject) -> Iterator[Finding]:
    """A whole text with a cache that is filled, as most write, and without one, as most are trained."""
    base = subject.make(lengths=subject.short_lengths())
    without, filled = (replace(base, others={**base.others, "use_cache": wanted}) for wanted in (False, True))
    experiment = Experiment(base=without, base_view=view(without), other=filled, other_view=view(filled))
    try:
        gap = measure(subject, experiment)
    except Exception:  # it does without one of them
        return
    if gap.is_above_rounding:
        yield gap.finding(
            NAME,
            "use_cache",
            Status.FAILED,
            f"A whole text gets something else with use_cache=True than with use_cache=False: {gap.words()}.",
            example={"words": f"{base.rows[-1].length} tokens, nothing cached before"},
            culprit=blame(subject, experiment, lambda: experiment),
            cause="a mask, or keys that layers share, made in one of the two cases only.",
            cure="Let use_cache decide what is kept, and nothing else.",
        )


def _check_padded(subject: Subject, name: str, i: int) -> Iterator[Finding]:
    """A batch that is padded on the left, as texts are written together; a step is told the mask of all tokens.

    What is only read (a translator's source) is padded on the right.
    """
    last = len(subject.streams) - 1
    side, of = ("left", "") if i == last else ("right", f" of {subject.streams[i].name}")
    real = min(real_length(subject, i), subject.short_lengths()[i])
    if real < 2:
        return
    base = padded_question(subject, i, side, real, fill=1, told=i == last)
    found = _check_steps(subject, base, name, step=1, first=base.rows[last].length - 1)
    if found.size is None:  # what it wants of a mask in a step is its business
        return
    sentence = f"Beside padding on the {side}{of}: {found.sentence[:1].lower()}{found.sentence[1:]}"
    cause = "a mask of padding that is left out, cut or counted from the wrong end where keys are cached."
    cure = "Hide padded keys in every step: the mask of all tokens belongs to the cached keys and the new ones."
    told: dict[str, Any] = {"cause": cause, "cure": cure} if found.status is Status.FAILED else {}
    yield replace(found, check=f"padded{of}", sentence=sentence, **told)


def _is_passed(finding: Finding) -> bool:
    return finding.status is not Status.FAILED


def _can_be_told_positions(subject: Subject) -> bool:
    """Whether forward takes positions and the example leaves it to the model to count them."""
    positions = subject.streams[-1].positions
    return positions is not None and positions not in subject.given.inputs and subject.given.advance is None


def _is_mended(before: Finding, after: Finding) -> bool:
    return before.status is Status.FAILED and after.status is Status.PASSED


def _reads_ahead(subject: Subject) -> bool:
    """Whether a place reads later ones: it denies to be causal, or says nothing of it and is seen to read ahead."""
    if subject.streams[-1].causal is not None:
        return subject.streams[-1].causal is False
    base = subject.make()
    return measure(subject, change_after(subject, base, base.rows[-1].length // 2)).is_above_rounding


def _lengths(subject: Subject) -> tuple[int, ...]:
    """A last stream of up to _SHORT tokens: a window of the cache may fill, and go round, within them."""
    longer = subject.longer_lengths()
    return subject.lengths if longer is None else (*longer[:-1], min(longer[-1], _SHORT))


def _check_steps(subject: Subject, base: Question, name: str, *, step: int, first: int) -> Finding:
    label = f"steps of {step}"
    last, length = len(base.rows) - 1, base.rows[-1].length
    try:
        full, noise = subject.ask(base), subject.rounding_noise()  # before the first step: a module may keep the cache
        past = _find_cache(_run(subject, _part(subject, base, 0, first), name, None, 0), name)
    except Exception as error:
        return _unusable_cache(label, describe_error(error), Status.NOT_ASKED)
    if past is None:
        return _unusable_cache(label, f"it returned no {name}")
    for start in range(first, length, step):
        part = _part(subject, base, start, start + step)
        kept = copy.deepcopy(past)  # the step may write into it
        try:
            made = _run(subject, part, name, past, start)
            answers = [o for o in subject.outputs(made, part) if o.stream == last]
        except Exception as error:
            return _unusable_cache(label, describe_error(error), Status.FAILED if step == 1 else Status.NOT_ASKED)
        past = _find_cache(made, name)
        seen = view(base, places={last: torch.arange(start, start + step)})
        wanted = protected_parts(full, seen, last)
        gap = worst_gap(wanted, _match_names(wanted, answers), noise, subject)
        if gap.name == "nothing":
            return _unusable_cache(label, "with it, it returns nothing that can be compared")
        if gap.is_above_rounding:
            return gap.finding(
                NAME,
                label,
                Status.FAILED,
                f"With {start} tokens cached, the next {step} get something else than without a cache: {gap.words()}.",
                example={"cached": start, "step": step, "words": f"{start} tokens cached, then {step} at once"},
                culprit=_blame(subject, base, part, name, kept, start),
                cause=_CAUSE,
                cure=_CURE,
            )
    sentence = f"The last {length - first} tokens get the same with the rest cached ({gap.words()})."
    return gap.finding(NAME, label, Status.PASSED, sentence)


def _check_own_type(subject: Subject, base: Question, name: str, first: int) -> Iterator[Finding]:
    """A step in the model's own type: it may be off by what that type rounds, not by more."""
    last, part = len(base.rows) - 1, _part(subject, base, first, first + 1)
    seen = view(base, places={last: torch.arange(first, first + 1)})
    wanted = protected_parts(subject.ask(base), seen, last)
    try:
        whole = protected_parts(subject.ask(base, wide=False), seen, last)
        past = _find_cache(_run(subject, _part(subject, base, 0, first), name, None, 0, wide=False), name)
        kept = copy.deepcopy(past)
        made = _run(subject, part, name, past, first, wide=False)
    except Exception:  # it may run in the float64 copy only
        return
    answers = _match_names(wanted, [o for o in subject.outputs(made, part) if o.stream == last])
    off = max((largest(difference(wanted[n], answers[n].double())) for n in answers if n in wanted), default=0.0)
    usual = max(largest(difference(wanted[n], whole[n].double())) for n in wanted)
    rounding = FACTOR * max(usual, torch.finfo(subject.coarsest).eps * max(largest(v.abs()) for v in wanted.values()))
    if off > rounding:
        yield Finding(
            property=NAME,
            check="stored",
            status=Status.FAILED,
            sentence=f"With {first} tokens cached, the next is {off:.2g} off in the model's own type, and without a "
            f"cache {usual:.1g}.",
            size=off,
            rounding=rounding,
            example={"cached": first, "step": 1, "words": f"{first} tokens cached, then 1 at once"},
            culprit=_blame(subject, base, part, name, kept, first, wide=False),
            cause="keys and values that are kept in a coarser type than the model computes in.",
            cure="Keep them in the type of the model, or say that the cache is meant to be coarse.",
        )


def _match_names(wanted: dict[str, Tensor], answers: list[Output]) -> dict[str, Tensor]:
    """Answers by name; where a model returns its cache beside them, and they go by other names, by their order."""
    by_name = {o.name: o.values for o in answers}
    if wanted.keys() & by_name.keys():
        return by_name
    return dict(zip(wanted, by_name.values(), strict=False))


def _unusable_cache(label: str, why: str, status: Status = Status.NOT_APPLICABLE) -> Finding:
    said: dict[str, Any] = {"cause": _CAUSE, "cure": _CURE} if status is Status.FAILED else {}
    sentence = f"The cache could not be used: {why}."
    return Finding(property=NAME, check=label, status=status, sentence=sentence, **said)


def _part(subject: Subject, base: Question, start: int, end: int) -> Question:
    """Some tokens; beside padding, with the mask of all up to them, and told their positions."""
    rows, stream = base.rows[-1], subject.streams[-1]
    part = base.with_rows(len(base.rows) - 1, rows.cut(start, end))
    if bool(rows.keep.all()):
        return part
    dtype = torch.float64 if subject.wide else subject.dtype
    told: dict[str, Any] = {mask.name: mask.of(rows.keep[:, :end], dtype) for mask in stream.masks}
    if rows.positions is not None:
        told[str(stream.positions)] = rows.positions[:, start:end]
    return replace(part, others={**part.others, **told})


def _inputs(
    subject: Subject, part: Question, name: str, past: Any, start: int, *, wide: bool | None = None
) -> dict[str, Any]:
    module = subject.module
    arguments = {**subject.inputs(part, wide=wide), name: past}
    # A mask that the example carries is about the new tokens only; the past is all real, or the part says what is.
    for mask in subject.streams[-1].masks:
        arguments.pop(mask.name, None)
        arguments.update({mask.name: part.others[mask.name].clone()} if mask.name in part.others else {})
    positions = subject.streams[-1].positions
    if positions is not None and positions in part.others:  # a second try: told where the step stands
        size, told = part.rows[-1].length, part.others[positions]
        counted = torch.arange(start, start + size, device=subject.device).repeat(part.batch, 1)
        arguments[positions] = counted if told is None else told.clone()
    elif positions in subject.given.inputs:  # it wants them, and counts nothing by itself
        arguments[str(positions)] = arguments[str(positions)] + start
    if subject.given.advance is not None:  # the rest is its business
        return arguments
    arguments.update({flag: True for flag in _FLAGS if takes(module, flag)})
    if name == "cache_params" and past is not None and takes(module, "cache_position"):  # older recurrent models ask
        # As generate() counts: never below the width of the convolution, whose last slots are written so.
        first = max(start, int(getattr(getattr(original(module), "config", None), "conv_kernel", 0)))
        arguments["cache_position"] = torch.arange(first, first + part.rows[-1].length, device=subject.device)
    for offset in _OFFSETS:
        parameter = parameter_names(module).get(offset)
        if parameter is not None and (
            parameter.default is inspect.Parameter.empty or isinstance(parameter.default, int)
        ):
            arguments[offset] = start
    return arguments


def _run(subject: Subject, part: Question, name: str, past: Any, start: int, *, wide: bool | None = None) -> Any:
    module = subject.native if wide is False else subject.module
    with torch.no_grad(), subject.running(wide=wide):
        return _call(subject, start, name)(module, _inputs(subject, part, name, past, start, wide=wide))


def _call(subject: Subject, start: int, name: str) -> Callable[[nn.Module, dict[str, Any]], Any]:
    """How a step is run: by forward, or by the user's function, whose cache may be None where the module keeps it."""
    advance = subject.given.advance
    if advance is None:
        return call

    def run(module: nn.Module, inputs: dict[str, Any]) -> Any:
        past = inputs.pop(name)
        answer, past = advance(module, inputs, None if past is None else past[0], start)
        return {"answer": answer, name: (past,)}

    return run


def _find_cache(made: Any, name: str) -> Any:
    """The cache in an answer: by its name, or the second part of a pair."""
    if isinstance(made, Mapping) and made.get(name) is not None:
        return made[name]
    if getattr(made, name, None) is not None:
        return getattr(made, name)
    if isinstance(made, (tuple, list)) and len(made) > 1:
        return made[1]
    return None


def _blame(
    subject: Subject, base: Question, part: Question, name: str, past: Any, start: int, *, wide: bool | None = None
) -> Culprit | None:
    """Who parts, while the cache is filled or in the step, from what it does in the full run."""
    full_inputs = subject.inputs(base)
    unit, floor = (None, 1e-14) if wide is None else (subject.coarsest, torch.finfo(subject.coarsest).eps)
    others: dict[int, Any] = {r.length: None for r in base.rows[:-1]}
    last = len(base.rows) - 1
    runs = []
    # What the first tokens left behind comes first: a fault there is seen in the step only a layer later.
    for begin, asked, held in ((0, _part(subject, base, 0, start), None), (start, part, past)):
        size = asked.rows[-1].length
        seen = view(base, places={last: torch.arange(begin, begin + size)})
        full = record_calls(subject, full_inputs, seen)
        noise = [record_calls(subject, full_inputs, seen, jitter=j, unit=unit) for j in range(subject.jitters)]
        inputs = _inputs(subject, asked, name, held, begin, wide=wide)
        step_view = View(batch=asked.batch, places={**others, size: None})
        runs.append((full, record_calls(subject, inputs, step_view, wide=wide, run=_call(subject, begin, name)), noise))
    # A memory of the first tokens differs rightly from one of all: it speaks where nothing with places does.
    for loose in (False, True):
        for run in runs:
            if (found := first_to_differ(*run, subject, floor=floor, loose=loose)) is not None:
                return found
    # Asked again, with every submodule watched, the step may be right: what it hangs on is kept between calls.
    return culprit(original(subject.module), subject, doubt=", in something that it keeps between calls")
