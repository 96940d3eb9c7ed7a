"""Winnable's tasks on a Dask cluster, of this machine or of many: joblib hands them over.

Dask gives the tasks of a worker that dies to the others, and every task answers for its own rows whoever runs it: the
result is the same number for number. The matrix is not an argument of the tasks, which joblib would leave with a single
worker and lose with it: it is handed to every worker as it joins, also to those that join later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import count
from typing import Any

import joblib
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin, get_client
from distributed.protocol import pickle as dask_messages

from regard.design.winnable_rows import published
from regard.errors import CouldNotFindOut, InputError

TRIES = 20  # to hand out a value while workers die
PATIENCE = 20  # seconds in which a scheduler must answer
LOST = (
    "The cluster lost its workers one after the other, so the rest could not be found out; with --resume FILE.json the "
    "same command goes on from what is known."
)
_HERE: dict[str, Any] = {}  # in a worker: what was handed to it


@dataclass(frozen=True)
class Handed:
    """Stands in a task for what every worker was handed."""

    name: str

    def received(self) -> Any:
        if self.name not in _HERE:  # a worker that joined just when it was handed out: the scheduler has it
            stored = get_client().run_on_scheduler(_stored, self.name)
            _HERE[self.name] = dask_messages.loads(stored).value
        return _HERE[self.name]


def _stored(name: str, *, dask_scheduler: Any) -> Any:
    """A worker's plugin as the scheduler keeps it, in Dask's own form of a message."""
    return dask_scheduler.worker_plugins[name]


class Hand(WorkerPlugin):  # type: ignore[misc]  # distributed has no types
    """Puts a value into every worker's memory, of those that are there and of those to come."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def setup(self, worker: Any) -> None:
        _HERE[self.name] = self.value

    def teardown(self, worker: Any) -> None:
        if _HERE.get(self.name) is self.value:  # and not that of a second try, which may have come in between
            del _HERE[self.name]


@contextlib.contextmanager
def dask_cluster(scheduler: str | None = None, *, workers: int | None = None) -> Iterator[Any]:
    """Let `winnable` run on the Dask cluster at this address, or on one of `workers` processes that is started here.

    Yields the client. Every worker needs regard, of the same version, in its Python.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a worker that dies is not the reader's business
    with contextlib.ExitStack() as open_ones:
        if scheduler is None:
            processes = workers or os.cpu_count() or 1
            local = LocalCluster(
                n_workers=processes, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
            )
            client = open_ones.enter_context(Client(open_ones.enter_context(local)))
        else:
            client = open_ones.enter_context(_connected(Client, scheduler))
        open_ones.enter_context(joblib.parallel_config(backend="dask"))
        open_ones.enter_context(_handing_out(client))
        with _losses_said():
            yield client


@contextlib.contextmanager
def _handing_out(client: Client) -> Iterator[None]:
    """What winnable publishes goes to every worker, until the end."""
    names: list[str] = []
    number = count()

    def hand(value: Any) -> Handed:
        names.append(f"regard-{os.getpid()}-{id(names)}-{next(number)}")
        _hand_to_all(client, Hand(names[-1], value))
        return Handed(names[-1])

    before = published.set(hand)
    try:
        yield
    finally:
        published.reset(before)
        for name in names:
            with contextlib.suppress(Exception):  # a cluster that is gone has nothing to give back
                client.unregister_worker_plugin(name)


def _connected(client: Any, scheduler: str) -> Any:
    try:
        return client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:160]
        raise InputError(
            f"No Dask scheduler answers at {scheduler!r} ({reason}); start one with dask scheduler, and give the "
            "address that it prints, as in tcp://10.0.0.1:8786."
        ) from None


def _hand_to_all(client: Client, hand: Hand) -> None:
    """Once more where a worker dies just then: soon the scheduler knows that it is gone."""
    for tries_left in reversed(range(TRIES)):
        try:
            client.register_plugin(hand, name=hand.name)
            return
        except OSError as error:  # the connection was closed
            if not tries_left:
                raise CouldNotFindOut(LOST) from error
            time.sleep(0.5)


@contextlib.contextmanager
def _losses_said() -> Iterator[None]:
    try:
        yield
    except (KilledWorker, CancelledError) as error:
        raise CouldNotFindOut(LOST) from error
