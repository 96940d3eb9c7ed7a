"""Folders that results are written to."""

from __future__ import annotations

from pathlib import Path

from regard.errors import InputError


def make_folder(path: Path, *, mode: int = 0o777) -> Path:
    """The folder, made if it is not there; what keeps it from being made is one sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
    except (OSError, ValueError) as error:  # a null character, or half of a pair of surrogates, is a ValueError
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{str(path)!r} cannot be made: {why}; give another folder.") from None
    return path
