"""Grading a class: 200 submissions of 12 questions, and what the jail adds to starting an answer.

The peer is the plain process: the same answers without a jail. ``SUBMISSIONS=20 python -m benchmarks grading`` is a
shorter class; the time of 200 is then extrapolated, and said to be. Beside it, models: a Transformer that is recorded
in each tier and judged outside, right and with a mistake (``MODELS=1`` times each; 3 if not said).
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from regard.grading.assignments.assignment_check import RIGHT, our_functions
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.problem_sets import answers
from regard.grading.gradebook.grader import cores, grade, pile_of, safe_tier
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Kind, Limits, Task
from regard.grading.questions.examination import StudentAnswer, examine
from regard.grading.submissions.submission import read_submissions
from regard.sandbox import jail
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner
from regard.sandbox.tool import with_requirements
from regard.sandbox.warm_pool import keep_warm

CLAIMS = (
    *("weights-are-a-distribution", "copying-condition", "copying-output", "copying-within-budget", "extract-from-sum"),
    *("average-of-two", "never-exactly-the-average", "one-head-swings", "one-head-two-point-noise", "singular-energy"),
    *("singular-tail", "low-rank-error"),
)
# the class is graded in landlock where there is one: bubblewrap's processes are waited for by nobody, so not counted
CLASS_TIER = safe_tier(sandbox=True) if jail.tier_obstacle(Tier.LANDLOCK) else Tier.LANDLOCK
STARTS = 20
ASKED = 200
MODEL = """
import torch
from torch import nn
class TransformerTranslator(nn.Module):
    def __init__(self, vocab_size, output_size, d_model, num_heads, d_k, d_ff, max_length):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_length, d_model)
        self.q, self.k, self.v = (nn.Linear(d_model, num_heads * d_k) for _ in range(3))
        self.mix, self.first, self.second = nn.Linear(num_heads * d_k, d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.inner, self.outer, self.out = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.Linear(d_model, output_size)
        self.heads = num_heads
    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        q, k, v = (m(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1)
        y = self.first(x + self.mix((weights @ v).transpose(1, 2).flatten(2)))
        return self.out(self.second(y + self.outer(torch.relu(self.inner(y)))))
"""  # noqa: E501


def main() -> None:
    print(f"{cores()} cores")
    starts = _starts([tier for tier in Tier if tier is Tier.NONE or not jail.tier_obstacle(tier)])
    for tier, seconds in starts.items():
        ratio = seconds / starts[Tier.NONE]
        print(f"start of an answer, {tier.value}: {1000 * seconds:.0f} ms, {ratio:.2f} x the plain one")
    with keep_warm():
        for tier, seconds in _starts([tier for tier in starts if tier is not Tier.NONE]).items():
            print(f"start of an answer after another, {tier.value}: {1000 * seconds:.0f} ms")
    _print_models(list(starts))
    count = int(os.environ.get("SUBMISSIONS", ASKED))
    seconds, processor = _graded(count)
    scaled = "" if count == ASKED else f"; {ASKED} would take {seconds * ASKED / count / 60:.1f} min (extrapolated)"
    print(f"{count} submissions of {len(CLAIMS)} questions, {CLASS_TIER.value}: {seconds:.0f} s by the clock{scaled}")
    each = processor / count
    print(f"  CPU time of all processes: {each:.2f} s each; {ASKED} keep two cores busy for {each * ASKED / 2:.0f} s")
    print(f"asked for: {ASKED} within 180 s on two cores, and a start of at most 1.3 x the plain one")


def _starts(tiers: list[Tier]) -> dict[Tier, float]:
    """Seconds until an answer has given its first reply: medians, each tier in turn."""
    walls: dict[Tier, list[float]] = {tier: [] for tier in tiers}
    for _ in range(STARTS):
        for tier in tiers:
            begun = time.perf_counter()
            with Runner(
                "a.py", function="f", arguments=("x",), clock=Clock(60), jail=tier, code=b"def f(x): return x"
            ) as runner:
                runner.call({"x": 1.0})
                walls[tier].append(time.perf_counter() - begun)
    return {tier: statistics.median(seconds) for tier, seconds in walls.items()}


def _print_models(tiers: list[Tier]) -> None:
    """A Transformer's check from start to verdict; skipped, saying so, without torch."""
    if not with_requirements("torch"):
        print("models: not measured, there is no torch here")
        return
    plain = 0.0
    for tier in tiers:
        walls = []
        for text in (MODEL, MODEL.replace("dim=-1", "dim=-2")) * int(os.environ.get("MODELS", 3)):
            begun = time.perf_counter()
            task = Task(id="t", kind=Kind.TRANSFORMER, points=1, function="TransformerTranslator")
            given = StudentAnswer(name="a.py", source=text.encode(), seed=7)
            found = examine(task, given, limits=Limits(seconds=600), jail=tier)
            if (found.share == 1.0) is not (text is MODEL):
                raise RuntimeError(f"the Transformer got {found.share}: {found.reason}")
            walls.append(time.perf_counter() - begun)
        wall = statistics.median(walls)
        plain = plain or wall
        print(f"a Transformer, {tier.value}: {wall:.1f} s from start to verdict, {wall / plain:.2f} x the plain one")


def _cpu() -> float:
    """CPU seconds of this process and of all those that have ended below it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _graded(count: int) -> tuple[float, float]:
    """Seconds by the wall's clock, and of the CPU; a third right, a third with one mistake, a third all wrong."""
    right = dict.fromkeys(CLAIMS, RIGHT)
    wrong = {claim: next(said for said in our_functions(claim) if said != RIGHT) for claim in CLAIMS}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = ['name = "bench"', *(f'[[question]]\nid = "{claim}"\nclaim = "{claim}"' for claim in CLAIMS)]
        (place / "a.toml").write_text("\n".join(lines))
        (place / "subs").mkdir()
        for number in range(count):
            ours = (right, right | {CLAIMS[0]: wrong[CLAIMS[0]]}, wrong)[number % 3]
            (place / "subs" / f"s{number:03}.py").write_text(answers(ours))
        pile = pile_of(
            read_assignment(place / "a.toml"),
            read_submissions([str(place / "subs")]),
            secret=Secret(b"the benchmark's own"),
        )
        begun, used = time.perf_counter(), _cpu()
        grade(pile, place / "grades", jail=CLASS_TIER)
        return time.perf_counter() - begun, _cpu() - used


if __name__ == "__main__":
    main()
