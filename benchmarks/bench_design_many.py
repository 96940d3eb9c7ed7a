"""Many targets on the same keys, asked together: against SLSQP and against our own solver, one by one.

CPU time of one thread. A ratio is the other's time over ours: above 1 we are faster.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.bench_design import cases, centred, cpu_time, slsqp, together
from regard.design.shortest import shortest

GOAL_TOGETHER = 64


def main() -> None:
    many_targets()
    together_or_apart()


def many_targets() -> None:
    print(f"copy {GOAL_TOGETHER} keys of one set, together, against SLSQP one by one")
    for name, keys, index, eps in cases():
        chosen = tuple((index + np.arange(GOAL_TOGETHER)) % len(keys))
        bound = float(np.log(eps))
        ours, answers = cpu_time(partial(together, keys, chosen, bound))
        solved = sum(answer is not None for answer in answers)
        few = chosen if len(keys) <= 2000 else chosen[:6]
        one_by_one = sum(cpu_time(partial(slsqp, centred(keys, j)[0], bound))[0] for j in few)
        peer = one_by_one * len(chosen) / len(few)
        note = "" if len(few) == len(chosen) else f" (SLSQP on {len(few)}, scaled)"
        print(f"{name:38s} {solved} certified, {ours:8.3f} s, ratio {peer / ours:6.1f}{note}", flush=True)


def together_or_apart() -> None:
    """Is solving many targets together worth its own solver? Against `shortest` for each, best of several runs."""
    print(f"\ncopy {GOAL_TOGETHER} keys of one set, together, against our own solver one by one")
    for name, keys, index, eps in cases():
        chosen = tuple((index + np.arange(GOAL_TOGETHER)) % len(keys))
        few = chosen if len(keys) <= 2000 else chosen[:4]
        bound, repeats = float(np.log(eps)), 3 if keys.size <= 1_000_000 else 1
        with_all = min(cpu_time(partial(together, keys, chosen, bound))[0] for _ in range(repeats))
        apart = min(cpu_time(partial(one_by_one, keys, few, bound))[0] for _ in range(repeats)) * len(chosen) / len(few)
        note = "" if len(few) == len(chosen) else f" (one by one on {len(few)}, scaled)"
        print(f"{name:38s} together {with_all:8.3f} s, ratio {apart / with_all:6.2f}{note}", flush=True)


def one_by_one(keys: np.ndarray, chosen: tuple[int, ...], bound: float) -> list[np.ndarray]:
    return [shortest(centred(keys, j)[0], bound).query for j in chosen]


if __name__ == "__main__":
    main()
