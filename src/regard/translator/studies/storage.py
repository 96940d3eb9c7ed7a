"""Where a study's trials are kept, and which worker has which of them.

| storage | for | a worker is dead when |
|---|---|---|
| ``journal.jsonl`` in the study's folder | any number of processes on one machine | nobody holds the trial's lock |
| PostgreSQL | any number of machines | its heartbeat stopped, or nobody holds the lock in this very folder |

Locks are the system's (and the database's) own: they end with the process that holds them, however it ends, so a kill
leaves none behind. A trial whose worker is dead goes on under its own number: from its checkpoint where that is at
hand, otherwise from its beginning.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from regard.errors import InputError

if TYPE_CHECKING:
    import optuna

JOURNAL, LOCKS = "journal.jsonl", "locks"


class Storage(Protocol):
    """What a search needs of the place where its trials are."""

    shown: str  # its address as it may be printed and written down, without a password; "" for the folder's journal

    @property
    def place(self) -> str:
        """Where this worker is: the same for those whose locks tell which of them live."""

    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        """The study; made if it is not there and ``create`` is true."""

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else chooses or claims a trial meanwhile."""

    def claim(self, study: optuna.Study, trial: Any) -> bool:
        """Take a running trial, new or left behind by a dead worker; call it inside :meth:`exclusive`."""

    def has(self, trial: Any) -> bool:
        """Whether the trial, read again, is still this process's."""

    def release(self, trial: Any) -> None:
        """Let go of a trial."""

    def at_work(self, trial: Any) -> contextlib.AbstractContextManager[None]:
        """Give signs of life while a claimed trial is trained."""

    def confirming(self) -> contextlib.AbstractContextManager[bool]:
        """The right to confirm, which one worker has; False: another one has it."""

    def close(self) -> None:
        """Let go of connections."""

    def saying(self) -> contextlib.AbstractContextManager[None]:
        """The storage's errors as one sentence."""

    def patiently(self) -> contextlib.AbstractContextManager[None]:
        """Where the storage stops answering inside, wait until it answers again; InputError if that takes too long."""


class Lock:
    """A file or folder that one process at a time holds."""

    def __init__(self, path: Path) -> None:
        self.path, self.handle = path, -1

    def acquire(self, *, wait: bool = True) -> bool:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: go on without
            return True
        how = os.O_RDONLY if self.path.is_dir() else os.O_RDWR | os.O_CREAT
        try:
            handle = os.open(self.path, how, 0o644)
        except OSError as error:
            raise InputError(f"{self.path} cannot be opened: {error.strerror or error}; check the folder.") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            os.close(handle)
            return False
        self.handle = handle
        return True

    def release(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class TrialLocks:
    """The locks of the trials that are trained in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.held = folder / LOCKS, dict[int, Lock]()

    def of(self, name: str) -> Lock:
        self.folder.mkdir(exist_ok=True)
        return Lock(self.folder / name)

    def take(self, study: optuna.Study, trial: Any) -> bool:
        """Hold a trial that runs; False where another process of this folder has it, or has just ended it."""
        lock = self.of(f"{trial.number:04d}")
        if not lock.acquire(wait=False):
            return False
        if study._storage.get_trial(trial._trial_id).state.is_finished():
            lock.release()
            return False
        self.held[trial.number] = lock
        return True

    def release(self, trial: Any) -> None:
        if lock := self.held.pop(trial.number, None):
            lock.release()


class JournalFile:
    """Optuna's journal in the study's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / JOURNAL
        self.shown, self.place, self.locks = "", "", TrialLocks(folder)

    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        optuna = import_optuna()
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        if not create and not self.path.exists():
            raise InputError(f"The study in {self.folder} has no trial yet; give its tune command again.")
        try:
            storage = JournalStorage(JournalFileBackend(str(self.path), lock_obj=_JournalLock(self.path, self.locks)))
            return load_study(optuna, storage, "study", create, pruner)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{self.path} is damaged ({error}); restore it from a copy, or give another --out."
            ) from None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        with self.locks.of("study"):
            yield

    def claim(self, study: optuna.Study, trial: Any) -> bool:
        return self.locks.take(study, trial)

    def has(self, trial: Any) -> bool:
        return True

    def release(self, trial: Any) -> None:
        self.locks.release(trial)

    @contextlib.contextmanager
    def at_work(self, trial: Any) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def confirming(self) -> Iterator[bool]:
        lock = self.locks.of("confirm")
        try:
            yield lock.acquire(wait=False)
        finally:
            lock.release()

    def close(self) -> None:
        return None

    @contextlib.contextmanager
    def saying(self) -> Iterator[None]:
        """A full disk as one sentence."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise InputError(
                f"{self.path} could not be written: {error.strerror or error}; no finished trial is lost: make room, "
                "then give the same command again and it goes on."
            ) from error

    @contextlib.contextmanager
    def patiently(self) -> Iterator[None]:
        yield


class _JournalLock:
    """What Optuna's journal holds while it writes a line."""

    def __init__(self, journal: Path, locks: TrialLocks) -> None:
        self.journal, self.locks = journal, locks

    def acquire(self) -> bool:
        self.lock = self.locks.of("journal")
        self.lock.acquire()
        _cut_half_a_line(self.journal)
        return True

    def release(self) -> None:
        self.lock.release()


def open_storage(folder: Path, url: str | None) -> Storage:
    """The storage at ``url``, after checking that it answers; without one, the journal in the folder."""
    if url is None:
        return JournalFile(folder)
    from regard.translator.studies.postgres import Postgres

    return Postgres(url, folder)


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


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("tune needs Optuna: pip install 'regard[translator]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def load_study(optuna: Any, storage: Any, name: str, create: bool, pruner: Any) -> Any:
    if create:
        return optuna.create_study(
            storage=storage, study_name=name, direction="minimize", load_if_exists=True, pruner=pruner
        )
    return optuna.load_study(storage=storage, study_name=name)


def _cut_half_a_line(path: Path) -> None:
    """A kill in the middle of a write leaves half a line; what it said was not done yet. Call it with the lock held."""
    if not path.exists():
        return
    with open(path, "r+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 1))
        if stream.read(1) in (b"\n", b""):
            return
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
