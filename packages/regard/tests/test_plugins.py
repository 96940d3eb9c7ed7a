"""What other distributions bring, read from their files: the same names as importlib.metadata finds, and no others."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from regard.extras import COMMANDS, plugin_names


def test_the_names_are_those_that_the_standard_library_finds() -> None:
    groups = sorted(entry_points().groups)
    assert "console_scripts" in groups
    for group in groups:
        assert plugin_names(group) == sorted({entry.name for entry in entry_points(group=group)}), group


def test_odd_files_and_folders_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (
        (
            "good-1.dist-info",
            f"; a comment\n[other]\nnever = a:b\n[{COMMANDS}]\n# another\nmine = a:b\n\nyours=c:d\n",
        ),
        ("link-1.egg-info", f"[{COMMANDS}]\nolder = a:b\n"),
        ("bare-1.dist-info", ""),
        ("no-distribution", f"[{COMMANDS}]\nnever = a:b\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "entry_points.txt").write_text(text)
    (tmp_path / "binary-1.dist-info").mkdir()
    (tmp_path / "binary-1.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "file.dist-info").write_text("no folder")
    monkeypatch.setattr("sys.path", [str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path / "file.dist-info")])
    assert plugin_names(COMMANDS) == ["mine", "older", "yours"]
