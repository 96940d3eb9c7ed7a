"""Run folders with one damaged file: what reads them says one sentence, and the lab's page shows the other runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from damage import cases, damaged, outcome, peak
from regard.errors import RegardError
from regard.lab.page import State
from regard.lab.pages.translator import PAGE
from regard.translator.runs.records import read_record
from toy_translator import tiny, write_corpus

FILES = ["run.json", "settings.toml", "vocabulary.json", "log.jsonl", "last.safetensors", "best.safetensors"]
MOST = 1 << 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from regard.translator import train

    place = tmp_path_factory.mktemp("run")
    train(tiny(write_corpus(place / "data"), "epochs=1"), place / "good")
    return place / "good"


def unsealed(name: str, data: bytes) -> bytes:
    """The file as an earlier version wrote it: without the digests that would find the damage before anything else."""
    lines = [json.loads(line) for line in data.split(b"\n") if line] if name == "log.jsonl" else [json.loads(data)]
    return b"".join(
        json.dumps({key: value for key, value in line.items() if key != "sha256"}).encode() + b"\n" for line in lines
    )


def unsealed_weights(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = {"facts": header["__metadata__"]["facts"]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "of an earlier version"])
@pytest.mark.parametrize("name", FILES)
def test_one_damaged_file(run: Path, tmp_path: Path, name: str, sealed: bool) -> None:
    from regard.translator import load_run

    folder = shutil.copytree(run, tmp_path / "run")
    data = (folder / name).read_bytes()
    if not sealed and name != "settings.toml":
        data = unsealed_weights(data) if name.endswith(".safetensors") else unsealed(name, data)
        (folder / name).write_bytes(data)
    assert outcome(lambda: read_record(folder)) is None
    before = peak()
    for number, (seed, draw) in enumerate(cases(f"{name} {sealed}", 100)):
        (folder / name).write_bytes(damaged(data, draw))
        errors = [outcome(lambda: str(read_record(folder)))]
        if number % 10 == 0 and name != "log.jsonl":
            errors += [outcome(lambda: load_run(folder)), outcome(lambda: load_run(folder, weights="last"))]
        wrong = [error for error in errors if error is not None and not isinstance(error, RegardError)]
        assert not wrong, f"{name}, FUZZ_SEED={seed}: {wrong[0]!r}"
    assert peak() - before < MOST


def page(folder: Path) -> tuple[list[str], str]:
    """The runs that the lab's page lists, and what it says."""
    found = PAGE.answer(State({}, start=PAGE.start, runs=folder))
    return [row["name"] for row in found.picture["runs"]], " ".join(found.say)


def test_the_page_lists_the_others_beside_damaged_files(run: Path, tmp_path: Path) -> None:
    """One good run and one whose files are damaged in turn: the good one is always there, the other there or named."""
    shutil.copytree(run, tmp_path / "good")
    folder = shutil.copytree(run, tmp_path / "odd")
    whole = {name: (folder / name).read_bytes() for name in FILES}
    whole["log.jsonl"] = unsealed("log.jsonl", whole["log.jsonl"])
    for seed, draw in cases("page", 80):
        name = draw.choice(FILES[:4])
        (folder / name).write_bytes(damaged(whole[name], draw))
        listed: list[tuple[list[str], str]] = []
        error = outcome(lambda: listed.append(page(tmp_path)))  # noqa: B023 - called at once
        assert error is None, f"{name}, FUZZ_SEED={seed}: {error!r}"
        names, said = listed[0]
        assert "good" in names, f"{name}, FUZZ_SEED={seed}"
        assert "odd" in names or "Left out: " in said, f"{name}, FUZZ_SEED={seed}: {said}"
        (folder / name).write_bytes(whole[name])


ODD_LINES = [
    b'{"event": "epoch"}', b'{"event": "step", "step": 1e400, "loss": NaN}',
    b'{"event": "step", "step": -1, "loss": "x"}',
    b'{"event": "epoch", "epoch": null, "step": [], "perplexity": {}}', b"[" * 5000, b"9" * 5000, b"null", b"\xff\xfe",
    b'{"event": "step", "step": ' + b"9" * 400 + b', "loss": 1}', b'{"event": ["step"]}',
]  # fmt: skip


@pytest.mark.parametrize("line", ODD_LINES, ids=range(len(ODD_LINES)))
def test_the_page_with_odd_lines_in_a_log(run: Path, tmp_path: Path, line: bytes) -> None:
    shutil.copytree(run, tmp_path / "good")
    folder = shutil.copytree(run, tmp_path / "odd")
    log = unsealed("log.jsonl", (folder / "log.jsonl").read_bytes())
    (folder / "log.jsonl").write_bytes(log + line + b"\n")
    names, said = page(tmp_path)
    assert "good" in names
    assert "odd" in names or "Left out: " in said


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to itself"])
@pytest.mark.parametrize("name", FILES[:5])
def test_the_page_with_something_else_in_place_of_a_file(run: Path, tmp_path: Path, name: str, kind: str) -> None:
    shutil.copytree(run, tmp_path / "good")
    odd = shutil.copytree(run, tmp_path / "odd") / name
    odd.unlink()
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(odd)
    found: list[tuple[list[str], str]] = []
    assert outcome(lambda: found.append(page(tmp_path))) is None
    names, said = found[0]
    assert "good" in names
    assert "odd" in names or "Left out: " in said or kind == "link to itself"


def test_the_page_with_a_name_that_is_not_utf_8(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "good")
    shutil.copytree(os.fsencode(run), os.fsencode(tmp_path) + b"/\xff\xfe")
    names, said = page(tmp_path)
    assert names == ["good", "example"]
    assert "Left out: " in said
    json.dumps(said).encode()
