"""Many targets on the same keys, asked together: our solver and the whole verb, against SLSQP one by one.

CPU time of one thread, the least of several runs; other work may run beside it. The 64 keys are drawn at random, and a
third of them are planted inside the hull of the others. "solver" solves those that some query copies and certifies
nothing; "verb" is the whole of `copy_many` on the same keys, which certifies every answer. The rest, planted or inside
by chance, is asked apart: there the verb proves "never", for which no other solver here has an answer. SLSQP
certifies nothing, at ftol 1e-14 and at 1e-10, the accuracy that our solver aims at. A ratio is SLSQP's time over ours:
above 1 we are faster.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.bench_design import cases, centred, cpu_time, plant_inside, slsqp, together
from regard import design
from regard.design.shortest import shortest

TARGETS = 64
FEW = 6  # targets that SLSQP gets one by one where the keys are many: the rest is scaled
MOST = 4_000_000  # numbers in the keys: beyond this a proof of 21 times "never" takes minutes


def main() -> None:
    many_targets()
    together_or_apart()


def questions() -> list[tuple[str, np.ndarray, np.ndarray, np.ndarray, float]]:
    """Name, keys, the targets that some query copies, those that none does, eps."""
    asked = []
    for name, keys, _, eps in cases():
        if "inside" in name or keys.size > MOST:
            continue
        rng, keys = np.random.default_rng(keys.size), keys.copy()
        chosen = rng.choice(len(keys), TARGETS, replace=False)
        inside = chosen[: TARGETS // 3]
        plant_inside(keys, inside.tolist(), rng)
        found = design.copy_many(keys, chosen[TARGETS // 3 :].tolist(), eps=eps)
        inside = np.append(inside, [answer.chosen[0] for answer in found if not answer.reachable]).astype(np.intp)
        asked.append((name, keys, np.setdiff1d(chosen, inside), inside, eps))
    return asked


def many_targets() -> None:
    print(f"copy {TARGETS} keys of one set, a third of them planted inside the hull, together; SLSQP one by one")
    print("won: our bare solver (nothing certified), the whole verb (all certified), SLSQP's time over each of them")
    print(
        f"{'case':30s} {'solver s':>9s} {'verb s':>8s} {'verb/solver':>11s}"
        f" {'at 1e-14':>13s} {'at 1e-10':>13s}  the rest"
    )
    for name, keys, outside, inside, eps in questions():
        bound = float(np.log(eps))
        repeats = range(7 if keys.size <= 200_000 else 3)
        bare = min(cpu_time(partial(together, keys, tuple(outside), bound))[0] for _ in repeats)
        verb = min(cpu_time(partial(design.copy_many, keys, outside.tolist(), eps=eps))[0] for _ in repeats)
        few = outside if len(keys) <= 2000 else outside[:FEW]
        line = f"{name:30s} {bare:9.3f} {verb:8.3f} {verb / bare:11.2f}"
        for ftol in (1e-14, 1e-10):
            peer = sum(cpu_time(partial(slsqp, centred(keys, j)[0], bound, ftol=ftol))[0] for j in few)
            peer *= len(outside) / len(few)
            line += f" {peer / bare:6.1f}x{peer / verb:5.1f}x"
        never, nevers = cpu_time(partial(design.copy_many, keys, inside.tolist(), eps=eps))
        refuted = sum(not answer.reachable for answer in nevers)
        note = "" if len(few) == len(outside) else f" (SLSQP on {len(few)}, scaled)"
        print(f"{line}  {refuted} of {len(inside)} proved never, {never:.3f} s; {len(outside)} won{note}", flush=True)


def together_or_apart() -> None:
    """Is solving many targets together worth its own solver? Against `shortest` for each, best of several runs."""
    print("\nthe same keys that are won, bare solver: together, against our own solver one by one")
    for name, keys, outside, _, eps in questions():
        few = outside if len(keys) <= 2000 else outside[:4]
        bound, repeats = float(np.log(eps)), 3 if keys.size <= 1_000_000 else 1
        with_all = min(cpu_time(partial(together, keys, tuple(outside), bound))[0] for _ in range(repeats))
        apart = (
            min(cpu_time(partial(one_by_one, keys, few, bound))[0] for _ in range(repeats)) * len(outside) / len(few)
        )
        note = "" if len(few) == len(outside) else f" (one by one on {len(few)}, scaled)"
        print(f"{name:38s} together {with_all:8.3f} s, ratio {apart / with_all:6.2f}{note}", flush=True)


def one_by_one(keys: np.ndarray, chosen: np.ndarray, bound: float) -> list[np.ndarray]:
    return [shortest(centred(keys, j)[0], bound).query for j in chosen]


if __name__ == "__main__":
    main()
