"""A run as it is written down: its settings, its epochs and whether it ended, without opening its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.translator.models.run import read_about
from regard.translator.runs.files import LAST, LOG, SETTINGS, VOCABULARY, read_json, read_log
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.loop import Epoch


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """What a run folder says about itself."""

    folder: Path
    settings: Settings
    about: dict[str, Any]
    epochs: list[Epoch]
    finished: bool
    target_vocabulary: str  # sha256: perplexities compare only where it is equal

    @property
    def best(self) -> Epoch:
        """The epoch with the lowest validation perplexity, which is where the best weights are from."""
        return min(self.epochs, key=lambda e: e.perplexity)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def cpu_seconds(self) -> float:
        return self.epochs[-1].cpu_seconds if self.epochs else 0.0


def read_record(folder: str | Path) -> Record:
    """The record of a run folder; raises InputError, in one sentence, for a folder that is not a whole run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}; give the one that train wrote.")
    if not any(folder.iterdir()):
        raise InputError(f"{folder} is empty; give a folder that train, compare or tune wrote.")
    about = read_about(folder)
    words = read_json(folder / VOCABULARY)
    target = words.get("target") if isinstance(words, dict) else None
    return Record(
        folder=folder,
        settings=load_settings(folder / SETTINGS),
        about=about,
        epochs=logged_epochs(folder),
        finished=is_finished(folder),
        target_vocabulary=hashlib.sha256(json.dumps(target, sort_keys=True).encode()).hexdigest(),
    )


def logged_epochs(folder: Path) -> list[Epoch]:
    """The epochs in a run's log, in order."""
    found: dict[int, Epoch] = {}
    for entry in read_log(folder / LOG):
        if entry.get("event") == "epoch":
            try:
                epoch = Epoch(**{key: value for key, value in entry.items() if key != "event"})
            except TypeError:
                raise InputError(f"{folder / LOG} has an epoch that is not ours; restore it from a copy.") from None
            found[epoch.epoch] = epoch
    return [found[number] for number in sorted(found)]


def is_finished(folder: Path) -> bool:
    """Whether the last checkpoint says that all epochs are done; reads the header of the file only."""
    from safetensors import SafetensorError, safe_open

    path = folder / LAST
    if not path.exists():
        return False
    try:
        with safe_open(path, framework="pt") as stream:
            return bool(json.loads((stream.metadata() or {})["facts"]).get("finished"))
    except (SafetensorError, OSError, KeyError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is damaged, cut short, or not ours ({reason}); restore it from a copy, or train the run again."
        ) from None


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
