"""What tests of the command line share: a command, given as a person types it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from regard.cli import main

Regard = Callable[..., tuple[int, str, str]]


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Regard:
    """Run a command line; gives the exit code, standard output and standard error, in which no traceback ever is."""

    def run(*words: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(left.value.code or 0), out, err

    return run
