"""Do the tests of the proofs notice a wrong proof? ``python -m benchmarks.mutants [ROOM ...] [--share S] [--write]``.

Each mutant (see :mod:`benchmarks.mutations`) of the modules that proofs stand on is imported in a process of its own,
and the tests that run its lines are run until one fails. Which tests those are is measured first, with coverage.
A mutant that no test notices has survived: either a test is missing, or the change makes no difference to any answer,
which benchmarks/mutants.toml then explains. Outcomes are kept in .mutants/ as they come; the same command goes on where
it stopped, and asks again only where the module or, for survivors, the tests have changed. --share takes that share of
the mutants, always the same ones; --write puts the table into docs/results/mutants.txt.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import resource
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".mutants"
EXPLAINED = Path(__file__).with_suffix(".toml")
RESULTS = ROOT / "docs" / "results" / "mutants.txt"
RIGOR = ("packages/regard/tests/rigor",)
CERTIFICATES = tuple(f"packages/regard/tests/design/test_certificate{part}.py" for part in ("", "_edges", "_reading"))
ROOMS = {  # module -> its tests, besides its own doctests
    "regard.rigor.floats": RIGOR,
    "regard.rigor.comparisons": RIGOR,
    "regard.rigor.combinations": RIGOR,
    "regard.rigor.exact": (*RIGOR, "packages/regard/tests/subspace"),
    "regard.rigor.balls": RIGOR,
    "regard.rigor.matrices": (*RIGOR, "packages/regard/tests/lowrank/test_spectrum.py"),
    "regard.design.certificate": CERTIFICATES,
    "regard.design.evaluate": (
        "packages/regard/tests/design/test_evaluate.py",
        "packages/regard/tests/design/test_certificate_problem.py",
    ),
    "regard.design.verification": (
        "packages/regard/tests/design/test_verification.py",
        "packages/regard/tests/design/test_certificate_edges.py",
    ),
    "regard.design.combination_check": ("packages/regard/tests/design/test_combination_check.py",),
    "regard.design.winnable_check": (
        "packages/regard/tests/design/test_winnable.py",
        "packages/regard/tests/design/test_winnable_check.py",
    ),
    "regard.lowrank.certificate": (
        "packages/regard/tests/lowrank/test_certificate.py",
        "packages/regard/tests/lowrank/test_spectrum.py",
    ),
    "regard.noise.integrals": (
        "packages/regard/tests/noise/test_integral_bounds.py",
        "packages/regard/tests/noise/test_integrals.py",
    ),
    "regard.subspace.recheck": ("packages/regard/tests/subspace",),
    "regard.coursework.query_questions": (
        "packages/regard/tests/coursework/test_query_questions.py",
    ),  # the claims' enclosures
}
QUIET = ("-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no",
         "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
DOCTEST = "the module's own examples"
HUGE = 8 << 30  # bytes a mutant may take


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a mutant: "killed" (and by which test), "endless" (it ran out of time), or "survived"."""

    mutant: str
    outcome: str
    by: str = ""

    @property
    def survived(self) -> bool:
        return self.outcome == "survived"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="modules, e.g. rigor.floats; all of them if left out")
    parser.add_argument("--share", type=float, default=1.0, help="the share of mutants to try, from 0 to 1")
    parser.add_argument("--write", action="store_true", help="write the table to docs/results/mutants.txt")
    asked = parser.parse_args(words)
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a second per mutant otherwise
    chosen = [f"regard.{room.removeprefix('regard.')}" for room in asked.rooms] or list(ROOMS)
    if unknown := set(chosen) - set(ROOMS):
        sys.exit(f"There is no room {', '.join(unknown)}; there are: {', '.join(ROOMS)}.")
    _preload()
    for room in chosen:
        _try_all(room, asked.share)
    text = table()
    print(text, end="")
    if asked.write:
        RESULTS.write_text(text, encoding="utf-8")


def _preload() -> None:
    """Import what every child needs and no mutant touches, once."""
    for name in ("numpy", "scipy.linalg", "scipy.special", "flint", "hypothesis.extra.numpy", "pytest", "coverage"):
        importlib.import_module(name)
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)  # a failure is enough: nobody reads a smaller one
    settings.register_profile("mutants", derandomize=True, database=None, phases=phases)  # the same for every mutant
    settings.load_profile("mutants")


# one room


def _try_all(room: str, share: float) -> None:
    path = _source(room)
    made = [mutant for mutant in mutants(path.read_text(encoding="utf-8")) if _drawn(room, mutant.name, share)]
    known, tests = _known(room), _tests_of(room)
    todo = [mutant for mutant in made if mutant.name not in known]
    if not todo:
        return
    why, before = _explained(), _known(room, stale=True)
    # what nobody has explained yet comes first, and what was never tried before what survived earlier tests
    todo.sort(key=lambda mutant: ((room, mutant.name) in why, mutant.name in before))
    covering, seconds = _covering(room, tests)
    started = time.monotonic()
    for count, mutant in enumerate(todo, 1):
        which = _tests_on(mutant, covering, seconds)
        outcome = _outcome(room, path, mutant, which, 10 + 3 * sum(seconds[test] for test in which))
        _keep(room, outcome)
        if outcome.survived or count % 25 == 0:
            left = (time.monotonic() - started) / count * (len(todo) - count)
            note = f"  survived: {mutant.name} (line {mutant.lines.start})" if outcome.survived else ""
            print(f"{room}: {count} of {len(todo)}, about {left:.0f} s left{note}", file=sys.stderr, flush=True)


def _tests_on(mutant: Mutant, covering: dict[int, set[str]], seconds: dict[str, float]) -> list[str]:
    """The tests that run the mutant's lines, quick ones first; all of them for what runs at import."""
    on: set[str] = set().union(*(covering.get(line, set()) for line in mutant.lines))
    return sorted(seconds if "" in on else on & seconds.keys(), key=lambda test: (seconds[test], test))


def _covering(room: str, tests: tuple[str, ...]) -> tuple[dict[int, set[str]], dict[str, float]]:
    """Which tests run each line of a module ("" is the import), and how long each test takes."""
    kept = STATE / f"{room}.coverage.json"
    mark = _hash(room, tests)
    if kept.exists() and (stored := json.loads(kept.read_text("utf-8")))["mark"] == mark:
        return {int(line): set(names) for line, names in stored["lines"].items()}, stored["seconds"]
    with _child(lambda: _measure(room, tests)) as said:
        lines, seconds = said
    STATE.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"mark": mark, "lines": lines, "seconds": seconds}), encoding="utf-8")
    return {int(line): set(names) for line, names in lines.items()}, seconds


def _measure(room: str, tests: tuple[str, ...]) -> tuple[dict[int, list[str]], dict[str, float]]:
    import coverage
    import pytest

    path = str(_source(room))
    cover = coverage.Coverage(data_file=None, include=[path], config_file=False)
    seconds: dict[str, float] = {}  # of CPU time, as the limit is: by the clock a busy machine would stretch it

    class Watch:
        began = 0.0

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            cover.switch_context(nodeid)
            self.began = time.process_time()

        def pytest_runtest_logreport(self, report: Any) -> None:
            seconds[report.nodeid] = time.process_time() - self.began
            if report.failed:
                raise SystemExit(f"{report.nodeid} fails without any mutant")

    cover.start()
    code = pytest.main([*QUIET, *tests], plugins=[Watch()])
    cover.switch_context(DOCTEST)
    began = time.process_time()
    if _doctests_fail(room):
        raise SystemExit(f"the examples of {room} fail without any mutant")
    seconds[DOCTEST] = time.process_time() - began
    cover.stop()
    if code:
        raise SystemExit(f"the tests of {room} do not pass: pytest ended with {code}")
    by_line = cover.get_data().contexts_by_lineno(path)
    return {line: sorted(set(names)) for line, names in by_line.items()}, seconds


def _outcome(room: str, path: Path, mutant: Mutant, tests: list[str], limit: float) -> Outcome:
    if not tests:
        return Outcome(mutant=mutant.name, outcome="survived", by="no test runs this line")
    try:
        with _child(lambda: _killer(room, path, mutant.program(), tests), limit=limit) as killer:
            return Outcome(mutant=mutant.name, outcome="killed" if killer else "survived", by=killer)
    except ChildProcessError:  # out of time or memory, or it crashed the interpreter
        return Outcome(mutant=mutant.name, outcome="endless")


def _killer(room: str, path: Path, tree: ast.Module, tests: list[str]) -> str:
    """The first test that fails with the mutant in the module's place; "" if none does."""
    import pytest

    sys.meta_path.insert(0, _Finder(room, path, tree))
    failed: list[str] = []

    class Watch:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid)

    try:
        if DOCTEST in tests and _doctests_fail(room):
            return f"{room}, its examples"
        importlib.import_module(room)
        for some in _in_turn(room, tests):
            code = pytest.main([*QUIET, *some], plugins=[Watch()])
            if code == pytest.ExitCode.USAGE_ERROR:  # tests whose names hold a constant that the mutant changed
                code = pytest.main([*QUIET, *sorted({test.partition("::")[0] for test in some})], plugins=[Watch()])
            if failed or code:
                return failed[0] if failed else f"pytest ended with {int(code)}"
    except BaseException as error:  # a mutant that cannot be imported is noticed at once
        return f"import: {type(error).__name__}"
    return ""


def _in_turn(room: str, tests: list[str]) -> list[list[str]]:
    """The tests by the entries of the room's list: most mutants die before the slower files are even read."""
    entries = [[test for test in tests if test.startswith(entry)] for entry in _tests_of(room)]
    return [entry for entry in entries if entry]


def _doctests_fail(room: str) -> bool:
    """The module's own examples, in this process's module: pytest would import the file once more, without mutant."""
    return doctest.testmod(importlib.import_module(room)).failed > 0


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and loads the mutant in its place."""

    def __init__(self, room: str, path: Path, tree: ast.Module) -> None:
        self.room, self.path, self.tree = room, path, tree

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.room:
            return None
        tree = self.tree

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return compile(tree, self.path, "exec", dont_inherit=True)

        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=Loader(fullname, os.fspath(self.path))
        )


@contextlib.contextmanager
def _child(work: Any, *, limit: float = 3600) -> Iterator[Any]:
    """What ``work`` returns in a forked process with its own limits of CPU time and memory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (HUGE, HUGE))
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            sys.stdout = sys.stderr = io.StringIO()
            with os.fdopen(write, "w", encoding="utf-8") as stream:
                try:
                    json.dump(work(), stream)
                    code = 0
                except SystemExit as reason:
                    stream.write(str(reason))
        finally:
            os._exit(code)  # no cleaning up: that is the parent's
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise ChildProcessError(said or f"the child ended with {status}")
    yield json.loads(said)


# what is kept


def _known(room: str, *, stale: bool = False) -> dict[str, Outcome]:
    """Outcomes of an earlier run that still stand: of this text of the module and, for survivors, of these tests.

    stale: survivors of earlier tests too, which may be dead by now: a table that left them out would flatter.
    """
    file, source, mark = STATE / f"{room}.jsonl", _hash(room, ()), _hash(room, _tests_of(room))
    if not file.exists():
        return {}
    known = {}
    for line in file.read_text("utf-8").splitlines():
        entry = json.loads(line)
        outcome = Outcome(**entry["outcome"])
        if entry["source"] == source and (stale or not outcome.survived or entry["tests"] == mark):
            known[outcome.mutant] = outcome
    return known


def _keep(room: str, outcome: Outcome) -> None:
    STATE.mkdir(exist_ok=True)
    entry = {"source": _hash(room, ()), "tests": _hash(room, _tests_of(room)), "outcome": vars(outcome)}
    with open(STATE / f"{room}.jsonl", "a", encoding="utf-8") as stream:
        stream.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _source(room: str) -> Path:
    return ROOT / "packages" / "regard" / "src" / Path(*room.split(".")).with_suffix(".py")


def _tests_of(room: str) -> tuple[str, ...]:
    return tuple(test for test in ROOMS[room] if (ROOT / test).exists())


def _hash(room: str, tests: Iterable[str]) -> str:
    """Of a module's program, not of its comments and blank lines, and of its tests."""
    digest = hashlib.sha256(ast.dump(ast.parse(_source(room).read_bytes())).encode())
    for test in tests:
        path = ROOT / test
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _drawn(room: str, name: str, share: float) -> bool:
    return int.from_bytes(hashlib.sha256(f"{room} {name}".encode()).digest()[:4]) < share * 2**32


# the table


def table() -> str:
    """The count of every room, and each survivor with its explanation."""
    why = _explained()
    lines = [f"{'module':32s} {'mutants':>8s} {'tried':>6s} {'killed':>7s} {'explained':>10s} {'open':>5s}"]
    survivors, totals = [], [0] * 5
    for room in ROOMS:
        made = mutants(_source(room).read_text(encoding="utf-8"))
        known = _known(room, stale=True)
        tried = [known[m.name] for m in made if m.name in known]
        alive = [outcome for outcome in tried if outcome.survived]
        told = [outcome for outcome in alive if (room, outcome.mutant) in why]
        row = [len(made), len(tried), len(tried) - len(alive), len(told), len(alive) - len(told)]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        lines.append(_row(room, row))
        survivors += [f"{room}\n  {one.mutant}\n  {why.get((room, one.mutant), 'OPEN')}" for one in alive]
    lines.append(_row("all", totals))
    tried_all = totals[1] == totals[0]
    part = "" if tried_all else f" So far {totals[1]:,} of {totals[0]:,} were tried: a sample."
    head = f"Mutants of the modules that proofs stand on: killed by a test, or explained.{part}"
    return "\n".join([head, "", *lines, "", "Survivors:", "", *survivors]) + "\n"


def _row(name: str, numbers: list[int]) -> str:
    made, tried, killed, explained, alive = numbers
    return f"{name:32s} {made:8d} {tried:6d} {killed:7d} {explained:10d} {alive:5d}"


def _explained() -> dict[tuple[str, str], str]:
    """Why a survivor makes no difference, by room and mutant."""
    if not EXPLAINED.exists():
        return {}
    with open(EXPLAINED, "rb") as stream:
        told = tomllib.load(stream).get("explained", [])
    return {(one["room"], mutant): one["why"] for one in told for mutant in one["mutants"]}


if __name__ == "__main__":
    main()
