"""What takes longer than `make check` may: every kernel, a soak beside busy cores, and the nightly run.

``python -m tools.long_runs RUN [STEP ...]`` goes through the steps of a run, or those named, and prints a line a step.
A whole run is recorded in ``docs/results`` with the commit that it was run on, and goes on where it was stopped.

- ``kernels``: NumPy, OpenBLAS and torch choose other code on another CPU, and other code rounds differently. A test
  that hangs on that is red on somebody's fresh machine. Hours on two cores.
- ``soak``: the fast tier in five random orders beside six busy loops, then on one core, then what needs no torch on
  Python 3.13. A test that hangs on how fast or in which order things happen is red on somebody's busy machine.
- ``nightly``: what protects the maintainers rather than the users, or is a long table of models.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
FAST = ("-m", "not slow")
# What the long tables of models stand on: where none of it changed since the last nightly run, they need no new one.
HOME, TESTS = "packages/regard/src/regard", "packages/regard/tests"
MODELS = (
    "packages/regard-models",
    *(
        f"{HOME}/{name}"
        for name in ("attention.py", "layers.py", "mistakes", "tracing", "sandbox", "coursework/checker")
    ),
    f"{TESTS}/tiers.py",
)
# Where torch is missing, whatever needs it passes itself over; these have nothing else in them.
NEED_TORCH = ("packages/regard-models", f"{TESTS}/translator", f"{TESTS}/coursework/checker")
BUSY_LOOP = "while True: sum(range(10**6))"
ALL_PASSED, UNFINISHED, CHANGED = "all passed", "not finished", " with uncommitted changes"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of a run, and the machine it has to itself or not."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    busy: int = 0  # loops beside it
    cores: int = 0  # how many it may use; 0 for all


def pytest_step(
    *words: str, workers: str = "auto", order: int = 0, python: str = sys.executable, **how: object
) -> Step:
    """The tests. pytest-randomly is installed for this alone: it would shuffle every other run too."""
    shuffle = ("-p", "randomly", f"--randomly-seed={order}") if order else ("-p", "no:randomly")
    command = (python, "-m", "pytest", "-n", workers, "--dist", "worksteal", *shuffle, *words)
    return Step(command=command, **how)  # type: ignore[arg-type]


def soak() -> dict[str, Step]:
    """Six tests at a time beside six loops: twelve processes that want two cores."""
    orders = {f"order-{n}": pytest_step(*FAST, workers="6", order=n, busy=6) for n in range(1, 6)}
    without_torch = [word for room in NEED_TORCH for word in ("--ignore", room)]
    newer = str(ROOT / ".venv-3.13" / "bin" / "python")
    return {
        **orders,
        "one-core": pytest_step(*FAST, workers="2", order=6, cores=1),
        "python-3.13": pytest_step(*FAST, *without_torch, TESTS, workers="2", python=newer),
    }


def nightly() -> dict[str, Step]:
    coverage = ("--cov=regard", "--cov=regard_models", "--cov-report=term:skip-covered", "--cov-fail-under=90")
    return {
        "coverage": pytest_step(*FAST, *coverage),
        "tables": pytest_step("-m", "table"),
        "README lines, core install": pytest_step("-m", "nightly"),
        "plainest kernels": Step(command=("make", "plain")),
        "package": Step(command=("make", "package")),
    }


def kernels() -> dict[str, Step]:
    slowest = "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
    plainest = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": slowest}
    avx2 = {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"}
    avx512 = {"ATEN_CPU_CAPABILITY": "avx512", "OPENBLAS_CORETYPE": "SKYLAKEX"}
    has_avx512 = "avx512f" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    return {
        "plainest": pytest_step(*FAST, environment=plainest, order=1),
        "avx2": pytest_step(*FAST, environment=avx2, order=2),
        **({"avx512": pytest_step(*FAST, environment=avx512)} if has_avx512 else {}),
        "busy": pytest_step(*FAST, busy=os.cpu_count() or 1),
    }


RUNS = {"soak": soak, "nightly": nightly, "kernels": kernels}


def main(words: list[str]) -> int:
    if words == ["models-changed"]:
        return 0 if models_changed() else 1
    if not words or words[0] not in RUNS:
        sys.exit(f"Name a run: {', '.join(RUNS)}.")
    steps = RUNS[words[0]]()
    unknown = sorted(set(words[1:]) - steps.keys())
    if unknown:
        sys.exit(f"There is no step {unknown[0]!r}; there are: {', '.join(steps)}.")
    path, lines = RESULTS / f"{words[0]}.txt", [f"commit {commit()}"]
    before = passed_before(path, lines[0])
    for name in words[1:] or steps:
        for line in before.get(name) or run(name, steps[name]):
            print(line, flush=True)
            lines.append(line)
        if not words[1:]:
            path.write_text("\n".join([*lines, UNFINISHED]) + "\n", encoding="utf-8")
    failed = [line for line in lines if ": FAILED in " in line]
    lines.append(f"{len(failed)} failed" if failed else ALL_PASSED)
    print(lines[-1])
    if not words[1:]:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(failed)


def passed_before(path: Path, head: str) -> dict[str, list[str]]:
    """The steps of an interrupted run on this very commit that passed: they are not run again."""
    record = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if not record or record[0] != head or record[-1] != UNFINISHED or CHANGED in head:
        return {}
    return {line.partition(": ")[0]: [line] for line in record if ": passed in " in line}


def run(name: str, step: Step) -> Iterator[str]:
    """The closing line of a step with its time, and of each test that failed its name."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    pinned = ("taskset", "--cpu-list", f"0-{step.cores - 1}") if step.cores else ()
    begun = time.monotonic()
    with ExitStack() as stack:
        for _ in range(step.busy):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY_LOOP]))
            stack.callback(loop.kill)  # called before the loop is waited for
        done = subprocess.run(
            [*pinned, *step.command], cwd=ROOT, env={**os.environ, **threads, **step.environment}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    outcome = "passed" if done.returncode == 0 else "FAILED"
    yield f"{name}: {outcome} in {minutes} min {seconds} s: {said[-1].strip('= ') if said else 'nothing was said'}"
    yield from (f"  {line}" for line in said if line.startswith(("FAILED", "ERROR", "TOTAL")))


def commit() -> str:
    """The commit that is checked out, and whether files differ from it."""
    dirty = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "HEAD") + (CHANGED if dirty else "")


def models_changed() -> bool:
    """Whether the tables of models must be run: True unless the last nightly run passed on what is there now."""
    try:
        record = (RESULTS / "nightly.txt").read_text(encoding="utf-8")
        recorded = re.match(r"commit ([0-9a-f]{40})\n", record)
        if recorded is None or not record.endswith(f"{ALL_PASSED}\n"):
            return True
        return bool(git("diff", "--name-only", recorded[1], "--", *MODELS))
    except (OSError, subprocess.CalledProcessError):  # no record, or a clone without that commit
        return True


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
