"""The two ways a question can go unanswered.

A mathematical "no" is not an error: it is a normal result that carries its witness.
"""

from __future__ import annotations


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
