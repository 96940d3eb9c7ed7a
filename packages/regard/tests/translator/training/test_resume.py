"""Stops lose nothing: whatever kills a run, the resumed run ends with exactly the weights of one nobody stopped."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from processes import PATIENCE, wait_until
from regard import files
from regard.errors import InputError
from regard.files import create_folder, write_file
from regard.translator.models.weights import write_weights
from regard.translator.runs.files import LAST
from regard.translator.runs.records import log_entries
from regard.translator.training import loop
from regard.translator.training.loop import Step, train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

CHANGES = ["dropout=0.3", "agreement=2", "schedule=cosine", "warmup=3", "clip=1", "smoothing=0.1", "weight_decay=0.01"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The corpus, the settings, and the run that nobody stopped."""
    folder = tmp_path_factory.mktemp("resume")
    settings = tiny(write_corpus(folder / "toy"), *CHANGES)
    train(settings, folder / "whole")
    return settings, folder / "whole"


def assert_same_run(folder: Path, whole: Path) -> None:
    assert same(weights(folder), weights(whole))
    assert same(weights(folder, "best"), weights(whole, "best"))
    logs = [
        [{k: v for k, v in e.items() if "seconds" not in k} for e in log_entries(f / "log.jsonl")]
        for f in (folder, whole)
    ]
    assert logs[0] == logs[1]
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize("step", [1, 3, 4, 5, 8, 9, 10, 17])
def test_stopped_after_any_step(whole, tmp_path, step):
    settings, uninterrupted = whole
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(step))
    resumed: list[int] = []
    train(settings, tmp_path / "run", watch=lambda e: resumed.append(e.step) if isinstance(e, Step) else None)
    last_saved = max([s for s in (4, 8, 9, 12, 16) if s <= step and not (step == 9 and s == 9)], default=0)
    assert resumed[0] == last_saved + 1  # nothing that was saved is done again
    assert_same_run(tmp_path / "run", uninterrupted)


KILLER = textwrap.dedent(
    """
    import json, os, random, signal, sys
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from regard.errors import InputError
    from regard import files
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import prepare, train

    settings, out = load_settings(sys.argv[1]), Path(sys.argv[2])
    prepared, draw, kills = prepare(settings), random.Random(7), 0

    def child(events):
        left = events
        def count(where):
            nonlocal left
            left -= 1
            if left == 0:
                print(where, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        def hooked(name, real):
            def call(*arguments):
                count("before " + name)
                result = real(*arguments)
                count("after " + name)
                return result
            return call
        files.os = type("os", (), dict(vars(os)))
        files.os.fsync, files.os.replace = hooked("fsync", os.fsync), hooked("replace", os.replace)
        try:
            train(settings, out, prepared=prepared, watch=lambda event: count("step"))
        except InputError as error:  # killed after the very last write, so there was nothing left to do
            if "is finished" not in str(error):
                raise

    while True:
        events = draw.randrange(1, 60)  # drawn here: every child would draw the same
        pid = os.fork()
        if pid == 0:
            child(events)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            kills += 1
        elif status == 0:
            print("kills", kills)
            sys.exit(0)
        else:
            sys.exit(1)
    """
)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_between_steps_and_inside_writes(whole, tmp_path):
    """Real SIGKILLs, many of them, before and after every fsync and rename and after steps."""
    settings, uninterrupted = whole
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path / "settings.toml"), str(tmp_path / "run")],
        capture_output=True, text=True, timeout=PATIENCE, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *places, kills = done.stdout.splitlines()
    assert int(kills.split()[1]) >= 3
    assert len(set(places)) >= 2
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("write", range(1, 15))
def test_a_disk_that_is_full_at_any_write(whole, tmp_path, monkeypatch, write):
    """The n-th time something is forced to disk, the disk is full: one sentence, and the same weights afterwards."""
    settings, uninterrupted = whole
    calls, real = 0, os.fsync

    def full(handle: int) -> None:
        nonlocal calls
        calls += stat.S_ISREG(os.fstat(handle).st_mode)
        if calls == write:
            calls += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match=r"could not be written: No space left on device; nothing was lost: make room"):
        train(settings, tmp_path / "run")
    assert not list(tmp_path.glob("**/*.partial"))
    train(settings, tmp_path / "run")  # and now there is room
    assert_same_run(tmp_path / "run", uninterrupted)


FULL = textwrap.dedent(
    """
    import resource, sys
    import torch
    torch.set_num_threads(1)
    from regard.errors import InputError
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import train
    settings = load_settings(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    try:
        train(settings, sys.argv[2])
    except InputError as error:
        print(error)
        sys.exit(2)
    """
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_write_that_the_system_cuts_short(whole, tmp_path):
    """The system itself refuses to write past a size: half a checkpoint never takes the place of a whole one."""
    settings, uninterrupted = whole
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    size = (uninterrupted / LAST).stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "settings.toml"), str(tmp_path / "run"), str(size // 2)],
        capture_output=True, text=True, timeout=PATIENCE, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "last.safetensors could not be written: File too large; nothing was lost" in done.stdout
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        files.LOCK, "run.json", "settings.toml", "vocabulary.json",
    ]  # fmt: skip
    train(settings, tmp_path / "run")
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("name", ["log.jsonl", "best.safetensors", LAST])
def test_stopped_around_the_end_of_an_epoch_that_was_just_saved(whole, tmp_path, monkeypatch, name):
    """A checkpoint falls on the epoch's last step; the next write fails: the epoch's end is done again, logged once."""
    settings, uninterrupted = whole
    settings = settings.with_changes(["save_every=9"])
    real, seen = {n: getattr(loop, n) for n in ("append_log", "write_weights")}, 0

    def failing(write: str) -> Callable[..., None]:
        def call(path: Path, *rest: object) -> None:
            nonlocal seen
            seen += path.name == name
            if path.name == name and seen == (2 if name == LAST else 1):
                raise StopError
            real[write](path, *rest)

        return call

    for write in real:
        monkeypatch.setattr(loop, write, failing(write))
    with pytest.raises(StopError):
        train(settings, tmp_path / "run")
    monkeypatch.undo()
    train(settings, tmp_path / "run")
    assert_same_run(tmp_path / "run", uninterrupted)


def test_stopped_before_the_first_checkpoint_the_log_starts_over(whole, tmp_path, monkeypatch):
    settings, uninterrupted = whole
    settings = settings.with_changes(["save_every=1000"])
    monkeypatch.setattr(loop, "LOG_EVERY", 2)
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(7))
    assert len(log_entries(tmp_path / "run" / "log.jsonl")) == 3
    monkeypatch.undo()
    train(settings, tmp_path / "run")
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_log_that_was_cut_is_told_or_refused(whole, tmp_path):
    """Half a line after the last checkpoint is what a stop leaves; a line that the checkpoint has done is missed."""
    settings, uninterrupted = whole
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(12))
    log, said = tmp_path / "run" / "log.jsonl", []
    kept = log.read_bytes()
    log.write_bytes(kept[: kept.rstrip().rfind(b"\n") + 1])
    with pytest.raises(
        InputError, match=r"log\.jsonl is damaged \(epoch 1 is missing, though the checkpoint was written after it\)"
    ):
        train(settings, tmp_path / "run")
    log.write_bytes(kept + b'{"event": "ep')
    train(settings, tmp_path / "run", say=said.append)
    assert f"{log} ends in the middle of a line, where the run was stopped: it is written again." in said
    assert_same_run(tmp_path / "run", uninterrupted)


START = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from regard.errors import InputError
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import train
    def wait(event):
        while not Path(sys.argv[3]).exists():
            time.sleep(0.02)
    try:
        train(load_settings(sys.argv[1]), sys.argv[2], watch=wait)
    except InputError as error:
        sys.exit(str(error))
    """
)


@pytest.mark.slow
def test_of_two_that_start_in_one_folder_one_trains(whole, tmp_path):
    """Both at once, in a folder that is not there; the one that works waits until the other has been refused."""
    settings, uninterrupted = whole
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    run, gate = tmp_path / "run", tmp_path / "gate"
    words = [sys.executable, "-c", START, str(tmp_path / "settings.toml"), str(run), str(gate)]
    with contextlib.ExitStack() as both:
        one, other = (both.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True)) for _ in "ab")
        wait_until(lambda: {one.poll(), other.poll()} != {None}, "neither is refused")
        gate.touch()
        said = sorted(process.communicate()[1] for process in (one, other))
    assert said == ["", f"Another process is training in {run}; wait for it, stop it, or give another --out.\n"]
    assert_same_run(run, uninterrupted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gate", "run", "settings.toml"]


def test_a_damaged_checkpoint_is_refused_not_started_over(whole, tmp_path):
    settings, _ = whole
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(6))
    path = tmp_path / "run" / LAST
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    with pytest.raises(InputError, match=r"last\.safetensors is damaged, cut short, or not ours"):
        train(settings, tmp_path / "run")
    assert path.read_bytes() == data[:-100]


def test_a_best_checkpoint_in_the_place_of_the_last_is_noticed(whole, tmp_path):
    settings, uninterrupted = whole
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(6))
    (tmp_path / "run" / LAST).write_bytes((uninterrupted / "best.safetensors").read_bytes())
    with pytest.raises(InputError, match=r"last\.safetensors has no optimiser state for embedding\.tokens\.weight"):
        train(settings, tmp_path / "run")
    tensors = weights(uninterrupted)
    write_weights(tmp_path / "run" / LAST, tensors, {"epochs": 3})
    with pytest.raises(InputError, match=r"does not say how far its run is; it is not the last checkpoint of a run"):
        train(settings, tmp_path / "run")


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_file(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(InputError, match=r"x\.json could not be written: Input/output error"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_run_folder_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    calls = 0

    def second_fails(path: Path, data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InputError("full")
        path.write_bytes(data)

    monkeypatch.setattr(files, "write_file", second_fails)
    with pytest.raises(InputError, match="full"):
        create_folder(tmp_path / "run", {"a": b"1", "b": b"2"})
    assert not (tmp_path / "run").exists()
    create_folder(tmp_path / "run", {"a": b"1", "b": b"2"})
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["a", "b"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be made: .*; give another --out\."):
        create_folder(tmp_path / "file" / "run", {})


def test_json_of_a_whole_run_is_valid(whole):
    _, uninterrupted = whole
    assert json.loads((uninterrupted / "run.json").read_text())["pairs"]["train"] == 60
