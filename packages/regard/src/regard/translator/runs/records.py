"""A run as its folder tells it: its settings, its epochs and whether it ended, without opening its weights.

This is the one reader of run folders that needs no torch: reports, comparisons, studies, the lab and the records of the
coursework use it.

Its log has every epoch, and the training loss now and then, one sealed JSON object per line.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import write_file
from regard.translator.runs.files import (
    BEST,
    LAST,
    RUN,
    SETTINGS,
    VOCABULARY,
    SealedLines,
    damage_error,
    lines_of,
    read_header,
    read_json,
    run_folder,
)
from regard.translator.runs.settings import Settings, load_settings
from regard.written_numbers import is_finite_number

LOG = "log.jsonl"
LOG_EVERY = 50  # steps
_LARGEST = 2**53  # of whole numbers: what a float still tells apart


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the training pairs and the validation after it."""

    epoch: int
    step: int
    training_loss: float  # mean over the epoch's tokens while the weights were changing; smoothed if that is set
    perplexity: float  # validation, every target token counted, <sos> too
    perplexity_without_sos: float
    cpu_seconds: float  # of the whole run so far
    wall_seconds: float


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a run has logged so far."""

    epochs: tuple[Epoch, ...]
    steps: tuple[tuple[int, float], ...]  # a step and its training loss, every now and then
    cut: bool = False  # whether it ends in the middle of a line, which is left out


def read_log(folder: Path) -> Log:
    """The log of a run folder; InputError, in one sentence, where a line of it cannot be right, or lines are missing.

    Everything is logged before a checkpoint says that it is done. So what the checkpoint has done, the log must have.
    """
    path = folder / LOG
    progress = _read_progress(folder)  # before the log: a run that is at work adds to both
    epochs: dict[int, Epoch] = {}
    steps: dict[int, float] = {}
    lines = SealedLines(path)
    for number, entry in enumerate(lines.read(), 1):
        try:
            if entry.get("event") == "epoch":
                epoch = epoch_of({key: value for key, value in entry.items() if key != "event"})
                # a later line about the same epoch counts: the run went on from before it
                epochs[epoch.epoch] = epoch
            elif entry.get("event") == "step":
                steps[whole_number("step", entry.get("step"), least=0)] = finite_number("loss", entry.get("loss"))
        except ValueError as error:
            raise damage_error(path, f"line {number}: {error}") from None
    if missing := _missing(epochs, steps, *progress[:2]):
        raise damage_error(path, f"{missing} is missing, though the checkpoint was written after it")
    if lines.cut and progress[2]:
        raise damage_error(path, "it ends in the middle of a line, though the run has ended")
    return Log(cut=lines.cut, epochs=tuple(epochs[i] for i in sorted(epochs)), steps=tuple(sorted(steps.items())))


def _read_progress(folder: Path) -> tuple[float, float, bool]:
    """The epochs and steps that a run has done, as its checkpoint says, and whether it has ended."""
    last = (folder / LAST).exists()
    path = folder / (LAST if last else BEST)  # the package's own run has its best weights only, which say their epoch
    facts = read_header(path).facts if path.exists() else {}
    return _number(facts, "epoch") - last, _number(facts, "step"), facts.get("finished") is True


def _missing(epochs: Mapping[int, Epoch], steps: Mapping[int, float], epochs_done: float, steps_done: float) -> str:
    """The first that a log lacks, in words; empty where it has everything."""
    last, every = max([epochs_done, *epochs]), min(steps, default=LOG_EVERY) or LOG_EVERY
    epoch = next(number for number in count(1) if number not in epochs)
    step = next(number for number in count(every, every) if number not in steps)
    if epoch <= last:
        return f"epoch {epoch}"
    return f"the loss of step {step}" if step <= steps_done else ""


def log_entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a log as they are; none where there is no log yet."""
    return SealedLines(path).read()


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    """One more line in the log."""
    SealedLines(path).append([entry])


def rewind_log(path: Path, *, step: int, epoch: int) -> None:
    """Forget what happened after ``step``, and the ends of ``epoch`` and later ones: it will all be written again."""
    kept = [
        entry
        for entry in log_entries(path)
        if _number(entry, "step") <= step and not (entry.get("event") == "epoch" and _number(entry, "epoch") >= epoch)
    ]
    if path.exists():
        write_file(path, lines_of(kept))


def epoch_of(entry: Mapping[str, Any]) -> Epoch:
    """An epoch from what was written about it; ValueError says what cannot be right."""
    names = {field.name for field in fields(Epoch)}
    if wrong := names ^ entry.keys():
        raise ValueError(f"an epoch lacks or does not know {', '.join(sorted(map(str, wrong)))}")
    return Epoch(
        epoch=whole_number("epoch", entry["epoch"], least=1),
        step=whole_number("step", entry["step"], least=0),
        training_loss=finite_number("training_loss", entry["training_loss"]),
        perplexity=perplexity_of("perplexity", entry["perplexity"]),
        perplexity_without_sos=perplexity_of("perplexity_without_sos", entry["perplexity_without_sos"]),
        cpu_seconds=finite_number("cpu_seconds", entry["cpu_seconds"], least=0.0),
        wall_seconds=finite_number("wall_seconds", entry["wall_seconds"], least=0.0),
    )


def epoch_entry(epoch: Epoch) -> dict[str, Any]:
    """An epoch as a line of the log."""
    return {"event": "epoch", **asdict(epoch)}


def whole_number(name: str, value: object, *, least: int) -> int:
    """A whole number as it was written; ValueError where it is none."""
    if type(value) is not int or not least <= value <= _LARGEST:
        raise ValueError(f"{name} must be a whole number of {least} or more, not {str(value)[:40]!r}")
    return value


def finite_number(name: str, value: object, *, least: float = -math.inf) -> float:
    """A finite number as it was written; ValueError where it is none."""
    if not is_finite_number(value) or value < least:  # type: ignore[operator]
        raise ValueError(f"{name} must be a finite number, not {str(value)[:40]!r}")
    return float(value)  # type: ignore[arg-type]


def perplexity_of(name: str, value: object) -> float:
    """A perplexity as it was written: 1 or more, but for rounding, and perhaps more than a float holds."""
    if value == math.inf:
        return math.inf
    return finite_number(name, value, least=0.99)


def _number(entry: Mapping[str, Any], name: str) -> float:
    value = entry.get(name, 0)
    return value if isinstance(value, int | float) else 0


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
    folder = existing_folder(folder)
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


def existing_folder(given: str | Path) -> Path:
    """The run folder that a word means, if it is there and every page can show its name."""
    folder = run_folder(given)
    check_name(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}; give the one that train wrote, or example, which is ours.")
    return folder


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
    """Whether the last checkpoint says that all epochs are done; reads the header of the file only."""
    return _read_progress(folder)[2]


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
