"""What every verb returns: a frozen dataclass that prints, serialises and draws itself.

A result class is ``@dataclass(frozen=True, kw_only=True, eq=False)`` and derives from :class:`Result`;
it writes ``__str__`` (the paragraph the command line prints) and, where the answer can be "no", ``answer``.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
from typing import Any

import numpy as np


class Result:
    """Base of all results."""

    @property
    def answer(self) -> bool:
        """False where the honest answer is "no" (infeasible, refuted, broken); exit code 1 on the command line."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python values, ready for JSON; private fields are left out."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: plain(getattr(self, f.name)) for f in fields if not f.name.startswith("_")}

    def to_json(self, *, indent: int | None = 1) -> str:
        """The result as JSON; floats keep every digit, infinities become the strings "inf" and "-inf"."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def plain(value: Any) -> Any:
    """Arrays to lists, dataclasses to dictionaries, non-finite floats to strings.

    >>> plain({"a": np.arange(2), "b": float("inf")})
    {'a': [0, 1], 'b': 'inf'}
    """
    if isinstance(value, Result):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
