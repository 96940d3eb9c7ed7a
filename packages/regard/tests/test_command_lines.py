"""Every command line of the README and the docs runs as it is written, in order, in an empty folder.

The tables of the README and of docs/howto and every ```bash block are typed into a shell, one line after another.
What trains for minutes or
serves until it is stopped is started as written, must say how long it takes and how to stop it, is stopped as a person
would (Ctrl-C), and is then run small, so that the lines after it find their files. A block after a comment
`<!-- not run: REASON -->` is held against the command line's own grammar only, as are commands within the prose.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from places import ROOT
from processes import PATIENCE
from regard.cli import app

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]
BLOCK = re.compile(r"(?P<apart><!-- not run: (?P<reason>[^\n]+) -->\n)?```bash\n(?P<lines>.*?)```", re.DOTALL)
WITHIN = re.compile(r"(?<!`)`((?:regard|torchrun) [^`\n]+)`(?!`)")
PLACEHOLDERS = re.compile(r"\b[A-Z]{2,}\b|\.\.\.")  # DIR, NAME: a form to fill in and no line to type
TRAINING = re.compile(r"translator (train|compare \w+ --with|tune)\b")
SMALL = "--set epochs=1 --set data.size=200 --set width=16 --set heads=2 --set head_width=8 --set feed_forward=16"
UNFILLED = "write "  # what a template says that nobody has filled in yet


def lines_to_run(page: Path) -> list[str]:
    """What a reader types: the blocks of a page that are not set apart, and the tables of a page of commands."""
    text = page.read_text(encoding="utf-8")
    blocks = [found["lines"].replace("\\\n", " ") for found in BLOCK.finditer(text) if not found["apart"]]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(("regard ", "torchrun "))]
    if page.name in ("README.md", "index.md"):
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        lines += [command for row in rows for command in WITHIN.findall(row)]
    return lines


def lines_to_read(page: Path) -> list[str]:
    """What is only held against the grammar: blocks set apart, and commands within sentences."""
    text = page.read_text(encoding="utf-8")
    blocks = [found["lines"].replace("\\\n", " ") for found in BLOCK.finditer(text) if found["apart"]]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("regard ")]
    return lines + [command for command in WITHIN.findall(text) if command.startswith("regard ")]


class Shell:
    """An empty folder and a shell in which `regard` and `torchrun` are those of this interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder, programs = folder / "empty", folder / "programs"
        self.folder.mkdir()
        programs.mkdir()
        for name, module in (("regard", "regard"), ("torchrun", "torch.distributed.run"), ("python", "")):
            start = f'exec "{sys.executable}" {f"-m {module}" if module else ""} "$@"\n'
            (programs / name).write_text(f"#!/bin/sh\n{start}", encoding="utf-8")
            (programs / name).chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "BROWSER": "true"}

    def run(self, line: str) -> tuple[int, str]:
        """The exit code, and everything it said."""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def start_and_stop(self, line: str, *, until: str) -> tuple[int, str]:
        """Start it, wait until it has said something, press Ctrl-C."""
        said = self.folder.parent / "said"
        with said.open("wb") as stream:
            running = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self.environment, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            with _ended(running):
                begun = time.monotonic()
                while not re.search(until, said.read_text(encoding="utf-8")) and running.poll() is None:
                    assert time.monotonic() - begun < PATIENCE, f"{line}\nnever said {until!r}: {said.read_text()}"
                    time.sleep(0.1)
                os.killpg(running.pid, signal.SIGINT)
                code = running.wait(timeout=PATIENCE)
        return code, said.read_text(encoding="utf-8")


@contextlib.contextmanager
def _ended(running: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def check(line: str, shell: Shell) -> None:
    """Run a line as it is written; it answers yes or no, or is stopped after it has said how."""
    if re.match(r"regard lab\b(?! export)", line):
        code, said = shell.start_and_stop(line.partition("#")[0], until=r"The lab is at .*Ctrl-C stops it")
        assert code == 0, f"{line}\n{said}"
        assert "Stopped." in said
        return
    if TRAINING.search(line):
        code, said = shell.start_and_stop(
            line.partition("#")[0].partition("&&")[0], until=r"about \d+ .*Ctrl-C stops it"
        )
        assert re.search(r"about \d+ .*Ctrl-C stops it", said), f"{line}\n{said}"
        assert code == 130 or "torchrun" in line, f"{line}\n{code}: {said}"
        if " tune " not in line:
            _run_small(line.partition("#")[0], shell)
        return
    code, said = shell.run(line)
    unfilled = "--answer" in line and code == 2 and UNFILLED in said
    unfilled = unfilled or ("--derivation" in line and code == 3 and "no relation was found" in said)
    assert code in (0, 1) or unfilled, f"{line}\n{code}: {said}"


def _run_small(line: str, shell: Shell) -> None:
    """The same line with few sentences and narrow layers, from the beginning: the lines after it read its folder."""
    first, _, rest = line.partition("&&")
    out = re.search(r"--out (\S+)", first)
    shell.run(f"rm -rf {out[1] if out else 'runs/builtin'}")
    code, said = shell.run(f"{first} {SMALL}" + (f" && {rest}" if rest else ""))
    assert code == 0, f"{first} {SMALL}\n{code}: {said}"


# The README with `make nightly`, the pages of the docs with `make lines`: together they take ten minutes of one core.
RUN = PAGES if os.environ.get("EVERY_PAGE") else PAGES[:1]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    "page", [page for page in RUN if lines_to_run(page)], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_line_runs_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shell = Shell(tmp_path)
    for line in lines_to_run(page):
        check(line, shell)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_line_is_understood(page: Path) -> None:
    for line in lines_to_read(page):
        if not PLACEHOLDERS.search(line) or "--data" in line:
            understood(shlex.split(line, comments=True)[1:])


def understood(words: list[str]) -> None:
    """Parse the words as the command line would, and run nothing."""
    words = words[: next((i for i, word in enumerate(words) if word in ("<", ">", "&", "&&", "|")), len(words))]
    command, name = typer.main.get_command(app), "regard"
    while isinstance(command, typer.core.TyperGroup):
        if not words:
            return  # the group itself, spoken of
        if words[0].startswith("-") and command.invoke_without_command:  # `regard lab --port 9000`
            command.make_context(name, list(words))
            return
        name, below, words = command.resolve_command(typer.Context(command), words)
        assert below is not None, name
        command = below
    if words:  # a bare verb is a name within a sentence
        command.make_context(name, list(words))


def test_the_checks_can_fail(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with pytest.raises(AssertionError, match="there is no such file"):
        check("regard design copy nowhere.csv 7", shell)
    with pytest.raises(typer.BadParameter.__mro__[1], match="No such option"):
        understood(["design", "copy", "example:square", "0", "--epsilon", "1"])
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: why -->\n```bash\nregard lab\n```\n```bash\nregard demo \\\n --json\n```", encoding="utf-8"
    )
    assert lines_to_run(page) == ["regard demo   --json"]
    assert lines_to_read(page) == ["regard lab"]
