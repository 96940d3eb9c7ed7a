"""Files that earlier versions wrote: each is read by what reads such a file now, and means what it meant."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from places import ROOT

FIXTURES = ROOT / "packages/regard/tests/fixtures" / "0.2.0"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A copy of all of them, which may be changed."""
    shutil.copytree(FIXTURES, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


def test_nothing_of_the_machine_that_wrote_them_is_in_them(place):
    found = [
        path
        for path in place.rglob("*")
        if path.is_file() and re.search(rb"(/(tmp|home|root|work|Users)/)|BEGIN [A-Z ]*KEY", path.read_bytes())
    ]
    assert not found
    assert sum(path.stat().st_size for path in place.rglob("*")) < 1_500_000


@pytest.mark.parametrize("name", ["copy", "budget", "share", "none", "match", "ceiling"])
def test_a_certificate_is_verified(regard, name):
    code, said, err = regard("design", "verify", f"design/{name}.json", "--keys", "design/keys.csv")
    assert (code, err) == (0, ""), said + err


@pytest.mark.parametrize(("name", "part", "count"), [("many", "designs", 2), ("ceilings", "ceilings", 5)])
def test_a_result_of_several_keys_is_verified_key_by_key(regard, place, name, part, count):
    held = json.loads((place / "design" / f"{name}.json").read_text())[part]
    assert len(held) == count
    for one in held:
        (place / "one.json").write_text(json.dumps(one))
        assert regard("design", "verify", "one.json", "--keys", "design/keys.csv")[0] == 0


def test_a_certificate_of_every_row_is_verified_and_gone_on_with(regard):
    words = ("design", "winnable", "design/keys.csv", "--jobs", "1")
    code, said, _ = regard(*words, "--verify", "design/winnable.json")
    assert code == 0
    assert "5 verdicts were proved again" in said
    code, said, _ = regard(*words, "--resume", "design/winnable-known.json")
    assert code == 1
    assert "Row 1 never can" in said


def test_a_capture_is_read(place):
    pytest.importorskip("torch")
    from regard_models.capturing.capture_file import read_capture

    held = read_capture(place / "capture.safetensors")
    assert held.layers == (0,)
    weights = np.asarray(held.record(0).weights)
    assert weights.shape == (3, 2, 5, 5)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_a_baseline_forgives_what_it_knew(regard):
    pytest.importorskip("torch")
    words = ("model", "audit", "model.py:faulty", "--property", "batch")
    assert regard(*words)[0] == 1
    code, said, err = regard(*words, "--baseline", "baseline.json")
    assert code == 0, said + err


def test_settings_with_every_key_are_read(place):
    from regard.translator.runs.settings import load_settings

    notes = []
    settings = load_settings(place / "settings.toml", notes=notes)
    assert (settings.model.width, settings.training.batch, settings.data.path) == (16, 7, "corpus")
    assert all(line.startswith(f"{place / 'settings.toml'}: ") for line in notes)  # a retired one is no mistake


def test_a_run_translates_is_scored_and_looked_at(regard, place):
    code, said, err = regard("translator", "translate", "run", "der hund sieht")
    assert code == 0, err
    assert said.strip()
    code, said, err = regard("translator", "score", "run", "--json")
    assert code == 0, err
    assert json.loads(said)["perplexity"]["counting_sos"] == pytest.approx(10.0903, abs=1e-3)
    code, _, err = regard("model", "look", "run", "--text", "der hund sieht", "--out", "look.html")
    assert code == 0, err
    code, _, err = regard("translator", "train", "settings.toml", "--out", "run")
    assert (code, "is finished" in err) == (2, True)


@pytest.mark.parametrize(
    ("section", "line"), [("training", "both_directions = 3"), ("vocabulary", "piece_dropout = 0.1")]
)
def test_a_run_with_a_setting_that_is_retired_translates_with_a_note(regard, place, section, line):
    settings, key = place / "run" / "settings.toml", line.partition(" ")[0]
    text = re.sub(rf"(?m)^{key} = .*\n", "", settings.read_text())
    settings.write_text(re.sub(rf"\[{section}\].*\n", f"[{section}]\n{line}\n", text))
    code, said, err = regard("translator", "translate", "run", "der hund sieht")
    assert code == 0, err
    assert said.strip()
    assert f"note: run/settings.toml: {section}.{key} is of an earlier version and is ignored: " in err


def test_a_run_of_a_model_that_is_retired_is_refused_in_one_sentence(regard, place):
    settings = place / "run" / "settings.toml"
    settings.write_text(re.sub(r'(?m)^kind = "encoder"', 'kind = "ctc"', settings.read_text()))
    code, said, err = regard("translator", "translate", "run", "der hund sieht")
    assert (code, said) == (2, "")
    assert "not 'ctc' (version 0.2.0 had that kind and still opens its runs)" in err


TUNE = ("translator", "tune", "settings.toml", "--space", "quick", "--out", "study")
TUNE += ("--set", "epochs=1", "--set", "width=8", "--set", "feed_forward=8")


@pytest.mark.parametrize("retired", [False, True])
def test_a_study_goes_on(regard, place, retired):
    pytest.importorskip("optuna")
    from regard.translator.runs.files import json_file, read_json

    if retired:
        about = place / "study" / "study.json"
        held = read_json(about)
        held["settings"]["training"]["both_directions"] = 0
        about.write_bytes(json_file(held))
    code, said, err = regard(*TUNE, "--trials", "3")
    assert code == 0, err
    assert said.startswith("3 trials (")
    assert "trial 2 (3 of 3)" in err


def test_a_comparison_goes_on_and_is_reported(regard):
    words = ("--set", "epochs=1", "--seeds", "1", "--out", "comparison")
    code, said, err = regard("translator", "compare", "settings.toml", "--with", "learned,positions=none", *words)
    assert code == 0, err
    assert "all 2 runs are there" in err
    assert re.search(r"positions=none +8\.48", said)
    code, _, err = regard("translator", "report", "run", "comparison", "study", "--out", "report.html")
    assert code == 0, err


def test_an_assignment_is_read(regard, place):
    from regard.grading.assignments.assignment_file import read_assignment

    assert len(read_assignment(place / "cse151b-hw4.toml").tasks) == 9
    code, said, err = regard("assignment", "template", "cse151b-hw4.toml", "--out", "sheets")
    assert code == 0, said + err


def test_a_class_is_graded_again_with_what_a_person_decided(regard, place):
    before = points(json.loads((place / "class" / "grades" / "marks.json").read_text()))
    words = ("--assignment", "class/hw.toml", "--students", "class/students.csv", "--secret", "class/secret.txt")
    where = ("--out", "class/grades", "--no-sandbox", "--workers", "1", "--json")
    code, said, err = regard("grade", "class/submissions", *words, *where)
    assert code == 0, err
    after = points(json.loads(said))
    assert after["ben"] == pytest.approx([0.8, 3, 4, 0])  # 1.2 of question 2 became 3
    assert after | {"ben": [0.8, 1.2, 4, 0]} == before


def points(marks):
    """What each student has for each question."""
    return {row["student"]: [question["points"] for question in row["questions"]] for row in marks["rows"]}


def test_a_link_to_the_lab_opens_what_it_showed(place):
    pytest.importorskip("uplot")
    from regard.lab.copy_state import START, read_setup
    from regard.lab.page import State

    address = urlsplit((place / "lab-link.txt").read_text().strip())
    assert address.path == "/copy"
    bench = read_setup(State(dict(parse_qsl(address.query)), start=START))
    np.testing.assert_array_equal(bench.keys, [[1, 0], [0, 1], [1, 1]])
    assert (bench.space, bench.eps, list(bench.vector)) == ("plane", 0.1, [2.0, 1.0])


class EnoughError(Exception):
    """Raised by the progress of an export that was allowed to begin."""


def test_an_earlier_export_of_the_lab_is_known_and_replaced(place):
    pytest.importorskip("uplot")
    from regard.errors import InputError
    from regard.lab import export

    def stop(*_):
        raise EnoughError

    with pytest.raises(InputError, match="replaces an earlier export"):
        export(Path("lab"), pages=["rank"])
    with pytest.raises(EnoughError):
        export(Path("lab"), pages=["rank"], force=True, progress=stop)
    assert (place / "lab" / "rank.html").exists()  # whole or not at all
