"""Determinism: in eval() the same question gets the same answer, bit for bit, and nothing is remembered."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.models.auditing.experiment import difference, view
from regard.models.auditing.finding import Culprit, Finding, Status
from regard.models.auditing.subject import Question, Subject
from regard.models.auditing.trace import first_to_part, recorded
from regard.models.given import call

NAME = "determinism"
_CAUSE = "dropout that stays on in eval() (functional.dropout without training=self.training), noise added in forward, "
_CAUSE += "or state that a call leaves behind."
_CURE = "Use nn.Dropout, draw noise only if self.training, and keep nothing between calls."


def check(subject: Subject) -> Iterator[Finding]:
    """Ask twice; then ask something else and the same a third time."""
    short = subject.short()
    base, between = subject.make(lengths=short), subject.make(lengths=short, draw=4)
    first = _answers(subject, base)
    apart = _apart(first, _answers(subject, base))
    if apart:
        yield _failed(subject, base, "twice", apart, "The same question, asked twice in eval(), gets two answers")
        return
    yield _passed("twice", "The same question, asked twice, gets the same answer, bit for bit.")
    if written := _written(subject, base):
        sentence = f"It writes into its input {written}: whoever passes a tensor gets it back changed."
        yield Finding(property=NAME, check="inputs", status=Status.NOTE, sentence=sentence)
    _answers(subject, between)
    apart = _apart(first, _answers(subject, base))
    if apart:
        words = "The same question gets another answer after a question in between"
        yield _failed(subject, base, "memory", apart, words)
    else:
        yield _passed("memory", "A question in between changes nothing.")


def _answers(subject: Subject, question: Question) -> dict[str, torch.Tensor]:
    """Asked anew each time, in the model's own type."""
    with torch.no_grad(), subject.running(wide=False):
        made = call(subject.native, subject.inputs(question, wide=False))
    return {o.name: o.values.clone() for o in subject.outputs(made, question)}


def _written(subject: Subject, question: Question) -> str | None:
    """The name of an input that a call changes."""
    inputs = subject.inputs(question, wide=False)
    before = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    with torch.no_grad(), subject.running(wide=False):
        call(subject.native, inputs)
    return next((name for name, value in before.items() if not torch.equal(value, inputs[name])), None)


def _apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    gaps = [float(difference(a[n], b[n]).nan_to_num(nan=torch.inf).max()) for n in a if a[n].numel()]
    return max(gaps, default=0.0)


def _passed(check: str, sentence: str) -> Finding:
    return Finding(property=NAME, check=check, status=Status.PASSED, sentence=sentence, size=0.0, rounding=0.0)


def _failed(subject: Subject, base: Question, check: str, apart: float, words: str) -> Finding:
    return Finding(
        property=NAME,
        check=check,
        status=Status.FAILED,
        sentence=f"{words}, {apart:.2g} apart.",
        size=apart,
        rounding=0.0,
        culprit=_blame(subject, base, check),
        cause=_CAUSE,
        cure=_CURE,
    )


def _blame(subject: Subject, base: Question, check: str) -> Culprit | None:
    seen, inputs = view(base), subject.inputs(base, wide=False)
    first = recorded(subject, inputs, seen, wide=False)
    if check == "memory":
        between = subject.make(lengths=subject.short(), draw=4)
        recorded(subject, subject.inputs(between, wide=False), view(between), wide=False)
    again = recorded(subject, inputs, seen, wide=False)
    return first_to_part(first, again, [], subject, promote=False)
