"""The pytest plugin, in a project of its own: it audits what it is told, and is silent and light otherwise."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="models need torch")

MODELS = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, leak):
        super().__init__()
        torch.manual_seed(0)
        self.leak, self.table, self.out = leak, nn.Embedding(23, 12), nn.Linear(12, 5)
    def forward(self, ids):
        x = self.table(ids)
        return self.out(x + self.leak * x.mean(1, keepdim=True))

def build(leak=0.0):
    return Model(leak), torch.zeros(2, 7, dtype=torch.long)

def build_leaking():
    return build(1e-6)
"""


def run(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # a pyproject.toml above the temporary folder is not ours
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").touch()
    (tmp_path / "mypkg" / "models.py").write_text(MODELS)
    return tmp_path


def test_nothing_is_loaded_where_it_is_not_used(project):
    code = "import sys, regard_models.pytest_plugin; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    (project / "test_own.py").write_text(
        "import pytest\n@pytest.fixture\ndef healthy():\n    return 7\n"
        "def test_own(healthy):\n    assert healthy == 7\n"
    )
    code, said = run(project)
    assert code == 0, said


@pytest.mark.slow
def test_a_model_is_an_item_and_its_failure_has_the_audits_words(project):
    code, said = run(project, "--regard", "mypkg.models:build", "--regard-causal", "--junitxml", "tests.xml")
    assert code == 0, said
    assert 'tests="1"' in (project / "tests.xml").read_text()
    words = ("--regard", "mypkg.models:build_leaking", "--regard-causal", "--regard-sarif", "found.sarif")
    code, said = run(project, *words)
    assert code == 1
    assert "causality, intervention: FAIL." in said
    assert "Traceback" not in said
    assert "causality/intervention" in (project / "found.sarif").read_text()
    known = subprocess.run(
        [sys.executable, "-m", "regard", "model", "audit", "mypkg/models.py:build_leaking", "--causal",
         "--write-baseline", "known.json"], cwd=project, capture_output=True, text=True,
    )  # fmt: skip
    assert known.returncode == 1, known.stderr
    code, said = run(project, *words, "--regard-baseline", "known.json")
    assert code == 0, said


@pytest.mark.slow
def test_the_fixture_and_what_cannot_be_built(project):
    (project / "test_models.py").write_text(
        "from mypkg.models import build, build_leaking\n"
        "def test_sound(healthy):\n    assert healthy(*build(), causal=True, properties=['causality']).answer\n"
        "def test_leaking(healthy):\n    healthy(*build_leaking(), causal=True, properties=['causality'])\n"
    )
    code, said = run(project, "--regard", "mypkg.nowhere:build")
    assert code == 1
    assert "2 failed, 1 passed" in said
    assert "Model is not healthy:" in said
    assert "mypkg.nowhere:build could not be built: ModuleNotFoundError: No module named 'mypkg.nowhere'" in said
    code, said = run(project, "--regard-sarif", "found.sarif")
    assert code == 4
    assert "--regard-sarif is written for one model; --regard names 0." in said


@pytest.mark.slow
def test_the_page_works_as_it_is_written(tmp_path):
    """Its files in an empty folder, its commands and those of its workflow."""
    page = Path(__file__).parents[3] / "docs" / "models-ci.md"
    blocks = re.findall(r"```\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in blocks:
        if block.startswith("# "):
            path = tmp_path / block.split("\n")[0].removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(block)
    typed = [line for block in blocks for line in block.splitlines() if "pytest --regard" in line]
    assert len(typed) == 3
    words = [shlex.split(line)[shlex.split(line).index("--regard") :] for line in typed]
    for line in words[:2]:
        code, said = run(tmp_path, *line)
        assert code == 0, said
        assert "2 passed" in said
    assert (tmp_path / "audit.sarif").is_file()
    write = shlex.split(next(line for block in blocks for line in block.splitlines() if "--write-baseline" in line))
    assert subprocess.run([sys.executable, "-m", *write], cwd=tmp_path, capture_output=True).returncode == 0
    code, said = run(tmp_path, *words[2])
    assert code == 0, said
