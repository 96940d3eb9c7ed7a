"""``regard example``, and what is said where a file or a search is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from regard import design
from regard.arrays import load_array
from regard.cli import app
from regard.cli.example import PROGRAMS
from regard.errors import InputError
from regard.examples import EXAMPLES, example

runner = CliRunner()


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_are_written_exactly(name: str) -> None:
    done = runner.invoke(app, ["example", name, "numbers.csv"])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(load_array("numbers.csv").array, example(name))
    assert runner.invoke(app, ["example", name]).stdout == Path("numbers.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "file"), [("model", "m.py"), ("map", "m.py"), ("noise", "m.toml")])
def test_programs_and_settings_are_written_once(name: str, file: str) -> None:
    assert runner.invoke(app, ["example", name, file]).exit_code == 0
    before = Path(file).read_bytes()
    again = runner.invoke(app, ["example", name, file])
    assert isinstance(again.exception, InputError)
    assert "exists and is not overwritten" in str(again.exception)
    assert Path(file).read_bytes() == before


def test_the_list_has_everything_and_a_wrong_name_gets_the_nearest() -> None:
    shown = runner.invoke(app, ["example"]).stdout
    assert all(f"  {name:<12}" in shown for name in [*EXAMPLES, *PROGRAMS])
    wrong = runner.invoke(app, ["example", "kyes"]).exception
    assert "There is no example 'kyes'; did you mean 'keys'?" in str(wrong)


def test_the_first_keys_are_what_the_list_says() -> None:
    table = design.ceilings(example("keys"))
    assert [row.key for row in table.rows if row.inside] == [2, 3, 8]
    target = example("target")
    assert target.shape == (1, 12)
    assert abs(target.sum() - 1) < 1e-15
    values = np.linalg.svd(example("weights"), compute_uv=False)
    np.testing.assert_allclose(values, 2.0 ** -np.arange(12), atol=1e-5)  # 192 entries, each rounded by 5e-7 at most


def test_a_missing_file_names_an_example() -> None:
    error = runner.invoke(app, ["design", "copy", "keys.npy", "7"]).exception
    assert "there is no such file; check the path, or try example:keys in its place" in str(error)
    for name in ("weights.csv", "nowhere.npy"):
        error = runner.invoke(app, ["lowrank", name]).exception
        assert "try example:weights in its place" in str(error)
    error = runner.invoke(app, ["claims", "average-of-two", "--answer", "my.py:query"]).exception
    assert "my.py: there is no such file; regard claims CLAIM --template my.py writes one" in str(error)
    error = runner.invoke(app, ["symmetry", "my_map.py:block"]).exception
    assert "regard symmetry --template my_map.py writes one" in str(error)


def test_a_template_of_maps_is_written_and_understood() -> None:
    said = runner.invoke(app, ["symmetry", "--template", "my_map.py"])
    assert said.exit_code == 0
    assert "regard symmetry my_map.py:block --length 128" in said.stdout
    assert runner.invoke(app, ["symmetry", "my_map.py:block", "--length", "7"]).exit_code == 1
    assert runner.invoke(app, ["symmetry", "my_map.py:attention", "--length", "7"]).exit_code == 0
    assert "Which map? Name it" in str(runner.invoke(app, ["symmetry"]).exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare"], "needs two finished runs, and in the folder runs there is none"),
        (["report"], "the folder runs has no finished run. Make one, some minutes: regard translator train"),
        (["tune"], "say which and how many: regard translator tune builtin --trials 4"),
    ],
)
def test_bare_verbs_say_what_to_type(words: list[str], said: str) -> None:
    pytest.importorskip("torch")
    done = runner.invoke(app, ["translator", *words])
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
    assert list(Path().iterdir()) == []  # nothing was begun
