"""Answers that are models: a student's Transformer, checked part by part, and kinds that plugins add (audits).

They run in the jail like every answer, with torch and a tool of ours beside them. The Transformer is judged here: its
inputs and parameters are drawn here, and the tool's recording must belong to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from regard.errors import InputError
from regard.grading.questions.assignment import Kind, Limits, Task
from regard.grading.questions.examination import (
    Outcome,
    Status,
    StudentAnswer,
    failed_outcome,
    without_author_advice,
)
from regard.plugins import NOT_INSTALLED, QUESTION_KINDS, load_plugin
from regard.sandbox.jail import Tier
from regard.sandbox.runner import SandboxStartError, TimeLimitError
from regard.sandbox.tool import NO_TORCH

Judge = Callable[[Task, StudentAnswer, Limits, Tier], Outcome]


def examine_model(task: Task, given: StudentAnswer, *, limits: Limits, jail: Tier) -> Outcome:
    """What a model is worth: the share of its parts that are right, or whether its audit found nothing."""
    try:
        outcome = _judge_of(task.kind)(task, given, limits, jail)
    except SandboxStartError as error:
        return Outcome(status=Status.NOT_RUN, reason=str(error))
    except TimeLimitError as error:
        outcome = Outcome(status=Status.CUT_SHORT, reason=without_author_advice(str(error)), seconds=limits.seconds)
    except InputError as error:
        if NO_TORCH in str(error) or NOT_INSTALLED in str(error):
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


def _judge_of(kind: Kind) -> Judge:
    if kind is Kind.TRANSFORMER:
        return _transformer_outcome
    judge: Judge = load_plugin(QUESTION_KINDS, kind.value, what=f"A question of kind {kind.value}")
    return judge


def _transformer_outcome(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Outcome:
    from regard.coursework.checker import recorded_run
    from regard.coursework.checker.check import check_recording

    seed, spec = given.seed % 2**31, f"{given.name}:{task.function}"
    ran = recorded_run.record_in_sandbox(
        spec, default=task.function, seed=seed, limit=limits.seconds, jail=jail, code=given.source
    )
    report = check_recording(ran, name=spec, seed=seed, hints=1, several_heads=True)
    parts = report.diagnosis.parts
    right = sum(verdict == "right" for verdict in parts.values())
    kept: dict[str, Any] = {"instances": len(parts), "confined": hide_user(ran.confined), "printed": ran.printed[:500]}
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


def hide_user(confined: str) -> str:
    return re.sub(r"user \d+", "another user", confined)  # else two runs would differ
