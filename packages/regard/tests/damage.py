"""Damage to files, drawn at random and always the same for a seed; and a clock and a scale for what reads them.

`make test` draws a fixed number of cases from fixed seeds. With FUZZ_SECONDS the draws are fresh and go on for so many
seconds for each reader; a failure says its seed, and FUZZ_SEED=... draws that case alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator

NASTY = [
    b"\x00", b"\xff", b"\n", b"\r\n", b"\t", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1f\x8b", b"{", b"}" * 9, b"[" * 9,
    b'"', b"," * 5, b"-1", b"0", b"1e400", b"-1e400", b"nan", b"NaN", b"Infinity", b"inf", b"1_0", b"9" * 25,
    b"9" * 5000,
    b"0.1e-999999", b"null", b"true", b"{}", b"[]", b'""', b"\\ud800", b"\\u0000", b"4294967296",
    b"-9223372036854775809", b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\xff" * 8, b"[" * 3000, b"1" + b"0" * 400,
]  # fmt: skip
CPU, REAL = 20.0, 240.0  # seconds for one case: far more than any needs, on a slow and busy machine too


class HangError(BaseException):
    """Raised inside what takes too long; no reader catches it."""


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The data after one to three accidents."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        data = draw.choice([_flipped, _cut, _doubled, _spliced, _spliced, _renumbered, _renumbered, _moved])(data, draw)
    return data


def _place(data: bytes, draw: random.Random) -> int:
    """Anywhere, but rather at the beginning, where headers are."""
    return draw.randrange(min(len(data), 256) + 1) if draw.random() < 0.5 else draw.randrange(len(data) + 1)


def _flipped(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return data
    at = min(_place(data, draw), len(data) - 1)
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: _place(data, draw)]


def _doubled(data: bytes, draw: random.Random) -> bytes:
    a, b = sorted((_place(data, draw), _place(data, draw)))
    return data[:b] + data[a:b] * draw.choice([1, 1, 7]) + data[b:]


def _moved(data: bytes, draw: random.Random) -> bytes:
    a, b = sorted((_place(data, draw), _place(data, draw)))
    return data[:a] + data[b:] + data[a:b]


def _spliced(data: bytes, draw: random.Random) -> bytes:
    at = _place(data, draw)
    return data[:at] + draw.choice(NASTY) + data[at + draw.choice([0, 0, 1, 4, 8]) :]


def _renumbered(data: bytes, draw: random.Random) -> bytes:
    """Another number, or no number, in the place of one that is written in digits."""
    places = [i for i, byte in enumerate(data[:4096]) if 48 <= byte < 58]
    if not places:
        return _spliced(data, draw)
    start = end = draw.choice(places)
    while end < len(data) and 48 <= data[end] < 58:
        end += 1
    return data[:start] + draw.choice(NASTY) + data[end:]


def cases(name: str, count: int) -> Iterator[tuple[str, random.Random]]:
    """Seeds and what is drawn from them."""
    if alone := os.environ.get("FUZZ_SEED"):
        yield alone, random.Random(f"{name} {alone}")
        return
    seconds = float(os.environ.get("FUZZ_SECONDS", "0"))
    fresh, end, number = random.SystemRandom().randrange(10**9), time.monotonic() + seconds, 0
    while number < count if not seconds else time.monotonic() < end:
        seed = f"{fresh if seconds else 0}-{number}"
        yield seed, random.Random(f"{name} {seed}")
        number += 1


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """HangError after a time that only what hangs can take, on the processor or asleep."""

    def ring(number: int, frame: object) -> None:
        raise HangError(f"no answer after {CPU:g} s of the processor or {REAL:g} s of the wall")

    before = signal.signal(signal.SIGPROF, ring), signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_PROF, CPU)
    signal.setitimer(signal.ITIMER_REAL, REAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def outcome(ask: Callable[[], object]) -> BaseException | None:
    """What was raised, if anything was: within the time, and by whatever class."""
    try:
        with bounded():
            ask()
    except (Exception, HangError) as error:
        return error
    return None
