"""A run as its folder tells it: its settings, its epochs and whether it ended, without opening its weights.

This is the one reader of run folders that needs no torch: reports, comparisons, studies, the lab and the records of the
coursework use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.translator.runs.files import BEST, LAST, RUN, SETTINGS, VOCABULARY, read_json, run_folder
from regard.translator.runs.log import Epoch, Log, read_log
from regard.translator.runs.sealed_files import read_header
from regard.translator.runs.settings import Settings, load_settings

_ABOUT = {  # what run.json may say, and of which type; earlier versions said less
    **dict.fromkeys(("corpus", "pairs", "words", "vectors", "versions", "code"), dict),
    **dict.fromkeys(("seed", "processes", "target_tokens", "parameters"), int),
    **dict.fromkeys(("fingerprint", "command"), str),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """What a run folder says about itself."""

    folder: Path
    settings: Settings
    about: dict[str, Any]
    log: Log
    finished: bool
    target_vocabulary: str  # sha256: perplexities compare only where it is equal

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return self.log.epochs

    @property
    def best(self) -> Epoch:
        """The epoch with the lowest validation perplexity, which is where the best weights are from."""
        if not self.epochs:
            raise InputError(f"The run in {self.folder} has no finished epoch yet; go on with its train command first.")
        return min(self.epochs, key=lambda e: e.perplexity)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def cpu_seconds(self) -> float:
        return self.epochs[-1].cpu_seconds if self.epochs else 0.0


def read_record(folder: str | Path) -> Record:
    """The record of a run folder; raises InputError, in one sentence, for a folder that is not a whole run."""
    folder = run_folder(folder)
    check_name(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}; give the one that train wrote, or example, which is ours.")
    if not any(folder.iterdir()):
        raise InputError(f"{folder} is empty; give a folder that train, compare or tune wrote.")
    words = read_json(folder / VOCABULARY)
    target = words.get("target") if isinstance(words, dict) else None
    return Record(
        folder=folder,
        settings=load_settings(folder / SETTINGS),
        about=read_about(folder),
        log=read_log(folder),
        finished=is_finished(folder),
        target_vocabulary=hashlib.sha256(json.dumps(target, sort_keys=True).encode()).hexdigest(),
    )


def check_name(folder: Path) -> None:
    """Raise InputError where a folder's name is not UTF-8: no page and no JSON could show it."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        shown = str(folder).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"The name of the folder {shown} is not UTF-8; rename it.") from None


def read_about(folder: Path) -> dict[str, Any]:
    """What a run's folder says about it beside the settings."""
    content = read_json(folder / RUN)
    about: dict[str, Any] = content if isinstance(content, dict) else {}
    strange = [key for key, kind in _ABOUT.items() if key in about and not isinstance(about[key], kind)]
    if "fingerprint" not in about or strange:
        raise InputError(f"{folder / RUN} does not describe a run; restore it from a copy, or train the run again.")
    return about


def is_finished(folder: Path) -> bool:
    """Whether the last checkpoint says that all epochs are done; reads the header of the file only.

    A run without its last checkpoint, as the package's own is, has it said by its best.
    """
    path = folder / LAST
    path = path if path.exists() else folder / BEST
    return path.exists() and bool(read_header(path).facts.get("finished"))


def check_comparable(records: Sequence[Record]) -> None:
    """Raise InputError where these runs are of different data."""
    first = records[0]
    for other in records[1:]:
        if first.about["fingerprint"] != other.about["fingerprint"]:
            a, b = first.settings.data, other.settings.data
            lengths = f" (of up to {a.longest} and {b.longest} tokens)" if a.longest != b.longest else ""
            raise InputError(
                f"{first.folder} and {other.folder} do not compare: they were trained and validated on different "
                f"data{lengths}; compare runs of the same data."
            )


def why_perplexities_differ(records: Sequence[Record]) -> str:
    """Why the perplexities of runs of the same data do not mean the same thing; empty where they do."""
    first = records[0]
    for other in records[1:]:
        if first.target_vocabulary != other.target_vocabulary:
            sizes = [r.about.get("words", {}).get("target", "?") for r in (first, other)]
            return (
                f"target vocabularies differ ({sizes[0]} and {sizes[1]} tokens), and a smaller vocabulary alone lowers "
                "perplexity"
            )
        lengths = first.settings.data.longest, other.settings.data.longest
        if lengths[0] != lengths[1]:
            return f"perplexity is of sentences of up to {lengths[0]} and {lengths[1]} tokens"
    return ""
