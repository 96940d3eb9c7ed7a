"""Where a study's trials are kept, and how a dead worker is detected.

| storage | for | a worker is dead when |
|---|---|---|
| ``journal.jsonl`` in the study's folder | any number of processes on one machine | nobody holds the trial's lock |
| PostgreSQL | any number of machines | it gave no sign of life for a while: Optuna's heartbeat |

A trial whose worker died has failed, and Optuna's retry callback tries it again under a new number: from its
checkpoint where that is at hand, otherwise from its beginning.

Trials that are tried again, because their worker was killed or stopped: by Optuna's own callback, as new trials.

A trial that failed for a reason of its own (its loss was not finite, say) has that reason written down: it is an
answer, and stays. One without a reason was interrupted. What takes its place has a new number, its parameters and, in
Optuna's books, the numbers it had before.

A study in a PostgreSQL database, for workers on many machines.

Whatever must be done by one worker at a time is done under an advisory lock of the database, which ends with the
connection. Signs of life, and what becomes of a trial without any, are Optuna's own.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import re
import socket
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.storages.journal import BaseJournalBackend

from regard.errors import InputError
from regard.files import Lock
from regard.translator.runs.files import TRIALS, SealedLines, damage_error, missing_digest_note

optuna.logging.set_verbosity(optuna.logging.CRITICAL)  # what went wrong is said by us, once
JOURNAL, LOCKS, REASON = "journal.jsonl", "locks", "reason"
# what is raised when a database does not answer
STORAGE_ERRORS = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)


class Storage(ABC):
    """What a search needs of the place where its trials are; what is not asked of every place does nothing here."""

    shown = ""  # its address as it may be printed and written down, without a password; "" for the folder's journal
    place = ""  # where this worker is: one that confirms again in the same place goes on with what it has

    @abstractmethod
    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        """The study; made if it is not there and ``create`` is true."""

    def notes(self) -> list[str]:
        """What to know about it before the first trial."""
        return []

    @abstractmethod
    def exclusive_access(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else chooses a trial, or declares one dead, meanwhile."""

    @abstractmethod
    def fail_dead_trials(self, study: optuna.Study) -> None:
        """Make failures of the running trials whose workers are dead; call it inside :meth:`exclusive_access`."""

    def claim_trial(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Be known as the one who works on a trial; enter it inside :meth:`exclusive_access`."""
        return contextlib.nullcontext()  # in a database, by the signs of life that Optuna gives while it runs one

    @abstractmethod
    def claim_confirmation(self) -> contextlib.AbstractContextManager[bool]:
        """The right to confirm, which one worker has; False: another one has it."""

    def close(self) -> None:  # noqa: B027 - a file needs none
        """Let go of connections."""

    def explain_errors(self) -> contextlib.AbstractContextManager[None]:
        """The storage's errors as one sentence; a file's are the system's, which come as one."""
        return contextlib.nullcontext()

    def wait_if_away(self) -> contextlib.AbstractContextManager[None]:
        """Where the storage stops answering inside, wait until it answers again; InputError if that takes too long."""
        return contextlib.nullcontext()


class JournalFile(Storage):
    """Optuna's journal in the study's folder, each line of it sealed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / JOURNAL
        self.lines, self.cut = SealedLines(self.path), False

    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        if not create and not self.path.exists():
            raise InputError(f"The study in {self.folder} has no trial yet; give its tune command again.")
        begun = [int(run.name) for run in (self.folder / TRIALS).glob("[0-9]*") if run.name.isdecimal()]
        try:
            # a worker first waits until nobody is in the middle of a line; a reader may have no right to lock
            with self._lock("journal") if create else contextlib.nullcontext():
                self.lines.read()
            self.cut = self.cut or self.lines.cut
            storage = JournalStorage(SealedJournal(self.lines, self._lock("journal")))
            study = load_study(storage, "study", create, pruner)
            if (last := max(begun, default=-1)) >= len(study.get_trials(deepcopy=False)):
                raise ValueError(f"trial {last} is missing, whose run is there")
            return study
        except InputError:  # a line that is not whole, already in one sentence
            raise
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError) as error:  # Optuna's
            raise damage_error(self.path, error, "give another --out") from None

    def notes(self) -> list[str]:
        cut = f"{self.path} ends in the middle of a line, where a worker was stopped: it is left out."
        return [cut] * self.cut + ([] if self.lines.has_all_seals else [missing_digest_note(self.path)])

    @contextlib.contextmanager
    def exclusive_access(self) -> Iterator[None]:
        with self._lock("study"):
            yield

    def fail_dead_trials(self, study: optuna.Study) -> None:
        for trial in study.get_trials(deepcopy=False):
            lock = self._lock(f"{trial.number:04d}")
            if trial.state.name == "RUNNING" and lock.acquire(wait=False):  # claims are exclusive, so it was nobody's
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                lock.release()

    @contextlib.contextmanager
    def claim_trial(self, number: int) -> Iterator[None]:
        with self._lock(f"{number:04d}"):
            yield

    @contextlib.contextmanager
    def claim_confirmation(self) -> Iterator[bool]:
        lock = self._lock("confirm")
        try:
            yield lock.acquire(wait=False)
        finally:
            lock.release()

    def _lock(self, name: str) -> Lock:
        (self.folder / LOCKS).mkdir(exist_ok=True)
        return Lock(self.folder / LOCKS / name)


class SealedJournal(BaseJournalBackend):  # type: ignore[misc]
    """The journal for Optuna: sealed lines, written by one process at a time."""

    def __init__(self, lines: SealedLines, lock: Lock) -> None:
        self.lines, self.lock = lines, lock

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        return self.lines.read()[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with self.lock:
            self.lines.append(logs)


def open_storage(folder: Path, url: str | None) -> Storage:
    """The storage at ``url``, after checking that it answers; without one, the journal in the folder."""
    return JournalFile(folder) if url is None else Postgres(url, folder)


def without_password(text: str) -> str:
    """A text with the passwords of the addresses in it left out; also where an @ of a password is not written %40.

    >>> without_password("tune --storage postgresql://ann:secret@db/studies")
    'tune --storage postgresql://ann@db/studies'
    >>> without_password("postgresql://ann:se@cret@db/studies")
    'postgresql://ann@db/studies'
    >>> without_password("postgresql://db/studies?user=ann&password=secret")
    'postgresql://db/studies?user=ann&password='
    """
    return re.sub(r"(\bpassword=)[^&\s'\"]*", r"\1", re.sub(r"(://[^:@/\s]*):[^@\s]*@([^/?\s]*@)?", r"\1@", text))


def load_study(storage: Any, name: str, create: bool, pruner: Any) -> Any:
    if create:
        return optuna.create_study(
            storage=storage, study_name=name, direction="minimize", load_if_exists=True, pruner=pruner
        )
    return optuna.load_study(storage=storage, study_name=name)


def retry_callback() -> Any:
    """What puts a trial that was interrupted back into the queue, as often as it takes."""
    with silence_warnings():
        return RetryHeartbeatStaleTrialCallback()


def retry_interrupted(study: optuna.Study) -> None:
    """Put every interrupted trial back into the queue, unless it is there already."""
    trials = study.get_trials(deepcopy=False)
    done, again = replaced_numbers(trials), retry_callback()
    for trial in trials:
        if is_interrupted(trial) and trial.number not in done:
            again(study, copy.deepcopy(trial))  # the callback adds to the list that it finds in the trial


def is_interrupted(trial: Any) -> bool:
    """Whether a trial ended without an answer."""
    return trial.state.name == "FAIL" and REASON not in trial.user_attrs


def earlier_numbers(trial: Any) -> list[int]:
    """The numbers that a trial had when it was interrupted, the first one first; none for one that never was."""
    with silence_warnings():
        return list(RetryHeartbeatStaleTrialCallback.retry_history(trial))


def replaced_numbers(trials: Sequence[Any]) -> set[int]:
    """The numbers of trials that others have taken the place of."""
    return {number for trial in trials for number in earlier_numbers(trial)}


def ordinal(trials: Sequence[Any], number: int) -> int:
    """Which of the trials this would be, counted from 0, had no worker ever been stopped: what its draws depend on."""
    earlier = earlier_numbers(trials[number]) if number < len(trials) else []
    first = earlier[0] if earlier else number
    # a trial that takes another's place has a number but is no new try
    return first - sum(bool(earlier_numbers(trial)) for trial in trials[:first])


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Without Optuna's warnings that heartbeats and retries are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


HEARTBEAT, GRACE = 15, 60  # seconds between two signs of life; without one for this long a worker counts as dead
PATIENCE = 300.0  # seconds that workers wait for a storage that stopped answering
_CONNECTION: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "tcp_user_timeout": 20_000,
    # heartbeats compare only in one time zone; a worker that froze inside a lock must not hold up the others
    "options": "-c timezone=utc -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s",
}
_ENGINE: dict[str, Any] = {"pool_pre_ping": True, "connect_args": _CONNECTION}  # it may be restarted meanwhile


class Postgres(Storage):
    """A study in a PostgreSQL database, under the name of its folder."""

    def __init__(self, url: str, folder: Path) -> None:
        parsed = _parse_address(url)
        self.url = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # a template
        self.shown, self.name = without_password(url), folder.name
        self.place = f"{socket.gethostname()} {folder.absolute()}"
        self.engine = sqlalchemy.create_engine(parsed, **_ENGINE)
        self.storage: Any = None
        self._check_connection()

    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        with self.explain_errors(), self._transaction_lock("tables"), silence_warnings():
            try:
                self.storage = PatientStorage(
                    self.url,
                    engine_kwargs=_ENGINE,
                    heartbeat_interval=HEARTBEAT,
                    grace_period=GRACE,
                    heartbeat_stale_trial_callback=retry_callback(),
                )
                return load_study(self.storage, self.name, create, pruner)
            except RuntimeError as error:  # tables of another version of Optuna
                reason = str(error).splitlines()[0]
                raise InputError(f"The storage {self.shown} cannot be used: {reason} Give another database.") from None
            except KeyError:
                raise InputError(
                    f"The storage {self.shown} has no study {self.name!r}; give the tune command again."
                ) from None

    @contextlib.contextmanager
    def exclusive_access(self) -> Iterator[None]:
        with self._transaction_lock(f"study {self.name}"):
            yield

    def fail_dead_trials(self, study: optuna.Study) -> None:
        with silence_warnings():
            fail_stale_trials(study)

    @contextlib.contextmanager
    def claim_confirmation(self) -> Iterator[bool]:
        with self.engine.connect() as connection:
            key = {"key": _key(f"confirm {self.name}")}
            got = bool(connection.execute(sqlalchemy.text("SELECT pg_try_advisory_lock(:key)"), key).scalar())
            connection.commit()  # a lock of the session, which ends with the process
            try:
                yield got
            finally:
                # closed and not put back into the pool: a lock of the session lasts as long as its connection
                connection.invalidate()

    def close(self) -> None:
        if self.storage is not None:
            self.storage.remove_session()
            self.storage.engine.dispose()
        self.engine.dispose()

    @contextlib.contextmanager
    def wait_if_away(self) -> Iterator[None]:
        try:
            yield
        except STORAGE_ERRORS:
            self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._check_connection()
            except InputError:
                if time.monotonic() > until:
                    raise
                time.sleep(min(5.0, PATIENCE / 5))

    @contextlib.contextmanager
    def explain_errors(self) -> Iterator[None]:
        """The database's errors as one sentence."""
        try:
            yield
        except STORAGE_ERRORS as error:
            raise InputError(
                f"The storage {self.shown} does not answer ({_reason(error)}); no finished trial is lost: check the "
                "address, the user and the password (PGPASSWORD or ~/.pgpass), then give the same command again."
            ) from None

    def _check_connection(self) -> None:
        with self.explain_errors(), self.engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))

    @contextlib.contextmanager
    def _transaction_lock(self, name: str) -> Iterator[None]:
        # of the transaction, so that a worker that is killed inside lets go of it
        with self.engine.begin() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})
            yield


class PatientStorage(RDBStorage):  # type: ignore[misc]
    """Optuna's storage, which survives a database that is away for a moment."""

    def record_heartbeat(self, trial_id: int) -> None:
        with contextlib.suppress(*STORAGE_ERRORS):  # it may answer again the next time
            super().record_heartbeat(trial_id)


def _parse_address(url: str) -> sqlalchemy.URL:
    """The address for SQLAlchemy, or one sentence about what is wrong with it."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        named = f"one of {scheme}" if re.fullmatch(r"[\w+.-]+", scheme) else "something else"
        raise InputError(f"The storage must be an address postgresql://USER@HOST/DATABASE, not {named}.")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise InputError("A PostgreSQL storage needs its driver: pip install 'regard[postgres]'.") from None
    with contextlib.suppress(sqlalchemy.exc.ArgumentError, ValueError):
        parsed = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
        if not re.search(r"[][@\s]", parsed.host or "") and (parsed.port or 0) < 2**16:
            return parsed
    raise InputError(
        f"The storage {without_password(url)} is not an address of the form postgresql://USER@HOST:PORT/DATABASE; "
        "in a password, write @ as %40."
    )


def _key(name: str) -> int:
    """A lock's number in the database."""
    # the database wants a signed number of 64 bits, and names of two studies must not meet
    return int.from_bytes(hashlib.sha256(f"regard {name}".encode()).digest()[:8], "big", signed=True)


def _reason(error: BaseException) -> str:
    """The database's own words, on one line."""
    inner = getattr(error, "orig", None) or error.__cause__ or error
    inner = getattr(inner, "orig", None) or inner
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    return without_password(lines[0]) if lines else type(inner).__name__
