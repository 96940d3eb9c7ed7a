"""Long tables of cases of one kind: `make test` takes a sample of each, `make check` all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], *, every: int, name: Callable[[Any], str] = str) -> list[Any]:
    """The cases as parameters: the first of ``every`` so many is in the first tier, the others are slow."""
    return [
        pytest.param(case, id=name(case), marks=[pytest.mark.slow] if place % every else [])
        for place, case in enumerate(cases)
    ]
