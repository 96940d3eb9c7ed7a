"""Search for better settings with Optuna: same data, vocabulary and epochs.

A study is a folder:

| file | what |
|---|---|
| ``study.json`` | settings, space, pruner, seed and the data's fingerprint: what makes the study what it is |
| ``settings.toml`` | the settings it starts from |
| ``journal.jsonl`` | Optuna's journal: every trial, every epoch's validation perplexity; or they are in a database |
| ``trials/NNNN/`` | each trial's run folder; when a trial ends its weights are deleted, its settings and log stay |
| ``confirm/`` | a comparison of the settings it started from with the best, on seeds the search never saw |
| ``locks/`` | which process has which trial |

As many workers as you like share a study: processes on one machine through its folder, machines through a PostgreSQL
database (:mod:`regard.translator.studies.storage`). Killed at any moment, a study loses no finished trial, and the
interrupted one goes on from its checkpoint. With one worker, what trial n tries is a function of the seed, n and the
finished trials, so a study that was stopped tries what it would have tried. With several it also depends on what the
others try.

Trials are judged by validation perplexity alone. The test set is opened once, by the confirmation, for which the study
is closed.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CouldNotFindOut, InputError
from regard.translator.runs.files import BEST, LAST
from regard.translator.runs.records import is_finished, logged_epochs
from regard.translator.runs.settings import Settings
from regard.translator.studies.comparison import Say, contest
from regard.translator.studies.search_record import (
    CONFIRM,
    TRIALS,
    Tuning,
    best_trial,
    difference,
    is_confirmed,
    open_folder,
    portable,
    read_study,
    read_trials,
    refuse_other,
)
from regard.translator.studies.space import Range, Space, change, load_space
from regard.translator.studies.storage import Storage, open_storage, without_password
from regard.translator.studies.variants import Variant
from regard.translator.training.budget import cpu_seconds_a_run, duration
from regard.translator.training.loop import Epoch, Step, Watch, train
from regard.translator.training.preparation import Prepared, prepare

if TYPE_CHECKING:
    import optuna

PRUNERS = ("median", "hyperband", "none")
_POLL = 2.0  # seconds between two looks at the trials of other workers


def tune(
    settings: Settings,
    out: str | Path,
    *,
    trials: int = 40,
    space: str | Path | Space | None = None,
    pruner: str = "median",
    confirm: int = 0,
    seed: int = 0,
    storage: str | None = None,
    watch: Watch | None = None,
    say: Say | None = None,
    command: str = "",
) -> Tuning:
    """Search ``space`` until the study in ``out`` has ``trials`` trials; goes on with the study that is there.

    Call it in several processes at once and they share the work: in one folder on one machine or, with a ``storage``
    such as postgresql://USER@HOST/DATABASE, on many machines, where the last part of ``out`` is the study's name.
    ``trials`` counts the trials of all workers, and each returns when all of them have ended.

    ``confirm`` closes the study, trains the settings it started from and the best ones with that many fresh seeds, and
    scores both on the test set; of several workers one does it. The first trial is the settings themselves, where the
    space has them.
    """
    _check_numbers(trials, confirm, pruner)
    folder, say = Path(out), say or (lambda line: None)
    chosen = space if isinstance(space, Space) else load_space(space, settings)
    identity = {"settings": settings.to_dict(), "space": chosen.to_dict(), "pruner": pruner, "seed": seed}
    where = {"storage": without_password(storage or "")}
    refuse_other(folder, identity | where)
    command = without_password(command)
    with closing(open_storage(folder, storage)) as shared, shared.saying():
        data = prepare(settings.with_changes(['embedding.source="learned"', 'embedding.target="learned"']))
        about = identity | {"fingerprint": data.corpus.fingerprint, "name": chosen.name}
        open_folder(folder, about | where | {"command": command}, settings)
        search = _Search(folder, settings, chosen, data, shared, pruner, seed, watch, say)
        search.agree(about)
        search.until(trials)
        if confirm:
            search.confirm(confirm, command)
    return read_study(folder, storage=storage)


class _Pruned(Exception):  # noqa: N818
    """Raised inside a trial's training, to stop it."""


class _Taken(Exception):  # noqa: N818
    """Raised inside a trial's training when another worker has the trial, because this one seemed dead."""


class _Search:
    """One worker: the loop over trials, and what it needs for each."""

    def __init__(
        self, folder: Path, settings: Settings, space: Space, data: Prepared, shared: Storage, pruner: str, seed: int,
        watch: Watch | None, say: Say,
    ) -> None:  # fmt: skip
        self.folder, self.settings, self.space, self.data, self.seed = folder, settings, space, data, seed
        self.shared, self.watch, self.say = shared, watch, say
        self.study = shared.open(create=True, pruner=_pruner(pruner, settings.training.epochs))

    def agree(self, about: dict[str, Any]) -> None:
        """Join the study of this name in the storage if it is about the same; if it is new, write down what it is."""
        ours = json.loads(json.dumps(about)) | {"settings": portable(about["settings"])}
        with self.shared.exclusive():
            theirs = self.study.user_attrs.get("about")
            if theirs is None:
                self.study.set_user_attr("about", ours)
                return
        if different := difference(theirs, ours):
            raise InputError(
                f"{self.shared.shown or self.folder} holds a study {self.study.study_name!r} with {different}; give "
                "an --out whose last part is another name."
            )

    def until(self, trials: int) -> None:
        """Go on with what dead workers left, try until there are as many trials as wanted, and wait for the others."""
        self._clean()
        self._estimate(trials)
        while True:
            with self.shared.patiently():
                trial = self._next(trials)
                if trial is None:
                    return
                self._try(trial, trials)

    def confirm(self, seeds: int, command: str) -> None:
        """The settings it started from beside the best, with seeds that took no part in the choice."""
        best = best_trial(read_trials(self.folder, self.study), self.folder)
        chosen = self.settings.with_changes([change(k, v) for k, v in best.changes.items()])
        variants = [Variant(name="default", settings=self.settings), Variant(name="best", settings=chosen)]
        if chosen == self.settings:
            self.say("no trial was better than the settings it started from: there is nothing to confirm")
            return
        with self.shared.confirming() as chance:
            if not chance or self.study.user_attrs.get("confirmed", self.shared.place) != self.shared.place:
                self.say("another worker confirms the best settings, or has done it: its folder has the comparison")
                return
            self.study.set_user_attr("closed", True)
            first = self.settings.training.seed + 1
            contest(
                self.settings, variants, range(first, first + seeds), self.folder / CONFIRM, corpus=self.data.corpus,
                watch=self.watch, say=self.say, command=command,
            )  # fmt: skip
            self.study.set_user_attr("confirmed", self.shared.place)

    def _next(self, trials: int) -> optuna.Trial | None:
        """A trial to work on; None when all have ended."""
        waiting = False
        while True:
            with self.shared.exclusive():
                running = self._running()
                for frozen in running:
                    if self.shared.claim(self.study, frozen):
                        return self._go_on(frozen)
                if (number := self._asked()) < trials:
                    return self._ask(number, alone=not running)
            if not running:
                return None
            if not waiting:
                self.say(f"waiting for {len(running)} of {trials} trials that other workers have")
            waiting = True
            time.sleep(_POLL)

    def _go_on(self, frozen: Any) -> optuna.Trial:
        import optuna

        self.say(f"trial {frozen.number} goes on")
        self._seed(frozen.number, "")
        return optuna.trial.Trial(self.study, frozen._trial_id)

    def _ask(self, number: int, *, alone: bool) -> optuna.Trial:
        self._refuse_closed()  # perhaps since this worker began
        if not self.study.get_trials(deepcopy=False) and (start := self.space.defaults(self.settings)):
            self.study.enqueue_trial(start)
        self._seed(number, "", alone=alone)
        trial = self.study.ask()
        self.shared.claim(self.study, trial)
        return trial

    def _try(self, trial: optuna.Trial, trials: int) -> None:
        import optuna

        run = self.folder / TRIALS / f"{trial.number:04d}"
        try:
            params = {key: self._suggest(trial, key, entry) for key, entry in self.space.entries.items()}
            tried = ", ".join(f"{_last(k)} {v}" for k, v in params.items())
            self.say(f"trial {trial.number} ({trial.number + 1} of {trials}): {tried}")
            with self.shared.at_work(trial):
                self._judge(trial, params, run)
        except (_Taken, optuna.exceptions.UpdateFinishedTrialError):
            self.say(f"trial {trial.number} was taken over by another worker, because this one gave no sign of life")
        finally:
            self.shared.release(trial)

    def _judge(self, trial: optuna.Trial, params: dict[str, Any], run: Path) -> None:
        """Train a trial and tell the study how it ended."""
        import optuna

        state, value = optuna.trial.TrialState.COMPLETE, None
        try:
            value = self._perplexity(trial, params, run)
        except _Pruned:
            state = optuna.trial.TrialState.PRUNED
        except CouldNotFindOut as error:  # it diverged: an answer too
            state = optuna.trial.TrialState.FAIL
            trial.set_user_attr("reason", str(error))
        self._still_ours(trial)
        epochs = logged_epochs(run)
        trial.set_user_attr("cpu_seconds", epochs[-1].cpu_seconds if epochs else 0.0)
        self.study.tell(trial, value, state=state, skip_if_finished=True)
        _drop_weights(run)
        self._say_outcome(state.name, value, epochs)

    def _still_ours(self, trial: optuna.Trial) -> None:
        if not self.shared.has(trial):
            raise _Taken

    def _perplexity(self, trial: optuna.Trial, params: dict[str, Any], run: Path) -> float:
        settings = self._combined(params)
        told = dict(trial.storage.get_trial(trial._trial_id).intermediate_values)

        def watch(event: Step | Epoch) -> None:
            if self.watch is not None:
                self.watch(event)
            if isinstance(event, Epoch):
                self._still_ours(trial)
                self._tell_epoch(trial, event, told)
                judged_before = event.epoch < max(told)  # by the worker that had the trial then
                if not judged_before and event.epoch < settings.training.epochs and trial.should_prune():
                    raise _Pruned

        for epoch in logged_epochs(run):  # epochs of an interrupted trial that the journal may not know of
            watch(epoch)
        if not is_finished(run):
            train(settings, run, prepared=self._prepared(settings), watch=watch)
        return min(e.perplexity for e in logged_epochs(run))

    def _tell_epoch(self, trial: optuna.Trial, epoch: Epoch, told: dict[int, float]) -> None:
        if epoch.epoch not in told:
            trial.report(epoch.perplexity, epoch.epoch)
        elif told[epoch.epoch] != epoch.perplexity:  # trained again, on a machine that rounds differently
            trial.storage.set_trial_intermediate_value(trial._trial_id, epoch.epoch, epoch.perplexity)
        told[epoch.epoch] = epoch.perplexity

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

    def _seed(self, number: int, key: str, *, alone: bool = True) -> None:
        """A sampler whose draws depend on the seed, the trial and the setting: nothing to save, nothing to lose."""
        import optuna

        mixed = zlib.crc32(f"{self.seed} {number} {key}".encode())
        self.study.sampler = optuna.samplers.TPESampler(
            seed=mixed, multivariate=True, constant_liar=not alone, n_startup_trials=10
        )

    def _asked(self) -> int:
        return sum(t.state.name != "WAITING" for t in self.study.get_trials(deepcopy=False))

    def _running(self) -> list[Any]:
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.name == "RUNNING"]

    def _clean(self) -> None:
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state.is_finished():
                _drop_weights(self.folder / TRIALS / f"{frozen.number:04d}")

    def _estimate(self, trials: int) -> None:
        left = trials - self._asked()
        if left > 0:
            self._refuse_closed()
        if left <= 0:
            self.say(f"all {trials} trials are there")
        else:
            each = cpu_seconds_a_run(self.settings, self.data)
            self.say(
                f"{left} of {trials} trials to run: about {duration(left * each)} of CPU time if each costs what the "
                "settings themselves cost and none is pruned"
            )

    def _refuse_closed(self) -> None:
        if is_confirmed(self.folder) or self.study.user_attrs.get("closed"):
            raise InputError(
                f"The study in {self.folder} was confirmed on the test set and is closed; more trials would be chosen "
                "by people who have seen it: give another --out."
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


def _drop_weights(run: Path) -> None:
    for name in (LAST, BEST):
        (run / name).unlink(missing_ok=True)


def _last(key: str) -> str:
    return key.rpartition(".")[2]
