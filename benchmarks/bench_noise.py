"""The integrals against scrambled Sobol points (scipy) and vectorised Monte Carlo, at equal error.

The question: all first and second moments of one head's weights in the coursework's setting (spread 1/2, a = 0.01,
scale 20), n = 10 and 100 keys, error 1e-6 in the worst moment; the truth is the integral at its finest rule. Both peers
draw scores, not keys, and work on whole arrays. Sobol doubles its points until two seeds in a row reach 1e-6. Monte
Carlo cannot be run to 1e-6: it is measured at 1e-3 and extrapolated by its law, error ~ 1/sqrt(draws), i.e. x 1e6.
The last lines are of two heads that share their keys' noise, one key spread wide: the first answer with its interval,
and what `accuracy` then asks for. CPU time of this process on one thread. Run: python -m benchmarks noise
"""

from __future__ import annotations

# ruff: noqa: E402 (the threads must be counted before NumPy is imported)
import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import time

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from regard.noise import NoiseModel, Spread, gaussian_setting, one_head, score_laws, study, two_heads
from regard.noise.integrals import FINE, Rule, head_moments
from regard.noise.random_keys import integral_moments
from regard.noise.scores import Scores

WANTED = 1e-6
QUICK = Rule(step=0.46, cut=5.8, decay=20.0)  # what 1e-6 needs; the product uses FINE, for 1e-10
LARGEST = 2**21


def softmax_moments(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    e = np.exp(s - s.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e.mean(axis=0), e.T @ e / len(e)


def gaussians(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    means = np.array([law.means[0, 0] for law in scores.laws])[scores.which]
    return means, np.array([law.sd(0) for law in scores.laws])[scores.which]


def moments_at(scores: Scores, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means, sds = gaussians(scores)
    return softmax_moments(means + sds * normals)


def worst(a: tuple[np.ndarray, np.ndarray], mean: np.ndarray, second: np.ndarray) -> float:
    return float(max(np.abs(a[0] - mean).max(), np.abs(a[1] - second).max()))


def best_time(call: object, runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        call()  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    return best


def sobol_run(scores: Scores, log2: int, seed: int) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """CPU time and moments; in pieces of 2^16 points, so that memory does not decide."""
    start = time.process_time()
    sequence = Sobol(scores.keys, scramble=True, rng=np.random.default_rng(seed))
    piece = min(log2, 16)
    parts = [
        moments_at(scores, ndtri(np.clip(sequence.random(2**piece), 2.0**-54, 1 - 2.0**-53)))
        for _ in range(2 ** (log2 - piece))
    ]
    answer = tuple(sum(part[k] for part in parts) / len(parts) for k in (0, 1))
    return time.process_time() - start, answer  # type: ignore[return-value]


def sobol_to(scores: Scores, wanted: float, mean: np.ndarray, second: np.ndarray) -> tuple[float, float, int]:
    """Time at the first size where two seeds reach the wanted error; else at the largest size, with its error."""
    log2 = 10
    while True:
        runs = [sobol_run(scores, log2, seed) for seed in (1, 2)]
        error = max(worst(answer, mean, second) for _, answer in runs)
        if error <= wanted or 2**log2 >= LARGEST:
            return min(seconds for seconds, _ in runs), error, 2**log2
        log2 += 1


def monte_carlo(scores: Scores, mean: np.ndarray, second: np.ndarray) -> tuple[float, int]:
    """Time for a root-mean-square error of 1e-3 in the worst first or second moment."""
    truth = integral_moments(scores)
    scatter = float(truth.covariance.diagonal().max())
    draws = int(np.ceil(scatter / 1e-6))
    generator = np.random.default_rng(0)
    return best_time(lambda: moments_at(scores, generator.standard_normal((draws, scores.keys))), 3), draws


def main() -> None:
    for n in (10, 100):
        scores = score_laws(gaussian_setting(n), one_head(n, 20.0))
        truth = integral_moments(scores)
        quick = head_moments(scores, rule=QUICK)
        off = max(
            np.abs(quick.mean - head_moments(scores, rule=FINE).mean).max(),
            np.abs(quick.square - head_moments(scores, rule=FINE).square).max(),
        )
        exact = best_time(lambda scores=scores: head_moments(scores, rule=FINE), 20)
        rough = best_time(lambda scores=scores: head_moments(scores, rule=QUICK), 20)
        print(
            f"n = {n}: integral {1e3 * exact:.2f} ms, error bound {truth.accuracy:.0e}; "
            f"with a rule for 1e-6: {1e3 * rough:.2f} ms, error {off:.0e}"
        )
        seconds, error, points = sobol_to(scores, WANTED, truth.mean, truth.second)
        reached = f"error {error:.0e} in the worst of two seeds"
        print(
            f"  scipy Sobol, {points:,} points: {seconds:.3f} s, {reached}: ratio {seconds / exact:,.0f} x, "
            f"against the 1e-6 rule {seconds / rough:,.0f} x"
        )
        if error > WANTED:
            more = error / WANTED
            print(f"    (it stopped short of 1e-6; extrapolated by error ~ 1/points: {more * seconds / exact:,.0f} x)")
        seconds, draws = monte_carlo(scores, truth.mean, truth.second)
        print(
            f"  Monte Carlo to 1e-3, {draws:,} draws: {1e3 * seconds:.1f} ms; extrapolated to 1e-6: "
            f"ratio {1e6 * seconds / exact:,.0e} x"
        )
    pair = score_laws(gaussian_setting(10), two_heads(10, 20.0))
    seconds = best_time(lambda: integral_moments(pair), 10)
    print(f"two independent heads, n = 10: {1e3 * seconds:.2f} ms, error bound {integral_moments(pair).accuracy:.0e}")
    shared_noise()


def shared_noise() -> None:
    """Two heads whose cross terms need the double integral, in the whole of `study`."""
    for keys, dimensions in ((3, 3), (10, 3), (40, 2), (40, 3)):
        rng = np.random.default_rng(0)
        means, iso = rng.standard_normal((keys, dimensions)), float(rng.choice([0.01, 0.1, 0.5]))
        model = NoiseModel(means=means, isotropic=iso, spreads=[Spread(key=0, variance=0.5)])
        queries = rng.standard_normal((2, dimensions)) * float(rng.choice([3, 10, 20]))
        told = []
        for accuracy in (None, 1e-3):
            start = time.process_time()
            found = study(model, queries, accuracy=accuracy)
            spent = time.process_time() - start
            told.append(f"{spent:.2f} s, {found.error:.5f} +- {found.error_accuracy:.0e} by {found.method}")
        print(
            f"two heads that share noise, {keys} keys in {dimensions} dimensions: {told[0]}; asked for 1e-3: {told[1]}"
        )


if __name__ == "__main__":
    main()
