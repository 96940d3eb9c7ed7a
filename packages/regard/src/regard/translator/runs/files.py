"""The files of a run, written so that a stop at any moment loses nothing.

| file | what |
|---|---|
| ``run.json`` | versions, seed, data fingerprint, sizes: everything that makes the run what it is |
| ``settings.toml`` | every setting, commented |
| ``vocabulary.json`` | both vocabularies |
| ``last.safetensors`` | weights, their averages, optimiser, and how far the run is: what a resumed run continues from |
| ``best.safetensors`` | weights (averaged, if the run averages) with the lowest validation perplexity so far |
| ``usual.json`` | the words it was trained on and how sure it is of ordinary sentences; from the end of the training |
| ``log.jsonl`` | one JSON object per line: steps and epochs (:mod:`regard.translator.runs.records`) |

All are written by :func:`regard.files.write_file`, whole or not at all, and all but the settings, which people may
read and write, carry a SHA-256 that is checked when they are read (:mod:`regard.translator.runs.sealed_files`).
No random state is stored because none is needed: order and dropout are functions of the seed and the step.

The run that comes with the package: wherever a run folder is asked for, the word ``example`` is one.

It was trained from the built-in corpus by one command, ``regard translator train example``, and put into the package by
``make example``. Its folder is a run's, without ``last.safetensors``, which only a run that goes on needs: the best
weights say themselves that the run is finished.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import InputError, RegardError
from regard.files import PARTIAL, Lock, read_file
from regard.translator.runs.sealed_files import damage_error, seal, unseal

RUN, SETTINGS, VOCABULARY, USUAL = "run.json", "settings.toml", "vocabulary.json", "usual.json"
LAST, BEST = "last.safetensors", "best.safetensors"


def json_file(content: dict[str, Any]) -> bytes:
    """A JSON file that knows its own digest."""
    return seal(json.dumps(content, indent=1, ensure_ascii=False))


def read_json(path: Path, *, otherwise: str = "train the run again") -> Any:
    """A JSON file of ours, if nothing in it has changed since it was written; ``otherwise``: the other way out."""
    try:
        return unseal(read_file(path))
    except InputError:  # it is no file at all
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}: {path.parent} is not a run; give the folder that train wrote.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damage_error(path, str(error)[:120], otherwise) from None


def read_description(
    path: Path, what: str, wanted: set[str], *, otherwise: str, give: str = "another folder"
) -> dict[str, Any]:
    """What a file says about ``what`` its folder is, such as a study, with all that this cannot do without."""
    if not path.exists():
        raise InputError(f"{path.parent} is not {what}: it has no {path.name}; give {give}.")
    content = read_json(path, otherwise=otherwise)
    if not isinstance(content, dict) or not wanted <= content.keys():
        raise InputError(f"{path} does not describe {what}; restore it from a copy, or {otherwise}.")
    return content


@contextlib.contextmanager
def explain_errors(folder: Path, what: str) -> Iterator[None]:
    """One sentence where what a folder says cannot be; files of earlier versions have no digest to tell sooner."""
    try:
        yield
    except RegardError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder} does not describe a {what} ({type(error).__name__}: {str(error)[:80]}); restore its files "
            "from a copy, or give another folder."
        ) from error


def is_begun(folder: Path) -> bool:
    """Whether a folder has something in it; a file in its place is refused."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another --out.")
    return folder.exists() and any(folder.iterdir())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process, and clear away what a killed one was writing."""
    lock = Lock(folder)
    if not lock.acquire(wait=False):
        raise InputError(f"Another process is training in {folder}; wait for it, stop it, or give another --out.")
    try:
        for leftover in folder.glob(f".*{PARTIAL}"):
            leftover.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


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
