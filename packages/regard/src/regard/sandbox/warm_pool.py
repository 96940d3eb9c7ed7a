"""Processes that other people's code runs in, seen from outside: one of its own, or one from the warm pool of a jail.

Starting Python and importing NumPy takes far longer than most answers. So a jail has a pool: a process that starts
once, imports, and then makes a copy of itself for each answer. The copy confines itself before it sees the file; the
pool never sees one, and talks to us over a socket that the copy has closed. Each copy is ended and waited for before
the next is made, and has its own pipes, user rights, /tmp and limits: nothing of one answer is there for the next. The
jail bounds the memory of them all together.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from regard.sandbox import child
from regard.sandbox.jail import Start
from regard.sandbox.lines import clean
from regard.strict_json import JsonObject, parse_json
from regard.written_numbers import at_least

MOUNTED = Path("/sys/fs/cgroup")
# reads until whoever holds the other end lets go or ends; what is in the group may take a while to end with it
REMOVER = 'read _; n=0; until rmdir "$1" || [ $n -ge 200 ]; do n=$((n + 1)); sleep 0.05; done'


# A bound on the memory of everything that runs in a jail, where this system lets us have one (control groups). The
# limit on addresses that each process has bounds one process; this bounds what it holds in the kernel too. It needs
# the right to make a group below one's own: root has it, as has a user to whom the system delegates. To move a
# process takes the kernel some 20 ms of waiting, so a jail moves in while it starts; what it makes later is in the
# group at once. A group ends with whoever made it, also one that is killed: a small process waits for that. Should
# that one be killed too, the next group that is made takes away the empty ones of those who are gone.


class MemoryGroup:
    """A control group with a limit; ``is_active`` is False where none could be had."""

    def __init__(self, limit: int) -> None:
        self.place: Path | None = None
        with contextlib.suppress(OSError, ValueError):
            self._create(limit)

    @property
    def is_active(self) -> bool:
        return self.place is not None

    def _create(self, limit: int) -> None:
        parent = _own_group()
        if parent is None:
            return
        _remove_abandoned_groups(parent)
        place = (
            parent / f"regard-{_process_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-{uuid.uuid4().hex[:12]}"
        )
        place.mkdir()
        try:
            names = ("memory.max", "memory.limit_in_bytes")
            next(place / name for name in names if (place / name).exists()).write_text(str(limit))
            self.remover = _start_remover(place)
        except (OSError, StopIteration):
            place.rmdir()
            return
        self.place = place
        for name, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit)):
            with contextlib.suppress(OSError):
                if (place / name).exists():
                    (place / name).write_text(str(value))

    def add_process(self, process: int) -> None:
        """Move a process into the group, and those below it: again, until none has come meanwhile."""
        if self.place is None:
            return
        seen = set(map(int, (self.place / "cgroup.procs").read_text().split()))
        while new := {process, *descendants(process)} - seen:
            for pid in new:
                _write_if_possible(self.place / "cgroup.procs", str(pid))
            seen |= new

    def count_memory_kills(self) -> int:
        """How many processes of it the kernel has ended for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            if self.place is not None and (self.place / name).exists():
                counts = dict(line.split() for line in (self.place / name).read_text().splitlines())
                return int(counts.get("oom_kill", 0))
        return 0

    def remove(self) -> None:
        """Take it away again, once its last process is gone."""
        if self.place is not None:
            self.place = None
            self.remover.communicate()


def _write_if_possible(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # it has ended, or is not ours
        path.write_text(text)


def descendants(process: int) -> list[int]:
    """The processes that this one started, and theirs."""
    children: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            children += map(int, task.read_text().split())
    return [*children, *(pid for child in children for pid in descendants(child))]


def _start_remover(place: Path) -> subprocess.Popen[bytes]:
    """A process that takes the group away when we let go of it, or end; Ctrl-C is not for it."""
    return subprocess.Popen(
        ["/bin/sh", "-c", REMOVER, "sh", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,
    )


def _remove_abandoned_groups(parent: Path) -> None:
    """Take away the empty groups of processes that are gone; one that still has a process in it stays."""
    for place in parent.glob(f"regard-{_process_namespace()}-*-*-*"):
        process, started = place.name.split("-")[2:4]
        if process.isdecimal() and _start_time(int(process)) != started:
            with contextlib.suppress(OSError):
                place.rmdir()


def _process_namespace() -> str:
    """Whose numbers of processes ours are: another container's mean others."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(process: int) -> str:
    """When a process started, by the kernel's count; its number may be given again. Empty if there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _own_group() -> Path | None:
    """The folder of the group that this process is in, with a limit on memory if there is one."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for wanted, mounted in (("memory", MOUNTED / "memory"), ("", MOUNTED)):  # the older interface: a tree for each kind
        for path in (path for _, kinds, path in groups if wanted in kinds.split(",")):
            place = mounted / path.lstrip("/")
            return place if place.is_dir() and os.access(place, os.W_OK) else None
    return None


ANSWERS_WITHIN = 30.0  # seconds, for a pool that is asked to end something
OWN_MEMORY = 2**28  # bytes that a pool takes itself: Python, NumPy, perhaps torch


class WarmPoolError(Exception):
    """It did not start, or does not answer; what it said is the message."""


def popen(start: Start, **pipes: Any) -> subprocess.Popen[bytes]:
    """The command of a start, as the user and in the environment that it names."""
    user = start.user
    as_user: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return subprocess.Popen(start.command, env=start.environment, start_new_session=True, **pipes, **as_user)


class PlainWorker:
    """A process of its own, with our rights; its guard ends what it has started."""

    memory_held = False

    def __init__(self, start: Start) -> None:
        self.process = popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self.pipes = tuple(pipe for pipe in pipes if pipe is not None)  # all three

    def processes(self) -> list[int]:
        """Those that it consists of; more may come."""
        return [self.process.pid, *descendants(self.process.pid)]

    @property
    def code(self) -> int | None:
        """How it ended; below 0 by a signal."""
        return self.process.returncode

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself; it is left to be waited for, so that its number is not given to another."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
            return self.process.returncode is not None
        last = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > last:
                return False
            time.sleep(0.002)
        return True

    def end(self) -> None:
        """End it, and those that it has started: its pipe is closed already, which tells the guard.

        The signal to the group is for whoever does not hear, and is sent whether or not the first process still lives.
        """
        if self.process.returncode is not None:
            return
        if sys.platform.startswith("linux"):
            self.ends_within(child.ENDED_AFTER + 1)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its number is still taken: it has not been waited for
        self.process.wait()

    def out_of_memory(self) -> bool:
        """Nobody bounds it."""
        return False

    def close(self) -> None:
        """Nothing is kept."""


class WarmPool:
    """A process in a jail that makes one process after the other."""

    def __init__(self, start: Start, *, memory: int, seconds: float) -> None:
        self.said = ""
        self.group = MemoryGroup(memory + OWN_MEMORY)
        # messages, not a stream: each arrives whole, together with the ends of the pipes that belong to it
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.process = popen(start, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except OSError as error:
            self.control.close()
            self.group.remove()
            raise WarmPoolError(str(error)) from None
        self.group.add_process(self.process.pid)  # while it starts, which takes longer
        self.ask(None, seconds=seconds)
        self.group.add_process(self.process.pid)
        self.own = (self.process.pid, *descendants(self.process.pid))

    def ask(self, question: JsonObject | None, *, seconds: float, ends: Sequence[int] = ()) -> JsonObject:
        """What it says to a question, or at its start; the ends of pipes go along."""
        try:
            if question is not None:
                socket.send_fds(self.control, [json.dumps(question).encode()], ends)
            self.control.settimeout(seconds)
            reply = self.control.recv(1000)
            if not reply:  # it is gone, and what it said last is why
                self.close()
                raise WarmPoolError(self.said or f"it left with code {self.process.returncode}")
            return dict(parse_json(reply))
        except TimeoutError:
            self.close()
            raise WarmPoolError(f"it did not answer within {at_least(seconds, 3)} s") from None
        except OSError as error:
            self.close()
            raise WarmPoolError(str(error)) from None

    def close(self) -> None:
        """End it, and what it has made."""
        self.control.close()
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stderr is not None and not self.process.stderr.closed:
            said = self.process.stderr.read(2000)  # it has ended, so this does
            self.said = clean(said.decode("utf-8", errors="replace")).strip()
            self.process.stderr.close()
        self.group.remove()


class Worker:
    """A process made by a pool."""

    def __init__(self, pool: WarmPool, *, imports: Sequence[str], seconds: float, alone: bool) -> None:
        self.pool, self.alone = pool, alone
        self.code: int | None = None
        self.ended = False
        self.memory_held, self.before = pool.group.is_active, pool.group.count_memory_kills()
        questions, replies, prints = os.pipe(), os.pipe(), os.pipe()
        theirs = (questions[0], replies[1], prints[1])
        ours = ((questions[1], "wb"), (replies[0], "rb"), (prints[0], "rb"))
        self.pipes: tuple[IO[bytes], ...] = tuple(os.fdopen(end, mode, buffering=0) for end, mode in ours)
        try:
            pool.ask({"imports": [*imports]}, seconds=seconds, ends=theirs)
            self.own = [pid for pid in descendants(pool.process.pid) if pid not in pool.own]
            for pid in self.own:  # where memory runs out, these end and not the pool
                _write_if_possible(Path(f"/proc/{pid}/oom_score_adj"), "1000")
        except WarmPoolError:
            for pipe in self.pipes:
                pipe.close()
            raise
        finally:
            # ours must be the only open ends, or nobody would notice that the other side has closed its own
            for end in theirs:
                os.close(end)

    def processes(self) -> list[int]:
        """Its number, as we see it; in its jail it has another, and it can start none."""
        return self.own

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself; if not, it is ended."""
        if not self.ended:
            self.ended = True
            with contextlib.suppress(WarmPoolError):  # then its jail is gone, and it with it
                self.code = self.pool.ask({"within": seconds}, seconds=seconds + ANSWERS_WITHIN)["code"]
        return self.code is not None

    def out_of_memory(self) -> bool:
        """Whether it was ended for want of memory."""
        return self.pool.group.count_memory_kills() > self.before

    def end(self) -> None:
        """End it; it may have ended already."""
        self.ends_within(0.0)

    def close(self) -> None:
        """Let the pool go, unless it is kept for the next."""
        if self.alone:
            self.pool.close()


_warm: dict[tuple[str, ...], WarmPool] | None = None


@contextlib.contextmanager
def keep_warm() -> Iterator[None]:
    """Meanwhile pools stay for the next answer; not for several threads."""
    global _warm
    before, _warm = _warm, {}
    try:
        yield
    finally:
        for pool in _warm.values():
            pool.close()
        _warm = before


def borrow(start: Start, *, imports: Sequence[str], memory: int, seconds: float) -> Worker:
    """A process in the jail of this start: of a pool that is there already, or of a new one.

    ``memory``: bytes for all that an answer holds, where the system bounds that.
    """
    if _warm is None:
        return _new_worker(WarmPool(start, memory=memory, seconds=seconds), imports, seconds, alone=True)
    key = (*start.command, *imports, str(memory))  # how the jail is built, with which users, and what is loaded in it
    if key in _warm:
        with contextlib.suppress(WarmPoolError):
            if _warm[key].process.poll() is None:  # what is left of an ended jail may still answer, and die with it
                return _new_worker(_warm[key], imports, seconds, alone=False)
        _warm[key].close()
    _warm[key] = WarmPool(start, memory=memory, seconds=seconds)
    return _new_worker(_warm[key], imports, seconds, alone=False)


def _new_worker(pool: WarmPool, imports: Sequence[str], seconds: float, *, alone: bool) -> Worker:
    try:
        return Worker(pool, imports=imports, seconds=seconds, alone=alone)
    except WarmPoolError:
        pool.close()
        raise
