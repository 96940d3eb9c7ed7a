"""Judging a part: the same reference and search for modules, direct comparison for norms, tables and losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.coursework.checker.comparison import EXACT, SINGLE, is_close
from regard.coursework.checker.diagnosis import Diagnosis, ReportedMistake, diagnose, report
from regard.coursework.checker.findings import Finding, find, unregistered_findings
from regard.coursework.checker.search import TRIES, find_match
from regard.mistakes.attention import softmax
from regard.mistakes.embedding import FORMULAS, sinusoids
from regard.mistakes.feed_forward import NORM_KINDS, NormChoice
from regard.mistakes.mistake import Mistake
from regard.tracing.parameter_roles import Roles, find_roles
from regard.tracing.recording import NOWHERE, ForwardPass, Recording

STAGES_OF = {
    "attention": (("attention",),),
    "multi-head attention": (("attention", "mixing"), ("attention", "mixing", "first sum and norm")),
    "layer": (("attention", "mixing", "first sum and norm", "feed-forward", "second sum and norm"),),
    "feed-forward": (("feed-forward",), ("feed-forward", "second sum and norm")),
}


def judge(
    recording: Recording, *, padding: str = "either", accepted: frozenset[str] = frozenset(), tries: int = TRIES
) -> Diagnosis:
    """The diagnosis of a recording of any kind."""
    if recording.kind == "translator":
        return diagnose(recording, padding=padding, accepted=accepted, tries=tries)
    if recording.kind == "positions":
        return _judge_positions(recording)
    if recording.kind == "norm":
        return _judge_norm(recording)
    if recording.kind == "loss":
        return _judge_loss(recording)
    return _judge_module(recording, accepted, tries)


def _judge_module(recording: Recording, accepted: frozenset[str], tries: int) -> Diagnosis:
    shapes = STAGES_OF[recording.kind]
    if recording.kind == "feed-forward":
        runs = tuple(_copy_x_to_y(run) for run in recording.runs)
        recording = dataclasses.replace(recording, runs=runs, fresh=tuple(_copy_x_to_y(run) for run in recording.fresh))
    best = diagnose(recording, stages=shapes[0], accepted=accepted, tries=tries)
    for stages in shapes[1:]:  # the same part with its sum and norm inside
        other = diagnose(recording, stages=stages, accepted=accepted, tries=tries) if not best.explained else best
        best = other if other.explained and not _is_trivial(other) else best
    if recording.masked is None or not best.explained:
        return best
    return _with_mask(recording, best, len(best.parts), tries)


def _is_trivial(diagnosis: Diagnosis) -> bool:
    """A sum that is not there explains nothing."""
    return any(one.name.endswith("-neither") for one in diagnosis.mistakes)


def _copy_x_to_y(run: ForwardPass) -> ForwardPass:
    return dataclasses.replace(run, inputs={**run.inputs, "y": run.inputs["x"]})


def _with_mask(recording: Recording, plain: Diagnosis, stages: int, tries: int) -> Diagnosis:
    """The same part with a mask: hidden keys in either polarity are right, anything else is a mistake of the mask."""
    if recording.masked is None:
        return plain
    pad = recording.masked.inputs["padding"]
    known = {one.name for one in plain.mistakes}
    readings = []
    for hidden in (pad, ~pad):
        run = dataclasses.replace(recording.masked, inputs={**recording.masked.inputs, "padding": hidden})
        alone = dataclasses.replace(recording, runs=(run,), fresh=(), slopes=())
        match = find_match(find_roles(alone, whole=False), alone, tuple(plain.parts)[:stages], tries=tries // 4)
        mask = match.mistake_at("mask")
        extra = [one for one in match.mistakes if one.cost and one.name not in known]
        readings.append((not match.complete, len(extra) + (not mask), extra, mask, match))
    incomplete, _, extra, mask, match = min(readings, key=lambda one: one[:2])
    if incomplete:
        return dataclasses.replace(plain, notes=(*plain.notes, "with a mask, nothing we know explains the result"))
    named = [report(Finding(mistake=one), match.roles) for one in extra]
    if not mask and not any(one.name == "mask-thrown-away" for one in plain.mistakes):
        named.append(report(find("mask-without-effect"), match.roles))
    parts = {**plain.parts, **({"attention": "mistake"} if named else {})}
    return dataclasses.replace(plain, mistakes=plain.mistakes + tuple(named), parts=parts)


# a norm


def _judge_norm(recording: Recording) -> Diagnosis:
    roles = find_roles(recording, whole=False)
    run = recording.runs[0]
    for tolerance in (EXACT, SINGLE):
        for choice in _norm_choices(roles):
            made = [choice(one.inputs["x"]) for one in recording.runs]
            if all(is_close(value, one.output, tolerance) for value, one in zip(made, recording.runs, strict=True)):
                said = [Finding(mistake=one) for one in choice.mistakes("norm", 1)]
                if choice.norm is not None and choice.norm.gain is not None and choice.norm.gain.size == 1:
                    said.append(find("norm-one-gain", roles.places.get("norm 1", NOWHERE)))
                return _make_diagnosis(recording, "norm", tuple(report(one, roles) for one in said), explained=True)
    off = float(np.abs(_right_norm(roles, run) - run.output).max()) if run.output is not None else None
    return _make_diagnosis(recording, "norm", (), explained=False, difference=off)


def _norm_choices(roles: Roles) -> Iterator[NormChoice]:
    for norm in (*roles.norms, None):
        for kind in NORM_KINDS:
            for eps in roles.eps if norm is None or norm.eps is None else (norm.eps,):
                yield NormChoice(norm=norm, eps=eps, kind=kind)


def _right_norm(roles: Roles, run: ForwardPass) -> Array:
    norm = roles.norms[0] if roles.norms else None
    return np.asarray(NormChoice(norm=norm, eps=roles.eps[0])(run.inputs["x"]))


# a table of positions


def _judge_positions(recording: Recording) -> Diagnosis:
    """Entry by entry against the formula, as a table or as what a module adds to its input."""
    runs = [run for run in recording.runs if run.output is not None]
    if not runs:
        return _make_diagnosis(recording, "positions", (), explained=False)
    time_first = all(_is_time_first(run) for run in runs)
    added = [_added_rows(_swap_axes(run) if time_first else run) for run in runs]
    table = added[0]
    hanging = tuple(report(one, Roles()) for one in unregistered_findings(recording))
    turned = ("the first axis is taken for time, so the states must be (T, N, width)",) if time_first else ()
    for tolerance in (EXACT, SINGLE):
        for one in FORMULAS:
            if all(is_close(one.function(*rows.shape), rows, tolerance) for rows in added):
                named = () if one.cost == 0 else (report(Finding(mistake=one), Roles()),)
                notes = turned if one.cost else (one.said, *turned)
                return _make_diagnosis(recording, "positions", named + hanging, explained=True, notes=notes)
    later = [sinusoids(len(rows) + 1, rows.shape[1])[1:] for rows in added]
    if all(is_close(right, rows, SINGLE) for right, rows in zip(later, added, strict=True)):
        notes = ("sinusoidal positions, counted from 1", *turned)
        return _make_diagnosis(recording, "positions", hanging, explained=True, notes=notes)
    if recording.parameters:
        notes = ("the positions are learned", *turned)
        return _make_diagnosis(recording, "positions", hanging, explained=True, notes=notes)
    right = sinusoids(*table.shape)
    where = np.unravel_index(np.abs(right - table).argmax(), table.shape)
    note = f"at position {where[0]}, column {where[1]} the table has {table[where]:.6g}, the formula {right[where]:.6g}"
    return _make_diagnosis(
        recording, "positions", (), explained=False, notes=(note,), difference=float(np.abs(right - table).max())
    )


def _is_time_first(run: ForwardPass) -> bool:
    """Whether what is added differs along the first axis and not along the second: torch's older order of axes."""
    if "x" not in run.inputs or min(run.inputs["x"].shape[:2]) < 2:  # along an axis of length 1 nothing can differ
        return False
    rest = np.asarray(run.output) - run.inputs["x"]
    return bool(np.abs(rest - rest[:, :1]).max() < 1e-6 < np.abs(rest - rest[:1]).max())


def _swap_axes(run: ForwardPass) -> ForwardPass:
    x, out = run.inputs["x"], np.asarray(run.output)
    return dataclasses.replace(run, inputs={"x": x.swapaxes(0, 1)}, output=out.swapaxes(0, 1))


def _added_rows(run: ForwardPass) -> Array:
    """The rows that were added: (T, width)."""
    out = np.asarray(run.output)
    if "x" not in run.inputs:
        return np.asarray(out[0])
    x = run.inputs["x"]
    width = x.shape[-1]
    for scale in (1.0, np.sqrt(width)):  # some modules multiply the states by sqrt(width) before they add positions
        rest = out - scale * x
        if np.abs(rest - rest[:1]).max() < 1e-6 and np.abs(rest).max() < 3:
            return np.asarray(rest[0])
    return np.asarray(out[0])


# a loss


def _judge_loss(recording: Recording) -> Diagnosis:
    """The gradient of a cross-entropy is w (softmax - onehot): target, weight and mask can be read off it."""
    run = recording.runs[0]
    for name, said, value, slope in _losses(run, recording.pad or 0):
        if is_close(np.asarray(value), run.inputs["value"], SINGLE / 20) and is_close(slope, run.output, SINGLE / 20):
            named = () if not said else (_loss_mistake(name, said),)
            return _make_diagnosis(recording, "loss", named, explained=True, notes=(name,) if not said else ())
    return _make_diagnosis(recording, "loss", (), explained=False)


def _loss_mistake(name: str, said: str) -> ReportedMistake:
    instead = "the mean over real tokens of -log softmax(scores)[target]: F.cross_entropy(..., ignore_index=pad)"
    return report(Finding(mistake=Mistake(name=name, stage="loss", said=said, instead=instead)), Roles())


def _losses(run: ForwardPass, pad: int) -> Iterator[tuple[str, str, float, Array]]:
    scores, targets = run.inputs["scores"], run.inputs["targets"]
    real = targets != pad
    every = np.ones_like(real)
    places, of_sentence = np.arange(targets.shape[1]), np.maximum(real.sum(axis=1, keepdims=True), 1)
    counted: list[tuple[str, str, Array, float | None]] = [
        ("padding left out of the mean", "", real, None),  # no sentence: this one is right
        ("padding-scored", "padding scored like words", every, None),
        ("sum-for-mean", "a sum where the mean belongs", real, 1.0),
        ("sum-for-mean-padding", "a sum over all places, padding included", every, 1.0),
        ("mean-over-padding", "padding left out of the sum but counted in the mean", real, 1.0 / every.size),
        ("mean-over-sentences", "a sum over places and a mean over sentences", real, 1.0 / len(targets)),
        ("mean-of-sentence-means",
         "the mean of each sentence, then the mean of those: a word of a short sentence counts more",
         real / of_sentence / len(targets), 1.0),
        ("first-token-dropped", "the first target left out", real & (places > 0), None),
        ("last-token-dropped", "the last place left out", real & (places < len(places) - 1), None),
    ]  # fmt: skip
    for name, said, kept, weight in counted:
        yield name, said, *_cross_entropy(scores, targets, kept, weight)
    ours = _cross_entropy(scores, targets, real, None)
    yield "wrong-sign", "the wrong sign: the log-likelihood goes up when it is minimised", -ours[0], -ours[1]
    for kept, word in ((real, ""), (every, ", padding scored")):
        yield (
            "softmax-first",
            f"a softmax before a cross-entropy that has its own{word}",
            *_softmax_first(scores, targets, kept),
        )
    for smoothing in (0.1, 0.2, 0.05):
        yield "smoothing", f"label smoothing of {smoothing}", *_cross_entropy(scores, targets, real, None, smoothing)
    for step, word in ((1, "next"), (-1, "previous")):
        moved = np.roll(targets, -step, axis=1)
        for kept in (moved != pad, real, every):
            yield (
                f"targets-{word}",
                f"each place compared with the {word} target",
                *_cross_entropy(scores, moved, kept, None),
            )


def _cross_entropy(
    scores: Array, targets: Array, kept: Array, weight: float | None, smoothing: float = 0.0
) -> tuple[float, Array]:
    """Value and gradient of w * sum over kept places of -log softmax(scores)[target]."""
    words = scores.shape[-1]
    wanted = np.eye(words)[targets] * (1 - smoothing) + smoothing / words
    w = kept[..., None] * (1.0 / kept.sum() if weight is None else weight)
    return float(-(w * wanted * np.log(softmax(scores))).sum()), w * (softmax(scores) - wanted)


def _softmax_first(scores: Array, targets: Array, kept: Array) -> tuple[float, Array]:
    p = softmax(scores)
    value, slope = _cross_entropy(p, targets, kept, None)
    return value, p * (slope - (slope * p).sum(axis=-1, keepdims=True))


def _make_diagnosis(
    recording: Recording, stage: str, mistakes: tuple[ReportedMistake, ...], *, explained: bool, **more: Any
) -> Diagnosis:
    verdict = "mistake" if mistakes else "right" if explained else "differs"
    return Diagnosis(
        name=recording.name,
        parts={stage: verdict},
        explained=explained,
        mistakes=mistakes,
        raised=recording.runs[0].raised,
        **more,
    )
