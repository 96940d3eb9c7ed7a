"""Padding: what real tokens get depends neither on what stands in the padding nor on how much of it there is.

On the right, positions stay what they are. On the left they shift, unless the model is told the positions or counts
real tokens only: where ``position_ids`` are taken they are given, and where not a model with absolute positions
gets a note instead of a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from regard_models.auditing.experiment import Experiment, Gap, measure, protected_parts, view, worst_gap
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.question import Question, Rows
from regard_models.auditing.subject import PAD, Subject
from regard_models.auditing.trace import blame, culprit
from regard_models.inputs.model_input import call

NAME = "padding"
_CAUSE = "a mask that is not passed on, has the wrong polarity, masks queries instead of keys, or is applied after the "
_CAUSE += "softmax; a mean, a norm or a convolution that counts padded places."
_CURE = "Give every part that mixes places the mask, and hide keys by minus infinity before the softmax."


def check(subject: Subject) -> Iterator[Finding]:
    """Both sides, content and amount, for every stream that can be padded."""
    asked = False
    for i, stream in enumerate(subject.streams):
        if not (stream.masks or stream.padded_by_id):
            continue
        real = real_length(subject, i)
        if real < 2:
            continue
        asked = True
        for side in ("right", "left"):
            yield from _check_side(subject, i, side, real)
        if stream.masks and any(isinstance(m, nn.TransformerEncoderLayer) for m in subject.module.modules()):
            yield _check_fused_path(subject, i, real)
    if not asked:
        sentence = "No input is known to be a mask of padding; say which one with --mask NAME=keep or NAME=hide."
        yield Finding(property=NAME, check="mask", status=Status.NOT_APPLICABLE, sentence=sentence)


def real_length(subject: Subject, i: int) -> int:
    """How many real tokens leave room for the padding."""
    longest = subject.streams[i].longest
    length = subject.lengths[i]
    return length if longest is None else min(length, longest - PAD)


def _check_side(subject: Subject, i: int, side: str, real: int) -> Iterator[Finding]:
    suffix = f" of {subject.streams[i].name}" if len(subject.streams) > 1 else ""
    if subject.streams[i].masks:
        # of long texts the amount speaks
        make = partial(_content_experiment, subject, i, side, _short_length(subject, i))
        experiment = make()
        gap, name = measure(subject, experiment), f"content on the {side}{suffix}"
        yield _finding(subject, name, experiment, gap, "with other tokens in the padding", make)
    yield _check_amount(subject, i, side, real, f"amount on the {side}{suffix}")


def _content_experiment(subject: Subject, i: int, side: str, real: int) -> Experiment:
    """The same tokens beside other padding."""
    pair = [padded_question(subject, i, side, real, fill=fill, told=side == "left") for fill in (0, 1)]
    views = [view(q, places={i: _places(side, real)}) for q in pair]
    stream = _compared_stream(subject, side)
    return Experiment(base=pair[0], base_view=views[0], other=pair[1], other_view=views[1], stream=stream)


def _short_length(subject: Subject, i: int) -> int:
    """How many real tokens a short question has."""
    return min(real_length(subject, i), subject.short_lengths()[i])


def _check_fused_path(subject: Subject, i: int, real: int) -> Finding:
    """torch.nn's encoder has a fused path for inference, whose masks are read otherwise than in training."""
    question = padded_question(subject, i, "right", real, fill=0, told=False)
    seen = view(question, places={i: _places("right", real)})
    base = protected_parts(subject.ask(question), seen)
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), subject.running():
            made = call(subject.module, subject.inputs(question))
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    gap = worst_gap(base, protected_parts(subject.outputs(made, question), seen), subject.rounding_noise(), subject)
    if not gap.is_above_rounding:
        sentence = f"Real tokens get the same from torch's fused path and without it ({gap.words()})."
        return gap.finding(NAME, "fused path", Status.PASSED, sentence)
    layer = next(m for m in subject.module.modules() if isinstance(m, nn.TransformerEncoderLayer))
    return gap.finding(
        NAME,
        "fused path",
        Status.FAILED,
        f"Beside padding, torch's fused path for inference and the path of training differ: {gap.words()}.",
        culprit=culprit(layer, subject, doubt=", or the mask that it is given"),
        cause="a mask of numbers: training adds it to the scores, where the fused path hides what is not 0.",
        cure="Hand over a mask of True and False, True where a key is to be hidden.",
    )


def _check_amount(subject: Subject, i: int, side: str, real: int, name: str) -> Finding:
    """Compare with the same tokens without padding; on the left, told the positions and not."""
    tells = subject.streams[i].positions is not None and side == "left"
    tried: list[tuple[Gap, Experiment, bool]] = []
    for told in (True, False) if tells else (False,):
        experiment = _amount_experiment(subject, i, side, real, told=told)
        gap = measure(subject, experiment)
        tried.append((gap, experiment, told))
        if not gap.is_above_rounding:
            break
    # one way that works is enough: some models count places by the mask themselves
    gap, experiment, told = min(tried, key=lambda one: one[0].excess)
    if gap.is_above_rounding and side == "left" and not tells:
        sentence = f"{PAD} tokens of padding on the left change what real tokens get ({gap.words()}): it takes no "
        sentence += "position_ids, so its positions shift. Pad on the right."
        return gap.finding(NAME, name, Status.NOTE, sentence)
    brief = partial(_amount_experiment, subject, i, side, _short_length(subject, i), told=told)
    return _finding(subject, name, experiment, gap, f"with {PAD} tokens of padding more", brief)


def _amount_experiment(subject: Subject, i: int, side: str, real: int, *, told: bool) -> Experiment:
    long = padded_question(subject, i, side, real, fill=0, told=told)
    short = padded_question(subject, i, side, real, fill=0, told=told, amount=0)
    rows = None
    if subject.is_long:  # one example says it as well as two
        short, rows = subject.first_of(short), [0]
    return Experiment(
        base=short,
        base_view=view(short),
        other=long,
        other_view=view(long, rows=rows, places={i: _places(side, real)}),
        stream=_compared_stream(subject, side),
    )


def _compared_stream(subject: Subject, side: str) -> int | None:
    """Which outputs count: on the left those that follow the last stream, for pooled ones may read a fixed place."""
    return len(subject.streams) - 1 if side == "left" else None


def padded_question(
    subject: Subject, i: int, side: str, real: int, *, fill: int, told: bool, amount: int = PAD
) -> Question:
    """A question whose stream ``i`` has ``real`` real tokens and ``amount`` padded ones on a side."""
    key = (i, side, real, fill, told and subject.streams[i].positions is not None, amount)
    if key not in subject.padded_questions:
        subject.padded_questions[key] = _build_padded_question(
            subject, i, side, real, fill=fill, told=told, amount=amount
        )
    return subject.padded_questions[key]


def _build_padded_question(
    subject: Subject, i: int, side: str, real: int, *, fill: int, told: bool, amount: int
) -> Question:
    lengths = tuple(real + amount if j == i else n for j, n in enumerate(subject.lengths))
    question = subject.make(lengths=lengths)
    stream, batch = subject.streams[i], question.batch
    generator = torch.Generator().manual_seed(7)
    tokens = subject.tokens(stream, batch, real, generator)
    filling = _filling(subject, i, batch, amount, fill)
    keep = torch.ones(batch, real + amount, dtype=torch.bool, device=tokens.device)
    if side == "right":
        values, keep[:, real:] = torch.cat([tokens, filling], 1), False
    else:
        values, keep[:, :amount] = torch.cat([filling, tokens], 1), False
    # real tokens are counted from 0, whatever stands before them
    positions = (keep.long().cumsum(1) - 1).clamp(min=0) if told and stream.positions is not None else None
    if not stream.masks:
        keep = torch.ones_like(keep)  # known by the id of padding
    rest = tuple(
        replace(r, values=subject.tokens(s, batch, r.length, torch.Generator().manual_seed(8)))
        for s, r in zip(subject.streams, question.rows, strict=True)
    )
    shift = amount if side == "left" else 0  # what goes with a real token stays with it
    extras = {name: value.roll(shift, 1) for name, value in question.rows[i].extras.items()}
    rows = Rows(values=values, keep=keep, positions=positions, extras=extras)
    return replace(question, rows=rest).with_rows(i, rows)


def _filling(subject: Subject, i: int, batch: int, amount: int, fill: int) -> Tensor:
    stream = subject.streams[i]
    generator = torch.Generator().manual_seed(11 + fill)
    drawn = subject.tokens(stream, batch, max(amount, 1), generator, blank=False)[:, :amount]
    # where there is no mask, only the id of padding says what is padding
    if stream.vocabulary is not None and stream.pad is not None and (fill == 0 or not stream.masks):
        return torch.full_like(drawn, stream.pad)
    return drawn


def _places(side: str, real: int) -> Tensor:
    return torch.arange(real) if side == "right" else torch.arange(PAD, PAD + real)


def _finding(
    subject: Subject, name: str, experiment: Experiment, gap: Gap, what: str, brief: Callable[[], Experiment]
) -> Finding:
    if gap.name == "nothing":
        sentence = "No output follows the padded tokens, so there is nothing to compare."
        return Finding(property=NAME, check=name, status=Status.NOT_APPLICABLE, sentence=sentence)
    if not gap.is_above_rounding:
        return gap.finding(NAME, name, Status.PASSED, f"Real tokens get the same {what} ({gap.words()}).")
    guilty = blame(subject, experiment, brief)
    if "content on the left" in name and guilty is not None and re.search("pos", guilty.module, re.IGNORECASE):
        sentence = f"Other tokens in the padding on the left change what real tokens get ({gap.words()}): "
        sentence += f"{guilty.module} counts places by the id of padding, not by the mask. Fill padding with that id."
        return gap.finding(NAME, name, Status.NOTE, sentence, culprit=guilty)
    place = gap.where[1] if len(gap.where) > 1 else None
    follows = any(o.stream is not None for o in subject.ask(experiment.base) if o.name == gap.name)
    where = f"example {gap.where[0]}" + (f", real token {place}" if follows and place is not None else "")
    return gap.finding(
        NAME,
        name,
        Status.FAILED,
        f"Real tokens get something else {what}: {gap.words()}, at {where}.",
        example={"output": gap.name, "index": list(gap.where), "words": f"{where}, {PAD} tokens of padding"},
        culprit=guilty,
        cause=_CAUSE,
        cure=_CURE,
    )
