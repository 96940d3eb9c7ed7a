"""The jail that other people's code runs in: two ways to build one, and which of them this machine allows.

Bubblewrap: namespaces of its own for users, processes, files, network and the rest. The file system holds Python,
NumPy, SciPy and an empty /tmp of 16 MB, and nothing else; no process but its own is to be seen.

Landlock: for containers that forbid namespaces, as course graders' do. The kernel lets it read Python, NumPy and SciPy,
and write nowhere. Names and sizes of other files can be asked for, their contents cannot.

In both: another user, without any right, where we are root; a filter of system calls (no new process, no socket, no
signal); limits on memory, time, files and threads; an empty environment. The judge stays outside.

The filter of system calls that an answer runs under: computing, reading what is open to it, and little else.

A program for the kernel's own small machine (classic BPF): it looks at the number of each call, and allows what is on
the list, some of it only with certain arguments. Everything else fails with "Operation not permitted", as if the
person who runs it had no right to: new processes and programs, sockets of any kind, signals, debugging, mounting,
namespaces, keys, changing the owner or the mode of a file, and whatever a later kernel adds. New threads are allowed.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import os
import random
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import InputError
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
    raise InputError(
        f"No jail can be built here, and nothing was run ({said}); without --jail the code runs with your rights."
    )


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
            "seccomp": base64.b64encode(seccomp_program()).decode("ascii"),
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
            "seccomp": base64.b64encode(seccomp_program()).decode("ascii"),
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
    if not is_supported():
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


# name=number, from the kernel's headers
X86_64 = """
    read=0 write=1 readv=19 writev=20 pread64=17 pwrite64=18 preadv=295 pwritev=296 close=3 close_range=436 fstat=5
    stat=4 lstat=6 newfstatat=262 statx=332 access=21 faccessat=269 faccessat2=439 readlink=89 readlinkat=267
    getcwd=79 chdir=80 fchdir=81 lseek=8 open=2 openat=257 dup=32 dup2=33 dup3=292 pipe=22 pipe2=293 poll=7
    ppoll=271 select=23 pselect6=270 epoll_create1=291 epoll_ctl=233 epoll_wait=232 epoll_pwait=281 eventfd2=290
    getdents=78 getdents64=217 mmap=9 mprotect=10 munmap=11 mremap=25 madvise=28 brk=12 msync=26 mincore=27
    membarrier=324 futex=202 set_robust_list=273 get_robust_list=274 set_tid_address=218 rseq=334 sched_yield=24
    sched_getaffinity=204 sched_getparam=143 sched_getscheduler=145 sched_get_priority_max=146
    sched_get_priority_min=147 getcpu=309 nanosleep=35 clock_nanosleep=230 clock_gettime=228 clock_getres=229
    gettimeofday=96 time=201 times=100 getitimer=36 setitimer=38 alarm=37 pause=34 getpid=39 gettid=186 getppid=110
    getuid=102 geteuid=107 getgid=104 getegid=108 getgroups=115 getresuid=118 getresgid=120 getpgrp=111 getpgid=121
    getsid=124 getpriority=140 uname=63 sysinfo=99 getrusage=98 getrlimit=97 setrlimit=160 getrandom=318
    rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 rt_sigpending=127 rt_sigsuspend=130 rt_sigtimedwait=128
    sigaltstack=131 restart_syscall=219 exit=60 exit_group=231 arch_prctl=158 umask=95 ftruncate=77 fsync=74
    fdatasync=75 flock=73 mkdir=83 mkdirat=258 unlink=87 unlinkat=263 rmdir=84 rename=82 renameat=264 renameat2=316
    wait4=61 waitid=247 capget=125 statfs=137 fstatfs=138 sendfile=40 copy_file_range=326 fadvise64=221 clone=56
    clone3=435 ioctl=16 fcntl=72 prctl=157 prlimit64=302
"""
AARCH64 = """
    read=63 write=64 readv=65 writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 close=57 close_range=436
    fstat=80 newfstatat=79 statx=291 faccessat=48 faccessat2=439 readlinkat=78 getcwd=17 chdir=49 fchdir=50 lseek=62
    openat=56 dup=23 dup3=24 pipe2=59 ppoll=73 pselect6=72 epoll_create1=20 epoll_ctl=21 epoll_pwait=22 eventfd2=19
    getdents64=61 mmap=222 mprotect=226 munmap=215 mremap=216 madvise=233 brk=214 msync=227 mincore=232
    membarrier=283 futex=98 set_robust_list=99 get_robust_list=100 set_tid_address=96 rseq=293 sched_yield=124
    sched_getaffinity=123 sched_getparam=121 sched_getscheduler=120 sched_get_priority_max=125
    sched_get_priority_min=126 getcpu=168 nanosleep=101 clock_nanosleep=115 clock_gettime=113 clock_getres=114
    gettimeofday=169 times=153 getitimer=102 setitimer=103 getpid=172 gettid=178 getppid=173 getuid=174 geteuid=175
    getgid=176 getegid=177 getgroups=158 getresuid=148 getresgid=150 getpgid=155 getsid=156 getpriority=141
    uname=160 sysinfo=179 getrusage=165 getrlimit=163 setrlimit=164 getrandom=278 rt_sigaction=134
    rt_sigprocmask=135 rt_sigreturn=139 rt_sigpending=136 rt_sigsuspend=133 rt_sigtimedwait=137 sigaltstack=132
    restart_syscall=128 exit=93 exit_group=94 umask=166 ftruncate=46 fsync=82 fdatasync=83 flock=32 mkdirat=34
    unlinkat=35 renameat=38 renameat2=276 wait4=260 waitid=95 capget=90 statfs=43 fstatfs=44 sendfile=71
    copy_file_range=285 fadvise64=223 clone=220 clone3=435 ioctl=29 fcntl=25 prctl=167 prlimit64=261
"""
ARCHITECTURES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}

CONDITIONAL = ("clone", "clone3", "ioctl", "fcntl", "prctl", "prlimit64")
OTHER_TABLE = 0x40000000  # x86-64 has a second table of calls from here on (x32)

# which argument is looked at, and the values that are allowed
ASKS_ABOUT_A_TERMINAL = (
    0x5401,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # its settings, its size, what waits to be read
KEEPS_A_FILE = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicates, flags and locks; no owner of signals, no leases
NAMES_A_THREAD = (15, 16, 0x53564D41)  # and memory areas
THIS_PROCESS = (0,)
THREAD, NAMESPACES = 0x00010000, 0x7E020080

LOAD, MASK, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE = 0, 4  # where the kernel puts them; arguments follow from 16 on, 8 bytes each

Instruction = tuple[int, int, int, int]  # code, how far to jump if so, how far if not, a number


def call_numbers(machine: str) -> dict[str, int]:
    """The calls on the list, by name.

    >>> call_numbers("x86_64")["read"], call_numbers("aarch64")["read"]
    (0, 63)
    """
    table = ARCHITECTURES[machine][1]
    return {name: int(number) for name, _, number in (entry.partition("=") for entry in table.split())}


def is_supported() -> bool:
    """Whether a filter can be written for this machine."""
    return os.uname().machine in ARCHITECTURES


def seccomp_program(machine: str | None = None) -> bytes:
    """The filter, as the kernel takes it: 8 bytes per instruction."""
    machine = machine or os.uname().machine
    calls, (architecture, _) = call_numbers(machine), ARCHITECTURES[machine]
    lines: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, OTHER_TABLE),
        (RETURN, 0, 0, KILL),
    ]
    for name, number in calls.items():
        if name not in CONDITIONAL:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    lines += _allow_threads(calls["clone"])
    lines += [(EQUAL, 0, 1, calls["clone3"]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]  # then clone is tried
    lines += _allow_values(calls["ioctl"], 1, ASKS_ABOUT_A_TERMINAL)
    lines += _allow_values(calls["fcntl"], 1, KEEPS_A_FILE)
    lines += _allow_values(calls["prctl"], 0, NAMES_A_THREAD)
    lines += _allow_values(calls["prlimit64"], 0, THIS_PROCESS)
    lines.append((RETURN, 0, 0, REFUSE | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _allow_values(number: int, argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """This call only with one of these values as its argument."""
    inside: list[Instruction] = [(LOAD, 0, 0, 16 + 8 * argument)]
    for value in values:
        inside += [(EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    inside.append((RETURN, 0, 0, REFUSE | errno.EPERM))
    return [(EQUAL, 0, len(inside), number), *inside]


def _allow_threads(number: int) -> list[Instruction]:
    """clone makes processes and threads: only a thread, and in no new namespace."""
    inside: list[Instruction] = [
        (LOAD, 0, 0, 16),
        (MASK, 0, 0, THREAD | NAMESPACES),
        (EQUAL, 0, 1, THREAD),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
    ]
    return [(EQUAL, 0, len(inside), number), *inside]
