"""A corpus and settings so small that a run takes a moment, for the tests of the translator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from regard.translator.models.checkpoint_tensors import read_weights
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import Epoch, Step

WORDS = {"ein": "a", "hund": "dog", "mann": "man", "sieht": "sees", "rote": "red", "katze": "cat", "der": "the"}


def write_corpus(folder: Path, count: int = 60, seed: int = 0) -> Path:
    """Word-for-word pairs of our own: what one layer can learn."""
    draw = np.random.default_rng(seed)
    folder.mkdir()
    for split, n in (("train", count), ("val", 11), ("test", 13)):
        chosen = [draw.choice(list(WORDS), draw.integers(2, 6)) for _ in range(n)]
        (folder / f"{split}.de").write_text("".join(" ".join(s) + "\n" for s in chosen))
        (folder / f"{split}.en").write_text("".join(" ".join(WORDS[w] for w in s) + "\n" for s in chosen))
    return folder


def tiny(data: Path, *changes: str) -> Settings:
    base = [
        "width=16",
        "heads=2",
        "head_width=6",
        "feed_forward=20",
        "longest=6",
        "epochs=2",
        "batch=7",
        "save_every=4",
    ]
    return Settings().with_changes([f'data.path="{data}"', "minimum_frequency=1", *base, *changes])


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return read_weights(folder / f"{name}.safetensors")[0]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class StopError(Exception):
    """Raised by a watcher."""


def stop_at(step: int) -> Callable[[Step | Epoch], None]:
    """A watcher that stops the run after ``step``."""

    def watch(event: Step | Epoch) -> None:
        if isinstance(event, Step) and event.step == step:
            raise StopError

    return watch
