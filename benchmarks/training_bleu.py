"""BLEU at equal CPU time: our loop and Joey NMT's, for so many CPU-seconds of one thread each; for bench_training.

    python -m benchmarks.bench_training --bleu 760

Both translate the test set greedily; BLEU is sacrebleu's, 13a, cased, of the same references. Ours has a cosine that
ends with the budget: as many whole epochs as fit, by a rate measured first; its seconds include validation and
checkpoints. Joey has no schedule with an end: it goes on with its inverse square root until the budget is used up, and
neither validates nor saves before. Its highest step size and its size of batch are those that do best on validation
sentences after a quarter of the time, which is not counted.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
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
    settings, data = prepared(as_it_ships=True)
    references, name = evaluation_pairs(data.corpus)
    print(f"{name}; greedy, at most {seconds:,.0f} CPU-seconds of training")
    metric = bleu(settings.vocabulary.lowercase)

    def report(arm: str, found: Trained, references: list[str]) -> float:
        score = float(metric.corpus_score(found.translations, [references]).score)
        print(
            f"{arm:<48}BLEU {score:5.2f} after {found.seconds:,.0f} CPU-seconds, {found.epochs:.2f} epochs", flush=True
        )
        return score

    with tempfile.TemporaryDirectory() as folder:
        if reason := joey_peer.missing():
            print(f"left out: {reason}")
        else:
            joey_peer.write_data(Path(folder), data)
            tried = {}
            for tokens, step in itertools.product(JOEYS, joey_peer.STEPS):
                found = train_joey(data, Path(folder), tokens, step, seconds / 4, "dev")
                tried[tokens, step] = report(f"  Joey, validation: {tokens:,} a batch, step {step}", found,
                                             data.corpus.validation.target)  # fmt: skip
            tokens, step = max(tried, key=lambda key: tried[key])
            found = train_joey(data, Path(folder), tokens, step, seconds, "test")
            report(f"Joey NMT 2.3, {tokens:,} a batch, step {step}", found, references.target)
        report("good as it ships", train_ours(settings, data, Path(folder), seconds), references.target)
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


def train_joey(data: PreparedData, folder: Path, tokens: int, step: float, seconds: float, split: str) -> Trained:
    """Joey for so many CPU-seconds, and its translations of a split."""
    shutil.rmtree(folder / "model", ignore_errors=True)
    with joey_peer.start(folder, tokens, step, seconds, split) as process:
        facts = joey_peer.said(folder, process.stdout)
    pieces = (folder / joey_peer.SAID).read_text(encoding="utf-8").splitlines()
    translations = ["".join(line.split()).replace("▁", " ").strip() for line in pieces]
    return Trained(facts["seconds"], facts["tokens"] / (data.train.target_tokens - len(data.train)), translations)
