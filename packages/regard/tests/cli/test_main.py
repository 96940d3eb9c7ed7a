"""However a command ends: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from places import ROOT, SOURCE
from processes import PATIENCE
from regard import cli, design
from regard.__main__ import main as started
from regard.cli import main
from regard.terminal import printable


def broken(*_, **__):
    raise KeyError("nobody thought of this")


def test_a_fault_of_ours_is_one_sentence_and_exit_4(regard, monkeypatch):
    monkeypatch.setattr(design, "copy", broken)
    code, _, said = regard("design", "copy", "example:square", "0", "--eps", "0.1")
    assert code == 4
    assert said.startswith(
        "regard: This is a fault of ours, not of what you typed (KeyError: 'nobody thought of this')."
    )
    assert "Please report it" in said
    assert said.count("\n") == 1


def test_debug_shows_the_trace(monkeypatch):
    monkeypatch.setattr(design, "copy", broken)
    monkeypatch.setattr(sys, "argv", ["regard", "--debug", "design", "copy", "example:square", "0", "--eps", "0.1"])
    with pytest.raises(KeyError, match="nobody thought of this"):
        main()
    monkeypatch.setattr(cli, "_debug", False)


def test_ctrl_c_in_the_middle_says_what_is_kept(regard, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(design, "copy", stopped)
    code, _, said = regard("design", "copy", "example:square", "0", "--eps", "0.1")
    assert code == 130
    assert said.startswith("regard: Stopped. Every file that was written is whole")


def test_the_help_names_every_exit_code(regard):
    assert "4 a fault of ours" in " ".join(regard("--help")[1].split())


def test_a_name_cannot_drive_the_terminal(regard):
    code, _, said = regard("design", "copy", "\x1b]0;owned\x07\x1b[2J.npy", "0")
    assert code == 2
    assert "\x1b" not in said
    assert "\x07" not in said
    assert r"\x1b]0;owned\x07" in said


def test_a_key_of_a_megabyte_is_not_printed_in_full(regard, tmp_path):
    key = "k" * 1_000_000
    for text in (f"[model]\n{key} = 1\n", f"[{key}]\nx = 1\n", f'[data]\npath = "{key}"\n'):
        (tmp_path / "s.toml").write_text(text)
        code, _, said = regard("translator", "train", str(tmp_path / "s.toml"), "--out", str(tmp_path / "run"))
        assert (code, "kkk..." in said, len(said) < 1500) == (2, True, True)


def test_everything_that_is_printed_goes_the_one_way() -> None:
    """``output.echo``, ``note`` and what ends a command make text fit for a terminal; nobody else prints."""
    files = sorted([*(SOURCE / "cli").rglob("*.py"), *ROOT.glob("packages/*/src/*/commands/*.py")])
    printing = {path.name for path in files if re.search(r"typer\.echo\(|(?<!\w)print\(", path.read_text("utf-8"))}
    assert printing == {"__init__.py", "output.py", "translator_inputs.py"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwei Hunde, \u200d\u0645\u06cc\u200c\n\tΩ\u00a0é", "zwei Hunde, \u200d\u0645\u06cc\u200c\n\tΩ\u00a0é"),
        ("\x1b[2J\r\x9b\x7f", r"\x1b[2J\r\u009b\u007f"),
        ("\u202e\u2066\u200b\ufeff\u2028", r"\u202e\u2066\u200b\ufeff\u2028"),
        ("\udcff\U000e0041", r"\udcff\udb40\udc41"),
    ],
)
def test_text_that_could_drive_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert "\n" not in printable(text, lines=False)
    assert json.loads(printable(json.dumps([text], ensure_ascii=False))) == [text]


def test_ctrl_c_that_a_library_turned_into_something_else_is_still_ctrl_c(monkeypatch, capsys):
    def work(**_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise SystemError("a result with an exception set") from stop

    monkeypatch.setattr(sys, "argv", ["regard", "claims"])
    monkeypatch.setattr(cli, "app", work)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 130
    assert "Stopped." in capsys.readouterr().err


def test_ctrl_c_while_a_class_is_being_defined_is_ctrl_c(monkeypatch, capsys):
    """Python 3.11 makes a RuntimeError of what a member's __set_name__ raises, Ctrl-C among it."""

    class Interrupted:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    def run():
        type("Half", (), {"member": Interrupted()})

    monkeypatch.setattr(cli, "main", run)
    with pytest.raises(SystemExit) as left:
        started()
    assert left.value.code == 130
    assert capsys.readouterr().err == "regard: Stopped. Nothing was begun yet.\n"
    monkeypatch.setattr(cli, "main", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # anything else goes on
        started()


@pytest.mark.parametrize("after", [0.05, 0.15, 0.3, 0.6, 1.2])
def test_ctrl_c_at_any_moment_is_no_traceback(after):
    """Imports included, once the interpreter has begun on our own first line."""
    program = "print('here', flush=True); import sys; sys.argv = {words!r}; from regard.__main__ import main; main()"
    words = ["regard", "claims", "--check"]
    running = subprocess.Popen(
        [sys.executable, "-c", program.format(words=words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    running.stdout.readline()
    time.sleep(after)
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE)
    if running.returncode == -signal.SIGINT:  # a slow machine: the interpreter had not come to our first line
        assert ", in main" not in said
        return
    if running.returncode not in (0, 1):  # it had not ended before
        assert running.returncode == 130, said
        assert "Stopped." in said
    assert "Traceback" not in said
