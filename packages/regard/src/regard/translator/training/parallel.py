"""Training in several processes at once, started by torchrun: each takes its part of every batch.

With ``n_r`` target tokens in the part of process r, of ``n`` in the batch, and ``g_r`` the gradient of its mean loss,

    g = sum over r of (n_r / n) g_r

is the gradient of the whole batch: without dropout the run is the run of one process, but for rounding. All processes
hold the same weights and take the same step; the first one alone validates, logs and writes checkpoints, and the others
need no disk: what they must know when a run goes on, it sends them.

The gradients travel in one piece, together with the loss and the CPU time, once a step; between processes of
one machine they do not travel at all (:mod:`regard.translator.training.parallel`).

Numbers that the processes of one machine add up in memory they share, without sending them.

Through a socket the gradients of a small model cost a fifteenth of a step of two processes: the kernel copies them out
of one and into the other, while both wait. Here every process writes into a row of its own and reads the others'.

The memory is a file without a name, which ends with the processes that have it open; its size is reserved before
anybody writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import secrets
import signal
import stat
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
        numbers = torch.tensor([loss, spent])  # of the processor, as what waits for the others is
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
        flat = torch.cat([*(g.flatten() for g in gradients), numbers.to(gradients[0].device)])
        dist.all_reduce(flat)
        numbers.copy_(flat[-2:])
        return flat[:-2]

    def _shared_rows(self, gradients: Sequence[Tensor]) -> SharedRows | None:
        length = sum(g.numel() for g in gradients)
        # of somebody's own model, or on a card, which has no memory that processes share
        if not length or any(g.dtype != torch.float32 or g.device.type != "cpu" for g in gradients):
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
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
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
    turn = torch.arange(len(order), device=order.device)
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
        cards = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if cards else "gloo", timeout=timedelta(seconds=TIMEOUT))
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


_SECRET = 64  # bytes before the rows, by which a process knows that it opened the first one's memory


class SharedRows:
    """A row of float32 numbers for each of ``size`` processes, twice.

    Who has written waits for the others, then reads; who writes next may meet somebody still reading, so the rows
    alternate: by the next turn but one, all have waited for all once more.
    """

    def __init__(self, memory: mmap.mmap, *, rank: int, size: int, length: int) -> None:
        rows = torch.frombuffer(memory, dtype=torch.float32, offset=_SECRET, count=2 * size * length)
        self.rows, self.rank, self.turn = rows.view(2, size, length), rank, 0

    def total(self, parts: Sequence[Tensor], wait: Callable[[], None]) -> Tensor:
        """The sum over all processes of these numbers, in one piece; ``wait`` returns when all have called it."""
        rows, self.turn = self.rows[self.turn], 1 - self.turn
        torch.cat([part.flatten() for part in parts], out=rows[self.rank])
        wait()
        # in the same order everywhere, so that all get the same bits
        return rows.sum(0)


def shared_rows(
    *, rank: int, size: int, length: int, tell: Callable[[object], object], all_agree: Callable[[bool], bool]
) -> SharedRows | None:
    """Rows that all the processes share; None where they are on several machines, or there is no memory to share.

    ``tell`` gives everybody what the first process has, ``all_agree`` whether it is so for all of them.
    """
    count = _SECRET + 2 * size * length * 4
    descriptor, path, secret = _reserve_memory(count) if rank == 0 else (-1, "", b"")
    path, secret = tell((path, secret))  # type: ignore[misc]
    memory = _open_memory(path, secret, count)
    # the first one keeps it open until all have answered
    together = all_agree(memory is not None)
    if descriptor >= 0:
        os.close(descriptor)
    return SharedRows(memory, rank=rank, size=size, length=length) if memory is not None and together else None


def _reserve_memory(count: int) -> tuple[int, str, bytes]:
    """So many bytes of memory that begin with a secret: open as this, found by others as that; -1 if not to be had."""
    secret = secrets.token_bytes(_SECRET)
    try:
        descriptor = os.memfd_create("regard")
    except (OSError, AttributeError):  # Linux has it
        return -1, "", secret
    try:
        # reserved, not only promised: where memory is short, a process would be ended at its first write
        os.posix_fallocate(descriptor, 0, count)
        os.pwrite(descriptor, secret, 0)
    except OSError:
        os.close(descriptor)
        return -1, "", secret
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}", secret


def _open_memory(path: str, secret: bytes, count: int) -> mmap.mmap | None:
    """That memory, if it is on this machine and the one that was meant."""
    try:
        # on another machine the path may lead to anything, also to a pipe that would never answer
        there = os.stat(path)
        if not stat.S_ISREG(there.st_mode) or there.st_size != count:
            return None
        with open(path, "r+b") as file:
            return mmap.mmap(file.fileno(), count) if file.read(_SECRET) == secret else None
    except OSError:
        return None
