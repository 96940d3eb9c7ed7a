"""Text in columns, for results that print a table, and cells of tables that a spreadsheet opens."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)
# A formula begins with one of these signs, of any width. Where decimals have a comma, spreadsheets part cells at
# semicolons, whatever stands in quotes; and some leave out quotes, blanks or what has no width at the beginning.
_UNSEEN = r"[\s\x22\x00-\x1f\u200b-\u200f\u202a-\u202e\u2060-\u2069\uFEFF]*"
_SIGN = r"[=+@\-\u2212\uFE62\uFE63\uFE66\uFE6B\uFF0B\uFF0D\uFF1D\uFF20]"
_FORMULA = re.compile(rf"(^|[;\t\r\n])(?={_UNSEEN}{_SIGN})")


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, two blanks apart.

    >>> print(align_columns([["a", "b"], ["long", "c"]]))
    a     b
    long  c
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def plain_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula, in whole or in part; numbers stay numbers.

    >>> plain_cell("=1+1"), plain_cell("ada;=1+1"), plain_cell("-1.5"), plain_cell("10 -> 5; late")
    ("'=1+1", "ada;'=1+1", '-1.5', '10 -> 5; late')
    """
    return text if _NUMBER.fullmatch(text) else _FORMULA.sub(r"\1'", text)
