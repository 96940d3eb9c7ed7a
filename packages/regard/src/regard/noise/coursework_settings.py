"""The coursework's settings of random keys in closed form: models, designed queries, and what they do.

Keys are counted from 0: key 0 is the coursework's a (or 1), key 1 its b (or 2).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from regard.array_types import Real
from regard.errors import InputError
from regard.noise.model import Magnitude, NoiseModel, Spread


def gaussian_setting(keys: int, *, spread: float = 0.5, iso: float = 0.01) -> NoiseModel:
    """k_i ~ N(mu_i, a I) with orthonormal means, and Sigma_0 = a I + spread mu_0 mu_0^T.

    >>> gaussian_setting(3).covariance(0).diagonal().tolist()
    [0.51, 0.01, 0.01]
    """
    _check_keys(keys)
    return NoiseModel(means=np.eye(keys), isotropic=iso, spreads=[Spread(key=0, variance=spread)])


def two_point_setting(keys: int) -> NoiseModel:
    """Orthonormal keys, the first one with its length 1/2 or 3/2, each with probability 1/2."""
    _check_keys(keys)
    return NoiseModel(means=np.eye(keys), magnitudes=[Magnitude(key=0)])


def one_head(keys: int, scale: float) -> Real:
    """q = scale (mu_0 + mu_1), of norm scale sqrt 2.

    >>> one_head(3, 2.0).tolist()
    [[2.0, 2.0, 0.0]]
    """
    _check_keys(keys)
    q = np.zeros((1, keys))
    q[0, :2] = scale
    return q


def two_heads(keys: int, scale: float) -> Real:
    """q_1 = scale mu_0 and q_2 = scale mu_1.

    >>> two_heads(3, 2.0).tolist()
    [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    """
    _check_keys(keys)
    return scale * np.eye(2, keys)


def two_point_one_head(keys: int, eps: float) -> tuple[Real, Real]:
    """Weights of one head q = ln(n/eps)(u + k_2) for c = 1/2 and for c = 3/2; rows are n weights each.

    With x = n/eps the numerators are x^c for key 0, x for key 1 and 1 for the others.

    >>> low, high = two_point_one_head(4, 0.04)
    >>> (low * 112).round(9).tolist()  # x = 100
    [10.0, 100.0, 1.0, 1.0]
    """
    x = _ratio(keys, eps)
    rows = []
    for c in (0.5, 1.5):
        numerators = np.ones(keys)
        numerators[:2] = x**c, x
        rows.append(numerators / numerators.sum())
    return rows[0], rows[1]


def two_point_first_head(keys: int, eps: float) -> tuple[float, float]:
    """The weight of key 0 in head q_1 = ln(n/eps) u for c = 1/2 and c = 3/2: x^c / (x^c + n - 1), x = n/eps.

    For c = 1/2 it is 1/(1 + (n-1) sqrt(eps/n)): it needs eps << 1/n, not just a small eps.

    >>> [round(w, 6) for w in two_point_first_head(100, 1.0)]
    [0.091743, 0.909918]
    """
    x = _ratio(keys, eps)
    return x**0.5 / (x**0.5 + keys - 1), x**1.5 / (x**1.5 + keys - 1)


def eps_for_first_head(keys: int, delta: float) -> float:
    """The largest eps at which head 1 leaves at most delta of its weight to other keys for both lengths.

    1 - alpha_1 = (n-1)/(sqrt(n/eps) + n - 1) <= delta exactly when eps <= n (delta / ((1-delta)(n-1)))^2.

    >>> eps = eps_for_first_head(10, 0.01)
    >>> round(1 - two_point_first_head(10, eps)[0], 12)
    0.01
    """
    _check_keys(keys)
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not {delta:g}.")
    return keys * (delta / ((1 - delta) * (keys - 1))) ** 2


def negative_score(iso: float, spread: float) -> float:
    """P(k_0 . mu_0 < 0) = Phi(-1 / sqrt(iso + spread)), whatever the scale of the query.

    >>> round(negative_score(0.0, 0.5), 6), round(negative_score(0.01, 0.5), 6)
    (0.07865, 0.080715)
    """
    if iso + spread == 0:
        return 0.0
    return 0.5 * math.erfc(1 / math.sqrt(2 * (iso + spread)))


def small_noise_bound(keys: int, *, iso: float, scale: float) -> float:
    """An upper bound on E||c - (v_0 + v_1)/2||^2 for q = T (mu_0 + mu_1), noise a I, orthonormal values.

    (sqrt(a T^2 / 2) + 2 sqrt(((n-2)/2) e^{-T + 3aT^2/2}))^2: it vanishes when T - ln n grows while a T^2 -> 0.
    With D = s_0 - s_1 ~ N(0, 4aT^2), |sigmoid(D) - 1/2| <= |D|/4 gives the first part; the others' weight is at most
    (1/2) sum_l e^{s_l - (s_0 + s_1)/2} by the inequality of means, whose expectation is the second.

    >>> round(small_noise_bound(2, iso=1e-6, scale=20.0), 12)
    0.0002
    """
    _check_keys(keys)
    # E (D/4)^2 in both coordinates: 2 * 4 a T^2 / 16
    swing = iso * scale**2 / 2
    # 700: e^709 overflows, and the bound says nothing long before
    others = (keys - 2) / 2 * math.exp(min(-scale + 1.5 * iso * scale**2, 700.0))
    return (math.sqrt(swing) + 2 * math.sqrt(min(others, 1.0))) ** 2


def two_heads_bound(keys: int, *, iso: float, scale: float) -> float:
    """An upper bound on E||(c_1 + c_2)/2 - (v_0 + v_1)/2||^2 for q_1 = T mu_0, q_2 = T mu_1, noise a I.

    2 (n-1) E min(1, e^D) with D = s_l - s_0 ~ N(-T, 2aT^2), since 1 - alpha <= sum_l min(1, e^{s_l - s_0}) and
    ||c_1 - v_0||^2 <= 2 (1 - alpha)^2. As T grows it tends to 2 (n-1) Phi(-1/sqrt(2a)): small a is enough at every
    scale, where one head needs a << 1/T^2.

    >>> two_heads_bound(10, iso=0.01, scale=20.0) < 1e-5
    True
    """
    _check_keys(keys)
    mean, variance = -scale, 2 * iso * scale**2
    if variance == 0:
        return 2 * (keys - 1) * math.exp(mean)
    sd = math.sqrt(variance)
    # E[e^D; D < 0] of a Gaussian, as one exponent: e^{variance/2} alone overflows for large scales
    below = math.exp(mean + variance / 2 + float(log_ndtr(-(mean + variance) / sd)))
    return 2 * (keys - 1) * (math.exp(log_ndtr(mean / sd)) + below)


def swing_limit() -> float:
    """E||c - target||^2 of one head as its scale grows with a T^2 -> 0: it sits at v_0 or v_1, 1/2 away in square."""
    return 0.5


def steady_limit(keys: int, *, spread: float = 0.5, resolved: bool = True) -> float:
    """E||c - target||^2 of two heads as the scale T grows and a -> 0: what the negative draws cost.

    On k_0 . mu_0 < 0, of probability p = Phi(-1/sqrt(spread)), head 1 leaves v_0: for one other value where the noise
    still separates the others' scores (sqrt(a) T -> inf, ``resolved``), else for their mean. So p/2 or p n / (4 (n-1)).

    >>> round(steady_limit(10), 6), round(steady_limit(10, resolved=False), 6)
    (0.039325, 0.021847)
    """
    _check_keys(keys)
    p = negative_score(0.0, spread)
    return p / 2 if resolved else p * keys / (4 * (keys - 1))


def swing_is_bimodal(iso: float, spread: float, scale: float) -> bool:
    """Whether the weight of key 0 against key 1 alone has two peaks: the logit-normal law does where its variance > 2.

    The logit s_0 - s_1 ~ N(0, T^2 (spread + 4 iso)). With spread 1/2 and iso 0 that is T > 2: below, nothing swings.

    >>> swing_is_bimodal(0.0, 0.5, 1.9), swing_is_bimodal(0.0, 0.5, 2.1)
    (False, True)
    """
    return scale**2 * (spread + 4 * iso) > 2


def shape_of_noise(model: NoiseModel, key: int = 0) -> tuple[float, float]:
    """Standard deviation of a key along its mean and across it (all other directions), in units of the mean's length.

    Same direction and other magnitude means along >> across.

    >>> [round(x, 3) for x in shape_of_noise(gaussian_setting(2, spread=0.5, iso=0.01))]
    [0.714, 0.1]
    >>> [round(x, 3) for x in shape_of_noise(gaussian_setting(2, spread=0.0, iso=0.01))]
    [0.1, 0.1]
    """
    mean, S = model.means[key], model.covariance(key)
    size = float(mean @ mean)
    along = float(mean @ S @ mean) / size
    return math.sqrt(along / size), math.sqrt(max(float(np.trace(S)) - along, 0.0) / size)


def _check_keys(keys: int) -> None:
    if keys < 2:
        raise InputError(f"The setting needs at least 2 keys, not {keys}.")


def _ratio(keys: int, eps: float) -> float:
    _check_keys(keys)
    if not eps > 0:
        raise InputError(f"eps must be positive, not {eps:g}.")
    return keys / eps
