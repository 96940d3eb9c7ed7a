"""A PostgreSQL server for the tests: on loopback, on a free port, in a temporary folder, stopped afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import PATIENCE, wait_until

USER, PASSWORD = "ann", "oPen-sEsame"


class Server:
    """The server's process, and how to reach it."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self.programs, self.folder, self.port = programs, folder, port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder,
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=40"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **unprivileged(),
        )  # fmt: skip
        wait_until(self.answers, "the database did not start")

    def answers(self) -> bool:
        with contextlib.suppress(Exception):
            self.execute("postgres", "SELECT 1")
            return True
        return False

    def stop(self) -> None:
        """At once: clients are cut off."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=PATIENCE)
            self.process = None

    def database(self, name: str) -> str:
        """A new database; its address, password included."""
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str, password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{name}"

    def execute(self, database: str, statement: str) -> list[Any]:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True, connect_timeout=60) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A running server; skips where there is none and none can be installed."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'regard[postgres]'")
    programs = installed() or install()
    if programs is None:
        pytest.skip("needs a PostgreSQL server (apt-get install postgresql), and it could not be installed here")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Server(programs, folder, free_port())
    try:
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                os.chown(path, account().pw_uid, account().pw_gid)
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", USER, "--auth=scram-sha-256", "--no-sync",
             "--pwfile", folder / "password", "-E", "UTF8", "--locale=C"],
            check=True, capture_output=True, cwd=folder, timeout=PATIENCE, **unprivileged(),
        )  # fmt: skip
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def installed() -> Path | None:
    on_the_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].partition(".")[0]))
    return Path(on_the_path).parent if on_the_path else found[-1].parent if found else None


def install() -> Path | None:
    """With the system's package manager, where that is allowed; without a server that starts by itself."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["apt-get", *words], env=environment, capture_output=True, check=False, timeout=300)
    return installed()


def account() -> pwd.struct_passwd:
    """Somebody who is not root: initdb refuses root."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def unprivileged() -> dict[str, Any]:
    return {"user": account().pw_uid, "group": account().pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
