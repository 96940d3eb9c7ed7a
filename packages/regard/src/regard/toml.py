"""Settings written as TOML, read with the same care as numbers: a file, of a sensible size, whole, and not too deep.

Python's parser calls itself for every bracket, and of a key of n parts it makes tuples with n^2 / 2 entries in all: 6
GB for 80 KB. So how deep a text goes is counted before it is parsed, and nothing else here parses TOML.
"""

from __future__ import annotations

import os
import re
import tomllib
from importlib import resources
from itertools import accumulate
from typing import Any

from regard.errors import InputError
from regard.files import read_file

LARGEST = 1 << 20  # bytes; a settings file has some thousand
DEEPEST = 16  # parts of a key, and brackets within brackets; ours have three
# What brackets and dots mean nothing in: strings of many lines (which may end with two quotes of their own), strings of
# one line, comments. An end that is missing is the end of the text or line: the parser stops there too.
_PLAIN = re.compile(
    r'''"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+(?:"{3,5}|\Z|\\\Z)|\'{3}(?:[^']++|'{1,2}(?!'))*+(?:'{3,5}|\Z)'''
    r"""|"(?:[^"\\\n]++|\\[^\n])*+"?|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?:\.[ \t]*+[\w-]++[ \t]*+){{{DEEPEST}}}")


def read_toml(path: str | os.PathLike[str], *, like: str) -> dict[str, Any]:
    """The table in a TOML file; what is wrong with it is one sentence, which ends with an example to go by, ``like``.

    Raises FileNotFoundError as it is: the caller knows what else could have been meant.
    """
    try:
        return parse_toml(read_file(path, most=LARGEST).decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the path.") from None
    except InputError:
        raise
    except ValueError as error:  # not UTF-8, not TOML, too deep, or a whole number of thousands of digits
        raise InputError(f"{path} is not valid TOML: {error}; write it like {like}.") from None


def package_table(package: str, name: str) -> dict[str, Any]:
    """The table in a TOML file that lies in one of our own packages."""
    return parse_toml(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a text says; raises ValueError where it says none, or goes too deep.

    >>> parse_toml("a.b = [1, 2]")
    {'a': {'b': [1, 2]}}
    """
    bare = _PLAIN.sub(lambda match: "" if match[0].startswith("#") else "s", text)
    depths = accumulate(1 if bracket in "[{" else -1 for bracket in re.findall(r"[][{}]", bare))
    if max(depths, default=0) > DEEPEST or _LONG_KEY.search(bare):
        raise ValueError(f"it is nested too deeply, more than {DEEPEST} tables or lists in one another")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own words about long numbers are for programmers
        raise ValueError("a whole number in it has thousands of digits") from None
    _refuse_huge(table)
    return table


def _refuse_huge(value: Any) -> None:
    """TOML has whole numbers of 64 bits; beyond, Python can neither print some nor make floats of them."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number in it does not fit into 64 bits")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_huge(one)
