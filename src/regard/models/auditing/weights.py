"""Weights: later."""

from __future__ import annotations

from collections.abc import Iterator

from regard.models.auditing.finding import Finding
from regard.models.auditing.subject import Subject

NAME = "weights"


def check(subject: Subject) -> Iterator[Finding]:
    return iter(())
