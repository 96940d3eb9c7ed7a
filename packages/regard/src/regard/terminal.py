"""Text on a terminal: names of files and other people's words go through here, so that none of them drives it."""

from __future__ import annotations

import json
import re

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
