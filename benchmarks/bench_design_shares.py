"""The solvers of share and match against cvxpy with Clarabel: CPU time of one thread, the peer's over ours."""

from __future__ import annotations

import numpy as np

from benchmarks.bench_design import median_time
from benchmarks.bench_design_peers import PEERS, clarabel_several, outcome
from regard.design import minimax
from regard.design.minimax import shortest_even
from regard.design.shortest import shortest


def main() -> None:
    shares_and_matches()


def shares_and_matches() -> None:
    print("share and match against cvxpy with Clarabel")
    rng = np.random.default_rng(5)
    for n, d in ((100, 16), (1000, 64), (3000, 64)):
        keys = rng.standard_normal((n, d))
        origin = keys[:3].mean(axis=0)
        points = keys - origin
        limit = float(np.log(3 + 0.01))
        ours, found = median_time(lambda p=points: shortest_even(p, np.arange(3), 0.01))
        text = outcome(lambda p, b: clarabel_several(p, p[:3], b), points, limit, ours, found.lower)
        print(f"share 3 of gaussian {n}x{d}, eps 0.01: {1e3 * ours:.1f} ms, Clarabel {text}", flush=True)
        target = rng.dirichlet(np.full(n, 0.5))
        rows = keys - target @ keys
        entropy = float(-(target[target > 0] @ np.log(target[target > 0])))
        least = minimax.strongest(rows, np.zeros((1, d)), np.zeros(1), 1e8).upper
        bound = 0.5 * (float(np.log(n)) + least)  # half-way between what q = 0 gives and the best there is
        ours, single = median_time(lambda r=rows, b=bound: shortest(r, b))
        text = outcome(PEERS["Clarabel"], rows, bound, ours, single.lower)
        kl = bound - entropy
        print(f"match on gaussian {n}x{d}, KL {kl:.3g}: {1e3 * ours:.1f} ms, Clarabel {text}", flush=True)


if __name__ == "__main__":
    main()
