"""A study in a PostgreSQL database, for workers on many machines.

Whatever must be done by one worker at a time is done under an advisory lock of the database, which ends with the
connection. Signs of life, and what becomes of a trial without any, are Optuna's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.translator.studies.storage import (
    import_optuna,
    load_study,
    retry_callback,
    silence_warnings,
    without_password,
)

if TYPE_CHECKING:
    import optuna
    from sqlalchemy import URL

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


class Postgres:
    """A study in a PostgreSQL database, under the name of its folder."""

    def __init__(self, url: str, folder: Path) -> None:
        from sqlalchemy import create_engine

        parsed = _parse_address(url)
        self.url = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # a template
        self.shown, self.name = without_password(url), folder.name
        self.place = f"{socket.gethostname()} {folder.absolute()}"
        self.engine = create_engine(parsed, **_ENGINE)
        self.storage: Any = None
        self._check_connection()

    def open(self, *, create: bool = False, pruner: Any = None) -> optuna.Study:
        optuna = import_optuna()
        with self.explain_errors(), self._transaction_lock("tables"), silence_warnings():
            try:
                self.storage = _storage(self.url)
                return load_study(optuna, self.storage, self.name, create, pruner)
            except RuntimeError as error:  # tables of another version of Optuna
                reason = str(error).splitlines()[0]
                raise InputError(f"The storage {self.shown} cannot be used: {reason} Give another database.") from None
            except KeyError:
                raise InputError(
                    f"The storage {self.shown} has no study {self.name!r}; give the tune command again."
                ) from None

    def notes(self) -> list[str]:
        return []

    @contextlib.contextmanager
    def exclusive_access(self) -> Iterator[None]:
        with self._transaction_lock(f"study {self.name}"):
            yield

    def fail_dead_trials(self, study: optuna.Study) -> None:
        with silence_warnings():
            import_optuna().storages.fail_stale_trials(study)

    @contextlib.contextmanager
    def claim_trial(self, number: int) -> Iterator[None]:
        yield  # Optuna gives the signs of life while it runs a trial

    @contextlib.contextmanager
    def claim_confirmation(self) -> Iterator[bool]:
        from sqlalchemy import text

        with self.engine.connect() as connection:
            key = {"key": _key(f"confirm {self.name}")}
            got = bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar())
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
        except storage_errors():
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
        except storage_errors() as error:
            raise InputError(
                f"The storage {self.shown} does not answer ({_reason(error)}); no finished trial is lost: check the "
                "address, the user and the password (PGPASSWORD or ~/.pgpass), then give the same command again."
            ) from None

    def _check_connection(self) -> None:
        from sqlalchemy import text

        with self.explain_errors(), self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    @contextlib.contextmanager
    def _transaction_lock(self, name: str) -> Iterator[None]:
        from sqlalchemy import text

        # of the transaction, so that a worker that is killed inside lets go of it
        with self.engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})
            yield


def _storage(url: str) -> Any:
    """Optuna's storage, which survives a database that is away for a moment."""
    optuna = import_optuna()

    class PatientStorage(optuna.storages.RDBStorage):  # type: ignore[misc, name-defined]
        def record_heartbeat(self, trial_id: int) -> None:
            with contextlib.suppress(*storage_errors()):  # it may answer again the next time
                super().record_heartbeat(trial_id)

    return PatientStorage(
        url,
        engine_kwargs=_ENGINE,
        heartbeat_interval=HEARTBEAT,
        grace_period=GRACE,
        heartbeat_stale_trial_callback=retry_callback(),
    )


def storage_errors() -> tuple[type[Exception], ...]:
    """What is raised when a database does not answer."""
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, optuna.exceptions.StorageInternalError


def _parse_address(url: str) -> URL:
    """The address for SQLAlchemy, or one sentence about what is wrong with it."""
    import_optuna()
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        named = f"one of {scheme}" if re.fullmatch(r"[\w+.-]+", scheme) else "something else"
        raise InputError(f"The storage must be an address postgresql://USER@HOST/DATABASE, not {named}.")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise InputError("A PostgreSQL storage needs its driver: pip install 'regard[postgres]'.") from None
    with contextlib.suppress(ArgumentError, ValueError):
        parsed = make_url(url).set(drivername="postgresql+psycopg")
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
