"""The whole suite under every arithmetic kernel of this machine, in two random orders, and beside busy cores.

NumPy, OpenBLAS and torch choose other code on another CPU, and other code rounds differently. A test that hangs on that
is red on somebody's fresh machine. ``python -m tools.kernels [NAME ...]`` runs the passes below, or those named, and
prints one line for each; hours on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parent.parent
EVERYTHING_FASTER = "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
PASSES: dict[str, dict[str, str]] = {
    "plainest": {
        "ATEN_CPU_CAPABILITY": "default",
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": EVERYTHING_FASTER,
    },
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "OPENBLAS_CORETYPE": "SKYLAKEX"},
    "order-1": {"ORDER": "1"},
    "order-2": {"ORDER": "2"},
    "busy": {"BUSY": "1"},
}
BUSY_LOOP = "while True: sum(range(10**6))"


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - PASSES.keys())
    if unknown:
        sys.exit(f"There is no pass {unknown[0]!r}; there are: {', '.join(PASSES)}.")
    failures = [name for name in names or PASSES if not passes(name)]
    return len(failures)


def passes(name: str) -> bool:
    """Run one pass; True if every test passed, or the machine does not have it."""
    if name == "avx512" and "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"):
        print(f"{name}: this machine has no AVX-512, left out", flush=True)
        return True
    settings = dict(PASSES[name])
    order, busy = settings.pop("ORDER", None), settings.pop("BUSY", None)
    # pytest-randomly is installed for this alone: it would shuffle every other run too
    shuffle = ["-p", "randomly", f"--randomly-seed={order}"] if order else ["-p", "no:randomly"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with ExitStack() as stack:
        for _ in range((os.cpu_count() or 1) if busy else 0):
            stack.callback(subprocess.Popen([sys.executable, "-c", BUSY_LOOP]).kill)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-m", "not slow", *shuffle],
            cwd=ROOT, env={**os.environ, **threads, **settings}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    print(f"{name}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]}", flush=True)
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            print(f"  {line}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
