"""Many workers, one study: nothing is done twice, nothing is lost when one dies, and every mistake is one sentence."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import processes
from database import PASSWORD, free_port, serving
from processes import PATIENCE, wait_until
from regard import files
from regard.errors import InputError
from regard.translator.runs.files import read_json
from regard.translator.studies import storage, tuning
from regard.translator.studies.search_record import read_study
from regard.translator.studies.storage import JOURNAL, JournalFile, open_storage, without_password
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import Epoch, Step
from toy_translator import tiny, write_corpus

torch.set_num_threads(1)

SPACE = """
[model]
width = [8, 16]
[training]
learning_rate = {low = 1e-3, high = 1e-1, log = true}
"""
QUICK = ["epochs=2", "feed_forward=11", "batch=16", "save_every=2"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The folder with a space, and the settings."""
    folder = tmp_path_factory.mktemp("storage")
    (folder / "space.toml").write_text(SPACE)
    settings = tiny(write_corpus(folder / "toy"), *QUICK)
    (folder / "settings.toml").write_text(settings.to_toml())
    return folder, settings


@pytest.fixture(scope="module")
def server():
    if os.name != "posix":
        pytest.skip("needs users and signals")
    with serving() as running:
        yield running


@pytest.fixture
def impatient(monkeypatch):
    """Signs of life every second, so that a dead worker is soon detected."""
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 2)
    monkeypatch.setattr(storage, "PATIENCE", 20.0)
    monkeypatch.setattr(tuning, "_POLL", 0.2)


def table(found):
    """Everything a study decided; a trial that was interrupted has another number then."""
    return [(t.state, t.perplexity, t.curve, t.changes) for t in found.trials]


LAUNCHER = textwrap.dedent(
    """
    import json, os, sys, time, traceback
    import torch
    import torch._dynamo  # an optimiser imports it: a second and a half that is paid for once
    torch.set_num_threads(1)
    from regard.translator.studies import storage
    from regard.translator.studies import tuning
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import Step
    storage.HEARTBEAT, storage.GRACE, tuning._POLL = 1, 3, 0.1

    def work(settings, space, out, storage, freeze, lines):
        trial = -1
        stream = open(lines, "w", buffering=1)

        def say(line):
            nonlocal trial
            if line.startswith("trial ") and " of " in line:
                trial = int(line.split()[1])
            print(line, file=stream)

        def watch(event):
            if isinstance(event, Step) and event.step == 5 and trial == freeze:
                say("frozen")
                time.sleep(600)

        try:
            tuning.tune(load_settings(settings), out, trials=6, space=space, pruner="none", storage=storage, say=say,
                        watch=watch)
            say("ended")
        except BaseException:
            say(traceback.format_exc())

    for line in sys.stdin:  # one worker per line: imports are paid for once
        pid = os.fork()
        if pid == 0:
            work(**json.loads(line))
            os._exit(0)
        print(pid, flush=True)
    """
)


@pytest.fixture(scope="module")
def launcher():
    with processes.launcher(LAUNCHER) as process:
        yield process


class Worker:
    """A worker in a process of its own, and what it says."""

    def __init__(self, launcher, lines: Path, **job: object) -> None:
        self.path = lines
        launcher.stdin.write(json.dumps({**job, "lines": str(lines)}) + "\n")
        launcher.stdin.flush()
        self.pid = int(launcher.stdout.readline())

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def trained(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith("trial") and " of " in line]

    def until(self, words: str) -> None:
        """Wait until it has said these words."""
        wait_until(lambda: any(words in line for line in self.lines), f"it never said {words!r}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", ["journal", "postgres"])
def test_a_killed_workers_trial_is_retried_and_all_trials_end(base, tmp_path, launcher, kind, request):
    """The first does two trials and is killed in its third; the second does the rest, and that one too."""
    folder, _ = base
    storage, out = None, [tmp_path / "study", tmp_path / "study"]
    if kind == "postgres":
        storage = request.getfixturevalue("server").database("killed")
        out = [tmp_path / "one" / "study", tmp_path / "two" / "study"]  # as on two machines
    job = {"settings": str(folder / "settings.toml"), "space": str(folder / "space.toml"), "storage": storage}
    first = Worker(launcher, tmp_path / "first", out=str(out[0]), freeze=2, **job)
    first.until("frozen")
    second = Worker(launcher, tmp_path / "second", out=str(out[1]), freeze=-1, **job)
    try:
        second.until("waiting for 1 of 6 trials that other workers have")
        time.sleep(4 if kind == "postgres" else 0.5)  # longer than the grace period
        assert second.trained == [3, 4, 5]  # the first lives, so its trial is left alone
        first.kill()
        second.until("trial 6 (3 of 6)")
        second.until("ended")
    finally:
        first.kill()
        second.kill()
    found = read_study(out[1], storage=storage)
    assert [t.number for t in found.trials] == [0, 1, 3, 4, 5, 6]
    assert {t.state for t in found.trials} == {"complete"}
    assert all(t.cpu_seconds > 0 and len(t.curve) == 2 for t in found.trials)
    assert second.trained == [3, 4, 5, 6]
    assert ("trial 2 goes on as trial 6" in second.lines) == (
        kind == "journal"
    )  # a checkpoint of another machine is not
    if kind == "postgres":
        assert not (out[1] / "trials" / "0000").exists()
        assert table(read_study(out[0], storage=storage)) == table(found)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", ["journal", "postgres"])
def test_workers_that_begin_at_the_same_moment(base, tmp_path, launcher, kind, request):
    """Nothing is there yet, no folder and no table: both make it, and no trial is done twice or too many."""
    folder, _ = base
    storage = request.getfixturevalue("server").database("together") if kind == "postgres" else None
    job = {"settings": str(folder / "settings.toml"), "space": str(folder / "space.toml"), "storage": storage}
    out = [tmp_path / (name if storage else "") / "study" for name in ("one", "two")]
    workers = [Worker(launcher, tmp_path / f"{n}.txt", out=str(out[n]), freeze=-1, **job) for n in range(2)]
    for worker in workers:
        worker.until("ended")
    assert sorted(workers[0].trained + workers[1].trained) == list(range(6))
    assert [t.state for t in read_study(out[1], storage=storage).trials] == ["complete"] * 6


@pytest.mark.slow
@pytest.mark.nightly
def test_one_worker_tries_the_same_wherever_its_trials_are_kept(base, tmp_path, server):
    folder, settings = base
    url = server.database("alone")
    options = {"trials": 4, "space": folder / "space.toml"}
    kept_here = tune(settings, tmp_path / "study", **options)
    command = f"regard translator tune x.toml --storage '{url}'"
    kept_there = tune(settings, tmp_path / "there" / "study", storage=url, command=command, **options)
    assert table(kept_there) == table(kept_here)
    assert read_json(tmp_path / "there" / "study" / "study.json")["command"] == without_password(command)
    written = [p.read_bytes() for p in (tmp_path / "there").rglob("*") if p.is_file()]
    assert not any(PASSWORD.encode() in content for content in written)
    assert kept_there.command.startswith(f"regard translator train {tmp_path}/there/study/trials/000")


@pytest.mark.slow
def test_interrupted_in_a_trial_it_goes_on_at_once_from_its_checkpoint(base, tmp_path, server, impatient, monkeypatch):
    """It said itself that it stops: no need to wait for a heartbeat, and no step is done twice that was saved."""
    folder, settings = base
    monkeypatch.setattr(storage, "GRACE", 1000)
    url, options = server.database("interrupted"), {"trials": 3, "space": folder / "space.toml"}
    steps: list[int] = []

    def stop(event):
        if isinstance(event, Step):
            steps.append(event.step)
            if len(steps) == 11:  # 8 steps in each trial: the third of the second
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(settings, tmp_path / "a" / "study", storage=url, watch=stop, **options)
    resumed: list[int] = []
    watch = lambda e: resumed.append(e.step) if isinstance(e, Step) else None  # noqa: E731
    found = tune(settings, tmp_path / "a" / "study", storage=url, watch=watch, **options)
    assert resumed[0] == 3
    assert table(found) == table(tune(settings, tmp_path / "b" / "study", **options))


@pytest.mark.slow
def test_a_worker_that_seemed_dead_lets_go_of_its_trial(base, tmp_path, server, impatient):
    """Its trial has failed in the books: it stops at the end of the epoch, and the trial is tried again."""
    folder, settings = base
    url, said = server.database("seemed_dead"), []

    def rob(event):
        if isinstance(event, Epoch) and not any("taken over" in line for line in said):
            server.execute("seemed_dead", "UPDATE trials SET state = 'FAIL' WHERE number = 0")

    found = tune(
        settings, tmp_path / "s", trials=1, space=folder / "space.toml", storage=url, watch=rob, say=said.append
    )
    assert "trial 0 was taken over by another worker, because this one gave no sign of life" in said
    assert "trial 0 goes on as trial 1" in said
    assert [(t.number, t.state) for t in found.trials] == [(1, "complete")]


@pytest.mark.slow
def test_a_database_that_is_away_for_a_moment_is_waited_for(base, tmp_path, server, impatient):
    folder, settings = base
    url, away = server.database("away"), []

    def restart():
        time.sleep(1)
        server.start()

    def stop(event):
        if isinstance(event, Epoch) and not away:
            server.stop()
            away.append(threading.Thread(target=restart))
            away[0].start()

    found = tune(settings, tmp_path / "study", trials=2, space=folder / "space.toml", storage=url, watch=stop)
    away[0].join()
    assert table(found) == table(tune(settings, tmp_path / "b" / "study", trials=2, space=folder / "space.toml"))


@pytest.mark.slow
@pytest.mark.nightly
def test_one_worker_confirms(base, tmp_path, server):
    folder, settings = base
    url, said = server.database("confirmed"), []
    options = {"trials": 3, "space": folder / "space.toml", "storage": url, "pruner": "none"}
    first = tune(settings, tmp_path / "a" / "study", confirm=2, **options)
    assert first.best.number != 0, "the toy is chosen so that there is something to confirm"
    second = tune(settings, tmp_path / "b" / "study", confirm=2, say=said.append, **options)
    assert "another worker confirms the best settings, or has done it: its folder has the comparison" in said
    assert (first.confirmation is None, second.confirmation is None) == (False, True)
    assert table(first) == table(second)
    command = second.command  # the best trial's own file is on the other machine
    assert command.startswith(f"regard translator train {tmp_path}/b/study/settings.toml --set model.width=")
    with pytest.raises(InputError, match="was confirmed on the test set and is closed"):
        tune(settings, tmp_path / "b" / "study", **(options | {"trials": 4}))


@pytest.mark.slow
def test_two_workers_of_a_folder_confirm_once(base, tmp_path):
    folder, settings = base
    storage = JournalFile(tmp_path)
    with storage.claim_confirmation() as first, JournalFile(tmp_path).claim_confirmation() as second:
        assert (first, second) == (True, False)
    with storage.claim_confirmation() as again:
        assert again
    said: list[str] = []
    tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml", pruner="none")
    with JournalFile(tmp_path / "s").claim_confirmation():
        options = {"trials": 3, "space": folder / "space.toml", "pruner": "none", "confirm": 2}
        found = tune(settings, tmp_path / "s", say=said.append, **options)
    assert found.confirmation is None
    assert any(line.startswith("another worker confirms") for line in said)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_study_of_another_kind_is_refused(base, tmp_path, server):
    folder, settings = base
    url, space = server.database("refused"), folder / "space.toml"
    tune(settings, tmp_path / "a" / "study", trials=1, space=space, storage=url)
    other = tmp_path / "other.toml"
    other.write_text(SPACE.replace("[8, 16]", "[8, 24]"))
    where = r"postgresql://ann@127\.0\.0\.1:\d+/refused holds a study 'study' with "
    for name, options, message in [
        ("space", {"space": other}, "another search space; give an --out whose last part is another name"),
        ("pruner", {"pruner": "none"}, "another pruner"),
        ("seed", {"seed": 3}, "another seed"),
    ]:
        with pytest.raises(InputError, match=where + message):
            tune(settings, tmp_path / name / "study", **({"trials": 1, "space": space, "storage": url} | options))
    with pytest.raises(InputError, match=where + "other settings"):
        tune(settings.with_changes(["batch=8"]), tmp_path / "c" / "study", trials=1, space=space, storage=url)
    more = write_corpus(tmp_path / "more", count=61)
    elsewhere = settings.with_changes([f'data.path="{more}"'])
    with pytest.raises(InputError, match=where + "other data than there is now"):
        tune(elsewhere, tmp_path / "d" / "study", trials=1, space=space, storage=url)
    with pytest.raises(InputError, match=r"study whose trials are kept in postgresql://ann@.*; give that storage"):
        tune(settings, tmp_path / "a" / "study", trials=1, space=space)
    with pytest.raises(InputError, match=r"has no study 'nobody'; give the tune command again"):
        read_study(copy_of(tmp_path / "a" / "study", tmp_path / "nobody"), storage=url)
    copy = write_corpus(tmp_path / "copy")  # the same data may lie elsewhere on another machine
    there = settings.with_changes([f'data.path="{copy}"', "save_every=3"])
    assert len(tune(there, tmp_path / "b" / "study", trials=2, space=space, storage=url).trials) == 2


def copy_of(folder: Path, name: Path) -> Path:
    shutil.copytree(folder, name)
    return name


def test_a_wrong_password_is_not_printed(base, tmp_path, server):
    folder, settings = base
    url = server.address("postgres", password="tOp-sEcret")
    with pytest.raises(InputError, match=r"does not answer \(.*password authentication failed") as caught:
        tune(settings, tmp_path / "s", trials=1, space=folder / "space.toml", storage=url)
    assert "tOp-sEcret" not in str(caught.value)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://ann:sEcret@db/x", r"must be an address postgresql://USER@HOST/DATABASE, not one of mysql\.$"),
        ("sqlite:///x.db", r"not one of sqlite\.$"),
        ("ann:sEcret@db", "not something else"),
        ("", "not something else"),
        ("postgresql://ann:sEcret@db:port/x", r"postgresql://ann@db:port/x is not an address of the form"),
        ("postgresql://[bad", r"postgresql://\[bad is not an address of the form"),
        ("postgresql://ann:sEcret@[::1/x", r"postgresql://ann@\[::1/x is not an address of the form"),
        ("postgresql://ann:top@sEcret@db/x", r"ann@db/x is not an address of the form .* write @ as %40\."),
        ("postgresql://ann@db:99999/x", r"db:99999/x is not an address of the form"),
    ],
)
def test_addresses_refused(tmp_path, url, message):
    with pytest.raises(InputError, match=message) as caught:
        open_storage(tmp_path, url)
    assert "sEcret" not in str(caught.value)


def test_without_its_driver(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"needs its driver: pip install 'regard\[postgres\]'\."):
        open_storage(tmp_path, "postgresql://ann@db/x")


@pytest.mark.slow
def test_a_storage_that_does_not_answer(base, tmp_path, monkeypatch, regard):
    """Nobody listens; somebody listens and says nothing. Exit code 2, one sentence, soon."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'regard[postgres]'")
    folder, _ = base
    monkeypatch.setitem(storage._CONNECTION, "connect_timeout", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (free_port(), silent.getsockname()[1]):
            address = f"postgresql://ann:{PASSWORD}@127.0.0.1:{port}/x"
            words = [folder / "settings.toml", "--space", folder / "space.toml", "--storage", address]
            start = time.monotonic()
            code, out, err = regard("translator", "tune", *words, "--out", tmp_path / "s")
            assert (code, out) == (2, "")
            assert time.monotonic() - start < PATIENCE  # without a limit of its own, a silent server is waited for
            assert f"The storage postgresql://ann@127.0.0.1:{port}/x does not answer (" in err
            assert PASSWORD not in err
            assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_half_a_line_is_cut_before_the_next_is_written(base, tmp_path):
    """Another process was killed while it wrote; this one has the journal open already and goes on writing."""
    folder, settings = base

    def tear(event):
        if isinstance(event, Step) and event.step == 3:
            with open(tmp_path / "s" / JOURNAL, "ab") as stream:
                stream.write(b'{"op_code":4,"wor')

    torn = tune(settings, tmp_path / "s", trials=2, space=folder / "space.toml", watch=tear)
    assert table(torn) == table(tune(settings, tmp_path / "whole", trials=2, space=folder / "space.toml"))
    for line in (tmp_path / "s" / JOURNAL).read_text().splitlines():
        json.loads(line)


def test_a_full_disk_in_the_journal_loses_no_finished_trial(base, tmp_path, monkeypatch):
    folder, settings = base
    tune(settings, tmp_path / "s", trials=1, space=folder / "space.toml")
    journal = (tmp_path / "s" / JOURNAL).read_bytes()

    def full(*rest):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(
            InputError, match=r"journal.jsonl could not be written: No space left .*; nothing was lost: make room"
        ):
            tune(settings, tmp_path / "s", trials=2, space=folder / "space.toml")
    assert (tmp_path / "s" / JOURNAL).read_bytes() == journal
    assert len(tune(settings, tmp_path / "s", trials=2, space=folder / "space.toml").trials) == 2
