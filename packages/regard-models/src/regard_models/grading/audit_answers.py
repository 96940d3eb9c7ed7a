"""Answers that are any torch model, audited.

The audit is made inside the jail; what its answers alone can show is done again here, and the outcome says which
properties these are.
"""

from __future__ import annotations

import hashlib
from typing import Any

from regard.errors import InputError
from regard.grading.questions.assignment import Limits, Task
from regard.grading.questions.examination import Outcome, Status, StudentAnswer, WorkClock, hide_user
from regard.sandbox import child
from regard.sandbox.jail import Tier
from regard.sandbox.lines import clean
from regard.sandbox.runner import Runner
from regard.sandbox.tool import Tool
from regard.strict_json import parse_json
from regard_models.grading.audit_recheck import (
    DONE_AGAIN,
    DifferentModelsError,
    Questions,
    Stream,
    read_answers,
    read_streams,
)

MOST_TOLD, MOST_ANSWERED = 1_000_000, 30_000_000  # bytes: of an audit's findings, of a model's answers
MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
NO_YES = ("fail", "could not be asked")  # how a check ends that is no part of a yes
AUDIT = Tool(
    module="regard_models.grading.sandbox_auditor",
    doing="An audit runs the model, which",
    beside=(
        "regard_models.capturing.attention_capture",
        *(f"regard_models.inputs.{name}" for name in ("huggingface", "translators", "torch_layers")),
    ),
)


def judge_audit(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Outcome:
    """Whether the audit found nothing, and what was asked again from outside."""
    again: tuple[str, ...] = ()
    with _runner(task, given, limits, jail) as runner:
        failures, streams = _start_model(runner, "audit", _seed(given, "audit"))
        questions = Questions(streams, _seed(given, "asked again")) if streams and not failures else None
        answers = {} if questions is None else questions.ask_together(lambda rows: _ask_model(runner, rows))
    kept: dict[str, Any] = {"confined": hide_user(runner.jail_description), "printed": runner.printed_text[:500]}
    if questions is not None:
        with _runner(task, given, limits, jail) as other:
            _start_model(other, "model", _seed(given, "audit"))
            answers |= questions.ask_alone(lambda rows: _ask_model(other, rows))
        try:
            again = questions.violations(answers)
        except DifferentModelsError as error:
            reason = f"the audit found nothing, but {error}, so that nothing could be asked again; a person has to look"
            return Outcome(status=Status.DOUBTED, share=0.0, reason=reason, **kept)
    if failures or again:
        names = failures or again
        reason = f"the audit failed: {', '.join(failures)}" if failures else f"asked again from outside: {again[0]}"
        return Outcome(status=Status.FAILED, share=0.0, reason=reason, mistakes=tuple(names), **kept)
    note = f"{', '.join(DONE_AGAIN)} (and causality, where it is claimed) were asked again from outside; the other "
    return Outcome(status=Status.PASSED, share=1.0, notes=(f"{note}properties are what its process said",), **kept)


def _runner(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Runner:
    spec, clock = f"{given.name}:{task.function}", WorkClock(2 * limits.seconds)
    return Runner(spec, function=task.function, clock=clock, jail=jail, code=given.source, tool=AUDIT)


def _seed(given: StudentAnswer, what: str) -> int:
    """A seed for each purpose: whoever is told one does not know the other."""
    return int.from_bytes(hashlib.sha256(f"{given.seed} {what}".encode()).digest()[:4]) % 2**31


def _start_model(runner: Runner, wanted: str, seed: int) -> tuple[tuple[str, ...], tuple[Stream, ...]]:
    """The properties that failed, and how the model is asked; damaged words are a sentence."""
    asked = {"wanted": wanted, "name": runner.function, "seed": seed}
    data = runner.ask(asked, doing="auditing it", most=MOST_TOLD)
    try:
        said = parse_json(data)
        failures = sorted({clean(str(one[0]), most=40) for one in said["findings"] if one[2] in NO_YES})[:20]
        return tuple(failures), read_streams(said["streams"])
    except MALFORMED:
        raise InputError("What came back of the audit is damaged; let the process of the audit alone.") from None


def _ask_model(runner: Runner, rows: list[Any]) -> dict[str, Any]:
    question = {"wanted": "answers", "rows": [child.pack_array(one) for one in rows]}
    data = runner.ask(question, doing="answering", most=MOST_ANSWERED)
    try:
        return read_answers(data)
    except MALFORMED:
        raise InputError("What came back for an answer is none; return tensors of numbers.") from None
