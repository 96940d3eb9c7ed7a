"""Training: a run is a function of its settings and its data, can stop at any moment, and goes on from there.

Everything random is drawn from the seed and the step (:func:`regard.translator.data.batches.plan`,
:func:`regard.translator.models.encoder.seed_dropout`), so a checkpoint needs no random state and a resumed run ends
with exactly the weights of an uninterrupted one: on one machine, with the same library versions and number of threads.
Several processes share the work as :mod:`regard.translator.training.parallel` says; without it, a team has one.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.array_types import Whole
from regard.errors import CouldNotFindOut, InputError
from regard.files import create_folder, write_file
from regard.progress import Notify, ignore
from regard.results import Result
from regard.translator.data.batches import Batch, epoch_plan
from regard.translator.models.encoder import build_model, seed_dropout
from regard.translator.models.own_translator import OwnCode, OwnTranslator, build_own
from regard.translator.models.run import load_run
from regard.translator.models.translation import TranslationModel, device_of
from regard.translator.models.weights import (
    Average,
    check_size,
    choose_device,
    count_parameters,
    model_tensors,
    optimiser_tensors,
    put_on_device,
    restore,
    write_weights,
)
from regard.translator.runs.files import BEST, LAST, USUAL, Header, damage_error, lock_folder, missing_digest_note
from regard.translator.runs.records import (
    LOG,
    LOG_EVERY,
    Epoch,
    append_log,
    epoch_entry,
    finite_number,
    perplexity_of,
    read_log,
    rewind_log,
    whole_number,
)
from regard.translator.runs.settings import Settings, TrainingSettings
from regard.translator.scoring.scores import perplexity
from regard.translator.training.optimisers import build_optimiser
from regard.translator.training.parallel import Team
from regard.translator.training.preparation import PreparedData, baseline_file, first_files, has_unfinished_run, prepare


@dataclass(frozen=True, kw_only=True)
class Step:
    """How far the run is, after a step; shown to whoever watches."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    rate: float  # target tokens per CPU-second, of this process
    seconds_left: float  # at the pace of the last minutes


CPU = torch.device("cpu")
Watch = Callable[[Step | Epoch], None]  # told every step and every epoch; an exception it raises stops the run


@dataclass(frozen=True, kw_only=True, eq=False)
class Training(Result):
    """What :func:`train` returns; the best epoch is the one with the lowest validation perplexity."""

    folder: str
    epochs: list[Epoch]
    best: Epoch
    parameters: int
    target_tokens: int  # of one epoch
    cpu_seconds: float
    wall_seconds: float
    rate: float  # target tokens per CPU-second
    fingerprint: str
    own: str = ""  # my.py:NAME, where the model is somebody's own

    def __str__(self) -> str:
        b = self.best
        epochs = "1 epoch" if len(self.epochs) == 1 else f"{len(self.epochs)} epochs"
        return (
            f"Trained {epochs} of {self.target_tokens:,} target tokens ({self.parameters:,} weights) "
            f"in {self.cpu_seconds:.0f} CPU-seconds, {self.wall_seconds:.0f} s by the clock: {self.rate:,.0f} tokens "
            f"per CPU-second.\nBest validation perplexity: {b.perplexity:.2f} counting <sos>, "
            f"{b.perplexity_without_sos:.2f} without it, after epoch {b.epoch} of {len(self.epochs)}.\n"
            f"The run is in {self.folder}: try  regard translator score {self.folder}"
            f"{f' --model {self.own}' if self.own else ''}"
        )


class Pace:
    """Seconds a step by the clock, over the last minutes: a machine that was busy for an hour may be free again.

    >>> pace = Pace(began=0.0)
    >>> [pace.seconds_a_step(step=step, now=now) for step, now in [(1, 600.0), (2, 1200.0), (302, 1500.0)]]
    [600.0, 600.0, 1.0]
    """

    WINDOW = 180.0  # seconds; one step that takes longer counts whole

    def __init__(self, *, began: float, step: int = 0) -> None:
        self.marks = deque([(began, step)])

    def seconds_a_step(self, *, step: int, now: float) -> float:
        """After ``step`` at ``now``, validations counted too; at most some hundred marks are kept."""
        if now - self.marks[-1][0] >= self.WINDOW / 100:
            self.marks.append((now, step))
        while len(self.marks) > 1 and now - self.marks[1][0] >= self.WINDOW:
            self.marks.popleft()
        return (now - self.marks[0][0]) / (step - self.marks[0][1])


@dataclass(kw_only=True)
class _Position:
    """Where a run is: between two steps."""

    step: int = 0
    epoch: int = 1
    batch: int = 0  # batches of this epoch already done
    loss_sum: float = 0.0
    tokens: int = 0  # those that loss_sum is over
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    best: float = math.inf
    finished: bool = False
    started: tuple[float, float] = field(default_factory=lambda: (time.process_time(), time.monotonic()))

    def clock(self) -> None:
        """Add the time since the last look."""
        now = (time.process_time(), time.monotonic())
        self.cpu_seconds += now[0] - self.started[0]
        self.wall_seconds += now[1] - self.started[1]
        self.started = now

    def facts(self) -> dict[str, Any]:
        self.clock()
        return {key: value for key, value in asdict(self).items() if key != "started"}


def train(
    settings: Settings,
    out: str | Path,
    *,
    prepared: PreparedData | None = None,
    watch: Watch | None = None,
    say: Notify | None = None,
    command: str = "",
    team: Team | None = None,
    own: OwnCode | None = None,
) -> Training:
    """Train the model of ``settings`` into the folder ``out``, or go on with the unfinished run that is there.

    A folder with another run, or a finished one, is refused and left as it is. ``watch`` is told every step and epoch;
    an exception it raises stops the run, which can be resumed like any other. ``say`` is told what to know about the
    data, line by line. ``team``: the processes to share it with. ``own``: somebody's model, for ``model.kind`` own.
    """
    folder, team, say = Path(out), team or Team(), say or ignore
    team.check(settings)

    def has_begun(fingerprint: str | None) -> bool:
        return has_unfinished_run(settings, folder, fingerprint, processes=team.size, own=own)

    team.run_on_first(lambda: has_begun(None))  # before minutes of reading, where it shows
    device = choose_device(settings.training.device)
    data = prepared if prepared is not None else prepare(settings)
    for line in data.remarks():
        say(line)
    if device.type != "cpu":
        say(f"It is computed on {device}.")
    with deterministic_algorithms(settings.training.threads, device), torch.random.fork_rng(devices=[]):
        model = first_model(settings, data, own, device)
        team.check_agreement(settings, data.corpus.fingerprint, model)
        with contextlib.ExitStack() as held:

            def begin() -> None:
                if not has_begun(data.corpus.fingerprint):
                    files = first_files(settings, data, model, command, processes=team.size)
                    # where somebody else has made it meanwhile, it is looked at like any other
                    if not create_folder(folder, files):
                        has_begun(data.corpus.fingerprint)
                held.enter_context(lock_folder(folder))

            team.run_on_first(begin)
            return _Trainer(settings, folder, data, model, watch, team).run(say)


def first_model(
    settings: Settings, data: PreparedData, own: OwnCode | None = None, device: torch.device | None = None
) -> TranslationModel:
    """The model as it is before the first step; its gradient and Adam's two moments will be as large."""
    device = device or choose_device(settings.training.device)
    if own is not None:
        return build_own(
            own, settings, len(data.source), len(data.target), vectors=data.source_vectors, device=str(device)
        )
    check_size(settings, len(data.source), len(data.target), copies=4)
    model = build_model(
        settings,
        len(data.source),
        len(data.target),
        source_vectors=data.source_vectors,
        target_vectors=data.target_vectors,
    )
    return put_on_device(model, device)


def learning_rate(step: int, steps: int, settings: TrainingSettings) -> float:
    """The rate of ``step`` (counted from 0) of ``steps``: rising over the warm-up, then as the schedule says.

    >>> s = TrainingSettings(learning_rate=1.0, warmup=2, schedule="linear")
    >>> [round(learning_rate(i, 6, s), 3) for i in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, steps - settings.warmup)
    match settings.schedule:
        case "linear":
            return settings.learning_rate * (1 - done)
        case "cosine":
            return settings.learning_rate * (1 + math.cos(math.pi * done)) / 2
    return settings.learning_rate


def training_loss(model: TranslationModel, batch: Batch, settings: TrainingSettings) -> Tensor:
    """What training makes small, as a mean over the batch's target tokens."""
    if settings.agreement:
        return model.agreeing_loss(batch, agreement=settings.agreement, smoothing=settings.smoothing)
    return model.loss(batch, smoothing=settings.smoothing)


class _Trainer:
    """The loop, and what it keeps between steps."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        data: PreparedData,
        model: TranslationModel,
        watch: Watch | None,
        team: Team,
    ) -> None:
        self.settings, self.folder, self.data, self.model, self.watch = settings, folder, data, model, watch
        self.team, self.device = team, device_of(model)
        s = settings.training
        self.optimiser = build_optimiser(settings, model, words=len(data.target))
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.average = Average(model, decay=s.average) if s.average else None
        self.at = _Position()
        self.steps = s.epochs * len(self._plan(1))  # of the whole run: the schedule of the learning rate ends there
        self.tokens_here, self.cpu_began = 0, time.process_time()  # of this process, for its rate
        team.clock = self.cpu_began

    def run(self, say: Notify) -> Training:
        with self.team.copy_of(self.folder / LAST) as last:
            if last is not None:
                self._resume(last, say)
        # what was done before may have been done on another machine, or a busy one
        self.pace = Pace(began=time.monotonic(), step=self.at.step)
        self.team.run_on_first(lambda: self._rewind(say))
        while self.at.epoch <= self.settings.training.epochs:
            self._epoch()
        return self.team.run_on_first(lambda: _result(self.folder, self.model, self.data))

    def _rewind(self, say: Notify) -> None:
        """A run that was killed may have logged steps after its last checkpoint, which are done again."""
        if read_log(self.folder).cut:
            say(f"{self.folder / LOG} ends in the middle of a line, where the run was stopped: it is written again.")
        rewind_log(self.folder / LOG, step=self.at.step, epoch=self.at.epoch)

    def _resume(self, last: Path, say: Notify) -> None:
        header = restore(last, self.model, self.optimiser, self.average)
        self.at = _position(last, header)
        ended = self.at.epoch > self.settings.training.epochs
        if not ended and (self.at.batch > len(self._plan(self.at.epoch)) or (self.at.batch and not self.at.tokens)):
            raise InputError(f"{last} says it is at batch {self.at.batch} of an epoch that has fewer; it is not ours.")
        if not header.digest and self.team.leads:
            say(missing_digest_note(self.folder / LAST))

    def _epoch(self) -> None:
        self.model.train()
        for rows in self._plan(self.at.epoch)[self.at.batch :]:
            batch = self.data.train.batch(rows).to(self.device)
            loss = self._step(batch)
            self._after_step(batch, loss)
        self._after_epoch()

    def _step(self, batch: Batch) -> float:
        s = self.settings.training
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.at.step, self.steps, s)
        seed_dropout(self.model, s.seed, self.at.step, self.team.rank)
        self.optimiser.zero_grad(set_to_none=True)
        loss = self._gradient(batch)
        if s.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), s.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.follow(step=self.at.step)
        return loss

    def _gradient(self, batch: Batch) -> float:
        """The loss of a batch, and its gradient in the weights; of a team, each does its part."""
        part, value = self.team.own_part(batch), 0.0
        if part is not None:
            loss = training_loss(self.model, part, self.settings.training)
            if part is not batch:
                # a mean over this part's tokens, weighted so that the parts' gradients add up to the batch's
                loss = loss * (self.model.token_count(part) / self.model.token_count(batch))
            loss.backward()  # type: ignore[no-untyped-call]
            value = float(loss.detach())
            for unused in (w for w in self.trained if w.grad is None):  # of somebody's model: kept all the same
                unused.grad = torch.zeros_like(unused)
        value, others = self.team.sum_up(self.trained, value)
        # its own seconds the clock adds
        self.at.cpu_seconds += others
        return value

    def _after_step(self, batch: Batch, loss: float) -> None:
        at, counted = self.at, self.model.token_count(batch)
        at.step, at.batch = at.step + 1, at.batch + 1
        at.loss_sum, at.tokens = at.loss_sum + loss * counted, at.tokens + counted
        self.tokens_here += len(batch.labels) // self.team.size
        if not math.isfinite(loss):
            raise CouldNotFindOut(
                f"The training loss is {loss} at step {at.step}; lower training.learning_rate or set training.clip=1."
            )
        if at.step % LOG_EVERY == 0:
            at.clock()
            self._log({"event": "step", "step": at.step, "epoch": at.epoch, "loss": loss})
        if at.step % self.settings.training.save_every == 0:
            self._save()
        if self.watch is not None:
            self.watch(self._progress(loss))

    def _after_epoch(self) -> None:
        at, epoch = self.at, self._validate() if self.team.leads else None
        # moved on before it is saved: a run that goes on from there begins the next epoch
        at.epoch, at.batch, at.loss_sum, at.tokens = at.epoch + 1, 0, 0.0, 0
        at.finished = at.epoch > self.settings.training.epochs
        if at.finished and self.team.leads:
            self._write_baseline()
        self._save()
        if self.watch is not None and epoch is not None:
            self.watch(epoch)

    def _validate(self) -> Epoch:
        """Validate, and keep what is best: the averaged weights where there are any."""
        with self.average.swap_in() if self.average is not None else contextlib.nullcontext():
            epoch = self._evaluate()
            self._log(epoch_entry(epoch))
            # the first epoch is kept whatever it is, also at infinite perplexity: a run folder always has best weights
            if epoch.perplexity < self.at.best or epoch.epoch == 1:
                self.at.best = epoch.perplexity
                write_weights(self.folder / BEST, model_tensors(self.model), asdict(epoch))
        return epoch

    def _write_baseline(self) -> None:
        """Before the run is called finished: a stop in between only does this again."""
        own = self.model.code if isinstance(self.model, OwnTranslator) else None
        corpus = self.data.corpus
        best = load_run(self.folder, own=own, device=str(self.device))
        write_file(self.folder / USUAL, baseline_file(best, corpus.train.source, corpus.validation.source))

    def _evaluate(self) -> Epoch:
        at = self.at
        judged = perplexity(self.model, self.data.validation)
        at.clock()
        return Epoch(
            epoch=at.epoch,
            step=at.step,
            training_loss=at.loss_sum / at.tokens,
            perplexity=judged.counting_sos,
            perplexity_without_sos=judged.without_sos,
            cpu_seconds=at.cpu_seconds,
            wall_seconds=at.wall_seconds,
        )

    def _plan(self, epoch: int) -> list[Whole]:
        return epoch_plan(self.data.train, self.settings, epoch)

    def _progress(self, loss: float) -> Step:
        at = self.at
        return Step(
            step=at.step,
            steps=self.steps,
            epoch=at.epoch,
            epochs=self.settings.training.epochs,
            loss=loss,
            rate=self.tokens_here / max(time.process_time() - self.cpu_began, 1e-9),
            seconds_left=self.pace.seconds_a_step(step=at.step, now=time.monotonic()) * (self.steps - at.step),
        )

    def _log(self, entry: dict[str, Any]) -> None:
        if self.team.leads:
            append_log(self.folder / LOG, entry)

    def _save(self) -> None:
        if not self.team.leads:
            return
        tensors = model_tensors(self.model) | optimiser_tensors(self.model, self.optimiser)
        if self.average is not None:
            tensors |= self.average.tensors()
        write_weights(self.folder / LAST, tensors, self.at.facts())


def _position(path: Path, header: Header) -> _Position:
    """How far the run is, from what its last checkpoint says."""
    facts = header.facts
    if set(facts) != set(_Position().facts()):
        raise InputError(f"{path} does not say how far its run is; it is not the last checkpoint of a run.")
    counts = {"step": 0, "epoch": 1, "batch": 0, "tokens": 0}  # and the least that each can be
    try:
        read: dict[str, Any] = {name: whole_number(name, facts[name], least=least) for name, least in counts.items()}
        read |= {name: finite_number(name, facts[name], least=0.0) for name in ("cpu_seconds", "wall_seconds")}
        read |= {"loss_sum": finite_number("loss_sum", facts["loss_sum"]), "best": perplexity_of("best", facts["best"])}
        return _Position(**read, finished=facts["finished"] is True)
    except ValueError as error:
        raise damage_error(path, error) from None


@contextlib.contextmanager
def deterministic_algorithms(threads: int, device: torch.device = CPU) -> Iterator[None]:
    """One number of threads and deterministic algorithms inside; as it was afterwards."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    memory: Any = torch.utils.deterministic  # a module with a property, which type checkers do not see
    fill = memory.fill_uninitialized_memory
    torch.set_num_threads(threads)
    # on a card some operations have no such algorithm: torch then warns, and the last digits may differ
    torch.use_deterministic_algorithms(True, warn_only=device.type != "cpu")
    memory.fill_uninitialized_memory = False  # costs time and hides nothing here
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        memory.fill_uninitialized_memory = fill


def _result(folder: Path, model: TranslationModel, data: PreparedData) -> Training:
    epochs = list(read_log(folder).epochs)
    if not epochs:
        raise InputError(f"{folder / LOG} is empty, though the run has ended; restore it from a copy.")
    last = epochs[-1]
    return Training(
        folder=str(folder),
        epochs=epochs,
        best=min(epochs, key=lambda e: e.perplexity),
        parameters=count_parameters(model),
        target_tokens=data.train.target_tokens,
        cpu_seconds=last.cpu_seconds,
        wall_seconds=last.wall_seconds,
        rate=data.train.target_tokens * len(epochs) / last.cpu_seconds,
        fingerprint=data.corpus.fingerprint,
        own=model.code.name if isinstance(model, OwnTranslator) and model.code.path else "",
    )
