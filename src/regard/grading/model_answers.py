"""Answers that are models: a student's Transformer, checked part by part, and any torch model, audited.

Both run in the jail like every answer, with torch and a tool of ours beside them. The Transformer is judged here: its
inputs and parameters are drawn here, and the tool's recording must belong to them. The audit is made inside; what its
answers alone can show is done again here, and the outcome says which properties these are.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from regard.coursework.answers import inside
from regard.coursework.answers.jail import Tier
from regard.coursework.answers.lines import clean
from regard.coursework.answers.runner import Runner, SandboxStartError, TimeLimitError
from regard.coursework.answers.tool import NO_TORCH, Tool
from regard.errors import InputError
from regard.grading.assignment import Kind, Limits, Task
from regard.grading.audit_recheck import DONE_AGAIN, DifferentModelsError, Questions, Stream, read_answers, read_streams
from regard.grading.examination import Outcome, Status, StudentAnswer, WorkClock, failed_outcome, without_author_advice
from regard.strict_json import parse_json

MOST_TOLD, MOST_ANSWERED = 1_000_000, 30_000_000  # bytes: of an audit's findings, of a model's answers
MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
AUDIT = Tool(
    module="regard.grading.audit_inside",
    doing="An audit runs the model, which",
    beside=tuple(f"regard.models.{name}" for name in ("capture", "huggingface", "ours", "torch_layers")),
)


def examine_model(task: Task, given: StudentAnswer, *, limits: Limits, jail: Tier) -> Outcome:
    """What a model is worth: the share of its parts that are right, or whether its audit found nothing."""
    try:
        outcome = (_transformer_outcome if task.kind is Kind.TRANSFORMER else _audit_outcome)(task, given, limits, jail)
    except SandboxStartError as error:
        return Outcome(status=Status.NOT_RUN, reason=str(error))
    except TimeLimitError as error:
        outcome = Outcome(status=Status.CUT_SHORT, reason=without_author_advice(str(error)), seconds=limits.seconds)
    except InputError as error:
        if NO_TORCH in str(error):
            return Outcome(status=Status.NOT_RUN, reason=str(error))
        outcome = failed_outcome(str(error), share=0.0)
    except Exception as error:  # of the judge, on what came back: no reason to stop the others, and no zero
        reason = f"what came back could not be judged ({type(error).__name__}); a person has to look at it"
        outcome = Outcome(status=Status.DOUBTED, share=0.0, reason=reason)
    book = given.notebook
    reason = outcome.reason.replace(".ipynb.py", ".ipynb").removesuffix("; fix it first.")
    said = {
        **outcome.to_dict(),
        "tier": jail.value,
        "reason": book.with_cell_numbers(reason) if book is not None else reason,
        "notes": (*outcome.notes, *(book.notes if book is not None else ())),
    }
    return Outcome.from_dict(said)


def _transformer_outcome(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Outcome:
    from regard.coursework.transformer import runner
    from regard.coursework.transformer.check import check_recording

    seed, spec = given.seed % 2**31, f"{given.name}:{task.function}"
    ran = runner.record_in_sandbox(
        spec, default=task.function, seed=seed, limit=limits.seconds, jail=jail, code=given.source
    )
    report = check_recording(ran, name=spec, seed=seed, hints=1, several_heads=True)
    parts = report.diagnosis.parts
    right = sum(verdict == "right" for verdict in parts.values())
    kept: dict[str, Any] = {"instances": len(parts), "confined": _hide_user(ran.confined), "printed": ran.printed[:500]}
    if report.doubts and right:
        share = 1.0 if report.answer else min(right / len(parts), 0.99)
        reason = f"{right} of {len(parts)} parts equal the reference, but a person has to look: {report.doubts[0]}"
        return Outcome(status=Status.DOUBTED, share=share, reason=reason, notes=report.doubts[1:], **kept)
    if report.answer:
        return Outcome(status=Status.PASSED, share=1.0, **kept)
    where = "; ".join(f"look at {one.where}" for one in report.diagnosis.mistakes)
    said = f"{right} of {len(parts)} parts equal the reference" + (f"; {where}" if where else "")
    names = tuple(one.said for one in report.diagnosis.mistakes) or ("differs from the reference",)
    share = min(right / len(parts), 0.99) if parts else 0.0
    return Outcome(status=Status.FAILED, share=share, reason=said, mistakes=names, **kept)


def _audit_outcome(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Outcome:
    again: tuple[str, ...] = ()
    with _runner(task, given, limits, jail) as runner:
        failures, streams = _start_model(runner, "audit", _seed(given, "audit"))
        questions = Questions(streams, _seed(given, "asked again")) if streams and not failures else None
        answers = {} if questions is None else questions.ask_together(lambda rows: _ask_model(runner, rows))
    kept: dict[str, Any] = {"confined": _hide_user(runner.jail_description), "printed": runner.printed_text[:500]}
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
        failures = sorted({clean(str(one[0]), most=40) for one in said["findings"] if one[2] == "fail"})[:20]
        return tuple(failures), read_streams(said["streams"])
    except MALFORMED:
        raise InputError("What came back of the audit is damaged; let the process of the audit alone.") from None


def _ask_model(runner: Runner, rows: list[Any]) -> dict[str, Any]:
    question = {"wanted": "answers", "rows": [inside.pack_array(one) for one in rows]}
    data = runner.ask(question, doing="answering", most=MOST_ANSWERED)
    try:
        return read_answers(data)
    except MALFORMED:
        raise InputError("What came back for an answer is none; return tensors of numbers.") from None


def _hide_user(confined: str) -> str:
    return re.sub(r"user \d+", "another user", confined)  # else two runs would differ
