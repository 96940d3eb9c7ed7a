"""Checkpoints and everything beside them know themselves: no flipped bit is silent, none is a traceback."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from regard.errors import InputError
from regard.translator.models.run import load_run
from regard.translator.models.weights import read_weights, write_weights
from regard.translator.runs.files import SealedLines, read_checkpoint, read_header, unseal
from regard.translator.runs.records import read_record
from regard.translator.studies.comparison import compare
from regard.translator.studies.comparison_record import read_comparison
from regard.translator.studies.search_record import read_study
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)
FLIPS = 200
SPACE = "[training]\nlearning_rate = {low = 1e-3, high = 1e-2, log = true}\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A finished run, one that was stopped, a comparison and a study."""
    home = tmp_path_factory.mktemp("files")
    settings = tiny(write_corpus(home / "toy"), "average=0.9")
    train(settings, home / "whole")
    with pytest.raises(StopError):
        train(settings, home / "half", watch=stop_at(6))
    compare(tiny(home / "toy", "epochs=1"), ["learned"], home / "compared", seeds=2)
    (home / "space.toml").write_text(SPACE)
    tune(tiny(home / "toy", "epochs=1"), home / "tuned", trials=2, space=home / "space.toml")
    return home, settings


def flipped(data: bytes, draw: random.Random) -> bytes:
    bent, bit = bytearray(data), draw.randrange(8 * len(data))
    bent[bit // 8] ^= 1 << bit % 8
    return bytes(bent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "name", "opened"),
    [
        ("half", "last.safetensors", lambda home, settings: train(settings, home / "half")),
        ("whole", "last.safetensors", lambda home, _: load_run(home / "whole", weights="last")),
        ("whole", "best.safetensors", lambda home, _: load_run(home / "whole")),
        ("whole", "run.json", lambda home, _: load_run(home / "whole")),
        ("whole", "vocabulary.json", lambda home, _: load_run(home / "whole")),
        ("whole", "log.jsonl", lambda home, _: read_record(home / "whole")),
        ("compared", "comparison.json", lambda home, _: read_comparison(home / "compared")),
        ("compared", "scores/learned-seed1.json", lambda home, _: read_comparison(home / "compared")),
        ("tuned", "study.json", lambda home, _: read_study(home / "tuned")),
        ("tuned", "journal.jsonl", lambda home, _: read_study(home / "tuned")),
    ],
)
def test_no_flipped_bit_is_silent(home, tmp_path, folder, name, opened):
    """Two hundred bits of each kind of file, each on its own; as it was, the file is read."""
    home, settings = home
    shutil.copytree(home / folder, tmp_path / folder)
    path, draw = tmp_path / folder / name, random.Random(7)
    good = path.read_bytes()
    for _ in range(FLIPS):
        path.write_bytes(flipped(good, draw))
        with pytest.raises(InputError, match=rf"{path.name} is damaged.*(restore it|give another --out)") as caught:
            opened(tmp_path, settings)
        assert len(str(caught.value).splitlines()) == 1
    path.write_bytes(good)
    opened(tmp_path, settings)


def test_the_header_alone_tells_of_altered_facts(home):
    """A page about many runs reads facts without tensors: an altered fact is noticed there too."""
    path = home[0] / "whole" / "last.safetensors"
    data = path.read_bytes()
    assert read_header(path).facts["finished"] is True
    copy = path.with_name("copy.safetensors")
    copy.write_bytes(data.replace(rb"\"finished\": true", rb"\"finished\": null"))
    assert copy.read_bytes() != data
    with pytest.raises(InputError, match="the SHA-256 of its facts is not the one they were written with"):
        read_header(copy)
    copy.unlink()


def altered(content: object, draw: random.Random) -> object:
    """The content with one thing in it replaced by what it cannot be."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inside, dict | list):
                walk(inside)

    walk(content)
    value, key = draw.choice(places)
    value[key] = draw.choice([None, "x", -1, 1e30, [], {}, True, "1", 10**30])
    return content


@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("whole/run.json", lambda home: (load_run(home / "whole"), read_record(home / "whole"))),
        ("whole/vocabulary.json", lambda home: load_run(home / "whole")),
        ("compared/comparison.json", lambda home: str(read_comparison(home / "compared"))),
        ("compared/scores/learned-seed1.json", lambda home: str(read_comparison(home / "compared"))),
        ("tuned/study.json", lambda home: str(read_study(home / "tuned"))),
        ("tuned/journal.jsonl", lambda home: str(read_study(home / "tuned"))),
    ],
)
def test_what_was_altered_without_a_digest_is_never_a_traceback(home, tmp_path, name, opened):
    """Files of earlier versions: what is there can be read, or one sentence says why not."""
    folder, draw, noticed = name.split("/")[0], random.Random(17), 0
    shutil.copytree(home[0] / folder, tmp_path / folder)
    path = tmp_path / name
    good = [unseal(path.read_bytes())] if path.suffix == ".json" else SealedLines(path).read()
    for _ in range(60):
        bent = json.loads(json.dumps(good))
        altered(draw.choice(bent), draw)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in bent))
        try:
            opened(tmp_path)
        except InputError:
            noticed += 1
    assert noticed
    path.write_text("".join(json.dumps(entry) + "\n" for entry in good))
    opened(tmp_path)


def test_a_journal_of_an_earlier_version_goes_on_with_a_note(home, tmp_path):
    home, _ = home
    shutil.copytree(home / "tuned", tmp_path / "tuned")
    path, said = tmp_path / "tuned" / "journal.jsonl", []
    path.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in SealedLines(path).read()))
    more = tune(
        tiny(home / "toy", "epochs=1"), tmp_path / "tuned", trials=3, space=home / "space.toml", say=said.append
    )
    assert len(more.trials) == 3
    assert any("journal.jsonl was written by an earlier version, without a SHA-256" in line for line in said)


def old_version(path: Path, facts: object) -> None:
    """The file as earlier versions wrote it, with these facts."""
    path.write_bytes(save(load(path.read_bytes()), metadata={"facts": json.dumps(facts)}))


def test_a_file_of_an_earlier_version_is_opened_with_a_note(home, tmp_path):
    home, settings = home
    for name in ("whole", "half"):
        shutil.copytree(home / name, tmp_path / name)
    best, last = tmp_path / "whole" / "best.safetensors", tmp_path / "half" / "last.safetensors"
    old_version(best, read_header(best).facts)
    old_version(last, read_header(last).facts)
    run, said = load_run(tmp_path / "whole"), []
    assert run.notes == (
        f"{best} was written by an earlier version, without a SHA-256: nobody can say whether it is still the same.",
    )
    assert load_run(home / "whole").notes == ()
    train(settings, tmp_path / "half", say=said.append)
    assert any("last.safetensors was written by an earlier version" in line for line in said)
    assert same(weights(tmp_path / "half"), weights(home / "whole"))


@pytest.mark.parametrize(
    "change",
    [
        {"step": "x"}, {"step": -1}, {"epoch": 0}, {"epoch": 1.5}, {"batch": 10**6}, {"batch": None}, {"tokens": 0},
        {"loss_sum": float("nan")}, {"loss_sum": []}, {"cpu_seconds": "1"}, {"wall_seconds": -1.0}, {"best": {}},
        {"best": 0.0}, {"more": 1},
    ],
)  # fmt: skip
def test_altered_facts_of_an_earlier_version_are_one_sentence(home, tmp_path, change):
    home, settings = home
    shutil.copytree(home / "half", tmp_path / "half")
    last = tmp_path / "half" / "last.safetensors"
    old_version(last, read_header(last).facts | change)
    with pytest.raises(InputError, match=r"last\.safetensors (is damaged|does not say how far|says it is at batch)"):
        train(settings, tmp_path / "half")


@pytest.mark.slow
def test_bits_of_an_earlier_version_are_never_a_traceback(home, tmp_path):
    """Without a digest nobody can notice all of them; what is noticed is one sentence."""
    shutil.copytree(home[0] / "half", tmp_path / "half")
    last, draw = tmp_path / "half" / "last.safetensors", random.Random(11)
    old_version(last, read_header(last).facts)
    good, noticed = last.read_bytes(), 0
    length = int.from_bytes(good[:8], "little") + 8
    for _ in range(FLIPS):
        last.write_bytes(flipped(good[:length], draw) + good[length:])
        try:
            read_weights(last)
            load_run(tmp_path / "half", weights="last")
        except InputError as error:
            noticed += 1
            assert len(str(error).splitlines()) == 1  # noqa: PT017
    assert noticed > FLIPS / 2


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\xff" * 8, b"\x02" + bytes(7) + b"{}", b"\x04" + bytes(7) + b"null", bytes(8)],
)
def test_what_is_no_checkpoint(tmp_path, data):
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    for read in (read_header, read_checkpoint, read_weights):
        with pytest.raises(InputError, match=r"w\.safetensors is damaged, cut short, or not ours \("):
            read(path)


def test_a_folder_and_nothing_in_its_place(tmp_path):
    with pytest.raises(InputError, match=r"There is no .*; train the run first"):
        read_header(tmp_path / "w")
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_header(tmp_path)


def test_weights_of_another_type_are_refused(home, tmp_path):
    shutil.copytree(home[0] / "whole", tmp_path / "run")
    best = tmp_path / "run" / "best.safetensors"
    tensors, header = read_weights(best)
    write_weights(best, {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}, header.facts)
    with pytest.raises(InputError, match=r"does not fit this run's settings and vocabulary: .* of torch\.float64, not"):
        load_run(tmp_path / "run")
