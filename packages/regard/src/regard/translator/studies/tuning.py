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
interrupted one is tried again under a new number, from its checkpoint. With one worker, what the n-th trial tries is a
function of the seed, n and the finished trials, so a study that was stopped tries what it would have tried. With
several it also depends on what the others try.

Trials are judged by validation perplexity alone. The test set is opened once, by the confirmation, for which the study
is closed.

Trials may be cheap: with ``data.share`` below 1 they see a part of the training pairs only. What such a study likes
best is then tried ``first`` by one that sees them all; a confirmation always does.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import optuna

from regard.errors import CouldNotFindOut, InputError
from regard.files import Lock
from regard.progress import STOPPING, Notify, duration, ignore
from regard.strict_json import parse_json
from regard.translator.models.own_translator import OwnCode, taken_settings
from regard.translator.runs.files import BEST, LAST
from regard.translator.runs.records import Epoch, is_finished, read_log
from regard.translator.runs.settings import Settings
from regard.translator.studies.comparison import Variant, compare_variants, cpu_seconds_a_run
from regard.translator.studies.search_record import (
    CONFIRM,
    Tuning,
    best_trial,
    check_folder,
    difference,
    is_confirmed,
    open_folder,
    portable_settings,
    read_study,
    read_trials,
    trial_folder,
)
from regard.translator.studies.space import Range, Space, load_space, with_values
from regard.translator.studies.storage import (
    REASON,
    Storage,
    earlier_numbers,
    is_interrupted,
    open_storage,
    ordinal,
    replaced_numbers,
    retry_interrupted,
    without_password,
)
from regard.translator.training.loop import Step, Watch, first_model, train
from regard.translator.training.preparation import PreparedData, prepare

T = TypeVar("T")

PRUNERS = ("median", "hyperband", "none")
_POLL = 2.0  # seconds between two looks at the trials of other workers


def tune(  # noqa: PLR0913 - a verb's options, each with a default
    settings: Settings,
    out: str | Path,
    *,
    trials: int = 40,
    space: str | Path | Space | None = None,
    pruner: str = "median",
    confirm: int = 0,
    seed: int = 0,
    first: str | Path | None = None,
    storage: str | None = None,
    watch: Watch | None = None,
    say: Notify | None = None,
    command: str = "",
    own: OwnCode | None = None,
) -> Tuning:
    """Search ``space`` until the study in ``out`` has ``trials`` trials; goes on with the study that is there.

    Call it in several processes at once and they share the work: in one folder on one machine or, with a ``storage``
    such as postgresql://USER@HOST/DATABASE, on many machines, where the last part of ``out`` is the study's name.
    ``trials`` counts the trials of all workers, and each returns when all of them have ended.

    ``confirm`` closes the study, trains the settings it started from and the best ones with that many fresh seeds, and
    scores both on the test set; of several workers one does it. The first trial is the settings themselves, where the
    space has them; then come the best of an earlier study of this space, where the folder ``first`` names one.
    Of somebody's ``own`` model, the sizes that its constructor takes are tried, and how it is trained.
    """
    _check_numbers(trials, confirm, pruner)
    folder, say = Path(out), say or ignore
    chosen = space if isinstance(space, Space) else load_space(space, settings, taken=taken_settings(settings, own))
    identity = {"settings": settings.to_dict(), "space": chosen.to_dict(), "pruner": pruner, "seed": seed}
    if own is not None:
        identity["code"] = own.digest
    where = {"storage": without_password(storage or "")}
    check_folder(folder, identity | where)
    command = without_password(command)
    begin_with = first_tries(settings, chosen, trials, None if first is None else read_study(first))
    with contextlib.closing(open_storage(folder, storage)) as shared, shared.explain_errors():
        data = prepare(settings.with_changes(['embedding.source="learned"', 'embedding.target="learned"']))
        about = identity | {"fingerprint": data.corpus.fingerprint, "name": chosen.name}
        open_folder(folder, about | where | {"command": command, "model": own.name if own else ""}, settings)
        search = _Search(folder, settings, chosen, data, shared, pruner, seed, watch, say, own)
        for line in shared.notes():
            say(line)
        search.agree(about)
        search.run_until(trials, begin_with)
        if confirm:
            search.confirm(confirm, command)
    return read_study(folder, storage=storage)


class _TrialTakenError(Exception):
    """Raised inside a trial's training when the trial has ended: another worker has it, for this one seemed dead."""


class _Search:
    """One worker: the loop over trials, and what it needs for each."""

    def __init__(
        self, folder: Path, settings: Settings, space: Space, data: PreparedData, shared: Storage, pruner: str,
        seed: int,
        watch: Watch | None, say: Notify, own: OwnCode | None,
    ) -> None:  # fmt: skip
        self.folder, self.settings, self.space, self.data, self.seed = folder, settings, space, data, seed
        self.shared, self.watch, self.say, self.own = shared, watch, say, own
        self.study = shared.open(create=True, pruner=_pruner(pruner, settings.training.epochs))
        self.number = -1  # of the trial that this worker has or had last
        self.taken = False  # whether another worker has that one now
        self.begin_with: Sequence[dict[str, Any]] = []  # what a study without trials tries first

    def agree(self, about: dict[str, Any]) -> None:
        """Join the study of this name in the storage if it is about the same; if it is new, write down what it is."""
        ours = parse_json(json.dumps(about), constants=True) | {"settings": portable_settings(about["settings"])}
        with self.shared.exclusive_access():
            theirs = self.study.user_attrs.get("about")
            if theirs is None:
                self.study.set_user_attr("about", ours)
                return
        if different := difference(theirs, ours):
            raise InputError(
                f"{self.shared.shown or self.folder} holds a study {self.study.study_name!r} with {different}; give "
                "an --out whose last part is another name."
            )

    def run_until(self, trials: int, begin_with: Sequence[dict[str, Any]]) -> None:
        """Try until there are as many trials as wanted, those of dead workers too, and wait for the living ones."""
        self.begin_with = begin_with
        self._clean()
        self._estimate(trials)
        waiting = False
        while True:
            with self.shared.wait_if_away():
                if self._try_next(trials):
                    continue
                if not (running := self._running()):
                    return
                if not waiting:
                    self.say(f"waiting for {running} of {trials} trials that other workers have")
                waiting = True
                time.sleep(_POLL)

    def confirm(self, seeds: int, command: str) -> None:
        """The settings it started from beside the best, with seeds that took no part in the choice."""
        best = best_trial(read_trials(self.folder, self.study), self.folder)
        start = self.settings.with_changes(["data.share=1.0"])
        chosen = with_values(start, best.changes)
        variants = [Variant(name="default", settings=start), Variant(name="best", settings=chosen)]
        if chosen == start:
            self.say("no trial was better than the settings it started from: there is nothing to confirm")
            return
        with self.shared.claim_confirmation() as chance:
            if not chance or self.study.user_attrs.get("confirmed", self.shared.place) != self.shared.place:
                self.say("another worker confirms the best settings, or has done it: its folder has the comparison")
                return
            self.study.set_user_attr("closed", True)
            # the search used the settings' own seed: its winner was partly chosen for it
            first = start.training.seed + 1
            compare_variants(
                start, variants, range(first, first + seeds), self.folder / CONFIRM, corpus=self.data.corpus,
                watch=self.watch, say=self.say, command=command, own=self.own,
            )  # fmt: skip
            self.study.set_user_attr("confirmed", self.shared.place)

    def _try_next(self, trials: int) -> bool:
        """Try one more trial; False if there is none to try."""
        with contextlib.ExitStack() as turn:  # its end is the next worker's turn; the trial itself ends it
            # one worker at a time from here until its trial is claimed: choosing, burying the dead, trying again
            turn.enter_context(self.shared.exclusive_access())
            self._fail_own_trial()
            self.shared.fail_dead_trials(self.study)
            retry_interrupted(self.study)
            if not self._has_next(trials):
                return False
            self._run_trial(lambda trial: self._objective(trial, trials, turn))
        return True

    def _fail_own_trial(self) -> None:
        """Where the storage was away at the end of this worker's trial, the trial still seems to run."""
        if any(t.number == self.number and t.state.name == "RUNNING" for t in self.study.get_trials(deepcopy=False)):
            self.study.tell(self.number, state=optuna.trial.TrialState.FAIL)

    def _has_next(self, trials: int) -> bool:
        """Whether a trial waits or may be added; the sampler is then ready for it."""
        before = self.study.get_trials(deepcopy=False)
        waiting = [t.number for t in before if t.state.name == "WAITING"]
        if not waiting:
            if self._count_trials() >= trials:
                return False
            self._check_open()  # perhaps somebody confirmed since this worker began
            if not before:
                for params in self.begin_with:
                    self.study.enqueue_trial(params)
        self._seed(ordinal(before, min(waiting, default=len(before))), "", alone=not self._running())
        return True

    def _run_trial(self, objective: Callable[[optuna.Trial], float]) -> None:
        self.taken = False
        try:
            self.study.optimize(objective, n_trials=1, catch=(CouldNotFindOut,))
        except ValueError:  # Optuna cannot be told the end of a trial that has ended
            if not self.taken:
                raise
            self.say(f"trial {self.number} was taken over by another worker, because this one gave no sign of life")
            return
        except UnboundLocalError as error:  # Optuna 5.0, where the storage is away when it is told how a trial ended
            raise error.__context__ or error from None
        frozen = self.study.get_trials(deepcopy=False)[self.number]
        run = trial_folder(self.folder, self.number)
        _drop_weights(run)
        self._say_outcome(frozen.state.name, frozen.value, read_log(run).epochs)

    def _objective(self, trial: optuna.Trial, trials: int, turn: contextlib.ExitStack) -> float:
        """Train a trial: its best validation perplexity. Optuna is told by what it returns or raises."""
        self.number = trial.number
        with self.shared.claim_trial(trial.number):
            turn.close()  # this trial is ours: let the others choose theirs
            place = ordinal(self.study.get_trials(deepcopy=False), trial.number)
            params = {key: self._suggest(trial, place, key, entry) for key, entry in self.space.entries.items()}
            tried = ", ".join(f"{_short_key(k)} {v}" for k, v in params.items())
            run = self._run_folder(trial.number)
            self.say(f"trial {trial.number} ({place + 1} of {trials}): {tried}")
            try:
                return self._perplexity(trial, params, run)
            except CouldNotFindOut as error:  # it diverged: an answer too
                trial.set_user_attr(REASON, str(error))
                raise
            # also of a trial that was pruned or diverged: its time was spent
            finally:
                if epochs := read_log(run).epochs:
                    trial.set_user_attr("cpu_seconds", epochs[-1].cpu_seconds)

    def _run_folder(self, number: int) -> Path:
        """The trial's folder; one that was interrupted has its old one's, unless its worker is alive after all."""
        run = trial_folder(self.folder, number)
        for earlier in reversed(earlier_numbers(self.study.get_trials(deepcopy=False)[number])):
            old = trial_folder(self.folder, earlier)
            # the lock: a worker that only seemed dead still trains in its folder, and then the new trial begins afresh
            if old.is_dir() and not run.exists() and (lock := Lock(old)).acquire(wait=False):
                os.rename(old, run)
                lock.release()
                self.say(f"trial {earlier} goes on as trial {number}")
        return run

    def _perplexity(self, trial: optuna.Trial, params: dict[str, Any], run: Path) -> float:
        with _failing_alone():
            settings = with_values(self.settings, params)

        def watch(event: Step | Epoch) -> None:
            if self.watch is not None:
                self.watch(event)
            if isinstance(event, Epoch) and self._retry_until_answered(lambda: judge(event)):
                raise optuna.TrialPruned

        def judge(epoch: Epoch) -> bool:
            """Report an epoch; whether to stop after it."""
            self._check_ours(trial)
            trial.report(epoch.perplexity, epoch.epoch)
            return epoch.epoch < settings.training.epochs and trial.should_prune()

        # reported again under the new number, so that pruning sees the whole curve
        for epoch in read_log(run).epochs:  # of a trial that was interrupted
            watch(epoch)
        if not is_finished(run):
            learned = settings.embedding.source == settings.embedding.target == "learned"
            data = self.data if learned else prepare(settings, self.data.corpus)
            if self.own is not None:
                with _failing_alone():
                    first_model(settings, data, self.own)
            train(settings, run, prepared=data, watch=watch, own=self.own)
        self._retry_until_answered(lambda: self._check_ours(trial))
        return min(e.perplexity for e in read_log(run).epochs)

    def _retry_until_answered(self, do: Callable[[], T]) -> T:
        """What it gives, as soon as the storage answers."""
        while True:
            with self.shared.wait_if_away():
                return do()

    def _check_ours(self, trial: optuna.Trial) -> None:
        if self.study.get_trials(deepcopy=False)[trial.number].state.is_finished():
            self.taken = True
            raise _TrialTakenError

    def _suggest(self, trial: optuna.Trial, place: int, key: str, entry: list[Any] | Range) -> Any:
        self._seed(place, key)
        if isinstance(entry, list):
            return trial.suggest_categorical(key, entry)
        if isinstance(getattr(getattr(self.settings, key.partition(".")[0]), _short_key(key)), int):
            step = round(entry.step or 1)
            return trial.suggest_int(key, round(entry.low), round(entry.high), step=step, log=entry.log)
        value = trial.suggest_float(key, entry.low, entry.high, step=entry.step, log=entry.log)
        return float(f"{value:.4g}")  # settings a person can read; the space is far coarser than that

    def _seed(self, number: int, key: str, *, alone: bool = True) -> None:
        """A sampler whose draws depend on the seed, the trial and the setting: nothing to save, nothing to lose."""
        # not Python's hash, which differs between processes
        mixed = zlib.crc32(f"{self.seed} {number} {key}".encode())
        self.study.sampler = optuna.samplers.TPESampler(
            # constant_liar: running trials count as bad ones, so that two workers do not try the same; a lone worker
            # has none running, and what it tries depends on finished trials only
            seed=mixed,
            multivariate=True,
            constant_liar=not alone,
            n_startup_trials=10,
        )

    def _count_trials(self) -> int:
        """Trials so far, those that are tried again counted once."""
        trials = self.study.get_trials(deepcopy=False)
        return len(trials) - len(replaced_numbers(trials))

    def _running(self) -> int:
        return sum(t.state.name == "RUNNING" for t in self.study.get_trials(deepcopy=False))

    def _clean(self) -> None:
        """A worker that was killed after a trial's end may have left its weights."""
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state.is_finished() and not is_interrupted(frozen):
                _drop_weights(trial_folder(self.folder, frozen.number))

    def _estimate(self, trials: int) -> None:
        left = trials - self._count_trials()
        if left <= 0:
            self.say(f"all {trials} trials are there")
        else:
            self._check_open()
            each = cpu_seconds_a_run(self.settings, self.data, own=self.own)
            self.say(
                f"{left} of {trials} trials to run: about {duration(left * each)} of CPU time if each costs what the "
                f"settings themselves cost and none is pruned; {STOPPING}"
            )

    def _check_open(self) -> None:
        """Raise InputError where the study is closed."""
        if is_confirmed(self.folder) or self.study.user_attrs.get("closed"):
            raise InputError(
                f"The study in {self.folder} was confirmed on the test set and is closed; more trials would be chosen "
                "by people who have seen it: give another --out."
            )

    def _say_outcome(self, state: str, value: float | None, epochs: Sequence[Epoch]) -> None:
        done = [t for t in self.study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
        best = min((t.value for t in done if t.value is not None), default=None)
        reached = f" after {len(epochs)} epoch{'s' * (len(epochs) != 1)}"
        reached = reached if value is None else f", perplexity {value:.2f}"
        self.say(f"{state.lower()}{reached}" + ("" if best is None else f"; best so far {best:.2f}"))


@contextlib.contextmanager
def _failing_alone() -> Iterator[None]:
    """Settings that do not go together, as 3 heads in somebody's width of 64, fail their trial and not the search."""
    try:
        yield
    except InputError as error:
        raise CouldNotFindOut(str(error)) from None


def first_tries(settings: Settings, space: Space, trials: int, earlier: Tuning | None) -> list[dict[str, Any]]:
    """What a new study begins with: the settings themselves, where the space has them, then the best earlier trials."""
    start = space.defaults(settings)
    tries = [] if start is None else [start]
    if earlier is None:
        return tries
    complete = [trial for trial in earlier.trials if trial.state == "complete"]
    for trial in sorted(complete, key=lambda trial: trial.perplexity or 0.0):
        if not space.holds(trial.changes):
            raise InputError(
                f"Trial {trial.number} of {earlier.folder} is outside this search space; give --space as it was there."
            )
        if trial.changes not in tries:
            tries.append(trial.changes)
    return tries[:trials]


def _pruner(kind: str, epochs: int) -> Any:
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


def _short_key(key: str) -> str:
    return key.rpartition(".")[2]
