"""Somebody's Python file, named ``FILE.py:NAME`` or by its path: how regard loads one, with your rights.

While it is loaded, its folder and the current folder come first on the path, so that a file of a packaged repository
imports its neighbours as it does at home; where it lies in a package (a folder with ``__init__.py``), its relative
imports work too. :func:`contain` keeps it from hanging for ever and from flooding the terminal. That is no prison: the
code runs with your rights and sees your files. What is not trusted goes through :mod:`regard.sandbox` instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn, TextIO

from regard.errors import InputError, describe_error
from regard.written_numbers import at_least


def load_named(
    spec: str, *, template: str = "regard symmetry --template {path}", like: str = "my_map.py:block"
) -> tuple[ModuleType, Any]:
    """The module of ``file.py:name``, and the object of that name in it; ``template`` is the command that writes one.

    >>> load_named("missing.py:block")
    Traceback (most recent call last):
    regard.errors.InputError: missing.py:block: there is no file 'missing.py'; regard symmetry --template ...
    """
    path, colon, name = spec.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise InputError(f"{spec!r} must name a file and a function in it, as in {like}.")
    if not Path(path).is_file():
        raise InputError(f"{spec}: there is no file {path!r}; {template.format(path=path)} writes one.")
    module = load_file(path)
    if not hasattr(module, name):
        known = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        raise InputError(f"{spec}: {path} has no {name!r}; it has {', '.join(known) or 'nothing to call'}.")
    return module, getattr(module, name)


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """The file as a module. This runs the code in it."""
    spec = importlib.util.spec_from_file_location(_module_name(Path(path)), path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise InputError(f"{path}: there is no such Python file; check the path.")
    module, fresh = importlib.util.module_from_spec(spec), spec.name not in sys.modules
    with neighbours_on_path(path):
        try:
            if package := spec.name.rpartition(".")[0]:
                # first, since a package's head often imports this very file, which must not be half loaded then; a head
                # that fails is left to the file's relative imports, if there are any
                with contextlib.suppress(Exception, SystemExit):
                    importlib.import_module(package)
            if fresh and spec.name in sys.modules:
                return sys.modules[spec.name]
            sys.modules[spec.name] = module  # dataclasses look their own module up while they are made
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(spec.name, None)
            raise InputError(
                f"{path} could not be imported: {describe_error(error)}{_where(error, path)}; fix it first."
            ) from None
    return module


@contextmanager
def neighbours_on_path(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is imported in this block may lie beside the file, in the current folder, or beside the file's package."""
    before = list(sys.path)
    sys.path[:0] = dict.fromkeys([*_folders(path), str(_package_root(Path(path)))])
    try:
        yield
    finally:
        sys.path[:] = before


def _folders(path: str | os.PathLike[str]) -> list[str]:
    return list(dict.fromkeys([os.path.dirname(os.path.abspath(path)), os.getcwd()]))


def _where(error: BaseException, path: str | os.PathLike[str]) -> str:
    """Where a missing module was looked for first."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return f" (looked for in {' and '.join(_folders(path))}, then among what is installed)"


def _package_root(file: Path) -> Path:
    """The folder that the outermost package around a file lies in; without a package, the file's own folder."""
    folder = file.absolute().parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        folder = folder.parent
    return folder


def _module_name(file: Path) -> str:
    """Its dotted name where it lies in a package, so that relative imports work; else one that no library has."""
    parts = file.absolute().relative_to(_package_root(file)).with_suffix("").parts
    loaded = sys.modules.get(parts[0])
    origin = getattr(loaded, "__file__", None)
    ours = loaded is None or (origin and Path(origin).parent == _package_root(file) / parts[0])
    if len(parts) > 1 and ours:
        return ".".join(parts)
    return f"regard_file_{hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:12]}"


SHOWN = 20_000  # characters printed that are passed on
FLOOD = 1_000_000  # from so many on it is a flood


class _StoppedError(BaseException):
    """Why the code was stopped; not an Exception, so that a user's ``except Exception`` does not swallow it."""


class _BoundedOutput(io.TextIOBase):
    """Passes on what is printed, to standard error: the beginning of it, and up to a bound."""

    def __init__(self, target: TextIO) -> None:
        self.target, self.count = target, 0

    def write(self, text: str) -> int:
        room = SHOWN - self.count
        self.count += len(text)
        if room >= 0:
            self.target.write(
                text if len(text) <= room else f"{text[:room]}\n... the rest of its output is not shown\n"
            )
        if self.count > FLOOD:
            raise _StoppedError("it printed more than a million characters; print less")
        return len(text)

    def flush(self) -> None:
        self.target.flush()


@contextlib.contextmanager
def contain(name: str, *, limit: float | None, errors: bool = True) -> Iterator[None]:
    """Stop what runs inside after ``limit`` seconds, a million printed characters or ``os._exit``, with one sentence.

    What it prints goes to standard error: standard output is for the answer. ``errors=False`` counts only that, and
    not what goes to standard error by itself, as our own progress does. The clock needs the main thread of a POSIX
    system; elsewhere there is none.
    """
    out = _BoundedOutput(sys.stderr)
    both = contextlib.redirect_stderr(out) if errors else contextlib.nullcontext()
    try:
        with _alarm(limit), _refuse_exit(), contextlib.redirect_stdout(out), both:
            yield
    except _StoppedError as why:
        raise InputError(f"{name} was stopped: {why}.") from None


@contextlib.contextmanager
def _refuse_exit() -> Iterator[None]:
    """``os._exit`` would end us without a word, with the exit code of a model that passed."""
    leave, here = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:
            leave(status)  # a child that was forked ends as it should
        raise _StoppedError(f"it called os._exit({status}); return or raise instead")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


@contextlib.contextmanager
def _alarm(limit: float | None) -> Iterator[None]:
    if limit is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _StoppedError(
            f"it took more than {at_least(limit, 4)} s; end the loop, make it quicker, or give it more time with "
            "--limit SECONDS"
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
