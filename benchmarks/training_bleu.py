"""BLEU at equal CPU time: our loop and Joey NMT's, for so many CPU-seconds of one thread each; for bench_training.

    python -m benchmarks.bench_training --bleu 760

Both translate the test set greedily; BLEU is sacrebleu's, 13a, cased, of the same references. Ours has a cosine that
ends with the budget: as many whole epochs as fit, by a rate measured first; its seconds include validation and
checkpoints. Joey has no schedule with an end: it goes on with its inverse square root until the budget is used up, and
neither validates nor saves before. Its highest step size, warm-up and batch size are ours, in its way of counting,
with which it is faster and makes more steps than with larger ones.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import joey_peer
from benchmarks.bench_training import JOEYS, Ours, prepared
from regard.translator.models.run import load_run
from regard.translator.runs.settings import Settings
from regard.translator.scoring.significance import bleu
from regard.translator.studies.comparison import evaluation_pairs
from regard.translator.training.loop import Epoch, Step, train
from regard.translator.training.preparation import PreparedData


@dataclass
class Trained:
    """What an arm made of its time."""

    seconds: float
    epochs: float
    translations: list[str]


class BudgetUsedUp(Exception):  # noqa: N818
    """Raised when our run has had its time."""


def compare(seconds: float) -> None:
    torch.set_num_threads(1)
    settings, data = prepared()
    references, name = evaluation_pairs(data.corpus)
    print(f"{name}; greedy, at most {seconds:,.0f} CPU-seconds of training")
    metric = bleu(settings.vocabulary.lowercase)
    with tempfile.TemporaryDirectory() as folder:
        for arm, trained in [("ours", train_ours), (f"Joey NMT 2.3, batches of {JOEYS[0]:,}", train_joey)]:
            found = trained(settings, data, Path(folder), seconds)
            if found is not None:
                score = metric.corpus_score(found.translations, [references.target]).score
                spent = f"{found.seconds:,.0f} CPU-seconds, {found.epochs:.2f} epochs"
                print(f"{arm:<36}BLEU {score:5.2f} after {spent}", flush=True)
    print(metric.get_signature())


def train_ours(settings: Settings, data: PreparedData, folder: Path, seconds: float) -> Trained:
    settings = settings.with_changes([f"epochs={epochs_that_fit(settings, data, seconds)}", "save_every=50"])
    start, steps = time.process_time(), [0, 1]

    def watch(event: Step | Epoch) -> None:
        if isinstance(event, Step):
            steps[:] = event.step, event.steps // event.epochs
        if time.process_time() - start > seconds:
            raise BudgetUsedUp

    with contextlib.suppress(BudgetUsedUp):
        train(settings, folder / "ours", prepared=data, watch=watch)
    spent, run = time.process_time() - start, load_run(folder / "ours", weights="last")
    return Trained(spent, steps[0] / steps[1], run.translate(evaluation_pairs(data.corpus)[0].source, cut=True).target)


def epochs_that_fit(settings: Settings, data: PreparedData, seconds: float) -> int:
    """Whole epochs, with a twentieth of the time left for validation and checkpoints."""
    arm = Ours(settings, data)
    for _ in range(4):
        arm.turn()
    return max(1, int(0.95 * seconds * arm.rate / (data.train.target_tokens - len(data.train))))


def train_joey(settings: Settings, data: PreparedData, folder: Path, seconds: float) -> Trained | None:
    if reason := joey_peer.missing():
        print(f"left out: {reason}")
        return None
    joey_peer.write_data(folder, data)
    with joey_peer.start(folder, JOEYS[0], seconds) as process:
        facts = joey_peer.said(folder, process.stdout)
    pieces = (folder / joey_peer.SAID).read_text(encoding="utf-8").splitlines()
    translations = ["".join(line.split()).replace("▁", " ").strip() for line in pieces]
    return Trained(facts["seconds"], facts["tokens"] / (data.train.target_tokens - len(data.train)), translations)
