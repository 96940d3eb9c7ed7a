"""A study as it is written down: its folder, its trials wherever they are kept, and what it found.

What mattered in a search: how much of the scatter of ln perplexity each setting explains, and how sure that is.

A random forest learns ln perplexity from the settings of some trials and predicts the others. A setting's importance is

    (squared error with that setting's values shuffled - squared error) / variance of ln perplexity

on the trials the forest has not seen (Breiman, 2001). The trials are resampled many times; a setting whose interval
reaches zero has not been shown to matter. Where two settings only matter together, both get the credit.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.array_types import Float
from regard.errors import InputError
from regard.extras import require
from regard.files import create_folder
from regard.progress import duration
from regard.results import Result
from regard.strict_json import parse_json
from regard.terminal import align_columns
from regard.translator.runs.files import TRIALS, explain_errors, is_begun, json_file, read_description
from regard.translator.runs.records import read_log
from regard.translator.runs.settings import ARGUMENTS, Settings, saved_settings
from regard.translator.studies.comparison_record import Comparison, read_comparison
from regard.translator.studies.space import Range, Space, change, value_of, with_values

if TYPE_CHECKING:
    import optuna


STUDY, START, CONFIRM = "study.json", "settings.toml", "confirm"
_OF_THE_MACHINE = ("data.path", "training.threads", "training.device", "training.save_every")  # workers' may differ


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One try; ``perplexity`` is the best validation perplexity it reached, counting <sos>.

    ``expected`` is the same, but for a pruned trial what it would have reached had it gained, after the epoch it was
    stopped at, as much as the complete trials did on average: what pictures and importance use.
    """

    number: int
    state: str  # complete, pruned, failed or unfinished
    perplexity: float | None
    expected: float | None
    curve: list[float]  # validation perplexity, epoch by epoch
    changes: dict[str, Any]
    cpu_seconds: float
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Tuning(Result):
    """What :func:`tune` returns."""

    folder: str
    space: str
    trials: list[Trial]
    default: Trial | None  # the settings it started from, where the space has them
    best: Trial
    importance: list[Importance]
    confirmation: Comparison | None
    command: str  # that trains the best settings
    cpu_seconds: float
    searched_by: str = ""  # the command of the search itself
    share: float = 1.0  # of the training pairs, that the trials were trained on

    def __str__(self) -> str:
        counts = {s: sum(t.state == s for t in self.trials) for s in ("complete", "pruned", "failed", "unfinished")}
        states = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
        share = "" if self.share == 1 else f", each trained on {self.share:.0%} of the training pairs"
        lines = [
            f"{len(self.trials)} trial{'s' * (len(self.trials) != 1)} ({states}) in {duration(self.cpu_seconds)} of "
            f"CPU time, judged by validation perplexity counting <sos>{share}.",
            _best_line(self),
            f"Its settings: {', '.join(f'{k} = {v}' for k, v in self.best.changes.items())}.",
        ]
        if self.importance:
            lines += [
                "",
                "What mattered (share of the scatter of ln perplexity that is lost without it, 90 % of resamples):",
            ]
            lines += [_importance_table(self.importance)]
        if self.confirmation is not None:
            lines += ["", "Confirmed with seeds the search never saw:", str(self.confirmation)]
        return "\n".join([*lines, "", f"Train it: {self.command}"])


def read_study(folder: str | Path, *, storage: str | None = None) -> Tuning:
    """The study in a folder, finished or not: from its files alone, or from the storage that it says it is kept in.

    ``storage`` is that storage's address with a password, where it needs one that PGPASSWORD or ~/.pgpass do not give.
    """
    folder = Path(folder)
    with explain_errors(folder, "study"):
        return _study(folder, read_about(folder), storage)


def _study(folder: Path, about: dict[str, Any], storage: str | None) -> Tuning:
    require("A search", "optuna")
    from regard.translator.studies.storage import open_storage

    settings = saved_settings(about["settings"])
    entries = {k: v if isinstance(v, list) else Range(**v) for k, v in about["space"].items()}
    space = Space(name=about["name"], entries=entries)
    with closing(open_storage(folder, storage or about.get("storage") or None)) as shared, shared.explain_errors():
        trials = read_trials(folder, shared.open())
    judged = [t for t in trials if t.perplexity is not None]
    best = best_trial(trials, folder)
    defaults = space.defaults(settings)
    confirmation = read_comparison(folder / CONFIRM) if is_confirmed(folder) else None
    return Tuning(
        folder=str(folder),
        space=about["name"],
        trials=trials,
        default=next((t for t in judged if t.state == "complete" and t.changes == defaults), None),
        best=best,
        importance=importances(space, [t.changes for t in judged], [t.expected or 0.0 for t in judged]),
        confirmation=confirmation,
        command=_train_command(folder, best, settings, str(about.get("model", ""))),
        cpu_seconds=sum(t.cpu_seconds for t in trials),
        searched_by=str(about.get("command", "")),
        share=settings.data.share,
    )


def check_folder(folder: Path, identity: dict[str, Any]) -> None:
    """Raise InputError where a folder has anything but this study, before minutes of reading."""
    if not is_begun(folder):
        return
    theirs = read_about(folder)
    # as the file gives it back: JSON knows no tuples
    if different := difference(theirs, parse_json(json.dumps(identity), constants=True)):
        raise InputError(f"{folder} holds a study with {different}; give another --out.")
    if theirs.get("storage", "") != identity["storage"]:
        kept = f"in {theirs['storage']}" if theirs.get("storage") else "in the folder's own journal"
        raise InputError(f"{folder} holds a study whose trials are kept {kept}; give that storage, or another --out.")


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """What a study differs in, or nothing."""
    named = {"settings": "other settings", "space": "another search space", "pruner": "another pruner"}
    named |= {"seed": "another seed", "fingerprint": "other data than there is now", "code": "another file of yours"}
    there = theirs.get("settings")
    if isinstance(there, dict) and not saved_settings(ours["settings"]).unequal_values(saved_settings(there)):
        theirs = theirs | {"settings": ours["settings"]}
    return next((what for key, what in named.items() if key in ours and theirs.get(key) != ours[key]), "")


def portable_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those that may differ from machine to machine."""
    return {
        section: {k: v for k, v in content.items() if f"{section}.{k}" not in _OF_THE_MACHINE}
        for section, content in settings.items()
    }


def open_folder(folder: Path, about: dict[str, Any], settings: Settings) -> None:
    """Make the folder unless it is there; of workers that begin at the same moment one makes it, for all."""
    if not is_begun(folder):
        create_folder(folder, {STUDY: json_file(about), START: settings.to_toml().encode()})
    check_folder(folder, about)
    (folder / TRIALS).mkdir(exist_ok=True)


def read_about(folder: Path) -> dict[str, Any]:
    wanted = {"settings", "space", "pruner", "seed", "fingerprint", "name"}
    return read_description(folder / STUDY, "a study", wanted, otherwise="give another --out")


def is_confirmed(folder: Path) -> bool:
    """Whether a score of the test set exists."""
    return any((folder / CONFIRM / "scores").glob("*.json"))


def read_trials(folder: Path, study: optuna.Study) -> list[Trial]:
    """Every trial that was begun; one that was tried again once, under its last number."""
    from regard.translator.studies.storage import earlier_numbers, replaced_numbers

    trials = study.get_trials(deepcopy=False)
    again = replaced_numbers(trials)
    begun = [t for t in trials if t.number not in again and (t.state.name != "WAITING" or earlier_numbers(t))]
    read = [_trial(folder, frozen) for frozen in begun]
    complete = [t for t in read if t.state == "complete"]
    return [replace(t, expected=_expected_perplexity(t, complete)) for t in read]


def _expected_perplexity(trial: Trial, complete: Sequence[Trial]) -> float | None:
    """The perplexity of a complete trial; of a pruned one, times what complete trials still gained after its epoch."""
    if trial.perplexity is None or trial.state == "complete" or not complete:
        return trial.perplexity
    done = len(trial.curve)
    gains = [math.log(min(t.curve) / min(t.curve[:done])) for t in complete]
    return trial.perplexity * math.exp(sum(gains) / len(gains))


def trial_folder(folder: Path, number: int) -> Path:
    """The run folder of a trial."""
    return folder / TRIALS / f"{number:04d}"


def best_trial(trials: Sequence[Trial], folder: Path) -> Trial:
    complete = [t for t in trials if t.state == "complete"]
    if not complete:
        raise InputError(f"The study in {folder} has no finished trial yet; give its tune command again.")
    return min(complete, key=lambda t: t.perplexity or 0.0)


def _trial(folder: Path, frozen: Any) -> Trial:
    from regard.translator.studies.storage import REASON, is_interrupted

    epochs = read_log(trial_folder(folder, frozen.number)).epochs
    curve = [frozen.intermediate_values[e] for e in sorted(frozen.intermediate_values)]
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    return Trial(
        number=frozen.number,
        state="unfinished" if is_interrupted(frozen) else states.get(frozen.state.name, "unfinished"),
        perplexity=min(curve) if curve and frozen.state.name in ("COMPLETE", "PRUNED") else None,
        expected=None,
        curve=curve,
        changes={k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in frozen.params.items()},
        cpu_seconds=frozen.user_attrs.get("cpu_seconds") or (epochs[-1].cpu_seconds if epochs else 0.0),
        reason=str(frozen.user_attrs.get(REASON, "")),
    )


def _train_command(folder: Path, best: Trial, settings: Settings, model: str) -> str:
    """Trains the best settings on all pairs: from the trial's own file or, where that is not here, what differs."""
    file = trial_folder(folder, best.number) / "settings.toml"
    given = [str(file)]
    if not file.exists() and (folder / START).exists():
        given = [str(folder / START), *(w for d in _changes(settings, best) for w in ("--set", d))]
    whole = [] if settings.data.share == 1 else ["--set", "data.share=1.0"]
    own = ["--model", model] if model else []
    return shlex.join(["regard", "translator", "train", *given, *own, *whole, "--out", "runs/best"])


def _changes(settings: Settings, best: Trial) -> list[str]:
    """As --set takes them."""
    whole = with_values(settings, best.changes)
    keys = dict.fromkeys("model.arguments" if key.startswith(ARGUMENTS) else key for key in best.changes)
    return [change(key, value_of(whole, key)) for key in keys]


def _best_line(study: Tuning) -> str:
    best = study.best.perplexity or 0.0
    text = f"Best: trial {study.best.number}, validation perplexity {best:.2f}"
    if study.default is None or study.default.perplexity is None:
        return text + "."
    before = study.default.perplexity
    return f"{text}; the settings it started from have {before:.2f} ({best / before - 1:+.1%})."


def _importance_table(importance: Sequence[Importance]) -> str:
    rows = [
        [i.name, f"{i.mean:.0%}", f"({i.low:.0%} to {i.high:.0%})", "" if i.low > 0 else "not shown to matter"]
        for i in importance
    ]
    return align_columns(rows)


FEWEST = 8  # trials; below this a forest sees nothing
_SHUFFLES, _RESAMPLES = 5, 60


@dataclass(frozen=True, kw_only=True)
class Importance:
    """The share of the scatter that a setting explains: the mean over resamples, their 5 % and 95 % quantiles."""

    name: str
    mean: float
    low: float
    high: float


def importances(
    space: Space,
    tried: Sequence[Mapping[str, Any]],
    perplexities: Sequence[float],
) -> list[Importance]:
    """The importance of every setting of ``space``, most important first; nothing where there are too few trials."""
    y = np.log(np.asarray(perplexities, dtype=np.float64))
    if len(y) < FEWEST or not np.isfinite(y).all() or np.ptp(y) == 0:
        return []
    names = [key for key, entry in space.entries.items() if not (isinstance(entry, list) and len(entry) == 1)]
    columns = [_columns(space.entries[key], [t[key] for t in tried]) for key in names]
    draw = np.random.default_rng(0)
    shares = [s for _ in range(_RESAMPLES) if (s := _fit_resample(columns, y, draw)) is not None]
    low, high = np.quantile(shares, [0.05, 0.95], axis=0)
    mean = np.mean(shares, axis=0)
    rows = [
        Importance(name=n, mean=float(mean[i]), low=float(low[i]), high=float(high[i])) for i, n in enumerate(names)
    ]
    return sorted(rows, key=lambda f: -f.mean)


def _fit_resample(columns: Sequence[Float], y: Float, draw: np.random.Generator) -> Float | None:
    """One forest on a resample, judged on the trials that are not in it."""
    require("Importance", "sklearn")
    from sklearn.ensemble import RandomForestRegressor

    rows = draw.integers(len(y), size=len(y))
    unseen = np.setdiff1d(np.arange(len(y)), rows)
    # a resample may hold nearly every trial, and one trial cannot be shuffled
    if len(unseen) < 2:
        return None
    forest = RandomForestRegressor(30, max_features=0.5, random_state=int(draw.integers(2**31)))
    forest.fit(np.hstack(columns)[rows], y[rows])
    tables = [np.hstack([c[unseen] for c in columns])]
    for shuffled in range(len(columns)):
        for _ in range(_SHUFFLES):
            order = draw.permutation(unseen)
            tables.append(np.hstack([c[order if i == shuffled else unseen] for i, c in enumerate(columns)]))
    errors = ((forest.predict(np.vstack(tables)).reshape(len(tables), -1) - y[unseen]) ** 2).mean(axis=1)
    worse = errors[1:].reshape(len(columns), _SHUFFLES).mean(axis=1) - errors[0]
    return np.asarray(worse / y.var())


def _columns(entry: list[Any] | Range, values: Sequence[Any]) -> Float:
    """Numbers as they are (or their logarithm), choices of words as one column each."""
    if isinstance(entry, Range):
        return np.array([[math.log(v) if entry.log else float(v)] for v in values])
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in entry):
        return np.array([[float(v)] for v in values])
    return np.array([[float(v == choice) for choice in entry] for v in values])
