"""The runs that a page lists: those of the lab's folder, newest first, and the one that comes with the package."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from regard.errors import InputError
from regard.translator.runs.files import (
    BEST,
    EXAMPLE,
    FOLDER,
    LAST,
    RUN,
    SETTINGS,
    VOCABULARY,
    is_packaged,
    read_json,
    run_folder,
)
from regard.translator.runs.records import LOG, Epoch, Record, check_name, finite_number, read_record

MOST = 100  # runs that are listed
WHERE = ("run.json", "*/run.json", "runs/*/run.json", "*/runs/*/run.json")
_SCORE_AGAIN = "remove it and give the compare command again"


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run, as its folder describes it."""

    name: str
    record: Record
    bleu: float | None  # where a comparison scored it

    @property
    def folder(self) -> Path:
        return self.record.folder

    @property
    def folder_argument(self) -> str:
        """What to type for it where a run folder is asked for."""
        return EXAMPLE if run_folder(EXAMPLE) == self.folder else str(self.folder)

    @property
    def is_from_package(self) -> bool:
        return is_packaged(self.folder)

    @property
    def has_weights(self) -> bool:
        """Whether it has weights to translate with."""
        return (self.folder / BEST).is_file()

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Those that can be drawn: a run that diverged may have a perplexity beyond all floats."""
        return tuple(epoch for epoch in self.record.epochs if math.isfinite(epoch.perplexity))

    @property
    def best(self) -> Epoch | None:
        return min(self.epochs, key=lambda epoch: epoch.perplexity, default=None)

    @property
    def steps(self) -> tuple[tuple[int, float], ...]:
        """Step and training loss."""
        return self.record.log.steps

    @property
    def label(self) -> str:
        """Its name, without the folder that every comparison has."""
        return self.folder.name if self.name == "." else self.name.replace("/runs/", "/").removeprefix("runs/")

    @property
    def epoch_progress(self) -> str:
        return f"{len(self.record.epochs)} of {self.record.settings.training.epochs}"


def scan_runs(folder: Path) -> tuple[list[ListedRun], list[str]]:
    """The runs in a folder, newest first, and one sentence about each that cannot be read: it must not hide the others.

    The folder may itself be a run or a comparison, and may have comparisons in it.
    """
    runs, damaged = [], []
    for path in sorted(_run_files(folder), key=lambda path: (-modification_time(path), str(path)))[:MOST]:
        try:
            check_name(path.parent)
            runs.append(_read_run(path.parent, path.parent.relative_to(folder).as_posix()))
        except InputError as error:
            damaged.append(str(error))
    return runs, damaged


def has_runs(folder: Path) -> bool:
    """Whether there is any run in a folder, readable or not."""
    return bool(_run_files(folder))


def _run_files(folder: Path) -> set[Path]:
    return {path for pattern in WHERE for path in folder.glob(pattern)}


def scan_runs_with_example(folder: Path) -> tuple[list[ListedRun], list[str]]:
    """The same, and behind them the package's own run, unless a run in the folder has its name."""
    runs, damaged = scan_runs(folder)
    if any(run.name == EXAMPLE or run.is_from_package for run in runs):
        return runs, damaged
    try:
        return [*runs, _read_run(FOLDER, EXAMPLE)], damaged
    except InputError as error:
        return runs, [*damaged, str(error)]


def run_numbers(runs: list[ListedRun]) -> dict[str, int]:
    """A number for each run that newer runs do not change: what its colour is chosen by. The package's own has 0."""
    begun = sorted(runs, key=lambda run: (not run.is_from_package, modification_time(run.folder / RUN), run.name))
    return {run.name: number for number, run in enumerate(begun)}


def modification_time(path: Path) -> float:
    """When a file was written; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def known_words(folder: Path) -> tuple[str, ...]:
    """The words that a run can read, the most frequent first; none where it reads pieces of words."""
    return _known_words(folder, modification_time(folder / VOCABULARY))


@lru_cache(maxsize=8)
def _known_words(folder: Path, when: float) -> tuple[str, ...]:
    saved = read_json(folder / VOCABULARY)["source"]
    return tuple(word for word in saved["words"] if word.isalpha()) if saved["kind"] == "words" else ()


def _read_run(run: Path, name: str) -> ListedRun:
    scores = run.parent.parent / "scores" / f"{run.name}.json"
    record = _record(run, tuple(modification_time(run / file) for file in (RUN, VOCABULARY, SETTINGS, LOG, LAST)))
    return ListedRun(name=name, record=record, bleu=_bleu(scores, modification_time(scores)))


@lru_cache(maxsize=2 * MOST)
def _record(folder: Path, stamps: tuple[float, ...]) -> Record:
    """A run's record, read again when one of its files was written."""
    return read_record(folder)


@lru_cache(maxsize=2 * MOST)
def _bleu(path: Path, when: float) -> float | None:
    """BLEU, if the run is one of a comparison that has scored it."""
    if not when:
        return None
    try:
        return finite_number("BLEU", read_json(path, otherwise=_SCORE_AGAIN)["all"]["bleu"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); {_SCORE_AGAIN}.") from None
