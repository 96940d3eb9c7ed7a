"""Determinism: in eval() the same question gets the same answer, bit for bit, and nothing is remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from regard.torch_arithmetic import FACTOR
from regard_models.auditing.experiment import difference, largest, view
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.question import Question
from regard_models.auditing.subject import BATCH, Subject
from regard_models.auditing.trace import culprit, first_to_differ, record_calls
from regard_models.inputs.model_input import call, original

NAME = "determinism"
_CAUSE = "dropout that stays on in eval() (functional.dropout without training=self.training), noise added in forward, "
_CAUSE += "or state that a call leaves behind."
_CURE = "Use nn.Dropout, draw noise only if self.training, and keep nothing between calls."


def check(subject: Subject) -> Iterator[Finding]:
    """Ask twice; then ask something else and the same a third time."""
    base = subject.make(lengths=subject.short_lengths())
    first = _answers(subject, base)
    inputs = subject.inputs(base, wide=False)
    apart = _largest_gap(first, _answers(subject, base, inputs))
    if apart:
        yield _failing_finding(
            subject, base, "twice", apart, "The same question, asked twice in eval(), gets two answers", []
        )
        return
    yield _passing_finding("twice", "The same question, asked twice, gets the same answer, bit for bit.")
    others = _other_questions(subject)
    hidden = subject.inputs(others[0], wide=False)
    after_base = [_answers(subject, others[0], hidden)]
    for question, given in ((base, inputs), (others[0], hidden)):
        if written := _written_input(subject, question, given):
            yield _inputs_finding(subject, question, written)
            break
    with contextlib.suppress(Exception):  # it may have room for fewer examples
        after_base += [_answers(subject, other) for other in others[1:]]
    apart = _largest_gap(first, _answers(subject, base))
    words = "The same question gets another answer after a question in between"
    if not apart:
        subject.renew()
        apart = _largest_gap(_answers(subject, others[0]), after_base[0])
        # the renewed copy was asked nothing yet: what a model stores at its first call shows against it
        words = "A question gets another answer after one of the same size than as the first"
    if not apart and (apart := _gap_after_longer(subject, base, first)):
        others, words = _longer_questions(subject), "The same question gets another answer after a longer one"
    if apart:
        yield _failing_finding(subject, base, "memory", apart, words, others)
    else:
        yield _passing_finding("memory", "A question in between changes nothing.")


def _written_input(subject: Subject, question: Question, given: dict[str, Any]) -> str | None:
    """The first input that is not what it was before it was given."""
    fresh = subject.inputs(question, wide=False)
    tensors = [name for name, value in fresh.items() if isinstance(value, torch.Tensor)]
    return next((name for name in tensors if not torch.equal(fresh[name], given[name])), None)


def _inputs_finding(subject: Subject, question: Question, written: str) -> Finding:
    return Finding(
        property=NAME,
        check="inputs",
        status=Status.FAILED,
        sentence=f"It writes into its input {written}: the caller's tensor is changed.",
        culprit=_first_to_write(subject, question, written),
        cause="an operation in place (x += y, masked_fill_) on a tensor that belongs to the caller.",
        cure="Make a new tensor: x = x + y, masked_fill.",
    )


def _first_to_write(subject: Subject, question: Question, written: str) -> Culprit:
    """The first submodule to end that was called before the input was changed, and ended after."""
    inputs, guilty, fresh = subject.inputs(question, wide=False), list[nn.Module](), set[int]()
    version = inputs[written]._version

    def begin(module: nn.Module, args: Any) -> None:
        (fresh.add if inputs[written]._version == version else fresh.discard)(id(module))

    def end(module: nn.Module, args: Any, output: Any) -> None:
        if inputs[written]._version != version and id(module) in fresh & subject.names.keys():
            guilty.append(module)

    handles = register_module_forward_pre_hook(begin), register_module_forward_hook(end)
    try:
        _answers(subject, question, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return culprit(guilty[0] if guilty else original(subject.native), subject)


def _other_questions(subject: Subject) -> list[Question]:
    """Other questions, several: what a model keeps may be the largest that it saw. The first hides its last tokens."""
    questions = [subject.make(n, lengths=subject.short_lengths(), draw=4 + n) for n in (BATCH, 5 * BATCH)]
    for i, (stream, rows) in enumerate(zip(subject.streams, questions[0].rows, strict=True)):
        if stream.masks:
            keep = rows.keep.clone()
            keep[:, -2:] = False
            questions[0] = questions[0].with_rows(i, replace(rows, keep=keep))
    return questions


def _longer_questions(subject: Subject) -> list[Question]:
    """A longer text, where there is room: what a model grows for it (a table, a base) must not reach shorter ones."""
    lengths = subject.longer_lengths()
    return [] if lengths is None else [subject.make(1, lengths=lengths)]


def _gap_after_longer(subject: Subject, base: Question, first: dict[str, torch.Tensor]) -> float:
    """How far an answer moves after a longer question; 0 for rounding, as a table that is made anew may round anew."""
    try:
        for longer in _longer_questions(subject):
            _answers(subject, longer)
    except Exception:  # too long for it
        subject.renew()
        return 0.0
    apart = _largest_gap(first, _answers(subject, base))
    scale = max(largest(values.abs()) for values in first.values())
    return apart if apart > FACTOR * torch.finfo(subject.coarsest).eps * scale else 0.0


def _answers(subject: Subject, question: Question, inputs: dict[str, Any] | None = None) -> dict[str, torch.Tensor]:
    """Asked anew each time, in the model's own type."""
    with torch.no_grad(), subject.running(wide=False):
        made = call(subject.native, inputs or subject.inputs(question, wide=False))
    return {o.name: o.values.clone() for o in subject.outputs(made, question)}


def _largest_gap(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    gaps = [float(difference(a[n], b[n]).nan_to_num(nan=torch.inf).max()) for n in a if a[n].numel()]
    return max(gaps, default=0.0)


def _passing_finding(check: str, sentence: str) -> Finding:
    return Finding(property=NAME, check=check, status=Status.PASSED, sentence=sentence, size=0.0, rounding=0.0)


def _failing_finding(
    subject: Subject, base: Question, check: str, apart: float, words: str, others: list[Question]
) -> Finding:
    where = _trace_difference(subject, base, others)
    if where is None and others:
        where = _trace_difference(subject, others[0], [base], after=True)
    return Finding(
        property=NAME,
        check=check,
        status=Status.FAILED,
        sentence=f"{words}, {apart:.2g} apart.",
        size=apart,
        rounding=0.0,
        culprit=where,
        cause=_CAUSE,
        cure=_CURE,
    )


def _trace_difference(
    subject: Subject, asked: Question, others: list[Question], *, after: bool = False
) -> Culprit | None:
    """Who first answers otherwise with other questions in between; ``after``: than a copy that was asked nothing."""
    seen, inputs = view(asked), subject.inputs(asked, wide=False)
    subject.renew()
    first = record_calls(subject, inputs, seen, wide=False)
    if after:
        subject.renew()
    for other in others:
        record_calls(subject, subject.inputs(other, wide=False), view(other), wide=False)
    again = record_calls(subject, inputs, seen, wide=False)
    return first_to_differ(again, first, [], subject, promote=False)  # named by the copy that is there now
