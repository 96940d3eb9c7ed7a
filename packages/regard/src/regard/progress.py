"""How long work speaks while it is under way: how far it is, and a line worth knowing now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")

STOPPING = "Ctrl-C stops it, and the same command goes on later"  # said before minutes of work that is kept


class Progress(Protocol):
    """Called with how far the work is: ``done`` of ``total``; an exception it raises stops the work."""

    def __call__(self, done: int, total: int, /) -> None: ...


class Counter:
    """Counts what is done, and tells it; where nobody listens, nothing is told."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def add(self, count: int = 1) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)


def steps(items: Iterable[T], total: int, progress: Progress | None) -> Iterator[T]:
    """The items one by one, telling after each how many of ``total`` are done.

    >>> list(steps("ab", 2, lambda done, total: print(done, "of", total)))
    1 of 2
    2 of 2
    ['a', 'b']
    """
    counter = Counter(progress, total)
    for item in items:
        yield item
        counter.add()


class Notify(Protocol):
    """Called with one line for a person, as soon as it is known."""

    def __call__(self, line: str, /) -> None: ...


def ignore(line: str, /) -> None:
    """Drop the line: nobody listens."""


def duration(seconds: float) -> str:
    """
    >>> duration(59), duration(75), duration(7300)
    ('59 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
