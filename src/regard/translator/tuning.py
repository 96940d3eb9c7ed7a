"""Search for better settings with Optuna: same data, vocabulary and epochs, still one layer.

A study is a folder:

| file | what |
|---|---|
| ``study.json`` | settings, space, pruner, seed and the data's fingerprint: what makes the study what it is |
| ``journal.jsonl`` | Optuna's journal: every trial, every epoch's validation perplexity |
| ``trials/NNNN/`` | each trial's run folder; when a trial ends its weights are deleted, its settings and log stay |
| ``confirm/`` | a comparison of the settings it started from with the best, on seeds the search never saw |

Killed at any moment, a study loses no finished trial, and the interrupted one goes on from its checkpoint. What trial n
tries is a function of the seed, n and the finished trials, so a study that was stopped tries what it would have tried.

Trials are judged by validation perplexity alone. The test set is opened once, by the confirmation, after which
the study is closed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CouldNotFindOut, InputError
from regard.translator.budget import cpu_seconds_a_run, duration
from regard.translator.checkpoint import BEST, LAST, create_run, locked
from regard.translator.comparison import Say, contest
from regard.translator.preparation import Prepared, prepare
from regard.translator.records import is_finished, logged_epochs
from regard.translator.settings import Settings
from regard.translator.space import Range, Space, change, load_space
from regard.translator.study import (
    CONFIRM,
    STUDY,
    TRIALS,
    Tuning,
    best_trial,
    is_confirmed,
    open_journal,
    read_about,
    read_study,
    read_trials,
)
from regard.translator.training import Epoch, Step, Watch, train
from regard.translator.variants import Variant

if TYPE_CHECKING:
    import optuna

PRUNERS = ("median", "hyperband", "none")


def tune(
    settings: Settings,
    out: str | Path,
    *,
    trials: int = 40,
    space: str | Path | Space | None = None,
    pruner: str = "median",
    confirm: int = 0,
    seed: int = 0,
    watch: Watch | None = None,
    say: Say | None = None,
    command: str = "",
) -> Tuning:
    """Search ``space`` until the study in ``out`` has ``trials`` trials; goes on with the study that is there.

    ``confirm`` then trains the settings it started from and the best ones with that many fresh seeds, scores both on
    the test set, and closes the study. The first trial is the settings themselves, where the space has them.
    """
    _check_numbers(trials, confirm, pruner)
    folder, say = Path(out), say or (lambda line: None)
    chosen = space if isinstance(space, Space) else load_space(space, settings)
    identity = {"settings": settings.to_dict(), "space": chosen.to_dict(), "pruner": pruner, "seed": seed}
    _refuse_other(folder, identity)
    data = prepare(settings.with_changes(['embedding.source="learned"', 'embedding.target="learned"']))
    _open(folder, identity | {"fingerprint": data.corpus.fingerprint, "name": chosen.name, "command": command})
    with locked(folder):
        search = _Search(folder, settings, chosen, data, pruner, seed, watch, say)
        search.until(trials)
        if confirm:
            search.confirm(confirm, command)
    return read_study(folder)


class _Pruned(Exception):  # noqa: N818
    """Raised inside a trial's training, to stop it."""


class _Search:
    """The loop over trials, and what it needs for each."""

    def __init__(
        self, folder: Path, settings: Settings, space: Space, data: Prepared, pruner: str, seed: int,
        watch: Watch | None, say: Say,
    ) -> None:  # fmt: skip
        self.folder, self.settings, self.space, self.data, self.seed = folder, settings, space, data, seed
        self.watch, self.say = watch, say
        self.study = open_journal(folder, create=True, pruner=_pruner(pruner, settings.training.epochs))

    def until(self, trials: int) -> None:
        """Finish what was interrupted, then try until there are as many trials as wanted."""
        import optuna

        states = optuna.trial.TrialState
        self._clean()
        if not self.study.get_trials(deepcopy=False) and (start := self.space.defaults(self.settings)):
            self.study.enqueue_trial(start)
        self._estimate(trials)
        for frozen in self.study.get_trials(states=(states.RUNNING,)):
            self.say(f"trial {frozen.number} goes on")
            self._seed(frozen.number, "")
            self._try(optuna.trial.Trial(self.study, frozen._trial_id), trials)
        while (number := self._asked()) < trials:
            self._seed(number, "")
            self._try(self.study.ask(), trials)

    def confirm(self, seeds: int, command: str) -> None:
        """The settings it started from beside the best, with seeds that took no part in the choice."""
        best = best_trial(read_trials(self.folder), self.folder)
        chosen = self.settings.with_changes([change(k, v) for k, v in best.changes.items()])
        variants = [Variant(name="default", settings=self.settings), Variant(name="best", settings=chosen)]
        if chosen == self.settings:
            self.say("no trial was better than the settings it started from: there is nothing to confirm")
            return
        first = self.settings.training.seed + 1
        contest(
            self.settings, variants, range(first, first + seeds), self.folder / CONFIRM, corpus=self.data.corpus,
            watch=self.watch, say=self.say, command=command,
        )  # fmt: skip

    def _try(self, trial: optuna.Trial, trials: int) -> None:
        import optuna

        params = {key: self._suggest(trial, key, entry) for key, entry in self.space.entries.items()}
        run = self.folder / TRIALS / f"{trial.number:04d}"
        tried = ", ".join(f"{_last(k)} {v}" for k, v in params.items())
        self.say(f"trial {trial.number} ({trial.number + 1} of {trials}): {tried}")
        state, value = optuna.trial.TrialState.COMPLETE, None
        try:
            value = self._perplexity(trial, params, run)
        except _Pruned:
            state = optuna.trial.TrialState.PRUNED
        except CouldNotFindOut as error:  # it diverged: an answer too
            state = optuna.trial.TrialState.FAIL
            trial.set_user_attr("reason", str(error))
        self.study.tell(trial, value, state=state)
        _drop_weights(run)
        self._say_outcome(state.name, value, logged_epochs(run))

    def _perplexity(self, trial: optuna.Trial, params: dict[str, Any], run: Path) -> float:
        settings = self._combined(params)
        seen = set(trial.storage.get_trial(trial._trial_id).intermediate_values)

        def watch(event: Step | Epoch) -> None:
            if self.watch is not None:
                self.watch(event)
            if isinstance(event, Epoch):
                if event.epoch not in seen:
                    trial.report(event.perplexity, event.epoch)
                    seen.add(event.epoch)
                if event.epoch < settings.training.epochs and trial.should_prune():
                    raise _Pruned

        for epoch in logged_epochs(run):  # epochs of an interrupted trial that the journal may not know of
            watch(epoch)
        if not is_finished(run):
            train(settings, run, prepared=self._prepared(settings), watch=watch)
        return min(e.perplexity for e in logged_epochs(run))

    def _combined(self, params: dict[str, Any]) -> Settings:
        try:
            return self.settings.with_changes([change(k, v) for k, v in params.items()])
        except InputError as error:
            raise CouldNotFindOut(str(error)) from None

    def _prepared(self, settings: Settings) -> Prepared:
        if settings.embedding.source == settings.embedding.target == "learned":
            return self.data
        return prepare(settings, self.data.corpus)

    def _suggest(self, trial: optuna.Trial, key: str, entry: list[Any] | Range) -> Any:
        self._seed(trial.number, key)
        if isinstance(entry, list):
            return trial.suggest_categorical(key, entry)
        if isinstance(getattr(getattr(self.settings, key.partition(".")[0]), _last(key)), int):
            step = round(entry.step or 1)
            return trial.suggest_int(key, round(entry.low), round(entry.high), step=step, log=entry.log)
        value = trial.suggest_float(key, entry.low, entry.high, step=entry.step, log=entry.log)
        return float(f"{value:.4g}")  # settings a person can read; the space is far coarser than that

    def _seed(self, number: int, key: str) -> None:
        """A sampler whose draws depend on the seed, the trial and the setting: nothing to save, nothing to lose."""
        import optuna

        mixed = zlib.crc32(f"{self.seed} {number} {key}".encode())
        self.study.sampler = optuna.samplers.TPESampler(
            seed=mixed, multivariate=True, constant_liar=False, n_startup_trials=10
        )

    def _asked(self) -> int:
        return sum(t.state.name != "WAITING" for t in self.study.get_trials(deepcopy=False))

    def _clean(self) -> None:
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state.is_finished():
                _drop_weights(self.folder / TRIALS / f"{frozen.number:04d}")

    def _estimate(self, trials: int) -> None:
        left = trials - self._asked()
        if left > 0 and is_confirmed(self.folder):
            raise InputError(
                f"The study in {self.folder} was confirmed on the test set and is closed; more trials would be chosen "
                "by people who have seen it: give another --out."
            )
        if left <= 0:
            self.say(f"all {trials} trials are there")
        else:
            each = cpu_seconds_a_run(self.settings, self.data)
            self.say(
                f"{left} of {trials} trials to run: about {duration(left * each)} of CPU time if each costs what the "
                "settings themselves cost and none is pruned"
            )

    def _say_outcome(self, state: str, value: float | None, epochs: Sequence[Epoch]) -> None:
        done = [t for t in self.study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
        best = min((t.value for t in done if t.value is not None), default=None)
        reached = f", perplexity {value:.2f}" if value is not None else f" after {len(epochs)} epochs"
        self.say(f"{state.lower()}{reached}" + ("" if best is None else f"; best so far {best:.2f}"))


def _pruner(kind: str, epochs: int) -> Any:
    import optuna

    if kind == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(2, epochs // 3))
    if kind == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs, reduction_factor=3)
    return optuna.pruners.NopPruner()


def _check_numbers(trials: int, confirm: int, pruner: str) -> None:
    if trials < 1:
        raise InputError(f"trials must be 1 or more, not {trials}.")
    if confirm < 0 or confirm == 1:
        raise InputError(f"confirm is the number of fresh seeds, 2 or more for an interval (0: none), not {confirm}.")
    if pruner not in PRUNERS:
        raise InputError(f"pruner must be one of {', '.join(PRUNERS)}, not {pruner!r}.")


def _refuse_other(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder with anything but this study, before minutes of reading."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another --out.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    theirs = read_about(folder)
    for key, what in [("settings", "settings"), ("space", "search space"), ("pruner", "pruner"), ("seed", "seed")]:
        if theirs[key] != json.loads(json.dumps(identity[key])):
            raise InputError(
                f"{folder} holds a study with another {what}; give another --out.".replace(
                    "another settings", "other settings"
                )
            )


def _open(folder: Path, about: dict[str, Any]) -> None:
    if not folder.exists() or not any(folder.iterdir()):
        create_run(folder, {STUDY: json.dumps(about, indent=1, ensure_ascii=False).encode()})
        (folder / TRIALS).mkdir(exist_ok=True)
    elif read_about(folder)["fingerprint"] != about["fingerprint"]:
        raise InputError(f"{folder} holds a study on other data than there is now; give another --out.")


def _drop_weights(run: Path) -> None:
    for name in (LAST, BEST):
        (run / name).unlink(missing_ok=True)


def _last(key: str) -> str:
    return key.rpartition(".")[2]
