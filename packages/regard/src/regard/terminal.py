"""Text on a terminal and in cells of a spreadsheet: names of files and other people's words go through here, so that
none of them drives either; and tables in columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

# control characters but for line ends and tabs, what turns or hides the text around it, and halves of characters;
# what joins two characters (U+200C, U+200D) is part of many scripts, and stays
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def printable(text: str, *, lines: bool = True) -> str:
    """The text with every character written out that a terminal would obey, or would not show; JSON stays JSON.

    Without ``lines``, line ends and tabs are written out too: a name cannot pass for a second sentence.

    >>> print(printable("red\\x1b[31m \\u202eyp.a"))
    red\\x1b[31m \\u202eyp.a
    """
    shown = _UNPRINTABLE.sub(lambda found: _escape(found[0]), text)
    return shown if lines else shown.replace("\n", r"\n").replace("\t", r"\t")


def _escape(character: str) -> str:
    return repr(character)[1:-1] if character < " " else json.dumps(character)[1:-1]


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
