"""An assignment tried out before the students do: our right answers must get all points, the wrong ones must not.

Besides the typical mistakes of each claim there are the obvious cheats, for every question: nothing, zero, the first
argument, NaN. A question that one of them passes is not asked well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.util import find_spec

from regard.errors import InputError
from regard.grading.gradebook.marks import mark_outcome
from regard.grading.questions.assignment import Assignment, Kind, Task
from regard.grading.questions.examination import StudentAnswer, examine
from regard.grading.questions.statements import draw_statements
from regard.grading.submissions.notebooks import defined_names
from regard.progress import Progress
from regard.results import Result
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import keep_warm
from regard.terminal import align_columns
from regard.toml import package_table

HUGE = "returns a huge number"
CHEATS = {
    "returns nothing": "def {name}(*arguments):\n    return None\n",
    "returns 0": "def {name}(*arguments):\n    return 0.0\n",
    "returns its first argument": "def {name}(*arguments):\n    return arguments[0] if arguments else 1\n",
    HUGE: "def {name}(*arguments):\n    return 1e9\n",
    "returns NaN": "def {name}(*arguments):\n    return float('nan')\n",
}
MODELS = (Kind.TRANSFORMER, Kind.AUDIT)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial(Result):
    """One answer of ours: whether it is right, and what it got."""

    question: str
    given: str
    right: bool
    points: float
    of: float
    reason: str = ""

    @property
    def is_as_expected(self) -> bool:
        return (self.points == self.of) is self.right if self.of else True


@dataclass(frozen=True, kw_only=True, eq=False)
class AssignmentChecked(Result):
    """An assignment, tried out; ``answer`` is False where a right answer lost points or a wrong one did not."""

    path: str
    title: str
    questions: int
    points: float
    trials: tuple[Trial, ...]
    untried: tuple[str, ...]  # and why
    rules: tuple[str, ...]

    @property
    def answer(self) -> bool:
        return all(trial.is_as_expected for trial in self.trials)

    def __str__(self) -> str:
        count = f"{self.questions} question{'s' * (self.questions != 1)}"
        head = f"{self.path}: {count}, {self.points:g} points. The file has no mistakes."
        ids = list(dict.fromkeys(trial.question for trial in self.trials))
        rows = [["question", "our right answer", "our wrong ones, at most", "tried"]]
        for id in ids:
            of = [trial for trial in self.trials if trial.question == id]
            right = [trial for trial in of if trial.right]
            wrong = [trial for trial in of if not trial.right]
            got = f"{right[0].points:g} of {right[0].of:g}" if right else "there is none"
            most = f"{max((trial.points for trial in wrong), default=0):g} of {of[0].of:g}"
            rows.append([id, got, most, f"{len(of)} answers"])
        lines = [head, "", align_columns(rows)] if ids else [head]
        lines += ["", *(f"Not tried: {one}" for one in self.untried)] if self.untried else []
        bad = [trial for trial in self.trials if not trial.is_as_expected]
        lines += ["", *(f"{'Lost points' if t.right else 'Passes'}: {t.question}, {t.given}. {t.reason}" for t in bad)]
        verdict = "Every question can be solved, and none of our wrong answers passes."
        lines.append(verdict if not bad else f"{len(bad)} answers were not marked as they should be.")
        return "\n".join(lines)


@keep_warm()
def check_assignment(assignment: Assignment, *, jail: Tier, progress: Progress | None = None) -> AssignmentChecked:
    """Grade our own answers to every question that code answers; models where torch is installed."""
    tried = [task for task in assignment.tasks if task.asks_for_function or (task.kind in MODELS and _has_torch())]
    jobs = [(task, *one) for task in tried for one in _answers(task)]
    trials = []
    for done, (task, name, right, source) in enumerate(jobs, 1):
        given = StudentAnswer(name="ours.py", source=source, seed=7)
        mark = mark_outcome(task, examine(replace(task), given, limits=assignment.limits, jail=jail))
        reason = mark.reason
        if name == HUGE and mark.points == mark.of:
            reason = "What is true but huge is right; within = 2 asks for an answer near the best one."
        if mark.open:
            raise InputError(f"Our own answer to {task.id!r} ({name}) could not be graded: {mark.reason}")
        trials.append(Trial(question=task.id, given=name, right=right, points=mark.points, of=mark.of, reason=reason))
        if progress is not None:
            progress(done, len(jobs))
    return AssignmentChecked(
        path=str(assignment.path),
        title=assignment.title,
        questions=len(assignment.tasks),
        points=assignment.points,
        trials=tuple(trials),
        untried=tuple(_untried_questions(assignment)),
        rules=tuple(f"{task.id}: {task.rule()}" for task in assignment.tasks),
    )


def _untried_questions(assignment: Assignment) -> Iterator[str]:
    reasons = {Kind.WRITTEN: "a person marks it", Kind.DERIVATION: "a derivation is checked line by line"}
    if not _has_torch():
        reasons |= dict.fromkeys(MODELS, "a model, and torch is not installed: pip install 'regard[torch]'")
    for task in assignment.tasks:
        if task.kind in reasons:
            yield f"{task.id} ({reasons[task.kind]})"


def _answers(task: Task) -> Iterator[tuple[str, bool, bytes]]:
    """Name, whether it is right, and the file."""
    name = task.function
    if task.kind is Kind.CLAIM:
        for said, function in our_functions(task.claim).items():
            program = f"{our_file('right.py')}\n\n{function}\n{name} = {task.claim.replace('-', '_')}\n"
            yield said, said == RIGHT, program.encode()
    elif task.kind is Kind.OWN and task.file is not None:
        text = task.file.read_text(encoding="utf-8")
        for function in defined_names(text):
            if function == "right" or function.startswith("wrong"):
                yield function.replace("_", " "), function == "right", own_answer(text, function, name)
    elif task.kind is Kind.STATEMENTS:
        yield from _statement_sources(task)
        return
    elif task.kind in MODELS:
        yield from _model_sources(task)
        return
    for said, code in CHEATS.items():
        yield said, False, code.format(name=name).encode()


def _model_sources(task: Task) -> Iterator[tuple[str, bool, bytes]]:
    ours = "TransformerTranslator" if task.kind is Kind.TRANSFORMER else "healthy"
    named = "" if task.function == ours else f"\n{task.function} = {ours}\n"
    for said, text in our_models(task.kind.value).items():
        yield said, said == RIGHT, (text + named).encode()


def _has_torch() -> bool:
    return find_spec("torch") is not None


def own_answer(text: str, function: str, name: str) -> bytes:
    """The teacher's answer with what it stands on, and without the judge."""
    kept = [node for node in ast.parse(text).body if getattr(node, "name", "") not in ("instance", "judge", "shape")]
    return (ast.unparse(ast.Module(body=kept, type_ignores=[])) + f"\n{name} = {function}\n").encode()


def _statement_sources(task: Task) -> Iterator[tuple[str, bool, bytes]]:
    truth = [int(one.holds) for one in draw_statements(task, 7)]
    wrong = {"all hold": [1] * task.count, "all fail": [0] * task.count, "nothing": [-1] * task.count}
    for said, answers in {"right": truth, **wrong}.items():
        if answers != truth or said == "right":
            yield said, said == "right", f"def {task.function}():\n    return {answers}\n".encode()


# Our own answers as programs, right and wrong: what stands in ``grading/solutions``, read as a student's file is.


HOME = "regard.grading.solutions"
RIGHT = "right"  # the name of the right one among the answers
Change = str | list[str]


@cache
def our_file(name: str) -> str:
    """The text of one of the files: right.py, or transformer.py for models."""
    return (resources.files(HOME) / name).read_text(encoding="utf-8")


def our_functions(claim: str) -> dict[str, str]:
    """The function that answers a claim, by what is wrong with it; it stands on what else there is in right.py."""
    text, name = our_file("right.py"), claim.replace("-", "_")
    found = [node for node in ast.parse(text).body if getattr(node, "name", "") == name]
    return _with_mistakes(ast.get_source_segment(text, found[0]) or "", claim) if found else {}


def our_models(kind: str) -> dict[str, str]:
    """The file with our models, by what is wrong with the one that a question of this kind asks for."""
    return _with_mistakes(our_file("transformer.py"), kind)


def _with_mistakes(right: str, which: str) -> dict[str, str]:
    changes: dict[str, Change] = package_table(HOME, "wrong.toml").get(which, {})
    return {RIGHT: right, **{said: _change(right, change) for said, change in changes.items()}}


def _change(right: str, change: Change) -> str:
    if isinstance(change, str):
        return f"{right.rpartition('    return ')[0]}    return {change}"
    there, instead = change
    return right.replace(there, instead)
