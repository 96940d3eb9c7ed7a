"""Figures of training runs, which a check reads and never trains again.

A record is a JSON file in the folder ``records``. ``python -m regard.coursework.record`` writes it from the folders of
the runs, so that nobody types a figure; a record that is not there has not been measured yet.

| key | what |
|---|---|
| ``name`` | defaults, embeddings or tuned: the name of the file |
| ``date`` | the day the last of its runs ended, as 2026-11-15 |
| ``log`` | where the runs are written out in full, a path in the repository |
| ``data`` | the corpus in words |
| ``versions`` | of Python and the libraries |
| ``runs`` | a list of :class:`Run` |
| ``comparison`` | a :class:`Contest`, or null |
| ``study`` | a :class:`Study`, or null |

What can be computed from these (a best epoch, a mean, an interval, a difference) is not in the file and cannot
contradict it.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translator.scoring.intervals import Difference, Interval

NAMES = ("defaults", "embeddings", "tuned")
VALIDATION = "validation perplexity"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training; ``curve`` is the validation perplexity counting <sos>, epoch by epoch."""

    command: str
    seed: int
    changes: list[str]  # settings that differ from the coursework's
    weights: int
    curve: list[float]
    without_sos: list[float]
    cpu_seconds: float

    def __post_init__(self) -> None:
        _check_figures("curve", self.curve, least=1.0)
        _check_figures("without_sos", self.without_sos, least=1.0)
        if len(self.curve) != len(self.without_sos):
            raise InputError(f"{len(self.curve)} epochs in curve and {len(self.without_sos)} in without_sos")
        _check_figures("weights and cpu_seconds", [self.weights, self.cpu_seconds], least=0.0)

    @property
    def best_epoch(self) -> int:
        """The epoch with the lowest validation perplexity, counted from 1."""
        return self.curve.index(min(self.curve)) + 1

    @property
    def perplexity(self) -> float:
        """The lowest validation perplexity, counting <sos>."""
        return min(self.curve)

    @property
    def perplexity_without_sos(self) -> float:
        """At the same epoch, without <sos>."""
        return self.without_sos[self.best_epoch - 1]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One entry of a comparison: each measure seed by seed."""

    name: str
    weights: int
    cpu_seconds: float
    coverage: list[str]
    measures: dict[str, list[float]]

    def __post_init__(self) -> None:
        if VALIDATION not in self.measures:
            raise InputError(f"{self.name!r} has no {VALIDATION}")
        for name, values in self.measures.items():
            _check_figures(name, values, least=0.0)

    def interval(self, measure: str) -> Interval:
        """The mean over seeds with its 95 % t-interval."""
        from regard.translator.scoring.intervals import t_interval

        return t_interval(self.measures[measure])


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The same model with several embeddings or settings, each with every seed."""

    command: str
    scored_on: str
    seeds: list[int]
    variants: list[Variant]

    def __post_init__(self) -> None:
        for variant in self.variants:
            for name, values in variant.measures.items():
                if len(values) != len(self.seeds):
                    raise InputError(f"{variant.name!r} has {len(values)} of {name} for {len(self.seeds)} seeds")
        if not self.variants or not self.seeds:
            raise InputError("a comparison has no variant or no seed")

    def differences(self, measure: str) -> list[Difference]:
        """Every two variants, paired by seed, with what survives Holm's correction."""
        from regard.translator.scoring.intervals import paired_differences

        values: dict[str, Sequence[float]] = {v.name: v.measures[measure] for v in self.variants}
        return paired_differences(measure, values, lower_is_better="perplexity" in measure)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search for better settings: every trial as (state, perplexity or null, changes), and its confirmation."""

    command: str
    trials: list[tuple[str, float | None, dict[str, Any]]]
    best: int  # number of the best trial
    started_from: int | None  # number of the trial with the settings it started from
    importance: list[tuple[str, float, float, float]]  # setting, mean, 5 % and 95 % of resamples
    confirmation: Contest | None
    cpu_seconds: float

    def __post_init__(self) -> None:
        numbers = range(len(self.trials))
        if self.best not in numbers or (self.started_from is not None and self.started_from not in numbers):
            raise InputError(f"trial {self.best} or {self.started_from} is none of the {len(self.trials)}")
        complete = [p for state, p, _ in self.trials if state == "complete" and p is not None]
        if self.perplexity(self.best) != min(complete, default=math.nan):
            raise InputError(f"trial {self.best} is not the best complete one")

    def perplexity(self, number: int) -> float:
        """Best validation perplexity of a trial, counting <sos>."""
        return self.trials[number][1] or math.nan


@dataclass(frozen=True, kw_only=True)
class Record:
    """What was measured, when, with which versions, and where the log is."""

    name: str
    date: str
    log: str
    data: str
    versions: dict[str, str]
    runs: list[Run]
    comparison: Contest | None
    study: Study | None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"a record is called {', '.join(NAMES)}, not {self.name!r}")
        try:
            datetime.date.fromisoformat(self.date)
        except ValueError:
            raise InputError(f"{self.date!r} is not a date such as 2026-11-15") from None
        if not self.runs and self.comparison is None and self.study is None:
            raise InputError("it has no run, no comparison and no study")

    @property
    def source(self) -> str:
        """Where the figures are from, for a verdict."""
        return f"the record of {self.date}, {self.log}"


def record(name: str) -> Record | None:
    """The record of this name that comes with the package, or None where it is not measured yet.

    >>> found = record("defaults")
    >>> [round(run.perplexity) for run in found.runs if run.seed == 0]
    [14]
    """
    path = files("regard.coursework") / "records" / f"{name}.json"
    return read(path.read_text(encoding="utf-8"), name) if path.is_file() else None


def read(text: str, where: str | Path) -> Record:
    """A record from its JSON text; InputError says in one sentence what is wrong with it."""
    try:
        content = json.loads(text)
        return _record(content)
    except (InputError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"The record {where} is damaged: {str(error).rstrip('.')}; write it again with "
            "python -m regard.coursework.record."
        ) from None


def _record(content: Any) -> Record:
    parts = _keys(Record, content)
    study = None if parts["study"] is None else _keys(Study, parts["study"])
    if study is not None:
        study["trials"] = [(state, p, changes) for state, p, changes in study["trials"]]
        study["importance"] = [(name, mean, low, high) for name, mean, low, high in study["importance"]]
        study["confirmation"] = _contest(study["confirmation"])
    return Record(
        **parts
        | {
            "runs": [Run(**_keys(Run, run)) for run in parts["runs"]],
            "comparison": _contest(parts["comparison"]),
            "study": None if study is None else Study(**study),
        }
    )


def _contest(content: Any) -> Contest | None:
    if content is None:
        return None
    parts = _keys(Contest, content)
    return Contest(**parts | {"variants": [Variant(**_keys(Variant, v)) for v in parts["variants"]]})


def _keys(kind: type[Any], content: Any) -> dict[str, Any]:
    """The content, if its keys are exactly the fields."""
    if not isinstance(content, dict):
        raise InputError(f"{kind.__name__.lower()} is no table but {type(content).__name__}")
    wanted = {field.name for field in fields(kind)}
    if wrong := wanted ^ content.keys():
        raise InputError(f"{kind.__name__.lower()} lacks or does not know {', '.join(sorted(wrong))}")
    return dict(content)


def _check_figures(what: str, values: Sequence[float], *, least: float) -> None:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)
    if not values or not numbers or min(values) < least:
        raise InputError(f"{what} must be numbers of {least:g} or more, not {values}")
