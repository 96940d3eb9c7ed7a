"""The run that comes with the package: wherever a run folder is asked for, the word ``example`` is one.

It was trained from the built-in corpus by one command, ``regard translator train example``, and put into the package by
``make example``. Its folder is a run's, without ``last.safetensors``, which only a run that goes on needs: the best
weights say themselves that the run is finished.
"""

from __future__ import annotations

from pathlib import Path

EXAMPLE = "example"
FOLDER = Path(__file__).parent.parent / EXAMPLE


def run_folder(given: str | Path) -> Path:
    """The folder that a word means; a folder of yours called ``example`` comes before ours.

    >>> run_folder("runs/one") == Path("runs/one"), run_folder("example") == FOLDER
    (True, True)
    """
    folder = Path(given)
    return FOLDER if folder == Path(EXAMPLE) and not folder.exists() else folder


def is_packaged(folder: Path) -> bool:
    """Whether a folder is the package's own, into which nothing may be written."""
    return folder.resolve() == FOLDER.resolve()
