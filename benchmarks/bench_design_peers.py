"""The solvers of the shortest query against SLSQP, trust-constr, and cvxpy with Clarabel, ECOS and SCS.

CPU time of one thread, the median of several runs, LIMIT such seconds a peer at most; other work may run beside it. A
ratio is the peer's time over that of our solver, which returns both bounds and no certificate: above 1 we are faster.
`error` is a peer's norm over the proved one, less 1; `violation` how far (in nats) its query is from meeting the
demand. Only keys that some query copies: the peers have no proof of "never". bench_design times the whole verb.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.bench_design import cases, centred, cpu_time, median_time, slsqp, start
from regard.design.shortest import log_sum_exp, shortest

LIMIT = 10  # CPU seconds a peer; one that runs out of them is not asked for anything larger
ENOUGH = 1.0  # seconds after which a peer's run is not repeated


def main() -> None:
    one_target()


def one_target() -> None:
    print("copy one key: ratio to each peer (its error / violation where it is not tiny)")
    print(f"{'case':38s} {'norm':>10s} {'solve ms':>9s}  peers")
    too_large: dict[str, int] = {}
    for name, keys, index, eps in sorted(cases(), key=lambda case: case[1].size):
        rows, unit = centred(keys, index)
        bound = float(np.log(eps))
        ours, found = median_time(partial(shortest, rows, bound))
        if not found.gap <= 1e-9:
            continue  # inside the hull
        print(f"{name:38s} {found.lower / unit:10.5g} {1e3 * ours:9.2f}", end="", flush=True)
        for peer, solve in PEERS.items():
            if rows.size >= too_large.get(peer, np.inf):
                print(f"  {peer} -", end="")
                continue
            text = outcome(solve, rows, bound, ours, found.lower)
            print(f"  {peer} {text}", end="", flush=True)
            if "no answer" in text:
                too_large[peer] = rows.size
        print()
    print("(-: left out, since the peer had no answer within the limit on a smaller case)")


def trust_constr(rows: np.ndarray, bound: float) -> np.ndarray:
    from scipy.optimize import NonlinearConstraint, minimize

    def hessian(query: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
        weights = log_sum_exp(rows @ query)[1]
        mean = weights @ rows
        return multiplier[0] * ((rows * weights[:, None]).T @ rows - np.outer(mean, mean))

    constraint = NonlinearConstraint(
        lambda q: log_sum_exp(rows @ q)[0], -np.inf, bound, jac=lambda q: log_sum_exp(rows @ q)[1] @ rows, hess=hessian
    )
    d = rows.shape[1]
    return minimize(
        lambda q: 0.5 * q @ q,
        start(rows, bound),
        jac=lambda q: q,
        hess=lambda q: np.eye(d),
        constraints=[constraint],
        method="trust-constr",
        options={"gtol": 1e-10, "xtol": 1e-12, "maxiter": 1000},
    ).x


def conic(solver: str) -> Callable[[np.ndarray, float], np.ndarray]:
    def solve(rows: np.ndarray, bound: float) -> np.ndarray:
        return clarabel_several(rows, np.zeros((1, rows.shape[1])), bound, solver=solver)

    return solve


def clarabel_several(points: np.ndarray, anchors: np.ndarray, bound: float, *, solver: str = "CLARABEL") -> np.ndarray:
    import cvxpy

    query = cvxpy.Variable(points.shape[1])
    demands = [cvxpy.log_sum_exp((points - anchor) @ query) <= bound for anchor in anchors]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(query)), demands).solve(solver=solver)
    if query.value is None:
        raise RuntimeError("no answer")
    return np.asarray(query.value)


PEERS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "SLSQP 1e-14": slsqp,
    "SLSQP 1e-10": partial(slsqp, ftol=1e-10),
    "trust-constr": trust_constr,
    "Clarabel": conic("CLARABEL"),
    "ECOS": conic("ECOS"),
    "SCS": conic("SCS"),
}


def outcome(
    solve: Callable[[np.ndarray, float], np.ndarray], rows: np.ndarray, bound: float, ours: float, norm: float
) -> str:
    """The ratio of CPU times, with the peer's error and violation where they matter, or why there is none."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=_in_child, args=(solve, rows, bound, sender))
    child.start()
    sender.close()  # so that the child's end is the last one, and its death is seen here
    try:
        result = receiver.recv()
    except EOFError:
        result = None
    child.join()
    if result is None:
        return f"> {LIMIT / ours:.0f}x (no answer in {LIMIT} s)"
    if isinstance(result, str):
        return f"failed ({result})"
    spent, query = result
    error = float(np.linalg.norm(query)) / norm - 1
    violation = log_sum_exp(rows @ query)[0] - bound
    flaws = f" ({error:+.0e} / {violation:+.0e})" if abs(error) > 1e-8 or violation > 1e-7 else ""
    return f"{spent / ours:.1f}x{flaws}"


def _in_child(solve: Any, rows: np.ndarray, bound: float, sender: Any) -> None:
    import warnings

    warnings.simplefilter("ignore")
    spent = int(time.process_time())  # a child by fork has spent nothing yet; elsewhere, what its imports took
    resource.setrlimit(resource.RLIMIT_CPU, (spent + LIMIT, spent + LIMIT))  # the system ends it there
    try:
        times = []
        while len(times) < 5 and sum(times) < ENOUGH:
            # under a limit Linux counts a process in ticks of 4 ms; a thread it counts as finely as ever
            spent, query = cpu_time(lambda: solve(rows, bound), time.thread_time)
            times.append(spent)
        sender.send((statistics.median(times), query))
    except Exception as error:  # a peer may fail in any way; the benchmark says that it did
        sender.send(type(error).__name__)


if __name__ == "__main__":
    main()
