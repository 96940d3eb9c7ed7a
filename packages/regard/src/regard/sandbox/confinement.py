"""Inside the jail, before the code runs: another user, no rights, a list of files that may be read, a list of calls.

Run by child.py, by path: nothing of regard is there. Each step raises OSError if the kernel refuses it, and then
nothing of the person's is run. The order matters: what needs rights first, then the user, then Landlock, and last the
filter of system calls, which forbids most of what came before it.
"""

from __future__ import annotations

import base64
import ctypes
import os
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any

# from the kernel's headers; the same on every architecture
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
SET_PDEATHSIG, SET_DUMPABLE, SET_KEEPCAPS, DROP_FROM_BOUNDING, SET_NO_NEW_PRIVS, AMBIENT = 1, 4, 8, 24, 38, 47
DAC_READ_SEARCH, LAST_RIGHT = 2, 63
EXECUTE, READ_FILE, READ_DIR, WRITE_FILE = 1, 4, 8, 2
TYPES_OF_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # Landlock's, by version
NOSUID, NODEV, NEW_MOUNTS = 2, 4, 0x00020000

system = ctypes.CDLL(None, use_errno=True)
system.syscall.restype = ctypes.c_long


def confine(rules: dict[str, Any], *, limit: Callable[[], None]) -> list[str]:
    """Put the rules in force; what holds now, in a few words each."""
    if rules["scratch"] is not None:  # its own, which is gone with it
        _check_result(system.unshare(NEW_MOUNTS), "unshare")
        _check_result(system.mount(b"tmpfs", b"/tmp", b"tmpfs", NOSUID | NODEV, rules["scratch"].encode()), "mount")
    _become_user(rules["user"], reading=rules["reading"])
    _check_result(system.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    _check_result(system.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check_result(system.prctl(SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    os.chdir("/tmp" if rules["scratch"] is not None else "/")
    limit()
    held = [f"user {os.getuid()}", "limits"]
    if rules["landlock"] is not None:
        held.append(f"Landlock {_restrict_files(**rules['landlock'])}")
    _install_filter(base64.b64decode(rules["seccomp"]))
    return [*held, "seccomp"]


def _check_result(returned: int, name: str) -> int:
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return returned


def _become_user(user: int | None, *, reading: bool) -> None:
    """Another user and no rights; ``reading`` keeps the one to read, where Landlock says what, and the interpreter lies
    in a folder that is closed to others."""
    keep = 1 << DAC_READ_SEARCH if reading else 0
    if user is not None:
        for right in range(LAST_RIGHT + 1):
            if not keep >> right & 1:
                system.prctl(DROP_FROM_BOUNDING, right, 0, 0, 0)  # those that do not exist, or are gone already, fail
        _check_result(system.prctl(SET_KEEPCAPS, 1 if keep else 0, 0, 0, 0), "prctl")
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("=Ii", 0x20080522, 0)  # version 3, this process
    data = struct.pack("=6I", keep, keep, 0, 0, 0, 0)  # effective, permitted, inheritable: low and high words
    _check_result(system.capset(header, data), "capset")
    if system.prctl(AMBIENT, 4, 0, 0, 0) < 0 and ctypes.get_errno() != 22:  # clear them all; old kernels have none
        _check_result(-1, "prctl")


def _restrict_files(*, read: list[str], listed: list[str], written: list[str]) -> int:
    """Only these files: to read and to load, to list, to read and write. The version that the kernel has."""
    version = _check_result(system.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)), "landlock")
    access = TYPES_OF_ACCESS[max(known for known in TYPES_OF_ACCESS if known <= version)]
    # files; from 4 on TCP, both ways; from 6 on abstract sockets and signals
    attributes = struct.pack("=Q", access) + (struct.pack("=Q", 3) if version >= 4 else b"")
    attributes += struct.pack("=Q", 3) if version >= 6 else b""
    size = ctypes.c_size_t(len(attributes))
    rules = _check_result(
        system.syscall(CREATE_RULESET, attributes, size, ctypes.c_uint32(0)), "landlock_create_ruleset"
    )
    for paths, rights in (
        (read, READ_FILE | READ_DIR | EXECUTE),
        (listed, READ_DIR),
        (written, READ_FILE | WRITE_FILE),
    ):
        for path in paths:
            _allow_path(rules, path, rights)
    _check_result(system.syscall(RESTRICT_SELF, rules, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(rules)
    return version


def _allow_path(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there, so nothing to allow
    try:
        rights &= ~0 if os.path.isdir(path) else ~READ_DIR
        rule = struct.pack("=Qi", rights, place)
        _check_result(system.syscall(ADD_RULE, rules, 1, rule, ctypes.c_uint32(0)), "landlock_add_rule")
    finally:
        os.close(place)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _install_filter(program: bytes) -> None:
    """Hand the filter to the kernel for every thread, and see that it holds."""
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]  # of seccomp
    given = _Program(len(program) // 8, program)
    code = system.syscall(number, 1, ctypes.c_ulong(1), ctypes.byref(given))  # SET_MODE_FILTER, for all threads (TSYNC)
    _check_result(-1 if code else 0, "seccomp")
    try:
        socket.socket(socket.AF_UNIX).close()
    except PermissionError:
        return
    raise OSError(0, "the filter of system calls is not in force")
