"""A run's log: every epoch, and the training loss now and then, one sealed JSON object per line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import write_file
from regard.translator.runs.files import BEST, LAST
from regard.translator.runs.sealed_files import SealedLines, lines_of, read_header
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
    done = _read_progress(folder)  # before the log: a run that is at work adds to both
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
            raise _damage_error(path, f"line {number}: {error}") from None
    if missing := _missing(done, epochs, steps):
        raise _damage_error(path, f"{missing} is missing, though the checkpoint was written after it")
    if lines.cut and done.finished:
        raise _damage_error(path, "it ends in the middle of a line, though the run has ended")
    return Log(cut=lines.cut, epochs=tuple(epochs[i] for i in sorted(epochs)), steps=tuple(sorted(steps.items())))


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """How far a run is, as its checkpoint says."""

    epochs: float = 0
    steps: float = 0
    finished: bool = False


def _read_progress(folder: Path) -> _Progress:
    if (folder / LAST).exists():
        facts = read_header(folder / LAST).facts
        return _Progress(
            epochs=_number(facts, "epoch") - 1, steps=_number(facts, "step"), finished=facts.get("finished") is True
        )
    if (folder / BEST).exists():  # as in the package's own run; it says which epoch it is of
        facts = read_header(folder / BEST).facts
        return _Progress(epochs=_number(facts, "epoch"), steps=_number(facts, "step"))
    return _Progress()


def _missing(done: _Progress, epochs: Mapping[int, Epoch], steps: Mapping[int, float]) -> str:
    """The first that a log lacks, in words; empty where it has everything."""
    last, every = max([done.epochs, *epochs]), min(steps, default=LOG_EVERY) or LOG_EVERY
    epoch = next(number for number in count(1) if number not in epochs)
    step = next(number for number in count(every, every) if number not in steps)
    if epoch <= last:
        return f"epoch {epoch}"
    return f"the loss of step {step}" if step <= done.steps else ""


def _damage_error(path: Path, reason: str) -> InputError:
    return InputError(f"{path} is damaged ({reason}); restore it from a copy, or train the run again.")


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
