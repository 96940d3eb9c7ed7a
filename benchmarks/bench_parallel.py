"""Training in two processes against one: target tokens per second by the clock, the same global batches.

The encoder-decoder of configs/good.toml, started as people start it (torchrun for two processes), the arms taking
turns; a process that has just started is not timed for its first steps. Validation and checkpoints, which one process
does alone, are not in the figures. The clock tells the truth on an idle machine only; so there is a second column,
target tokens per CPU-second of the busiest process, which bounds what two free cores can give.

The peer is the same loop in one process with one thread, and with the two threads that torch would use by itself. A
step has a part that does not shrink with the batch (the sum of the gradients over the processes, the optimiser), so
there are two sizes of the global batch, a small and a larger one. The optimiser is AdamW.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS, WARM, TOKENS = 3, 6, 75_000  # steps before the clock starts, and about as many tokens after
BATCHES = (1500, 4096)  # target tokens
DATA = Path(__file__).parents[2] / "shared" / "data" / "multi30k"
ARMS = {"1 process": (1, 1), "1 process, 2 threads": (1, 2), "2 processes": (2, 1)}


def main() -> None:
    for batch in BATCHES:
        compare(batch)


def compare(batch: int) -> None:
    """All arms with one size of the global batch."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    for _ in range(ROUNDS):
        for name, (processes, threads) in ARMS.items():
            found[name].append(launch(processes, threads, batch))
    first = found["1 process"][0]
    print(f"{first['pairs']:,} training pairs of {first['data']}, {batch:,} target tokens per batch; ", end="")
    print(f"{last_step(batch) - WARM} steps timed, median of {ROUNDS} rounds")
    print(f"{'':<22}{'tokens/s':>10}{'':>8}{'tokens/CPU-s':>14}")
    base = {key: median(found["1 process"], key) for key in ("clock", "busiest")}
    for name, runs in found.items():
        clock, busiest = median(runs, "clock"), median(runs, "busiest")
        ratios = clock / base["clock"], busiest / base["busiest"]
        print(f"{name:<22}{clock:>10,.0f}{ratios[0]:>7.2f}x{busiest:>14,.0f}{ratios[1]:>7.2f}x", flush=True)


def last_step(batch: int) -> int:
    return WARM + TOKENS // batch


def median(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.median(run["tokens"] / run[key] for run in runs)


def launch(processes: int, threads: int, batch: int) -> dict[str, Any]:
    """One arm, in processes of its own; what its first process measured."""
    words = [sys.executable, "-m"]
    if processes > 1:
        words += ["torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={free_port()}", "-m"]
    done = subprocess.run(
        [*words, "benchmarks.bench_parallel", str(threads), str(batch)],
        cwd=Path(__file__).parents[1], text=True, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Done(Exception):  # noqa: N818
    """Raised after the last timed step."""


def work(threads: int, batch: int) -> None:
    """What each process of an arm does."""
    import torch.distributed as dist

    from regard.translator.data.batches import epoch_plan
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import Epoch, Step, train
    from regard.translator.training.parallel import join_team
    from regard.translator.training.preparation import prepare

    where = str(DATA) if DATA.exists() else "builtin"
    changes = [f'data.path="{where}"', f"threads={threads}", f"batch_tokens={batch}", "save_every=100000"]
    settings = load_settings("good", changes=[*changes, "optimiser=adamw"])
    data, last = prepare(settings), last_step(batch)
    marks: list[tuple[float, float]] = []

    def watch(event: Step | Epoch) -> None:
        if event.step in (WARM, last):
            marks.append((time.perf_counter(), time.process_time()))
        if event.step == last:
            raise Done

    with join_team() as team, tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(Done):
            train(settings, Path(folder) / "run", prepared=data, watch=watch, team=team)
        clock, spent = (b - a for a, b in zip(*marks, strict=True))
        times = [0.0] * team.size
        if team.size > 1:
            dist.all_gather_object(times, spent)
    rows = epoch_plan(data.train, settings, 1)[WARM:last]
    if team.leads:
        tokens = sum(int(data.train.target_lengths[r].sum()) for r in rows)
        about = {"pairs": len(data.train), "data": Path(where).name}
        print(json.dumps(about | {"tokens": tokens, "clock": clock, "busiest": max(spent, *times)}))


if __name__ == "__main__":
    work(*map(int, sys.argv[1:])) if sys.argv[1:] else main()
