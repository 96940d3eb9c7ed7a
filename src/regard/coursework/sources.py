"""The five problem sets by their names, and where in them a statement is found."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import InputError

SETS = {
    "sequence-models-hw3": "Homework 3, Sequence Models (January 2026)",
    "cs224n-w25-a4": "a published solution to Stanford CS224N, winter 2025, assignment 4",
    "self-attention-written": "Self-Attention and Transformers, a written homework (October 2025)",
    "cse151b-hw4": "UCSD CSE 151B/251B, Homework 4 (June 2025)",
    "attention-position-svd": "Attention, position encoding and SVD, a problem set with its solutions",
}


@dataclass(frozen=True)
class Source:
    """A question of a problem set.

    >>> print(Source("cs224n-w25-a4", "question 1-1"))
    cs224n-w25-a4, question 1-1
    """

    name: str
    question: str

    def __post_init__(self) -> None:
        if self.name not in SETS:
            raise InputError(f"There is no problem set {self.name!r}; the sets are {', '.join(SETS)}.")

    def __str__(self) -> str:
        return f"{self.name}, {self.question}"
