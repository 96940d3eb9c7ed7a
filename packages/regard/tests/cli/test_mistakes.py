"""``regard mistakes``: the list, one mistake as a file, a person's tests tried."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli.mistakes import app
from regard.errors import InputError


def typed(*words: str):
    return CliRunner().invoke(app, list(words))


def test_the_list_and_one_as_a_file(tmp_path):
    listed = json.loads(typed("--json").stdout)["mistakes"]
    assert {"name": "scale-missing", "stage": "attention"}.items() <= next(
        one.items() for one in listed if one["name"] == "scale-missing"
    )
    path = tmp_path / "wrong.py"
    assert typed("show", "scale-missing", str(path), "--numpy").exit_code == 0
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert ran.stdout.startswith("largest difference from the right one: ")
    assert isinstance(typed("show", "scale-missing", str(path)).exception, InputError)  # it is there already
    assert isinstance(typed("show", "scale-mising").exception, InputError)


@pytest.mark.slow
def test_tests_that_let_one_through_end_with_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef attend(q, k, v):\n    w = np.exp(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)\n"
        "    return w / w.sum(-1, keepdims=True) @ v\n"
    )
    (tmp_path / "check.py").write_text(
        "import numpy as np\nfrom mine import attend\nx = np.random.default_rng(0).normal(size=(2, 5, 3))\n"
        "assert np.allclose(attend(x, x, 0 * x + 1), 1)\n"
    )
    words = ("test", f"{sys.executable} check.py", "--function", "mine:attend", "--json")
    found = typed(*words, "--mistake", "scale-missing", "--mistake", "softmax-missing")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["let_through"] == ["scale-missing"]
    assert typed(*words, "--mistake", "softmax-missing").exit_code == 0
    assert isinstance(typed(*words, "--limit", "0").exception, InputError)
