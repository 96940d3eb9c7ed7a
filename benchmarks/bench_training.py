"""Training the encoder-decoder of configs/good.toml: our loop against torch.nn.Transformer and against Joey NMT.

Target tokens (<eos> counted, <sos> and padding not) per CPU-second of one thread, the arms taking turns in one run;
the first turn of each is not timed. Everything that a loop does from batch to batch is in the figures: making the
batch, forward, backward, optimiser; for ours also clipping, the schedule and the averaged weights; for Joey also its
loader, clipping and schedule. Validation and checkpoints are not. All take AdamW's steps. `ours is` is our rate over
the arm's: above 1 we are faster.

torch's layers stand here twice: as tutorials use them, and used with care, with equal lengths, the loss at real places,
fused AdamW and our dropout. All arms but Joey's start from the same weights and get the same loss from the same pairs;
that is checked first. The plain loop is ours with the plain versions below; each line after it has one more of our fast
ones; the last trains as `good` ships. Joey counts padding in the size of a batch, so it stands here with two sizes: the
same number, and one that holds about as many target tokens.

    python -m benchmarks.bench_training --bleu 760      BLEU after so many CPU-seconds, ours and Joey's (half an hour)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from benchmarks import joey_peer
from benchmarks.joey_peer import TURN
from benchmarks.tutorial_transformer import TutorialTransformer
from regard.array_types import Whole
from regard.translator.data.batches import Batch, epoch_plan, plan
from regard.translator.data.vocabulary import PAD
from regard.translator.models.encoder import Dropout, build_model, seed_dropout
from regard.translator.models.translation import TranslationModel
from regard.translator.models.weights import Average, count_parameters
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.loop import deterministic_algorithms, learning_rate
from regard.translator.training.optimisers import build_optimiser
from regard.translator.training.preparation import PreparedData, prepare

ROUNDS = 4
TUTORIAL = "nn.Transformer as tutorials use it"
GOOD = "  and fused_optimiser: ours"
LARGE = "  and batches of 4,096"
JOEYS = (1500, 4096)  # batch sizes, in Joey's way of counting
SENTENCES = 128  # in a tutorial's batch
FAST = ["real_places", "equal_lengths", "fused_loss", "byte_dropout", "fused_optimiser"]
DATA = Path(__file__).parents[2] / "shared" / "data" / "multi30k"


def main() -> None:
    torch.set_num_threads(1)
    settings, data = prepared()
    with ExitStack() as open_until_the_end:
        folder = Path(open_until_the_end.enter_context(tempfile.TemporaryDirectory()))
        arms = {**tutorials(settings, data), **joeys(data, folder, open_until_the_end), **ours(settings, data)}
        check_equal(arms, data)
        for arm in arms.values():
            arm.turn()
            arm.tokens, arm.seconds, arm.batches = 0, 0.0, 0  # the first turn warms up
        for _ in range(ROUNDS):
            for arm in arms.values():
                arm.turn()
    table(arms)


def prepared(as_it_ships: bool = False) -> tuple[Settings, PreparedData]:
    where = str(DATA) if DATA.exists() else "builtin"
    # with the optimiser and the size of batch that all arms of the table have
    shared = [] if as_it_ships else ["optimiser=adamw", "batch_tokens=1500"]
    settings = load_settings("good", changes=[f'data.path="{where}"', *shared])
    data = prepare(settings)
    size = settings.model
    print(f"{len(data.train):,} training pairs of {Path(where).name}, {len(data.target):,} joint pieces;", end=" ")
    print(f"{size.layers} + {size.decoder_layers} layers, width {size.width}, torch {torch.__version__}")
    return settings, data


class Arm:
    """A way of training, and what it took so far."""

    weights: int
    tokens, seconds, batches = 0, 0.0, 0

    def turn(self) -> None:
        """Train for about :data:`TURN` CPU-seconds."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Here(Arm):
    """An arm in this process."""

    def __init__(self, model: Any, data: PreparedData, batches: list[Whole]) -> None:
        self.model, self.data, self.plan, self.at = model.train(), data, batches, 0
        self.weights = count_parameters(model)

    def turn(self) -> None:
        start = time.process_time()
        while time.process_time() < start + TURN:
            batch = self.data.train.batch(self.plan[self.at % len(self.plan)])
            self.step(batch)
            self.at, self.batches = self.at + 1, self.batches + 1
            self.tokens += len(batch.labels) - len(batch)  # <sos> is given
        self.seconds += time.process_time() - start

    def loss(self, batch: Batch) -> Tensor:
        raise NotImplementedError

    def step(self, batch: Batch) -> None:
        raise NotImplementedError


class Ours(Here):
    """A step of regard.translator.training.loop, which is deterministic too."""

    def __init__(self, settings: Settings, data: PreparedData, plain: Collection[str] = ()) -> None:
        settings = settings.with_changes(["batching=mixed"] if "equal_lengths" in plain else [])
        model = build_model(settings, len(data.source), len(data.target))
        super().__init__(model, data, epoch_plan(data.train, settings, 1))
        self.settings, self.plain = settings.training, plain
        self.optimiser = build_optimiser(settings, model, words=len(data.target))
        if "fused_optimiser" in plain:
            for group in self.optimiser.param_groups:
                group["fused"] = False
        if "byte_dropout" in plain:
            for dropout in (module for module in model.modules() if isinstance(module, Dropout)):
                dropout.__class__ = FloatDropout
        self.average = Average(model, decay=self.settings.average)

    def turn(self) -> None:
        with deterministic_algorithms(1):
            super().turn()

    def loss(self, batch: Batch) -> Tensor:
        smoothing = self.settings.smoothing
        if "real_places" in self.plain:
            return TranslationModel.loss(self.model, batch, smoothing=smoothing)
        if "fused_loss" in self.plain:
            labels = batch.target[:, 1:]
            scores = self.model.output(self.model.states(batch))
            return F.cross_entropy(scores, labels[labels != PAD], label_smoothing=smoothing)
        return self.model.loss(batch, smoothing=smoothing)  # type: ignore[no-any-return]

    def step(self, batch: Batch) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.at, self.settings.epochs * len(self.plan), self.settings)
        seed_dropout(self.model, self.settings.seed, self.at)
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimiser.step()
        self.average.follow(step=self.at)


class FloatDropout(Dropout):
    """A random float decides about a state."""

    def _keep_mask(self, states: Tensor) -> Tensor:
        return torch.rand(states.shape, generator=self.noise) >= self.share


class Tutorial(Here):
    """Batches of 128 sentences as they come, Adam, nothing else."""

    def __init__(self, settings: Settings, data: PreparedData, *, drop_only_states: bool = False) -> None:
        model = TutorialTransformer(settings, len(data.target))
        model.copy(build_model(settings, len(data.source), len(data.target)))
        if drop_only_states:
            model.drop_only_states()
        super().__init__(model, data, plan(data.train, size=SENTENCES, batching="mixed", seed=0, epoch=1))
        self.optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def loss(self, batch: Batch) -> Tensor:
        return self.model.loss(batch)  # type: ignore[no-any-return]

    def step(self, batch: Batch) -> None:
        self.optimiser.zero_grad()
        self.loss(batch).backward()
        self.optimiser.step()


class Careful(Tutorial):
    """torch's layers at their best that we know: our batches by tokens, of equal lengths, our dropout, fused AdamW."""

    def __init__(self, settings: Settings, data: PreparedData) -> None:
        super().__init__(settings, data, drop_only_states=True)
        self.model.take_our_dropout()
        self.plan, self.seed = epoch_plan(data.train, settings, 1), settings.training.seed
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss(self, batch: Batch) -> Tensor:
        return self.model.loss_at_real_places(batch)  # type: ignore[no-any-return]

    def step(self, batch: Batch) -> None:
        seed_dropout(self.model, self.seed, self.at)
        super().step(batch)


class Joey(Arm):
    """Joey in its own process, which waits while others have their turn."""

    def __init__(self, folder: Path, tokens: int) -> None:
        self.folder, self.process = folder, joey_peer.start(folder, tokens)
        self.before = joey_peer.said(folder, self.process.stdout)
        self.weights = self.before["weights"]

    def turn(self) -> None:
        print(file=self.process.stdin, flush=True)
        now = joey_peer.said(self.folder, self.process.stdout)
        took = {key: now[key] - self.before[key] for key in now}
        self.tokens, self.seconds = self.tokens + took["tokens"], self.seconds + took["seconds"]
        self.batches, self.before = self.batches + took["steps"], now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # nothing more comes in, so it stops


def tutorials(settings: Settings, data: PreparedData) -> dict[str, Arm]:
    return {
        TUTORIAL: Tutorial(settings, data),
        "  dropping only what we drop": Tutorial(settings, data, drop_only_states=True),
        "nn.Transformer used with care": Careful(settings, data),
    }


def joeys(data: PreparedData, folder: Path, running: ExitStack) -> dict[str, Arm]:
    if reason := joey_peer.missing():
        print(f"left out: {reason}")
        return {}
    found: dict[str, Arm] = {}
    for tokens in JOEYS:
        place = folder / str(tokens)
        place.mkdir()
        joey_peer.write_data(place, data)
        found[f"Joey NMT 2.3, batches of {tokens:,}"] = running.enter_context(Joey(place, tokens))
    return found


def ours(settings: Settings, data: PreparedData) -> dict[str, Arm]:
    """From all plain to all fast, one after the other, then larger batches."""
    arms: dict[str, Arm] = {}
    for count in range(len(FAST) + 1):
        name = f"  and {FAST[count - 1]}" if count else "our plain loop, batches by tokens"
        plain = FAST[count:]
        arms[name if plain else GOOD] = Ours(settings, data, plain)
    shipped = load_settings("good")
    today = [f"optimiser={shipped.training.optimiser}", f"batch_tokens={shipped.training.batch_tokens}"]
    return {
        **arms,
        LARGE: Ours(settings.with_changes(["batch_tokens=4096"]), data),
        f"good as it ships: {', '.join(today)}": Ours(settings.with_changes(today), data),
    }


def check_equal(arms: dict[str, Arm], data: PreparedData) -> None:
    """One batch, nothing dropped: the same loss in every arm of this process."""
    here = [arm for arm in arms.values() if isinstance(arm, Here)]
    batch, losses = data.train.batch(here[0].plan[0]), []
    for arm in here:
        arm.model.eval()
        losses.append(float(arm.loss(batch).detach()))
        arm.model.train()
    spread = max(losses) - min(losses)
    print(f"loss of one batch in {len(here)} arms: {losses[0]:.6f}, spread {spread:.1e}", flush=True)
    if spread > 1e-4:
        sys.exit("These are not the same model: nothing measured.")


def table(arms: dict[str, Arm]) -> None:
    tutorial, good = arms[TUTORIAL].rate, arms[GOOD].rate
    print(f"{'':<38}{'weights':>10}{'tokens/batch':>16}{'tokens/CPU-s':>14}{'tutorial=1':>12}{'ours is':>9}")
    for name, arm in arms.items():
        ratios = f"{arm.rate / tutorial:>11.2f}x{good / arm.rate:>8.2f}x"
        print(f"{name:<38}{arm.weights:>10,}{arm.tokens / arm.batches:>16,.0f}{arm.rate:>14,.0f}{ratios}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bleu", type=float, metavar="SECONDS", help="compare BLEU after so many CPU-seconds instead")
    if seconds := options.parse_args().bleu:
        from benchmarks.training_bleu import compare

        compare(seconds)
    else:
        main()
