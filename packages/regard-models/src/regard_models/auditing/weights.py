"""Weights: every row of attention is a distribution over the keys that may be read, and nothing in it is NaN.

The weights are those that the model really used (:func:`regard_models.capture`), in its own type. Rows of a sigmoid,
of a sink or of a gate do not sum to 1 by design: that is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.errors import RegardError
from regard_models.auditing.experiment import view
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.padding import padded_question, real_length
from regard_models.auditing.question import Question
from regard_models.auditing.subject import PAD, Subject
from regard_models.auditing.trace import culprit, record_calls
from regard_models.inputs.model_input import call, original

NAME = "weights"
_SEEN = 1e-10  # a weight on a forbidden key from which on it is one
_ROWS_CAUSE = "a softmax over the wrong axis or over all heads at once, a missing normalisation, or weights that are "
_ROWS_CAUSE += "masked after the softmax."
_ROWS_CURE = "Mask the scores with minus infinity, then softmax over the last axis, the keys."
_NAN_CAUSE = "a softmax over minus infinities only, for a query that may read nothing."
_NAN_CURE = "Give such rows zero weights, or hide with the most negative float instead of minus infinity."


def check(subject: Subject) -> Iterator[Finding]:
    """Rows, forbidden keys, NaN, examples of padding only."""
    plain = subject.make(lengths=subject.short_lengths())
    try:
        captured = _capture_records(subject, plain)
    except RegardError as error:
        yield Finding(property=NAME, check="rows", status=Status.NOT_APPLICABLE, sentence=_first_sentence(error))
    else:
        yield _check_rows(subject, captured)
        if subject.streams and subject.streams[-1].causal is True:
            yield _check_future(subject, captured)
        if any(record.used is not None for record in captured):
            yield _check_dropout(subject, captured)
    for i, stream in enumerate(subject.streams):
        if stream.masks and real_length(subject, i) >= 2:
            suffix = f" of {stream.name}" if len(subject.streams) > 1 else ""
            yield from _check_padding(subject, i, suffix)


def _capture_records(subject: Subject, question: Question) -> Any:
    from regard_models.capturing.attention_capture import capture

    def run(module: Any, inputs: Any) -> Any:
        return call(module, inputs)

    with torch.no_grad(), subject.running(wide=False):
        records = capture(subject.native, subject.inputs(question, wide=False), run=run).records
    # Products of other things (the running sums of linear attention) have no axis of keys as long as the tokens.
    least = min((r.length for r in question.rows), default=1)
    return [r for r in records if r.weights.shape[-1] >= least]


def _check_rows(subject: Subject, records: Any) -> Finding:
    """Sums of the rows that read something."""
    slack = max(1e-5, 64 * torch.finfo(subject.dtype).eps)  # records are float32, whatever the model's type is
    odd: list[tuple[Any, float, float]] = []
    by_design: list[tuple[Any, float, float]] = []
    for record in records:
        weights = np.asarray(record.weights, dtype=np.float64)
        sums = weights.sum(-1)
        sums = sums[(weights != 0).any(-1)]  # a query that may read nothing has a row of zeros, and that is right
        if not sums.size or np.abs(sums - 1).max() <= slack:
            continue
        meant = weights.max() <= 1 + slack and (_is_sigmoid(record) or sums.max() <= 1 + slack)
        meant = meant or (_is_sigmoid(record) and _has_gaps(weights))
        meant = meant or (_is_sigmoid(record) and bool(weights.min() < 0))
        meant = meant and not _is_shared_by_heads(weights, slack) and not _is_over_heads(weights, slack)
        (by_design if meant else odd).append((record, float(sums.min()), float(sums.max())))
    if odd:
        record, least, most = odd[0]
        return _finding(
            "rows",
            Status.FAILED,
            f"Rows of weights sum to {least:.3g} to {most:.3g} in {_module_name(record)}, not to 1.",
            size=max(abs(least - 1), abs(most - 1)),
            rounding=slack,
            culprit=_owner(subject, record),
            cause=_ROWS_CAUSE,
            cure=_ROWS_CURE,
        )
    if by_design:
        record, least, most = by_design[0]
        sentence = (
            f"Rows of weights sum to {least:.3g} to {most:.3g} in {_module_name(record)} ({record.kernel}): a sink, a "
        )
        sentence += "sigmoid, a ReLU or a gate means that"
        if (np.asarray(record.weights) < 0).any():
            sentence += "; so does attention without a softmax, as some are negative: see that none was left out"
        return _finding("rows", Status.NOTE, f"{sentence}.")
    return _finding("rows", Status.PASSED, f"All rows of the {len(records)} layers of attention sum to 1.")


def _is_shared_by_heads(weights: Any, slack: float) -> bool:
    """Whether the rows of all heads together sum to 1: one softmax ran over heads and keys."""
    together = weights.sum(-1).sum(-2)  # batch x queries
    return bool(weights.ndim == 4 and weights.shape[1] > 1 and np.abs(together - 1).max() <= slack)


def _is_over_heads(weights: Any, slack: float) -> bool:
    """Whether the weights of one key in all heads sum to 1: the softmax ran over the heads."""
    if weights.ndim != 4 or weights.shape[1] < 2:
        return False
    sums = weights.sum(1)[(weights != 0).any(1)]
    return bool(sums.size and np.abs(sums - 1).max() <= slack)


def _has_gaps(weights: Any) -> bool:
    """Whether keys at or before a query often get exactly 0: a ReLU, which no softmax makes."""
    queries, keys = weights.shape[-2:]
    before = np.tril(np.ones((queries, keys), dtype=bool))
    return bool(queries == keys and (weights[..., before] == 0).mean() > 0.1)


def _is_sigmoid(record: Any) -> bool:
    return bool(record.kernel == "by hand")


def _check_future(subject: Subject, records: Any) -> Finding:
    length = subject.short_lengths()[-1]
    most, worst = 0.0, None
    for record in records:
        if record.weights.shape[-2:] != (length, length):
            continue
        ahead = np.triu(np.ones((length, length), dtype=bool), 1)
        mass = float(np.abs(np.where(ahead, np.asarray(record.weights), 0.0)).max())
        if mass > most:
            most, worst = mass, record
    return _check_forbidden_keys(subject, "later keys", most, worst, "a later key")


def _check_forbidden_keys(subject: Subject, name: str, most: float, record: Any, what: str) -> Finding:
    if record is None or most <= _SEEN:
        return _finding(name, Status.PASSED, f"No weight falls on {what} (the largest is {most:.1g}).", size=most)
    return _finding(
        name,
        Status.FAILED,
        f"A weight of {most:.2g} falls on {what} in {_module_name(record)}.",
        size=most,
        rounding=_SEEN,
        culprit=_owner(subject, record),
        cause=_ROWS_CAUSE,
        cure=_ROWS_CURE,
    )


def _check_dropout(subject: Subject, records: Any) -> Finding:
    record = next(r for r in records if r.used is not None)
    return _finding(
        "dropout",
        Status.FAILED,
        f"Weights are dropped in eval() in {_module_name(record)}.",
        culprit=_owner(subject, record),
        cause="dropout_p that does not ask whether the module is in training.",
        cure="Pass dropout_p=self.p if self.training else 0.0.",
    )


def _check_padding(subject: Subject, i: int, suffix: str) -> Iterator[Finding]:
    real = min(real_length(subject, i), subject.short_lengths()[i])
    # words in the padding: only the mask can hide them
    question = padded_question(subject, i, "right", real, fill=1, told=False)
    try:
        records = _capture_records(subject, question)
    except RegardError:
        records = ()
    most, worst = 0.0, None
    for record in records:
        if record.weights.shape[-1] == real + PAD:
            # Only real queries count: what padded ones read is nobody's business.
            queries = slice(0, real) if record.weights.shape[-2] == real + PAD else slice(None)
            mass = float(np.nan_to_num(np.abs(np.asarray(record.weights)[..., queries, real:]), nan=0.0).max())
            if mass > most:
                most, worst = mass, record
    if records:
        yield _check_forbidden_keys(subject, f"padded keys{suffix}", most, worst, "a padded key")
    yield _check_nothing_real(subject, i, question, real, suffix)


def _check_nothing_real(subject: Subject, i: int, question: Question, real: int, suffix: str) -> Finding:
    """The second example is made of padding only; what the first gets must stay finite."""
    rows = question.rows[i]
    keep = rows.keep.clone()
    keep[1] = False
    empty = question.with_rows(i, replace(rows, keep=keep))
    name = f"nothing to read{suffix}"
    lengths = {j: torch.arange(real) for j in [i]}
    bad_real = _is_bad(subject, question, view(question, places=lengths))
    if bad_real:
        return _nan_finding(subject, name, question, "Padding makes the answers of real tokens NaN.")
    if _is_bad(subject, empty, view(empty, rows=[0], places=lengths)):
        return _nan_finding(subject, name, empty, "An example of padding only makes another example's answers NaN.")
    if _is_bad(subject, empty, view(empty, rows=[1])):
        sentence = "An example of padding only gets NaN; the others do not notice."
        return _finding(name, Status.NOTE, sentence, cause=_NAN_CAUSE, cure=_NAN_CURE)
    return _finding(name, Status.PASSED, "An example of padding only gets finite answers.")


def _is_bad(subject: Subject, question: Question, seen: Any) -> bool:
    return any(not bool(torch.isfinite(seen.of(o.values)).all()) for o in subject.ask(question, wide=False))


def _nan_finding(subject: Subject, name: str, question: Question, sentence: str) -> Finding:
    records = record_calls(subject, subject.inputs(question, wide=False), view(question), wide=False)
    guilty = next((r for r in records if r.nan_out and not r.nan_in), None)
    return _finding(
        name,
        Status.FAILED,
        sentence,
        culprit=None if guilty is None else culprit(guilty.module, subject, call=guilty.call),
        cause=_NAN_CAUSE,
        cure=_NAN_CURE,
    )


def _owner(subject: Subject, record: Any) -> Culprit:
    try:
        return culprit(original(subject.native).get_submodule(record.module), subject, call=record.call)
    except AttributeError:
        return Culprit(module=record.module, kind="module", call=record.call)


def _module_name(record: Any) -> str:
    return str(record.module) or "the model itself"


def _first_sentence(error: Exception) -> str:
    return str(error)


def _finding(check: str, status: Status, sentence: str, **more: Any) -> Finding:
    return Finding(property=NAME, check=check, status=status, sentence=sentence, **more)
