"""What every verb returns: a frozen dataclass that prints, serialises and draws itself.

A result class is ``@dataclass(frozen=True, kw_only=True, eq=False)`` and derives from :class:`Result`;
it writes ``__str__`` (the paragraph the command line prints), ``answer`` where that can be "no", and ``figure`` where
there is a picture; ``plot`` then writes that to a file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from typing import Any

from regard.errors import InputError
from regard.files import check_target
from regard.markup import element
from regard.pictures import ENDINGS, Figure, inline_svg, save


class Result:
    """Base of all results."""

    @property
    def answer(self) -> bool:
        """False where the honest answer is "no" (infeasible, refuted, broken); exit code 1 on the command line."""
        return True

    def details(self) -> str:
        """What stands behind the answer, for whoever wants to see the arithmetic: `--details` on the command line."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python values, ready for JSON; private fields are left out."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: plain(getattr(self, f.name)) for f in fields if not f.name.startswith("_")}

    def to_json(self, *, indent: int | None = 1) -> str:
        """The result as JSON; floats keep every digit, infinities become the strings "inf" and "-inf"."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def figure(self) -> Figure | None:
        """The picture as a matplotlib figure (needs ``regard[plots]``); None where there is none."""
        return None

    def plot(self, path: str | os.PathLike[str], /) -> None:
        """Write the picture to an .svg, .png or .pdf file (needs ``regard[plots]``), whole or not at all."""
        target = check_target(path, ENDINGS)  # before the drawing, which can take seconds
        drawn = self.figure()
        if drawn is None:
            raise InputError(f"There is nothing to draw in this {type(self).__name__}; print it instead.")
        save(drawn, target)

    def _repr_html_(self) -> str:
        """What a notebook shows: the paragraph, and under it the picture, where matplotlib is installed."""
        paragraph = element("pre", str(self))
        try:
            drawn = self.figure()
        except InputError:  # no matplotlib: the paragraph does without
            return paragraph
        if drawn is None:
            return paragraph
        return paragraph + inline_svg(drawn)


def plain(value: Any) -> Any:
    """Arrays to lists, dataclasses to dictionaries, non-finite floats to strings.

    >>> import numpy as np
    >>> plain({"a": np.arange(2), "b": float("inf")})
    {'a': [0, 1], 'b': 'inf'}
    """
    if isinstance(value, Result):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if _of_numpy(value):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    # JSON has no infinity, and readers of it disagree on what Python would write
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _of_numpy(value: Any) -> bool:
    """Whether a value is NumPy's array or number; NumPy is not loaded to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))
