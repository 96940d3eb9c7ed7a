"""A corpus and settings so small that a run takes a moment, for the tests of the translator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from regard.translator.models.weights import read_weights
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import Epoch, Step

WORDS = {"ein": "a", "hund": "dog", "mann": "man", "sieht": "sees", "rote": "red", "katze": "cat", "der": "the"}

# Our answer to the template's class: what stands in each blank.
FILLED = {
    "# write your layers here": """\
self.tokens, self.places = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.queries, self.keys, self.values = (nn.Linear(width, heads * head_width) for _ in range(3))
        self.mix = nn.Linear(heads * head_width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inside, self.outside = nn.Linear(width, inner), nn.Linear(inner, width)
        self.words = nn.Linear(width, target_words)
        self.noise = nn.Dropout(0.1)""",
    'raise NotImplementedError("write the embedding")': """\
return self.noise(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))""",
    'raise NotImplementedError("write the attention")': """\
q, k, v = (
            part(x).unflatten(-1, (self.heads, self.head_width)).transpose(1, 2)
            for part in (self.queries, self.keys, self.values)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / self.head_width**0.5, dim=-1)
        return self.norms[0](x + self.mix((weights @ v).transpose(1, 2).flatten(2)))""",
    'raise NotImplementedError("write the feed-forward part")': """\
return self.norms[1](y + self.outside(torch.relu(self.inside(y))))""",
    'raise NotImplementedError("write the output")': "return self.words(z)",
}


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
