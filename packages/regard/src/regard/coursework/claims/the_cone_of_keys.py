"""Figure 1: which noise does the picture of the keys depict?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import Claim
from regard.coursework.parameters import Parameter
from regard.coursework.problem_sets import Source
from regard.coursework.question import inequality
from regard.coursework.verdict import Reading, Verdict, Witness, holds, refuted_verdict
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
    if along < Fraction(ratio) ** 2 * across:
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


def prove(*, d: int, iso: float, ratio: float) -> str:
    along, across = _variances(d, iso, Fraction(1, 2))
    return f"""\
$mu_a$ is a unit vector. Along it $k_a$ has the variance $mu_a^T Sigma mu_a$; across it, in all other directions
together, $trace(Sigma)$ less that.

$Sigma = a I$: a along and $(d-1)$ a across. For $d >= 2$ the cloud is at least as wide as it is long: no cone, whatever
a is.

$Sigma = a I + (1/2) mu_a mu_a^T$: $a + 1/2$ along and $(d-1)$ a across. The ratio of standard deviations is $sqrt((1/2
+ a)/((d-1) a))$, which grows without bound as $a -> 0$: realisations lie on the line of $mu_a$, at other lengths. So
this is the noise that the figure depicts.

The ratio is at least r exactly when $a <= 1/(2 (r^2 (d-1) - 1))$, or $r^2 (d-1) <= 1$. Here $d = {d}$, $a = {iso:g}$:
{math.sqrt(along):.4g} along, {math.sqrt(across):.4g} across."""


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


CLAIM = Claim(
    name="the-cone-of-keys",
    topic="noise",
    statement="The figure of $mu_a$ and realisations of $k_a$, same direction and other magnitude: which noise does it "
    "depict?",
    formula="standard deviation of $k_a$ along $mu_a$ $>= ratio$ times that across it",
    sources=(
        Source("sequence-models-hw3", "Figure 1", note="beside isotropic noise", reading="isotropic"),
        Source("self-attention-written", "Figure 1", note="beside $a I + (1/2) mu_a mu_a^T$"),
        Source("cse151b-hw4", "Figure 1", note="beside $a I + (1/2) mu_a mu_a^T$"),
    ),
    parameters=(
        Parameter(name="d", default=3, meaning="the dimension of the keys", whole=True, least=2, most=10**6),
        Parameter(name="iso", default=0.01, meaning="a, the variance in every direction", above=0, most=100),
        Parameter(name="ratio", default=5.0, meaning="how much longer than wide makes a cone", least=1, most=1e6),
    ),
    readings=(
        Reading(
            name="a I + (1/2) mu mu^T",
            statement="With this noise, keys vary at least `ratio` times as much along the mean as across it.",
            check=check_one_direction,
        ),
        Reading(
            name="isotropic",
            statement="With noise $a I$, keys vary more along the mean than across it.",
            check=check_round_noise,
            ignores=("ratio",),
        ),
        Reading(
            name="never backwards",
            statement="With $a I + (1/2) mu mu^T$ every realisation points the way of the mean, as drawn.",
            check=check_never_backwards,
            ignores=("d", "ratio"),
        ),
    ),
    prove=prove,
    draw=draw,
)
