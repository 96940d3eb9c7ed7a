"""The two ways a question can go unanswered, and "did you mean" for a name that is not there.

A mathematical "no" is not an error: it is a normal result that carries its witness.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_COMPARED = 10_000  # names that one which is not there is compared with: a file can have millions


class RegardError(Exception):
    """Anything Regard says instead of an answer; the message is one sentence meant for a person."""

    exit_code = 2


class InputError(RegardError, ValueError):
    """The question cannot be asked like this: names the thing, the rule, what came, and the fix."""

    exit_code = 2


class CouldNotFindOut(RegardError):  # noqa: N818 - it is an outcome, not a mistake
    """The question is fine, but no answer could be certified; says what was tried and what is known."""

    exit_code = 3


def was_stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an exception: libraries turn it into one of their own where it finds them at work,
    and so does a class that is just being defined."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def describe_error(error: BaseException) -> str:
    """An exception in a few words.

    >>> describe_error(ValueError("no."))
    'ValueError: no'
    """
    message = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__


def similar_names(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.5) -> list[str]:
    """The known names that an unknown one was probably meant to be, nearest first.

    >>> similar_names("kyes", ["keys", "values"])
    ['keys']
    """
    return difflib.get_close_matches(name, list(names)[:_COMPARED], n=most, cutoff=cutoff)


def suggest_name(name: str, names: Sequence[str]) -> str:
    """The name probably meant and the names there are, as the end of an error message.

    >>> suggest_name("kyes", ["keys", "values"])
    "did you mean 'keys'? (there are: keys, values)."
    """
    close = similar_names(name, names)
    listed = ", ".join(known[:80] for known in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    there = f"there are: {listed or 'none'}"
    return f"did you mean {close[0][:80]!r}? ({there})." if close else f"{there}."
