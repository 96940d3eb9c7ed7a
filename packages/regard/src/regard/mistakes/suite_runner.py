"""A person's tests, run in a copy of their project with something in the place of one function."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import read_file
from regard.mistakes import grouped_and_causal as calls
from regard.mistakes import injection
from regard.mistakes.smallest import stage_functions
from regard.progress import Progress
from regard.strict_json import parse_json

# What no test needs and everybody has; links are copied as links.
NOT_COPIED = (".git", ".hg", ".venv", "venv", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache")
CACHES = ("__pycache__", ".pytest_cache", ".hypothesis", ".benchmarks", ".coverage")
MOST_BYTES, MOST_FILES = 10**9, 50_000


class Suite:
    """The person's tests: run in a copy, with something in the place of one function."""

    def __init__(self, words: list[str], home: Path, folder: Path, *, in_place: bool) -> None:
        self.words, self.home = words, home
        self.tools, self.place = folder / "tools", home if in_place else folder / "project"
        self.in_place = in_place
        self.notes: list[str] = []
        self.task: dict[str, Any] = {}
        self.output = folder / "output.txt"
        self.tools.mkdir()
        shutil.copy(injection.__file__, self.tools / "regard_injection.py")
        (self.tools / "sitecustomize.py").write_text(_SITECUSTOMIZE, encoding="utf-8")
        if not in_place:
            _refuse_large(home)
            self._copy()

    def _copy(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.home, self.place, symlinks=True, ignore=_not_copied, copy_function=_copy_file)
        self.files = list_files(self.place)

    def put(self, **files: str) -> None:
        for name, text in files.items():
            (self.tools / f"{name}.py").write_text(text, encoding="utf-8")

    def run(self, limit: float, progress: Callable[[], None] | None = None) -> tuple[int | None, float]:
        """The exit code (None where it was stopped) and the seconds; what it changed is told and undone."""
        self.put(task=f"TASK = {self.task!r}\n")
        start = time.monotonic()
        with open(self.output, "wb") as stream:
            child = subprocess.Popen(
                list(map(self._path_in_copy, self.words)), cwd=self.place, env=self._environment(), stdout=stream,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                code = None
                while code is None and (left := start + limit - time.monotonic()) > 0:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        code = child.wait(min(left, 0.5) if progress else left)
                    if progress is not None:
                        progress()
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)  # and whatever it has left running
                child.wait()
        seconds = time.monotonic() - start
        self._undo_changes()
        return code, seconds

    def run_with(self, code: str, form: dict[str, Any], limit: float) -> str:
        """ "passed", "failed" or "hung", with this code in the place of the function."""
        self.put(put_0=code)
        self.task |= {"act": "replace", "form": form}
        status, _ = self.run(limit)
        return "hung" if status is None else "passed" if status == 0 else "failed"

    def run_each(
        self, codes: list[str], form: dict[str, Any], limit: float, progress: Progress | None
    ) -> Iterator[str]:
        """The same for many: from one process that forks, and alone where that did not work."""
        done = self._fork([right_code(form["causal"], form["library"]), *codes], form, limit, progress)
        trusted = done.get(0) == "0"  # the right one passes in a fork too
        for number, code in enumerate(codes, 1):
            status = done.get(number, "") if trusted else ""
            if status in ("", "hung"):  # a fork may hang for reasons of its own
                yield self.run_with(code, form, limit)
                if progress is not None:
                    progress(number, len(codes))
            else:
                yield "passed" if status == "0" else "failed"

    def _fork(self, codes: list[str], form: dict[str, Any], limit: float, progress: Progress | None) -> dict[int, str]:
        """Exit codes by number, as far as forks gave them; none where the tests change files that later ones read."""
        if self.notes_changes():
            return {}
        self.put(**{f"put_{number}": code for number, code in enumerate(codes)})
        self.task |= {"act": "fork", "form": form, "count": len(codes), "limit": limit, "parent": os.getpid()}
        path = self.tools / "trials.txt"

        def count() -> dict[int, str]:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            return {int(number): status for number, status in (line.split() for line in lines)}

        def tell() -> None:
            if progress is not None and count():
                progress(len(count()) - 1, len(codes) - 1)

        self.run(limit * (len(codes) + 1), tell)
        return count()

    def notes_changes(self) -> bool:
        return any(one.startswith(_CHANGES) for one in self.notes)

    def _path_in_copy(self, word: str) -> str:
        return word.replace(str(self.home), str(self.place)) if str(self.home) in word else word

    def _environment(self) -> dict[str, str]:
        path = [str(self.tools), *filter(None, [self._path_in_copy(os.environ.get("PYTHONPATH", ""))])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}

    def _undo_changes(self) -> None:
        if self.in_place:
            return
        if changed := changed_files(self.files, list_files(self.place)):
            if not self.notes_changes():
                self.notes.append(f"{_CHANGES}, each time in a copy of the folder: {first_names(changed)}.")
            self._copy()

    def last_lines(self, count: int = 6) -> str:
        text = read_file(self.output, start=max(0, self.output.stat().st_size - 4000), part=True).decode(
            errors="replace"
        )
        return "\n".join(f"    {line}" for line in text.strip().splitlines()[-count:])

    def answer(self, name: str) -> Any:
        path = self.tools / name
        return parse_json(read_file(path)) if path.exists() else None


_CHANGES = "The tests change files"
_SITECUSTOMIZE = """\
import importlib.machinery, importlib.util, os, sys
here = os.path.dirname(os.path.abspath(__file__))
import regard_injection
regard_injection.install()
others = [one for one in sys.path if os.path.abspath(one) != here]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)  # the one that stands behind ours
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""


def causal_step(*, causal: bool) -> dict[str, Any]:
    return {"causal": calls.hide_future if causal else calls.no_causal_mask}


def right_code(causal: bool, library: str) -> str:
    return stage_functions(None, STAGES, causal_step(causal=causal), library=library)


STAGES = ("attend", "multi_head", "answer")


def _refuse_large(home: Path) -> None:
    size = count = 0
    for path in _walk(home):
        size, count = size + path.lstat().st_size, count + 1
        if size > MOST_BYTES or count > MOST_FILES:
            raise InputError(
                f"{home} has more than {MOST_FILES:,} files or {MOST_BYTES / 1e9:g} GB, too much for a copy of it: "
                "go to the project's own folder, or run the tests where they are with --in-place."
            )


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in (*NOT_COPIED, *CACHES)]
        for name in names:
            if name not in CACHES:
                yield Path(root, name)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name in (*NOT_COPIED, *CACHES)}


def _copy_file(source: str, target: str) -> object:
    """Regular files only: a socket or a pipe has nothing to copy."""
    return shutil.copy2(source, target) if os.path.isfile(source) else None


def list_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time."""
    listed = {}
    for path in _walk(folder):
        with contextlib.suppress(OSError):
            now = path.lstat()
            listed[path.relative_to(folder).as_posix()] = (now.st_size, now.st_mtime_ns)
    return listed


def changed_files(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def first_names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
