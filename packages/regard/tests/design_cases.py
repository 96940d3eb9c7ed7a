"""Random small designs, nasty ones included, and what to ask of them: written down before the solvers were mended.

`case(seed)` is one question of one verb, the same on every machine (integers of NumPy's PCG64 decide everything that a
proof could hang on). Keys come in families: Gaussian, whole numbers, decimals, copies, points on a line, midpoints and
mixtures rounded to float64, hairs inside or outside a face, orthonormal, on a circle, all the same; at sizes from
1e-8 to 1e8, sometimes far from the origin. Demands run from 1e-12 to far above the number of keys, whole numbers
included (where suprema are approached and never reached); budgets from 1e-3 to 1e290 in units of the keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import design


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: the verb, the keys (n x d), and the keyword arguments it is asked with."""

    seed: int
    family: str
    verb: str
    keys: Any
    what: Any  # a key, several keys, or a target
    options: dict[str, Any]

    def ask(self):
        if self.verb == "winnable":
            return design.winnable(self.keys, jobs=1)
        return getattr(design, self.verb)(self.keys, self.what, **self.options)


def case(seed: int) -> Case:
    rng = np.random.default_rng([14, seed])
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    n, d = int(rng.integers(1, 10)), int(rng.integers(1, 6))
    keys = family(rng, n, d)
    keys = _placed(rng, keys)
    n = len(keys)
    verb = ("copy", "share", "match", "ceiling")[int(rng.integers(4))]
    allowed = None
    if n > 1 and rng.random() < 0.25:
        allowed = rng.random(n) < 0.75
        allowed[int(rng.integers(n))] = True
    rows = np.arange(n) if allowed is None else np.flatnonzero(allowed)
    options: dict[str, Any] = {} if allowed is None else {"allowed": allowed}
    if rng.random() < 0.25:
        options["scale"] = float(rng.choice([0.5, 1 / math.sqrt(keys.shape[1]), 10.0 ** rng.uniform(-3, 3)]))
    what = _what(rng, verb, rows, n, keys)
    _demand(rng, verb, rows, keys, options)
    return Case(seed=seed, family=family.__name__.strip("_"), verb=verb, keys=keys, what=what, options=options)


def extreme_case(seed: int) -> Case:
    """Finite, and nothing else: numbers from 1e-323 to 1e308 in keys, scales, demands, budgets and shares.

    One key, one dimension, copies, points on a line and masks are among them, as everywhere.
    """
    rng = np.random.default_rng([15, seed])
    family = EXTREMES[int(rng.integers(len(EXTREMES)))]
    n, d = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    keys = family(rng, n, d)
    n = len(keys)
    verb = ("copy", "share", "match", "ceiling", "copy_many", "winnable")[int(rng.integers(6))]
    options: dict[str, Any] = {}
    rows = np.arange(n)
    if verb != "winnable" and n > 1 and rng.random() < 0.3:
        options["allowed"] = rng.random(n) < 0.75
        options["allowed"][int(rng.integers(n))] = True
        rows = np.flatnonzero(options["allowed"])
    if verb != "winnable" and rng.random() < 0.4:
        options["scale"] = float(rng.choice([1e-320, 1e-300, 1e-150, 1e-20, 1e20, 1e150, 1e300]))
    like = {"copy_many": "share", "winnable": "copy"}.get(verb, verb)
    what = _what(rng, like, rows, n, np.zeros((n, 1)))
    if verb == "match" and rng.random() < 0.5:
        what[rows] += 10.0 ** rng.uniform(-323, -150, len(rows))
    if verb not in ("winnable", "ceiling"):
        name = {"match": "kl"}.get(verb, "eps") if verb == "copy_many" or rng.random() < 0.6 else "max_norm"
        options[name] = 10.0 ** (rng.uniform(-4, 1) if rng.random() < 0.5 else rng.uniform(-323, 300))
    return Case(seed=seed, family=family.__name__, verb=verb, keys=keys, what=what, options=options)


def _sized(rng, shape, low, high):
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(low, high, shape)


def tiny(rng, n, d):
    return _sized(rng, (n, d), -323, float(rng.choice([-300, -135])))


def huge(rng, n, d):
    return _sized(rng, (n, d), 120, float(rng.choice([139, 308])))


def of_every_size(rng, n, d):
    return _sized(rng, (n, d), -323, float(rng.choice([0, 139])))


def one_subnormal(rng, n, d):
    keys = rng.integers(-1, 2, (n, d)).astype(float)
    keys[int(rng.integers(n)), int(rng.integers(d))] = 10.0 ** rng.uniform(-323, -300)
    return keys


def of_two_sizes(rng, n, d):
    return rng.integers(-2, 3, (n, d)) * 10.0 ** rng.choice([-310.0, -160, -150, -120, 0, 130], (1, d))


def scaled_family(rng, n, d):
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    return family(rng, n, d) * 10.0 ** rng.uniform(-145, 145)


EXTREMES = (tiny, huge, of_every_size, one_subnormal, of_two_sizes, scaled_family)


def _what(rng, verb, rows, n, keys):
    if verb in ("copy", "ceiling"):
        return int(rng.choice(rows[-2:] if rng.random() < 0.5 else rows))  # the last keys are the planted ones
    if verb == "share":
        return sorted(int(i) for i in rng.choice(rows, size=int(rng.integers(1, min(len(rows), 4) + 1)), replace=False))
    target = np.zeros(n)
    kind = rng.integers(5)
    if kind == 0:
        target[int(rng.choice(rows))] = 1.0
    elif kind == 1:
        target[rows] = 1 / len(rows)
    elif kind == 2:
        some = rng.choice(rows, size=int(rng.integers(1, len(rows) + 1)), replace=False)
        target[some] = rng.dirichlet(np.ones(len(some)))
    elif kind == 3:  # weights that some query has
        scores = keys[rows] @ rng.standard_normal(keys.shape[1]) / max(np.abs(keys).max(), 1e-300)
        target[rows] = np.exp(scores - scores.max())
    else:
        target[rows] = rng.dirichlet(np.ones(len(rows)))
    return target / target.sum()


def _demand(rng, verb, rows, keys, options):
    size = float(np.linalg.norm(keys - keys[rows[0]], axis=1).max()) or 1.0
    if verb == "ceiling":
        return
    if rng.random() < 0.25:
        far = 10.0 ** rng.uniform(-3, 3) if rng.random() < 0.9 else float(rng.choice([1e12, 1e30, 1e150]))
        options["max_norm"] = far / size / options.get("scale", 1.0)
        return
    kind = rng.integers(4)
    value = 10.0 ** rng.uniform(-12, 0)
    if kind == 0:
        value = 10.0 ** rng.uniform(-2, 1.5)
    elif kind == 1 and verb != "match":
        value = float(rng.integers(1, len(rows) + 3))  # whole numbers: the suprema that are not attained
    elif kind == 2 and verb != "match":
        value = float(rng.integers(1, len(rows) + 3)) * (1 + float(rng.choice([-1, 1])) * 10.0 ** rng.uniform(-12, -2))
    options["kl" if verb == "match" else "eps"] = value


def _placed(rng, keys):
    """The same keys at another size, and sometimes far from the origin."""
    kind = rng.integers(6)
    if kind < 3:
        return keys
    if kind == 3:
        return keys * 10.0 ** rng.uniform(-8, 8)
    if kind == 4:
        return keys * 2.0 ** float(rng.integers(-26, 27))
    return keys + float(rng.choice([1.0, 1e3, 1e6])) * rng.integers(-1, 2, keys.shape[1])


def gaussian(rng, n, d):
    return rng.standard_normal((n, d))


def whole(rng, n, d):
    return rng.integers(-3, 4, (n, d)).astype(float)


def decimals(rng, n, d):
    return rng.integers(-9, 10, (n, d)) / 10


def copies(rng, n, d):
    few = rng.standard_normal((max(n // 2, 1), d))
    return few[rng.integers(0, len(few), n)]


def collinear(rng, n, d):
    step = rng.integers(1, 10, d) / 10
    return np.outer(rng.permutation(n).astype(float), step) + rng.integers(-9, 10, d) / 10


def midpoints(rng, n, d):
    keys = rng.standard_normal((max(n, 3), d))
    keys[-1] = (keys[0] + keys[1]) / 2
    return keys


def mixtures(rng, n, d):
    keys = rng.standard_normal((max(n, 4), d))
    few = int(rng.integers(2, len(keys)))
    keys[-1] = rng.dirichlet(np.ones(few)) @ keys[:few]
    return keys


def decimal_midpoints(rng, n, d):
    keys = rng.integers(-9, 10, (max(n, 3), d)) / 10
    keys[-1] = (keys[0] + keys[1]) / 2
    return keys


def hairs(rng, n, d):
    keys = np.concatenate([rng.integers(-3, 4, (max(n, 3), d)).astype(float), np.zeros((1, d))])
    keys[-1] = (keys[0] + keys[1]) / 2
    keys[-1, int(rng.integers(d))] += float(rng.choice([-1, 1])) * 10.0 ** -float(rng.integers(6, 17))
    return keys


def orthonormal(rng, n, d):
    return np.eye(n, max(n, d))


def circle(rng, n, d):
    angles = 2 * np.pi * np.arange(n) / n
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.concatenate([points, np.zeros((1, 2))]) if rng.random() < 0.5 else points


def same(rng, n, d):
    return np.tile(rng.standard_normal(d), (n, 1))


FAMILIES = (
    gaussian, whole, decimals, copies, collinear, midpoints, mixtures, decimal_midpoints, hairs, orthonormal, circle,
    same,
)  # fmt: skip
