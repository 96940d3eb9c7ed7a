"""The jail that other people's code runs in: two ways to build one, and which of them this machine allows.

Bubblewrap: namespaces of its own for users, processes, files, network and the rest. The file system holds Python,
NumPy, SciPy and an empty /tmp of 16 MB, and nothing else; no process but its own is to be seen.

Landlock: for containers that forbid namespaces, as course graders' do. The kernel lets it read Python, NumPy and SciPy,
and write nowhere. Names and sizes of other files can be asked for, their contents cannot.

In both: another user, without any right, where we are root; a filter of system calls (no new process, no socket, no
signal); limits on memory, time, files and threads; an empty environment. The judge stays outside.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.sandbox import seccomp
from regard.sandbox.child import KEEP
from regard.sandbox.tool import HIDDEN, PACKAGES, Interpreter, this_interpreter

HERE = Path(__file__).parent
INSIDE = ("child.py", "confinement.py")
USERS = range(61184, 65520)  # kept free for users that exist for a while only
SCRATCH = 16 * 2**20  # bytes of /tmp, and of any file
INODES = 1000
PROCESSES, FILES = 24, 64  # threads, and files open at once
PROBED_FOR = 60.0  # seconds

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
FOUND = {"TORCHINDUCTOR_CACHE_DIR": "/tmp"}  # a folder that exists: where nothing can be written, torch makes none
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/tmp", **ONE_THREAD, **FOUND}


class Tier(StrEnum):
    """What keeps an answer in."""

    NONE = "none"
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"


@dataclass(frozen=True, kw_only=True)
class Start:
    """How the inside is started, and what it is told to do to itself before it runs anything."""

    tier: Tier
    command: tuple[str, ...]
    environment: dict[str, str]
    user: int | None = None  # whom to start it as
    bounds: dict[str, int]
    packages: tuple[str, ...] | None = None  # what can be imported besides the standard library, where that is bounded
    confinement: dict[str, Any] | None = None


def best_tier(jail: bool | Tier) -> Tier:
    """The best tier that works here, or the one that was named; refused, with the reasons, if there is none."""
    if jail is False or jail is Tier.NONE:
        return Tier.NONE
    wanted = (Tier.BUBBLEWRAP, Tier.LANDLOCK) if jail is True else (Tier(jail),)
    reasons = {tier: tier_obstacle(tier) for tier in wanted}
    for tier, reason in reasons.items():
        if not reason:
            return tier
    said = "; ".join(f"{tier.value}: {reason}" for tier, reason in reasons.items())
    raise InputError(f"No jail can be built here, and nothing was run ({said}); without --jail it has your rights.")


def start_command(tier: Tier, *, memory: int, seconds: int, packages: tuple[str, ...] = PACKAGES) -> Start:
    """How to start the inside in this tier; ``packages`` can be imported in it, beside the standard library."""
    bounds = {"RLIMIT_AS": memory, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0}
    if tier is Tier.NONE:
        command = (sys.executable, "-P", str(HERE / INSIDE[0]))
        return Start(tier=tier, command=command, environment={**os.environ, **ONE_THREAD}, bounds=bounds)
    python = this_interpreter(packages)
    bounds |= {"RLIMIT_FSIZE": SCRATCH, "RLIMIT_NOFILE": FILES, "RLIMIT_MSGQUEUE": 0, "RLIMIT_MEMLOCK": 0}
    return (_bubblewrap_start if tier is Tier.BUBBLEWRAP else _landlock_start)(python, bounds)


# bubblewrap


def _bubblewrap_start(python: Interpreter, bounds: dict[str, int]) -> Start:
    """As another user from the start, where that user can read Python; else root builds it, and leaves root inside."""
    root = os.geteuid() == 0
    early = spare_user() if root and python.is_world_readable else None
    late = spare_user() if root and early is None else None
    program = f"/jail/python/bin/{python.name}"
    command = [
        *_bubblewrap_command(python, own_users=late is None),
        program,
        "-I",
        "-S",
        "/jail/inside/child.py",
        KEEP,
    ]
    return Start(
        tier=Tier.BUBBLEWRAP,
        command=(*command, "/jail/packages"),
        environment={},
        user=early,
        bounds={**bounds, "RLIMIT_NPROC": PROCESSES},
        packages=python.modules,
        confinement={
            "user": late,
            "reading": False,
            "scratch": f"size={SCRATCH},nr_inodes={INODES},mode=1777",
            "landlock": None,
            "seccomp": base64.b64encode(seccomp.program()).decode("ascii"),
        },
    )


def _bubblewrap_command(python: Interpreter, *, own_users: bool) -> list[str]:
    """The command up to the program: what is unshared, what is there, and in which order it is built."""
    late = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL")  # to become another user, and to end that one
    rights = ("CAP_SYS_ADMIN",) if own_users else ("CAP_SYS_ADMIN", *late)
    users = (
        ["--unshare-user"] if own_users else []
    )  # --disable-userns would keep us from bounding /tmp; the filter does
    apart = [*users, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    words = [_bubblewrap_program(), *apart, "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    words += [word for right in rights for word in ("--cap-add", right)]  # given up before the code runs
    settings = {**ENVIRONMENT, "LD_LIBRARY_PATH": "/jail/python/lib"}
    words += [word for pair in settings.items() for word in ("--setenv", *pair)]
    places = _bind_mounts(python)
    above = sorted({str(folder) for _, place in places for folder in Path(place).parents} - {"/"})
    words += [word for folder in above for word in ("--perms", "0755", "--dir", folder)]  # else 0700, for root alone
    words += [word for source, place in places for word in ("--ro-bind", source, place)]
    for name in HIDDEN:
        if os.path.isdir(os.path.join(python.library, name)):
            words += ["--tmpfs", f"/jail/python/{sys.platlibdir}/{python.name}/{name}"]
    for device in ("null", "zero", "urandom"):
        words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    words += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", "/tmp"]
    return [*words, "--remount-ro", "/", "--chdir", "/tmp"]


def _bind_mounts(python: Interpreter) -> list[tuple[str, str]]:
    """What is shown in the jail, and where."""
    places = [(python.program, f"/jail/python/bin/{python.name}")]
    places.append((python.library, f"/jail/python/{sys.platlibdir}/{python.name}"))
    for path in python.shared:
        system = path.startswith(("/lib", "/usr/lib", "/etc", "/proc", "/sys"))
        places.append((os.path.realpath(path), path if system else f"/jail/python/lib/{os.path.basename(path)}"))
    places += [(path, f"/jail/packages/{os.path.basename(path)}") for path in python.packages]
    return [*places, *((str(HERE / name), f"/jail/inside/{name}") for name in INSIDE)]


def _bubblewrap_program() -> str:
    return shutil.which("bwrap") or "bwrap"


# Landlock


def _landlock_start(python: Interpreter, bounds: dict[str, int]) -> Start:
    """Started as we are; it becomes another user itself, and the kernel then knows what it may read."""
    root = os.geteuid() == 0
    inside = [entry.path for entry in os.scandir(python.library) if entry.name not in HIDDEN]
    read = [*inside, *python.shared, *python.packages, "/dev/urandom", "/dev/zero"]
    command = (python.program, "-I", "-S", str(HERE / INSIDE[0]), KEEP, *python.folders)
    return Start(
        tier=Tier.LANDLOCK,
        command=command,
        environment={**ENVIRONMENT},
        bounds={**bounds, "RLIMIT_NPROC": PROCESSES + (0 if root else _count_threads(os.getuid()))},
        packages=python.modules,
        confinement={
            "user": spare_user() if root else None,
            "reading": root and not python.is_world_readable,
            "scratch": None,
            "landlock": {"read": read, "listed": [python.library, *python.folders], "written": ["/dev/null"]},
            "seccomp": base64.b64encode(seccomp.program()).decode("ascii"),
        },
    )


# users


def spare_user() -> int:
    """A user that nobody is and no process runs as, so that no two answers meet."""
    taken = {_owner(path) for path in Path("/proc").glob("[0-9]*")}
    return random.SystemRandom().choice([user for user in USERS if user not in taken])


def _count_threads(user: int) -> int:
    """How many threads this user runs: the limit counts them all."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            count += len(os.listdir(path / "task")) if _owner(path) == user else 0
    return count


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


# probing


@cache
def tier_obstacle(tier: Tier) -> str:
    """Why this tier cannot be used here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if not seccomp.is_supported():
        return f"there is no filter of system calls for {os.uname().machine}"
    return _bubblewrap_obstacle() if tier is Tier.BUBBLEWRAP else _landlock_obstacle()


def _bubblewrap_obstacle() -> str:
    """Tried out, with nothing but Python in it: whether namespaces may be made is known only by making them."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    start = start_command(Tier.BUBBLEWRAP, memory=2**30, seconds=60)
    command = [*start.command[: start.command.index("-S") + 1], "-c", "pass"]
    as_user: dict[str, Any] = {"user": start.user, "group": start.user, "extra_groups": []} if start.user else {}
    try:
        tried = subprocess.run(command, env={}, capture_output=True, timeout=PROBED_FOR, **as_user)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap does not start ({error})"
    lines = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if tried.returncode == 0 else (lines[-1] if lines else f"bwrap ended with code {tried.returncode}")


def _landlock_obstacle() -> str:
    system = ctypes.CDLL(None)
    system.syscall.restype = ctypes.c_long
    if system.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1)) < 1:
        return "this kernel has no Landlock, or it is switched off"
    if system.prctl(21, 0, 0, 0, 0) < 0:  # PR_GET_SECCOMP
        return "this kernel has no filter of system calls (seccomp)"
    return ""
