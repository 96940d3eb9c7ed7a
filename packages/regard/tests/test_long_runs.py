"""The long runs: what they record, and when the tables of models need not be asked again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools import long_runs
from tools.long_runs import Step


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with one file of models, and one of another room."""
    for name in ("packages/regard-models/src/regard_models/audit.py", "packages/regard/src/regard/lab/server.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("first\n", encoding="utf-8")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.setattr(long_runs, "ROOT", tmp_path)
    monkeypatch.setattr(long_runs, "RESULTS", tmp_path / "docs" / "results")
    long_runs.git("init", "--quiet")
    commit_all()
    return tmp_path


def commit_all():
    long_runs.git("add", ".")
    long_runs.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "a step")


def run_nightly(monkeypatch, code=0):
    command = (
        sys.executable,
        "-c",
        f"print('FAILED tests/a.py' * {code}); print('3 passed'); raise SystemExit({code})",
    )
    monkeypatch.setitem(long_runs.RUNS, "nightly", lambda: {"tables": Step(command=command, busy=1, cores=1)})
    return long_runs.main(["nightly"])


def test_the_tables_are_asked_until_a_nightly_run_has_passed(clone, monkeypatch, capsys):
    assert long_runs.models_changed()
    assert run_nightly(monkeypatch, code=1) == 1
    assert "FAILED tests/a.py" in capsys.readouterr().out
    assert long_runs.models_changed()
    assert run_nightly(monkeypatch) == 0
    assert not long_runs.models_changed()
    record = (clone / "docs/results/nightly.txt").read_text(encoding="utf-8")
    assert record.startswith(f"commit {long_runs.git('rev-parse', 'HEAD')}\ntables: passed in 0 min ")
    assert record.endswith(": 3 passed\nall passed\n")


@pytest.mark.parametrize(
    ("name", "asked"),
    [("packages/regard-models/src/regard_models/audit.py", True), ("packages/regard/src/regard/lab/server.py", False)],
)
def test_the_tables_are_asked_again_where_models_changed(clone, monkeypatch, name, asked):
    run_nightly(monkeypatch)
    (clone / name).write_text("second\n", encoding="utf-8")
    assert long_runs.models_changed() is asked
    commit_all()
    assert long_runs.models_changed() is asked


def test_a_record_of_another_history_or_of_uncommitted_files_counts_for_nothing(clone, monkeypatch):
    run_nightly(monkeypatch)
    record = clone / "docs/results/nightly.txt"
    whole = record.read_text(encoding="utf-8")
    record.write_text(whole.replace(long_runs.git("rev-parse", "HEAD"), "0" * 40), encoding="utf-8")
    assert long_runs.models_changed()
    (clone / "packages/regard-models/src/regard_models/audit.py").write_text("second\n", encoding="utf-8")
    run_nightly(monkeypatch)
    assert " with uncommitted changes\n" in record.read_text(encoding="utf-8")
    assert long_runs.models_changed()


def test_a_run_that_was_stopped_goes_on_after_the_steps_that_passed(clone, monkeypatch):
    count = clone / "count"
    steps = {
        "first": f"open({str(count)!r}, 'a').write('1'); print('ran')",
        "second": f"import pathlib; assert pathlib.Path({str(clone / 'there')!r}).exists(); print('ran')",
    }
    monkeypatch.setitem(
        long_runs.RUNS,
        "soak",
        lambda: {name: Step(command=(sys.executable, "-c", code)) for name, code in steps.items()},
    )
    record = clone / "docs/results/soak.txt"
    assert long_runs.main(["soak"]) == 1
    whole = record.read_text(encoding="utf-8")
    record.write_text("\n".join([*whole.splitlines()[:2], "not finished", ""]), encoding="utf-8")
    (clone / "there").touch()
    assert long_runs.main(["soak"]) == 0
    assert count.read_text() == "1"
    assert record.read_text(encoding="utf-8").endswith("all passed\n")
    assert long_runs.main(["soak"]) == 0  # a whole one begins anew
    assert count.read_text() == "11"


def test_a_run_or_step_that_there_is_not_is_named():
    for words in (["nightli"], ["nightly", "tabel"]):
        with pytest.raises(SystemExit, match=r"Name a run: soak, nightly, kernels|no step 'tabel'; there are"):
            long_runs.main(words)


def test_every_run_names_programs_and_folders_that_there_are():
    for make_steps in long_runs.RUNS.values():
        for step in make_steps().values():
            assert step.command[0] == "make" or step.command[1:3] == ("-m", "pytest")
            targets = [word for word in step.command[1:] if step.command[0] == "make"]
            makefile = (long_runs.ROOT / "Makefile").read_text(encoding="utf-8")
            assert all(f"\n{target}: " in makefile for target in targets)
    assert all((long_runs.ROOT / path).exists() for path in (*long_runs.MODELS, *long_runs.NEED_TORCH))


def test_git_tells_of_its_failures():
    with pytest.raises(subprocess.CalledProcessError):
        long_runs.git("diff", "0" * 40)
