"""Settings written as TOML, read with the same care as numbers: a file, of a sensible size, whole, and not too deep."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from regard.errors import InputError
from regard.files import read_file

LARGEST = 1 << 20  # bytes; a settings file has some thousand


def read_toml(path: str | os.PathLike[str], *, like: str) -> dict[str, Any]:
    """The table in a TOML file; what is wrong with it is one sentence, which ends with an example to go by, ``like``.

    Raises FileNotFoundError as it is: the caller knows what else could have been meant.
    """
    try:
        text = read_file(path, most=LARGEST).decode("utf-8-sig")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the path.") from None
    except RecursionError:
        raise InputError(f"{path} is not valid TOML: it is nested too deeply; write it like {like}.") from None
    except InputError:
        raise
    except ValueError as error:  # not UTF-8, not TOML, or a whole number of thousands of digits
        raise InputError(f"{path} is not valid TOML: {error}; write it like {like}.") from None
