"""Figure 1: which noise does the picture of the keys depict?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import inequality
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.pictures import BLUE, VERMILION, finish
from regard.rigor import balls
from regard.written_numbers import at_least, in_full


def _variances(d: int, iso: float, spread: Fraction) -> tuple[Fraction, Fraction]:
    """Variance of a key along its unit mean, and across it (all other directions together), exactly."""
    return Fraction(iso) + spread, (d - 1) * Fraction(iso)


def check_one_direction(*, d: int, iso: float, ratio: float) -> Verdict:
    along, across = _variances(d, iso, Fraction(1, 2))
    # else ratio^2 (d-1) a <= a, and a is already part of what lies along the mean
    beyond = Fraction(ratio) ** 2 * (d - 1) - 1
    region = "for every a"
    if beyond > 0:
        region = f"for $a <= 1/(2(ratio^2 (d-1) - 1))$, so for $a <= {at_least(1 / (2 * beyond), 4)}$"
    wide = math.sqrt(along) / math.sqrt(across)  # not of the quotient, which float64 may not hold
    size = f"along the mean {math.sqrt(along):.4g}, across it {math.sqrt(across):.4g}"
    if along < Fraction(ratio) ** 2 * across:  # variances against the squared ratio: no root, so exact
        return refuted_verdict(
            f"Standard deviations: {size}.",
            witness=Witness(along, "<", Fraction(ratio) ** 2 * across),
            counterexample=f"$a = {in_full(iso)}$, $d = {d}$: the ratio and what is asked: "
            f"{inequality(wide, '<', ratio, digits=4)}",
            region=region,
            correction="The noise is long where $(d-1)$ a is small against $1/2 + a$: a must vanish faster than $1/d$.",
        )
    return holds(
        "exact arithmetic",
        f"Standard deviations: {size}, a ratio of {wide:.4g}: same direction, other length.",
        region=f"{region} $(d = {d})$",
    )


def check_round_noise(*, d: int, iso: float, ratio: float) -> Verdict:
    along, across = _variances(d, iso, Fraction(0))
    return refuted_verdict(
        "Isotropic noise is never longer along the mean than across it: a against $(d-1)$ a.",
        witness=Witness(along, "<=", across),
        counterexample=f"$d = 2$, any a: standard deviations $sqrt(a)$ and $sqrt(a)$, a round cloud; here, $d = {d}$: "
        f"{math.sqrt(along):.4g} along, {math.sqrt(across):.4g} across",
        region="nowhere for $d >= 2$ (in one dimension there is no across)",
        correction="The picture depicts $Sigma_a = a I + (1/2) mu_a mu_a^T$ with small a. Beside isotropic noise it is "
        "wrong.",
    )


def check_never_backwards(*, d: int, iso: float, ratio: float) -> Verdict:
    with balls.precise():
        p = balls.normal(-1 / (balls.ball(iso) + balls.ball(0.5)).sqrt())
        chance = balls.below(p)
    return refuted_verdict(
        "The length along the mean is Gaussian, $N(1, 1/2 + a)$, and so is negative at times.",
        witness=Witness(p, ">", 0),
        counterexample=f"a = {in_full(iso)}: $P(k_a.mu_a < 0) = Phi(-1/sqrt(1/2 + a)) =$ {chance:.4%}",
        region=f"for {1 - chance:.2%} of the draws (92.135 %, $Phi(sqrt 2)$, as $a -> 0$)",
        correction="The same line, other length: 7.865 % of the realisations point the other way as $a -> 0$, and more "
        "for larger a. Proof: $k_a.mu_a ~ N(1, 1/2 + a)$.",
        chance=chance,
    )


def proof_numbers(*, d: int, iso: float, ratio: float) -> dict[str, object]:
    along, across = _variances(d, iso, Fraction(1, 2))
    return {"along": math.sqrt(along), "across": math.sqrt(across)}


def draw(figure: Any, *, d: int, iso: float, ratio: float) -> None:
    rng = np.random.default_rng(0)
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2)  # so that "along the mean" is visibly a direction
    titles = (f"$a I$, $a = {iso:g}$: a round cloud", "$a I +$ ½ μμᵀ: one direction, other lengths")
    for made, spread, title in zip(figure.subplots(1, 2, sharex=True, sharey=True), (0.0, 0.5), titles, strict=True):
        draws = rng.standard_normal((100, 2)) * np.sqrt([iso + spread, iso]) + [1.0, 0.0]
        back = draws[:, 0] < 0
        points = draws @ turn.T
        made.plot(*points[~back].T, "o", color=BLUE, ms=4, alpha=0.7)
        made.plot(*points[back].T, "x", color=VERMILION, ms=6, label=f"{back.sum()} of 100 point backwards")
        mean = {"arrowstyle": "-|>", "lw": 2.4, "color": "black"}
        made.annotate("", turn @ [1.0, 0.0], (0, 0), arrowprops=mean, zorder=5)
        finish(made, title=title, aspect="equal", xlim=(-1.4, 2.2), ylim=(-1.4, 2.2))
        if back.any():
            made.legend(frameon=False, fontsize=9, loc="upper left")


CLAIM = read_claim(__name__)
