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
