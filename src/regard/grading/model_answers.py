"""Answers that are models: a student's Transformer, checked part by part, and any torch model, audited.

Both need torch in a process of its own, with the rights of whoever grades: there is no jail with torch in it yet.
So they run only where the grading runs without a jail, in a container or a virtual machine of its own. The
Transformer is judged here, from a recording; the audit is judged in the process of the model, which could lie: its
outcome says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from regard.coursework.answers.jail import Tier
from regard.errors import InputError
from regard.grading.assignment import Kind, Limits, Task
from regard.grading.examination import Given, Outcome, Status, failed

NO_JAIL = "a model needs torch and is not run in a jail yet; grade it in a container of its own, with --no-sandbox"
FORGEABLE = "the audit ran in the model's own process, and is what that process said"
WAITED = 600.0  # seconds for an audit, torch's start included


def examined_model(task: Task, given: Given, *, limits: Limits, jail: Tier) -> Outcome:
    """What a model is worth: the share of its parts that are right, or whether its audit found nothing."""
    if jail is not Tier.NONE:
        return Outcome(status=Status.NOT_RUN, reason=NO_JAIL)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder, given.name)
        path.write_bytes(given.source)
        found = (_transformer if task.kind is Kind.TRANSFORMER else _audited)(task, path, given, limits)
    shown = found.reason.replace(f"{folder}/", "")
    return Outcome.from_dict({**found.to_dict(), "tier": Tier.NONE.value, "reason": shown})


def _transformer(task: Task, path: Path, given: Given, limits: Limits) -> Outcome:
    from regard.coursework.transformer.check import check_transformer

    try:
        found = check_transformer(f"{path}:{task.function}", seed=given.seed % 2**31, limit=limits.seconds, hints=1)
    except InputError as error:
        said = str(error)
        if "needs torch" in said:
            return Outcome(status=Status.NOT_RUN, reason=said)
        return Outcome(status=Status.CUT_SHORT, reason=said) if "was stopped" in said else failed(said)
    parts = found.diagnosis.parts
    right = sum(verdict == "right" for verdict in parts.values())
    if found.answer:
        return Outcome(status=Status.PASSED, share=1.0, instances=len(parts))
    where = "; ".join(f"look at {one.where}" for one in found.diagnosis.mistakes)
    said = f"{right} of {len(parts)} parts equal the reference" + (f"; {where}" if where else "")
    names = tuple(one.said for one in found.diagnosis.mistakes) or ("differs from the reference",)
    share = min(right / len(parts), 0.99) if parts else 0.0
    return Outcome(status=Status.FAILED, share=share, reason=said, mistakes=names, instances=len(parts))


def _audited(task: Task, path: Path, given: Given, limits: Limits) -> Outcome:
    command = [sys.executable, "-P", "-m", "regard", "model", "audit", f"{path}:{task.function}", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=WAITED, cwd=path.parent, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(status=Status.CUT_SHORT, reason=f"the audit took more than {WAITED:g} s")
    if done.returncode == 0:
        return Outcome(status=Status.PASSED, share=1.0, notes=(FORGEABLE,))
    if done.returncode == 1:
        names = _failures(done.stdout)
        return failed(f"the audit failed: {', '.join(names)}", share=0.0, notes=(FORGEABLE,))
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return failed(said[-1][:300] if said else "the audit could not be made", share=0.0)


def _failures(text: bytes) -> list[str]:
    """The properties that failed, as far as they can be read."""
    try:
        said: Any = json.loads(text)
        return sorted({str(one["property"])[:40] for one in said["findings"] if one.get("status") == "failed"})[:20]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ["its report cannot be read"]
