"""Batch: what an example gets does not depend on its neighbours.

The first and the last example of a batch are protected in turn (a mixture of experts with a capacity serves the first
ones first) while their neighbours get other tokens and, where there is a mask, other lengths. Then the first is
asked alone, with padding too, and all of them in another order (a table of positions cut by the number of examples
shows there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard_models.auditing.experiment import Experiment, Gap, measure, view
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.padding import padded_question, real_length
from regard_models.auditing.question import Question, rows_of
from regard_models.auditing.subject import BATCH, PAD, Subject
from regard_models.auditing.trace import blame

NAME = "batch"
Make = Callable[[Subject, Question], Experiment]
_CAUSE = "an operation over the batch axis: a softmax or a norm over axis 0, a view that mixes batch and length, "
_CAUSE += "BatchNorm in train(), a capacity that examples share, a mask made of one example for all."
_CURE = "Name the axis that is meant, and reshape by (batch, length, heads, width) before it is transposed."


def check(subject: Subject) -> Iterator[Finding]:
    """Protect the first example, then the last; then ask the first alone, and all in another order."""
    base = subject.make(BATCH)  # of long texts too: some examples meet in threes only
    # Signals of two axes may be length x width as well as batch x length.
    if not base.rows and all(v.ndim < 3 for v in base.others.values() if isinstance(v, Tensor)):
        sentence = "No axis of its inputs is known to be the batch; give an example of batch x length x width."
        yield Finding(property=NAME, check="first example", status=Status.NOT_APPLICABLE, sentence=sentence)
        return
    brief, last = subject.make(lengths=subject.short_lengths()), base.batch - 1
    exchanged = "with its neighbours exchanged"
    tests: list[tuple[str, Make, Question, str]] = [
        ("first example", partial(exchange_neighbours, kept=0), base, f"Example 0, {exchanged}"),
        ("last example", partial(exchange_neighbours, kept=last), base, f"Example {last}, {exchanged}"),
        ("alone", _ask_first_alone, base, "Example 0, asked alone"),
        ("order", _rotate_examples, brief, "Each example, asked in another order"),
    ]
    if any(stream.masks for stream in subject.streams):
        tests.append(("short example", _shorten_neighbours, brief, "Example 0, short, beside shorter ones"))
        if _padded_stream(subject) is not None:
            tests.append(("padded, alone", _ask_padded_alone, base, "Example 0, padded on the left, asked alone"))
    for name, make, question, what in tests:
        yield _finding(subject, name, make(subject, question), what, partial(make, subject, brief))


def exchange_neighbours(subject: Subject, base: Question, *, kept: int) -> Experiment:
    """One example stays, its neighbours are others."""
    other = _other_neighbours(subject, base, kept)
    return Experiment(base=base, base_view=view(base, rows=[kept]), other=other, other_view=view(other, rows=[kept]))


def _ask_first_alone(subject: Subject, base: Question) -> Experiment:
    alone = subject.first_of(base)
    return Experiment(base=base, base_view=view(base, rows=[0]), other=alone, other_view=view(alone))


def _padded_stream(subject: Subject) -> int | None:
    """The last stream with a mask and room for padding."""
    fitting = [i for i, s in enumerate(subject.streams) if s.masks and real_length(subject, i) >= 2]
    return fitting[-1] if fitting else None


def _ask_padded_alone(subject: Subject, base: Question) -> Experiment:
    """Some models take padding out only where a batch has several rows."""
    stream = _padded_stream(subject) or 0
    real = min(real_length(subject, stream), base.rows[stream].length)
    question = padded_question(subject, stream, "left", real, fill=1, told=True)
    alone, places = subject.first_of(question), {stream: torch.arange(PAD, PAD + real)}
    seen = view(question, rows=[0], places=places), view(alone, places=places)
    return Experiment(base=question, base_view=seen[0], other=alone, other_view=seen[1])


def _rotate_examples(subject: Subject, base: Question) -> Experiment:
    """Nobody stays where it was, nor comes where an even place was even again."""
    order = [*range(1, base.batch), 0]
    turned = rows_of(base, order)
    return Experiment(base=base, base_view=view(base, rows=order), other=turned, other_view=view(turned))


def _other_neighbours(subject: Subject, base: Question, kept: int) -> Question:
    other = subject.make(base.batch, lengths=tuple(r.length for r in base.rows), draw=1)
    if not base.rows:
        return exchange_signals(base, kept)
    for i, (mine, theirs) in enumerate(zip(base.rows, other.rows, strict=True)):
        values, keep = theirs.values.clone(), mine.keep.clone()
        values[kept] = mine.values[kept]
        stream, shorter = subject.streams[i], max(2, mine.length - 3)  # a neighbour of another length, as batches have
        neighbours = [e for e in range(base.batch) if e != kept]
        if stream.masks:
            keep[neighbours[0], shorter:] = False
        elif stream.padded_by_id and stream.pad is not None:
            values[neighbours[0], shorter:] = stream.pad
        other = other.with_rows(i, replace(theirs, values=values, keep=keep))
    return replace(other, others=base.others)


def _shorten_neighbours(subject: Subject, base: Question) -> Experiment:
    """The first example with its last tokens padded, beside whole ones and beside ones that are cut like it."""
    one, all_cut, places = base, base, {}
    for i, (stream, rows) in enumerate(zip(subject.streams, base.rows, strict=True)):
        if stream.masks:
            short = max(2, rows.length - 3)
            first, every = rows.keep.clone(), rows.keep.clone()
            first[0, short:], every[:, short:] = False, False
            one, all_cut = one.with_rows(i, replace(rows, keep=first)), all_cut.with_rows(i, replace(rows, keep=every))
            places[i] = torch.arange(short)
    views = [view(question, rows=[0], places=places) for question in (one, all_cut)]
    return Experiment(base=one, base_view=views[0], other=all_cut, other_view=views[1])


def exchange_signals(base: Question, kept: int | None) -> Question:
    """Other signals for all examples but one."""
    generator = torch.Generator().manual_seed(1)
    changed: dict[str, Any] = {}
    for name, value in base.others.items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1:
            drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            if kept is not None:
                drawn[kept] = value[kept]
            changed[name] = drawn
        else:
            changed[name] = value
    return Question(rows=(), others=changed)


def _finding(
    subject: Subject, name: str, experiment: Experiment, what: str, brief: Callable[[], Experiment]
) -> Finding:
    gap = measure(subject, experiment)
    if gap.name == "nothing":
        sentence = f"{what}, gets an answer of another shape, so there is nothing to compare."
        return Finding(property=NAME, check=name, status=Status.NOT_APPLICABLE, sentence=sentence)
    if not gap.is_above_rounding:
        return gap.finding(NAME, name, Status.PASSED, f"{what}, gets the same ({gap.words()}).")
    return gap.finding(
        NAME,
        name,
        Status.FAILED,
        f"{what}, gets something else: {gap.words()}.",
        example=_example(subject, experiment, gap),
        culprit=blame(subject, experiment, brief),
        cause=_CAUSE,
        cure=_CURE,
    )


def _example(subject: Subject, experiment: Experiment, gap: Gap) -> dict[str, Any]:
    """The shortest rows at which the neighbours still matter."""
    kept = experiment.base_view.rows
    if not experiment.base.rows or experiment.other.batch == 1 or kept is None or len(kept) > 1:
        return {"output": gap.name, "index": list(gap.where), "words": f"{gap.name} at {list(gap.where)}"}
    for length in (1, 2, 3, 5):  # few: each asks the model again
        short = _shorten(subject, experiment, length)
        if short is not None and measure(subject, short).is_above_rounding:
            break
    else:
        length, short = experiment.base.rows[-1].length, experiment
    example = int(kept[0])
    tokens = [r.values[example].tolist() for r in short.base.rows if not r.values.is_floating_point()]
    words = f"{short.base.batch} examples of {length} token{'s' * (length != 1)}"
    words += f", example {example} being {tokens[-1]}" if tokens else ""
    return {"length": length, "protected": example, "tokens": tokens, "words": words}


def _shorten(subject: Subject, experiment: Experiment, length: int) -> Experiment | None:
    if any(r.length <= length for r in experiment.base.rows) or subject.given.inputs.keys() - {
        n for s in subject.streams for n in (s.name, *s.also, *s.extras)
    }:
        return None

    def cut(question: Question) -> Question:
        rows = tuple(r.cut(0, length) for r in question.rows)
        return Question(rows=rows, others=question.others)

    base, other = cut(experiment.base), cut(experiment.other)
    if not bool(other.rows[0].keep.any(1).all()):  # what a neighbour of padding only does is asked elsewhere (weights)
        return None
    kept = experiment.base_view.rows
    rows = None if kept is None else kept.tolist()
    try:
        subject.ask(base)
    except Exception:  # too short for it
        return None
    return Experiment(base=base, base_view=view(base, rows=rows), other=other, other_view=view(other, rows=rows))
