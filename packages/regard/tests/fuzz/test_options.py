"""Every cheap verb with options that nobody should give: an exit code from 0 to 3, never a traceback, never a hang."""

from __future__ import annotations

import contextlib
import io
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from damage import cases, outcome
from regard import cli

CHEAP = [
    "design copy", "design share", "design match", "design ceiling", "design verify", "design winnable",
    "subspace extract", "positions", "lowrank", "noise example", "noise compare", "claims",
    "assignment new", "assignment template", "assignment secret", "assignment cells", "assignment pack", "grade",
]  # fmt: skip
NASTY = [
    "", " ", "-1", "0", "1", "2", "3", "nan", "inf", "-inf", "1e400", "1e-400", "1e300", "1e-300", "0.5", "1_0",
    "9" * 20, "9" * 5000, "\x00", "\x1b[31m", "ä", "\ud800", "١", "0x10", "true", "None", ".", "..", "/", "/dev/null",
    "-", "--", "a=b", "n=1", "self=1", "n=nan", "eps=1e400", "n=" + "9" * 400, "a" * 5000, "*", "'", "{}", "x.json",
    "x.svg", "x.npy", "folder",
]  # fmt: skip
KEYS = [
    "1,0; 0,1; 1,1",
    "example:triangle",
    "1,2",
    "1;2",
    "0,0; 0,0",
    "1e300,1; 1,1e300",
    "nan,1; 1,1",
    "5e-324,0; 0,1",
    "1,,2",
    ";",
]


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every verb of the program, by its words."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*words, name))


PROGRAM = typer.main.get_command(cli.app)
VERBS = dict(commands(PROGRAM))
TRIED = [verb for verb in VERBS if verb in CHEAP]


def drawn(command: Any, draw: random.Random) -> list[str]:
    """Words after a verb: arguments that are good or nasty, some of its options, each with a good or nasty value."""
    words: list[str] = []
    for parameter in command.params:
        flags = getattr(parameter, "opts", [])
        if parameter.param_type_name == "argument":
            count = draw.choice([0, 1, 1, 1, 2, 3])
            words += [draw.choice(KEYS if draw.random() < 0.6 else NASTY) for _ in range(count)]
        elif draw.random() < 0.3 and "--answer" not in flags and "--check" not in flags:
            words.append(draw.choice(flags))
            if not parameter.is_flag and not parameter.count:
                words.append(draw.choice(NASTY if draw.random() < 0.8 else KEYS))
    return words


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[object, str]:
    """The exit code and all that is printed."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 0\n0 1\n")))
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            cli.main()
        except SystemExit as left:
            code = left.code or 0
    printed.flush()
    return code, printed.buffer.getvalue().decode()  # type: ignore[attr-defined]


def test_the_cheap_verbs_are_those_of_the_program() -> None:
    assert TRIED
    assert not set(CHEAP) - set(VERBS)


@pytest.mark.parametrize("verb", TRIED)
def test_options_that_nobody_should_give(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for seed, draw in cases(verb, 4 if verb == "noise compare" else 25):
        words = [*verb.split(), *drawn(VERBS[verb], draw)]
        found: list[tuple[object, str]] = []
        error = outcome(lambda: found.append(run(words, monkeypatch)))  # noqa: B023 - called at once
        short = [word if len(word) < 60 else f"{word[:20]}...({len(word)})" for word in words]
        assert error is None, f"FUZZ_SEED={seed}: regard {short}: {error!r}"
        code, said = found[0]
        assert code in (0, 1, 2, 3), f"FUZZ_SEED={seed}: regard {short}: {code}: {said[-500:]}"
        assert "Traceback" not in said, f"FUZZ_SEED={seed}: regard {short}: {said[-500:]}"
        assert "\x1b" not in said, f"FUZZ_SEED={seed}: regard {short}: an escape sequence reached the terminal"
