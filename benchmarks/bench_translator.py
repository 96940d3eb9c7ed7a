"""Training the coursework's encoder: our loop against the same model padded to a fixed length.

Target tokens per CPU-second of one thread, the arms taking turns in one process, batches of 128 pairs, forward,
backward and AdamW. A ratio is our rate over the arm's: above 1 we are faster. All arms have the same weights and get
the same loss from the same pairs; that is checked first. `plain 43` is the length that a course template uses,
`plain 20` is what these pairs need, and both score every place of every sentence with torch's own cross-entropy.

A plain arm allocates and frees hundreds of megabytes a step, which the C library gives back to the system each time;
the last line says how much of the ratio is that (glibc only): with the memory kept, the plain arms are faster.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.array_types import Whole
from regard.translator.data.batches import Batch, plan
from regard.translator.data.vocabulary import PAD
from regard.translator.models.encoder import EncoderTranslator, build_model, pad_to_length
from regard.translator.runs.settings import Settings
from regard.translator.training.preparation import PreparedData, prepare

ROUNDS, BATCHES = 6, 3
DATA = Path(__file__).parents[2] / "shared" / "data" / "multi30k"

Loss = Callable[[EncoderTranslator, Batch], Tensor]


def main() -> None:
    torch.set_num_threads(1)
    where = str(DATA) if DATA.exists() else "builtin"
    settings = Settings().with_changes([f'data.path="{where}"'])
    data = prepare(settings)
    print(f"{len(data.train):,} training pairs of {Path(where).name}, {len(data.target):,} target words")
    ours: Loss = lambda model, batch: model.loss(batch)  # noqa: E731
    arms = {
        "plain 43": Arm(settings.with_changes(["longest=41"]), data, plain(43)),
        "plain 20": Arm(settings, data, plain(20)),
        "real places, torch's cross-entropy": Arm(settings, data, real_places),
        "ours, mixed batches": Arm(settings, data, ours),
        "ours, equal lengths": Arm(settings.with_changes(["batching=equal-length"]), data, ours),
    }
    check_equal(arms, data)
    run(arms)
    table(arms)
    if keep_memory():
        print("\nthe same with freed memory kept (mallopt):")
        for arm in arms.values():
            arm.seconds, arm.tokens = 0.0, 0
        run(arms)
        table(arms)


class Arm:
    """A way of doing a step, and what it took so far."""

    def __init__(self, settings: Settings, data: PreparedData, loss: Loss) -> None:
        self.data, self.loss = data, loss
        self.model = build_model(settings, len(data.source), len(data.target))
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
        s = settings.training
        self.plan: list[Whole] = plan(data.train, size=s.batch, batching=s.batching, seed=0, epoch=1)
        self.seconds, self.tokens = 0.0, 0

    def step(self, batch: Batch) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(self.model, batch).backward()
        self.optimiser.step()

    def turn(self, number: int) -> None:
        batches = [self.data.train.batch(rows) for rows in self.plan[number * BATCHES : (number + 1) * BATCHES]]
        start = time.process_time()
        for batch in batches:
            self.step(batch)
        self.seconds += time.process_time() - start
        self.tokens += sum(len(batch.labels) for batch in batches)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def plain(length: int) -> Loss:
    """Every sentence padded to ``length``, scores for every place."""

    def loss(model: EncoderTranslator, batch: Batch) -> Tensor:
        scores = model(pad_to_length(batch.source, length), length)
        return F.cross_entropy(scores.flatten(0, 1), pad_to_length(batch.target, length).flatten(), ignore_index=PAD)

    return loss


def real_places(model: EncoderTranslator, batch: Batch) -> Tensor:
    return F.cross_entropy(model.output(model.states(batch)), batch.labels)


def check_equal(arms: dict[str, Arm], data: PreparedData) -> None:
    """One batch, the same weights in every arm (positions past 20 are never looked at): the same loss."""
    batch = data.train.batch(next(iter(arms.values())).plan[0])
    shared = arms["plain 20"].model.state_dict()
    losses = {}
    for name, arm in arms.items():
        longer = arm.model.state_dict()
        weights = {key: _fitted(value, longer[key]) for key, value in shared.items()}
        arm.model.load_state_dict(weights)
        with torch.no_grad():
            losses[name] = float(arm.loss(arm.model, batch))
    spread = max(losses.values()) - min(losses.values())
    print(f"loss of one batch in every arm: {losses['plain 20']:.6f}, spread {spread:.1e}")


def _fitted(value: Tensor, like: Tensor) -> Tensor:
    whole = like.clone()
    whole[tuple(slice(n) for n in value.shape)] = value
    return whole


def run(arms: dict[str, Arm]) -> None:
    for arm in arms.values():
        arm.turn(0)
        arm.seconds, arm.tokens = 0.0, 0  # the first turn warms up
    for number in range(1, ROUNDS + 1):
        for arm in arms.values():
            arm.turn(number)


def table(arms: dict[str, Arm]) -> None:
    print(f"{'':<36}{'tokens/CPU-s':>13}{'mixed is':>10}{'equal is':>10}")
    mixed, equal = arms["ours, mixed batches"].rate, arms["ours, equal lengths"].rate
    for name, arm in arms.items():
        print(f"{name:<36}{arm.rate:>13,.0f}{mixed / arm.rate:>9.2f}x{equal / arm.rate:>9.2f}x", flush=True)


def keep_memory() -> bool:
    """Ask glibc to keep freed memory; False where that is not the C library."""
    try:
        library = ctypes.CDLL(None)
        return bool(library.mallopt(-3, 1 << 30) and library.mallopt(-1, 1 << 30))
    except (OSError, AttributeError):
        return False


if __name__ == "__main__":
    main()
