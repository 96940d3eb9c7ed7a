"""Translating with a trained run: the run itself (torch, with its cache) against its exports to CTranslate2.

Sentences per CPU-second of one thread, from text to text, the arms taking turns in one process: sentence by sentence,
in batches of 100, and in batches of 100 with a beam of 5. A ratio is an arm's rate over eager's. `same` counts the
sentences that come out exactly as eager's; BLEU is of all of them, on the test set of the run's data.

The environment variable REGARD_RUN names the run (runs/good otherwise):

    REGARD_RUN=runs/good python -m benchmarks engine --write
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from regard.errors import InputError
from regard.translator.data.sources import Pairs
from regard.translator.models.export import Engine, export, open_engine
from regard.translator.models.run import Run, load_run
from regard.translator.scoring.significance import bleu
from regard.translator.studies.comparison import evaluation_pairs
from regard.translator.training.preparation import load_data

SENTENCES, SINGLE, ROUNDS = 1000, 200, 2  # one by one eager is slow, so fewer


@dataclass(frozen=True)
class Way:
    """How sentences are handed over."""

    name: str
    sentences: int
    batch: int
    beam: int


WAYS = [
    Way("one by one", SINGLE, 1, 1),
    Way("batches of 100", SENTENCES, 100, 1),
    Way("batches of 100, beam 5", SENTENCES, 100, 5),
]


class Arm(NamedTuple):
    """A run, and what translates with its weights."""

    run: Run
    engine: str | Engine


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(os.environ.get("REGARD_RUN", "runs/good"))
    try:
        run = load_run(folder)
        pairs = evaluation_pairs(load_data(run.settings))[0]
    except InputError as error:
        print(f"left out: {error} (REGARD_RUN names the run folder)")
        return
    print(f"{folder.name}: {run.settings.model.kind}, epoch {run.facts.get('epoch')}, {len(pairs):,} sentences")
    with tempfile.TemporaryDirectory() as place:
        arms = {"eager": Arm(run, "eager"), **exported(folder, run, Path(place))}
        for arm in arms.values():
            arm.run.translate(pairs.source[:5], cut=True, engine=arm.engine)  # the first call pays for things once
        for way in WAYS:
            report(pairs.keep(range(min(way.sentences, len(pairs)))), arms, way)


def exported(folder: Path, run: Run, place: Path) -> dict[str, Arm]:
    arms = {}
    for quantization in ("float32", "int8"):
        made = export(folder, quantization=quantization, out=place / quantization)
        arms[f"ctranslate2 {quantization}"] = Arm(run, open_engine(run, made.folder, threads=1))
        print(f"{quantization}: {made.size / 1e6:.1f} MB")
    return arms


def report(pairs: Pairs, arms: dict[str, Arm], way: Way) -> None:
    """Time every arm in turn, then print its rate, BLEU and agreement."""
    seconds, said = dict.fromkeys(arms, 0.0), dict[str, list[str]]()
    for _ in range(ROUNDS):
        for name, arm in arms.items():
            start = time.process_time()
            said[name] = translate(arm, pairs, way)
            seconds[name] += time.process_time() - start
    print(f"\n{way.name}, {len(pairs):,} sentences")
    print(f"{'':<24}{'sentences/s':>12}{'ratio':>8}{'same':>8}{'BLEU':>8}")
    metric = bleu(arms["eager"].run.settings.vocabulary.lowercase)
    for name in arms:
        rate, ratio = ROUNDS * len(pairs) / seconds[name], seconds["eager"] / seconds[name]
        same = sum(a == b for a, b in zip(said[name], said["eager"], strict=True))
        score = metric.corpus_score(said[name], [pairs.target]).score
        print(f"{name:<24}{rate:>12.1f}{ratio:>8.2f}{same:>8,}{score:>8.2f}")
    print(metric.get_signature())


def translate(arm: Arm, pairs: Pairs, way: Way) -> list[str]:
    """One call a sentence where the batch is 1: what a program that answers one person does."""
    run, engine = arm
    if way.batch > 1:
        return run.translate(pairs.source, cut=True, beam=way.beam, batch=way.batch, engine=engine).target
    return [run.translate([s], cut=True, beam=way.beam, engine=engine).target[0] for s in pairs.source]
