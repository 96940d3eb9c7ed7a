"""What a teacher may take out of the lab: the server leaves it out of its answers, so no style sheet brings it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.errors import InputError
from regard.lab.page import Answer

ANSWERS, LINES, WHY = "answers", "lines", "why"
HIDEABLE = {
    ANSWERS: "verdicts, proofs and checklists of claims; the shortest and the textbook's query, the ceilings, the tour",
    LINES: "the Python and shell lines, which compute the same for whoever runs them",
    WHY: "the explanations of what surprises, and the tour",
}
REFUSED = "Verdicts, proofs and shortest queries are hidden in this lab: whoever started it chose so."


def checked_parts(words: Sequence[str]) -> frozenset[str]:
    """The parts to hide, from words that may hold several with commas between.

    >>> sorted(checked_parts(["answers,why"]))
    ['answers', 'why']
    >>> checked_parts(["proofs"])
    Traceback (most recent call last):
    regard.errors.InputError: There is nothing called 'proofs' to hide; there are answers, lines, why.
    """
    parts = [part.strip() for word in words for part in word.split(",") if part.strip()]
    for part in parts:
        if part not in HIDEABLE:
            raise InputError(f"There is nothing called {part!r} to hide; there are {', '.join(HIDEABLE)}.")
    return frozenset(parts)


def without_hidden_parts(answer: Answer, hidden: frozenset[str]) -> Answer:
    """The answer without its lines and its explanations, where these are hidden; pages leave out answers themselves."""
    if LINES in hidden:
        answer = replace(answer, python="", shell="")
    return replace(answer, why=()) if {WHY, ANSWERS} & hidden else answer
