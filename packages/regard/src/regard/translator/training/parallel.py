"""Training in several processes at once, started by torchrun: each takes its part of every batch.

With ``n_r`` target tokens in the part of process r, of ``n`` in the batch, and ``g_r`` the gradient of its mean loss,

    g = sum over r of (n_r / n) g_r

is the gradient of the whole batch: without dropout the run is the run of one process, but for rounding. All processes
hold the same weights and take the same step; the first one alone validates, logs and writes checkpoints, and the others
need no disk: what they must know when a run goes on, it sends them.

The gradients travel in one piece, together with the loss and the CPU time, once a step; between processes of
one machine they do not travel at all (:mod:`regard.translator.training.shared_rows`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import CouldNotFindOut, InputError, RegardError
from regard.files import end_with_parent
from regard.translator.data.batches import Batch
from regard.translator.runs.settings import Settings
from regard.translator.training.shared_rows import SharedRows, shared_rows

T = TypeVar("T")
TIMEOUT = 600  # seconds; the others wait while the first validates. A process that dies is noticed at once.
_FIRST_SPEAKS = 20.0  # seconds that the others leave the first to say what all of them found, and to end


@dataclass(kw_only=True)
class Team:
    """The processes that train one model; ``rank`` counts them from 0."""

    rank: int = 0
    size: int = 1
    clock: float = field(default_factory=time.process_time)
    rows: SharedRows | None = None
    asked_for_rows: bool = False

    @property
    def leads(self) -> bool:
        """Whether this is the process that validates, logs, writes and speaks."""
        return self.rank == 0

    @property
    def prefix(self) -> str:
        """What comes before a command that starts such a team on one machine."""
        return "" if self.size == 1 else f"torchrun --nproc-per-node {self.size} -m "

    def check(self, settings: Settings) -> None:
        """Refuse a batch that the processes cannot share evenly."""
        s = settings.training
        name, size = ("batch_tokens", s.batch_tokens) if s.batch_tokens else ("batch", s.batch)
        if size % self.size:
            raise InputError(
                f"training.{name} is {size}, which {self.size} processes cannot share evenly; make it a multiple of "
                f"{self.size}, or start another number of processes."
            )

    def own_part(self, batch: Batch) -> Batch | None:
        """The pairs of a batch that are this process's, so that all have about as many tokens: nobody waits for long.

        They stay as long as the batch, whose padding some models read. None: there are fewer pairs than processes.
        """
        if self.size == 1:
            return batch
        return batch.pairs(deal_pairs(batch.target_lengths(), self.size)[self.rank]) if len(batch) > self.rank else None

    def sum_up(self, weights: Sequence[Tensor], loss: float) -> tuple[float, float]:
        """Put the sum over all processes into the gradients; the sum of their losses, and the others' CPU-seconds."""
        if self.size == 1:
            return loss, 0.0
        now = time.process_time()
        spent, self.clock = now - self.clock, now
        # a process without a part still takes part, or the others would wait for it
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        numbers = torch.tensor([loss, spent])
        with self._detect_lost():
            flat = self._sum_gradients(gradients, numbers)
        summed = torch.split(flat, [w.numel() for w in weights])
        for weight, gradient in zip(weights, summed, strict=True):
            weight.grad = gradient.view_as(weight)
        return float(numbers[0]), float(numbers[1]) - spent

    def _sum_gradients(self, gradients: Sequence[Tensor], numbers: Tensor) -> Tensor:
        """The sum over all processes of the gradients, in one piece; ``numbers`` becomes theirs."""
        if not self.asked_for_rows:
            self.asked_for_rows, self.rows = True, self._shared_rows(gradients)
        if self.rows is not None:
            return self.rows.total(gradients, wait=lambda: dist.all_reduce(numbers))
        # one message for everything: on a network each costs a round trip
        flat = torch.cat([*(g.flatten() for g in gradients), numbers])
        dist.all_reduce(flat)
        numbers.copy_(flat[-2:])
        return flat[:-2]

    def _shared_rows(self, gradients: Sequence[Tensor]) -> SharedRows | None:
        length = sum(g.numel() for g in gradients)
        if not length or any(g.dtype != torch.float32 for g in gradients):  # of somebody's own model
            return None
        return shared_rows(
            rank=self.rank, size=self.size, length=length, tell=self.broadcast, all_agree=self._all_agree
        )

    def _all_agree(self, here: bool) -> bool:
        yes = torch.tensor([int(here)])
        dist.all_reduce(yes, op=dist.ReduceOp.MIN)
        return bool(yes)

    def check_agreement(self, settings: Settings, fingerprint: str, model: nn.Module) -> None:
        """Refuse to go on where the processes do not have the same settings, data and first weights."""
        if self.size == 1:
            return
        # copies of the data may lie elsewhere on each machine: their fingerprint counts
        content = {s: {k: v for k, v in values.items() if k != "path"} for s, values in settings.to_dict().items()}
        digest = hashlib.sha256(json.dumps([content, fingerprint]).encode())
        for tensor in model.state_dict().values():
            digest.update(tensor.contiguous().numpy().tobytes())
        answers: list[Any] = [None] * self.size
        with self._detect_lost():
            dist.all_gather_object(answers, digest.hexdigest())
        if len(set(answers)) > 1:
            raise InputError(
                "The processes of this run do not have the same settings, data and first weights; start all of them "
                "with the same command, on copies of the same data, with the same versions."
            )

    def broadcast(self, what: Any) -> Any:
        """What the first process has, for all of them."""
        if self.size == 1:
            return what
        box = [what]
        with self._detect_lost():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def run_on_first(self, do: Callable[[], T]) -> T:
        """What the first process finds when it does this, for all of them: its answer, or its error."""
        if self.size == 1:
            return do()
        answer: tuple[Any, RegardError | None] = None, None
        if self.leads:
            try:
                answer = do(), None
            except RegardError as error:
                answer = None, error
        value, problem = self.broadcast(answer)
        if problem is not None:
            raise problem
        return value  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def copy_of(self, path: Path) -> Iterator[Path | None]:
        """The first process's file, if it has one; the others get a copy that lasts as long as the block."""
        there = self.leads and path.exists()
        data = self.broadcast(path.read_bytes() if there and self.size > 1 else None)
        if self.leads or data is None:
            yield path if there else None
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_bytes(data)
            yield copy

    @contextlib.contextmanager
    def _detect_lost(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:  # whatever torch raises when another process is gone
            self.raise_lost()

    def raise_lost(self) -> NoReturn:
        raise LostError(
            f"Process {self.rank} of {self.size} (counted from 0) stops, because another one ended or all were told "
            "to; nothing that was saved is lost: give the same command again and it goes on from the last checkpoint."
        )


def deal_pairs(lengths: Tensor, players: int) -> list[Tensor]:
    """Which pairs each of the players gets: the longest first, there and back again (1 2 3 3 2 1 1 2 3 ...).

    >>> [pairs.tolist() for pairs in deal_pairs(torch.tensor([9, 5, 8, 7, 6]), 2)]
    [[0, 4, 1], [2, 3]]
    """
    order = lengths.argsort(descending=True, stable=True)
    turn = torch.arange(len(order))
    back = turn // players % 2 == 1
    player = torch.where(back, players - 1 - turn % players, turn % players)
    return [order[player == number] for number in range(players)]


class LostError(CouldNotFindOut):
    """The other processes are gone."""


@contextlib.contextmanager
def join_team() -> Iterator[Team]:
    """The team that torchrun started this process in; a team of one without torchrun.

    Of an error that all processes find, the first one speaks.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or not dist.is_torchelastic_launched():
        yield Team()
        return
    end_with_parent(os.getppid())  # torchrun, killed, would leave its processes at work, and the run locked
    team = Team(rank=int(os.environ["RANK"]), size=size)
    signal.signal(signal.SIGTERM, lambda *_: team.raise_lost())  # torchrun ends the others when one is gone
    with team._detect_lost():
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
        # the first keeps the list of all: were it gone with an error already, the others could not even find each other
        dist.barrier()
    try:
        yield team
    except LostError:
        raise
    except RegardError:
        if not team.leads:
            _wait_for_first()
        raise
    dist.destroy_process_group()


def _wait_for_first() -> None:
    """Where the first process found the same error, torchrun ends this one meanwhile."""
    # bad input's exit code, at once: an exception here would print a second time what the first has said
    signal.signal(signal.SIGTERM, lambda *_: os._exit(2))
    time.sleep(_FIRST_SPEAKS)
