"""Figures of training runs, which a check reads and never trains again.

They are in JSON files in the folder ``records``, one for each of NAMES. ``python -m tools.record_training`` writes one
from the folders of the runs, so that nobody types a figure.

| key | what |
|---|---|
| ``name`` | defaults, described, embeddings, english, sides or tuned: the name of the file |
| ``date`` | the day the last of its runs ended, as 2026-11-15 |
| ``log`` | where the runs are written out in full, a path in the repository |
| ``data`` | the corpus in words |
| ``versions`` | of Python and the libraries |
| ``runs`` | a list of :class:`RunFigures` |
| ``comparison`` | null, or ``command``, ``scored_on``, ``seeds`` and ``variants``, whose measures are seed by seed |
| ``study`` | null, or ``command``, ``trials`` (state, perplexity, changes), ``importance`` and a ``confirmation`` |

What can be computed from these (a best epoch, a mean, an interval, a difference) is not in the file and cannot
contradict it: a comparison and a study are read as the translator's own results.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.strict_json import parse_json
from regard.translator.scoring.significance import t_interval
from regard.translator.studies.comparison_record import Comparison, Entry, differences_of
from regard.translator.studies.search_record import Importance, Trial, Tuning
from regard.written_numbers import in_full, is_finite_number

NAMES = ("defaults", "described", "embeddings", "english", "sides", "tuned")
VALIDATION = "validation perplexity"
COMPARISON_KEYS = ("command", "scored_on", "seeds", "variants")
VARIANT_KEYS = ("name", "weights", "cpu_seconds", "coverage", "measures")
STUDY_KEYS = ("command", "trials", "best", "started_from", "importance", "confirmation", "cpu_seconds")


@dataclass(frozen=True, kw_only=True)
class RunFigures:
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
class Figures:
    """What was measured, when, with which versions, and where the log is."""

    name: str
    date: str
    log: str
    data: str
    versions: dict[str, str]
    runs: list[RunFigures]
    comparison: Comparison | None
    study: Tuning | None

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


def record(name: str) -> Figures:
    """The figures of this name, which come with the package.

    >>> found = record("defaults")
    >>> [round(run.perplexity) for run in found.runs if run.seed == 0]
    [14]
    """
    path = files("regard.coursework") / "records" / f"{name}.json"
    return read(path.read_text(encoding="utf-8"), name)


def read(text: str, where: str | Path) -> Figures:
    """Figures from their JSON text; InputError says in one sentence what is wrong with it."""
    try:
        parts = _keys("record", [field.name for field in fields(Figures)], parse_json(text))
        runs = [RunFigures(**_keys("run", [field.name for field in fields(RunFigures)], run)) for run in parts["runs"]]
        return Figures(
            **parts | {"runs": runs, "comparison": _comparison(parts["comparison"]), "study": _study(parts["study"])}
        )
    except (InputError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"The record {where} is damaged: {str(error).rstrip('.')}; write it again with "
            "python -m tools.record_training."
        ) from None


def _comparison(content: Any) -> Comparison | None:
    """A comparison as the translator has it, its differences computed anew."""
    if content is None:
        return None
    parts = _keys("comparison", COMPARISON_KEYS, content)
    entries = [_entry(variant, len(parts["seeds"])) for variant in parts["variants"]]
    if not entries or not parts["seeds"]:
        raise InputError("a comparison has no variant or no seed")
    return Comparison(
        folder="", scored_on=parts["scored_on"], seeds=parts["seeds"], entries=entries, groups=[], notes=[],
        differences=differences_of(entries), bleu_signature="", chrf_signature="", command=parts["command"],
    )  # fmt: skip


def _entry(content: Any, seeds: int) -> Entry:
    parts = _keys("variant", VARIANT_KEYS, content)
    _check_figures("weights and cpu_seconds", [parts["weights"], parts["cpu_seconds"]], least=0.0)
    if VALIDATION not in parts["measures"]:
        raise InputError(f"{parts['name']!r} has no {VALIDATION}")
    for name, values in parts["measures"].items():
        _check_figures(name, values, least=0.0)
        if len(values) != seeds:
            raise InputError(f"{parts['name']!r} has {len(values)} of {name} for {seeds} seeds")
    return Entry(
        name=parts["name"], embedding={}, changes=[], coverage=parts["coverage"], parameters=parts["weights"],
        cpu_seconds=parts["cpu_seconds"], best_epochs=[], runs=[],
        measures={name: t_interval(values) for name, values in parts["measures"].items()},
    )  # fmt: skip


def _study(content: Any) -> Tuning | None:
    """A search as the translator has it."""
    if content is None:
        return None
    parts = _keys("study", STUDY_KEYS, content)
    trials = [
        Trial(number=i, state=state, perplexity=p, expected=p, curve=[], changes=changes, cpu_seconds=0.0, reason="")
        for i, (state, p, changes) in enumerate(parts["trials"])
    ]
    best, start = parts["best"], parts["started_from"]
    if best not in range(len(trials)) or (start is not None and start not in range(len(trials))):
        raise InputError(f"trial {best} or {start} is none of the {len(trials)}")
    _check_figures("cpu_seconds", [parts["cpu_seconds"]], least=0.0)
    _check_figures("perplexity", [t.perplexity for t in trials if t.perplexity is not None], least=1.0)
    for name, *figures in parts["importance"]:
        _check_figures(f"the importance of {name}", figures, least=-math.inf)
    complete = [t.perplexity for t in trials if t.state == "complete" and t.perplexity is not None]
    # nan differs from everything, so a study without a complete trial is refused too
    if trials[best].perplexity != min(complete, default=math.nan):
        raise InputError(f"trial {best} is not the best complete one")
    return Tuning(
        folder="", space="", trials=trials, best=trials[best], default=None if start is None else trials[start],
        importance=[Importance(name=n, mean=mean, low=low, high=high) for n, mean, low, high in parts["importance"]],
        confirmation=_comparison(parts["confirmation"]), command="", cpu_seconds=parts["cpu_seconds"],
        searched_by=parts["command"],
    )  # fmt: skip


def _keys(what: str, wanted: Sequence[str], content: Any) -> dict[str, Any]:
    """The content, if its keys are exactly the wanted ones."""
    if not isinstance(content, dict):
        raise InputError(f"{what} is no table but {type(content).__name__}")
    if wrong := set(wanted) ^ content.keys():
        raise InputError(f"{what} lacks or does not know {', '.join(sorted(wrong))}")
    return dict(content)


def _check_figures(what: str, values: Sequence[float], *, least: float) -> None:
    if not values or not all(map(is_finite_number, values)) or min(values) < least:
        raise InputError(f"{what} must be numbers of {in_full(least)} or more, not {str(values)[:200]}")
