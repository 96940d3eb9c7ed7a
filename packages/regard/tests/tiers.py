"""Long tables of cases of one kind: `make test` takes a sample of each, `make check` or `make nightly` all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

SLOW = (pytest.mark.slow,)
NIGHTLY = (pytest.mark.slow, pytest.mark.nightly)  # `make nightly` runs them
TABLE = (pytest.mark.slow, pytest.mark.table)  # of models: `make check` runs them where models changed


def sampled(cases: Iterable[Any], *, every: int, name: Callable[[Any], str] = str, others: Any = SLOW) -> list[Any]:
    """The cases as parameters: the first of ``every`` so many is in the first tier, the others are marked."""
    return [
        pytest.param(case, id=name(case), marks=others if place % every else []) for place, case in enumerate(cases)
    ]
