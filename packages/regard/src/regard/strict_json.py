"""JSON read so that it can mean one thing only.

Python's own reader takes the last of two entries of one name, where a person who looks at the file may see the first,
and it takes NaN and Infinity, which JSON does not have. Every JSON of ours and of others is read here.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

JsonObject = dict[str, Any]  # an object of JSON: plain values by name


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """The value that a text in JSON stands for; ValueError says in a few words why it stands for none.

    constants: NaN and Infinity are taken, for files of other programs and for losses that left the range of floats.

    >>> parse_json('{"norm": 1, "eps": [0.5, null]}')
    {'norm': 1, 'eps': [0.5, None]}
    >>> parse_json('{"norm": 1, "norm": 2}')
    Traceback (most recent call last):
    ValueError: the name 'norm' appears twice
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        return (_TOLERANT if constants else _STRICT).decode(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # Python's own advice about long numbers is for programmers
        raise ValueError("a whole number in it has thousands of digits" if "digits" in str(error) else error) from None


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a table; ValueError where a name stands twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice[:40]!r} appears twice")
    return table


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


_TOLERANT = json.JSONDecoder(object_pairs_hook=unique_names)
_STRICT = json.JSONDecoder(object_pairs_hook=unique_names, parse_constant=_refuse)
