"""Tables for spreadsheets: CSV in which nothing that a student wrote becomes a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from regard.tables import plain_cell


def as_csv(rows: Sequence[Sequence[str]]) -> str:
    """Rows as CSV that no spreadsheet takes for formulas.

    >>> print(as_csv([["=1+1", "ada"], ["-1.5", "x, y"]]).replace(chr(13), ""), end="")
    '=1+1,ada
    -1.5,"x, y"
    """
    stream = io.StringIO()
    csv.writer(stream).writerows([[plain_cell(cell) for cell in row] for row in rows])
    return stream.getvalue()
