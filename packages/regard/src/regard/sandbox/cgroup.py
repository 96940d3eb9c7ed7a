"""A bound on the memory of everything that runs in a jail, where this system lets us have one (control groups).

The limit on addresses that each process has bounds one process; this bounds what it holds in the kernel too. It needs
the right to make a group below one's own: root has it, as has a user to whom the system delegates. To move a process
takes the kernel some 20 ms of waiting, so a jail moves in while it starts; what it makes later is in the group at once.
A group ends with whoever made it, also one that is killed: a small process waits for that. Should that one be killed
too, the next group that is made takes away the empty ones of those who are gone.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
# reads until whoever holds the other end lets go or ends; what is in the group may take a while to end with it
REMOVER = 'read _; n=0; until rmdir "$1" || [ $n -ge 200 ]; do n=$((n + 1)); sleep 0.05; done'


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


def kill_first_for_memory(process: int) -> None:
    """Where memory runs out, this process ends and not another of its group."""
    _write_if_possible(Path(f"/proc/{process}/oom_score_adj"), "1000")


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
        process, _, started = (
            place.name.removeprefix(f"regard-{_process_namespace()}-").rpartition("-")[0].partition("-")
        )
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
    for _, kinds, path in groups:
        if "memory" in kinds.split(","):  # the older interface: a tree for each kind
            return _writable_folder(MOUNTED / "memory", path)
    for _, kinds, path in groups:
        if not kinds:
            return _writable_folder(MOUNTED, path)
    return None


def _writable_folder(mounted: Path, path: str) -> Path | None:
    place = mounted / path.lstrip("/")
    return place if place.is_dir() and os.access(place, os.W_OK) else None
