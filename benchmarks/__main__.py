"""Run benchmarks: ``python -m benchmarks [NAME ...]``; with --write, each one's output goes to docs/results/ too,
from which docs/benchmarks.md is made. A benchmark that cannot run here says "left out" and leaves the old results."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(words: list[str]) -> None:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    write = "--write" in words
    chosen = [word for word in words if not word.startswith("-")] or known
    for name in chosen:
        if name not in known:
            sys.exit(f"There is no benchmark {name!r}; there are: {', '.join(known)}.")
        print(f"== {name}", flush=True)
        module = importlib.import_module(f"benchmarks.bench_{name}")
        output, before = _Both(sys.stdout), os.getloadavg()[0]
        with contextlib.redirect_stdout(output):  # type: ignore[type-var]
            module.main()
        if write and not output.kept.getvalue().startswith("left out"):
            results = HERE.parent / "docs" / "results"
            results.mkdir(parents=True, exist_ok=True)
            text = output.kept.getvalue() + _company(before)
            (results / f"bench-{name}.txt").write_text(text, encoding="utf-8")


def _company(before: float) -> str:
    """What else ran: a load above 1 is other work on the machine."""
    loads = f"{before:.0f} before and {os.getloadavg()[0]:.0f} after, on {os.cpu_count()} cores"
    beside = "other work ran beside it" if before > 1.5 else "nothing else of weight ran"
    return f"({beside}: load {loads})\n"


class _Both:
    """Standard output, and a copy of it."""

    def __init__(self, screen: io.TextIOBase) -> None:
        self.screen, self.kept = screen, io.StringIO()

    def write(self, text: str) -> int:
        self.screen.write(text)
        return self.kept.write(text)

    def flush(self) -> None:
        self.screen.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
