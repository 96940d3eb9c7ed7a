"""Noise and heads: keys of uncertain length, one head that swings, two that stay, all computed and not sampled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

import regard
from regard.array_types import Real
from regard.lab.page import Answer, Explanation, Number, Page, State, shortest_text, tex
from regard.strict_json import JsonObject
from regard.written_numbers import in_full

if TYPE_CHECKING:
    from regard.noise import NoiseModel, WeightLaw, WeightMoments


BINS = 20
DRAWS = 120
SHARE = 0.9
WHY = (
    Explanation(
        question="Why does one head swing?",
        because="Its query gives both keys the same score on average, so noise in the length of key 0 alone decides "
        "which is ahead, and softmax turns a small lead at a long query into nearly everything. Two heads each look at "
        "one key, far ahead of the others, so the noise moves their scores and hardly their weights.",
        lit="one",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The coursework's random keys: how many, their noise, and the scale of the queries."""

    keys: int
    spread: float
    iso: float
    scale: float

    @cached_property
    def model(self) -> NoiseModel:
        return regard.noise.gaussian_setting(self.keys, spread=self.spread, iso=self.iso)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """What one design, a row of queries, makes of the keys."""

    queries: Real
    moments: WeightMoments
    law: WeightLaw
    bias: float
    variance: float

    @property
    def error(self) -> float:
        return self.bias + self.variance


def answer(state: State) -> Answer:
    """The laws of weight and output for one head and for two."""
    noise = regard.noise
    setting = Setting(
        keys=state.whole_number("keys", least=2, most=20),
        spread=state.number("spread", least=0, most=4),
        iso=state.number("iso", least=0.001, most=1),
        scale=state.number("scale", least=0.5, most=60),
    )
    one = _heads(setting, noise.one_head(setting.keys, setting.scale))
    two = _heads(setting, noise.two_heads(setting.keys, setting.scale))
    negative = noise.negative_score(setting.iso, setting.spread)
    return Answer(
        picture=_picture(setting, one, two),
        numbers=_numbers(one, two, negative),
        say=_say(setting, one, two, negative),
        formulas=_formulas(setting, one, two, negative),
        python=_python(setting),
        shell=_shell(setting),
        why=WHY,
    )


def _heads(setting: Setting, queries: Real) -> Heads:
    noise = regard.noise
    scores = noise.score_laws(setting.model, queries)
    moments = noise.weight_moments(scores)
    bias, variance = noise.random_keys.expected_error(moments, np.eye(setting.keys), (0, 1))
    return Heads(queries=queries, moments=moments, law=noise.weight_law(scores, 0), bias=bias, variance=variance)


def _picture(setting: Setting, one: Heads, two: Heads) -> JsonObject:
    draws = _draws(setting)
    covariance = setting.model.covariance(0)[:2, :2]
    return {
        "edges": np.linspace(0, 1, BINS + 1),
        "one": _bins(one.law),
        "two": _bins(two.law),
        "keys": draws[:, 0, :2].round(4),  # drawn, not read
        "negative": draws[:, 0, 0] < 0,
        "cloud": _ellipse(setting.model.means[0, :2], covariance, 2.0),
        "outputs": [_output(heads, draws) for heads in (one, two)],
    }


def _bins(law: WeightLaw) -> Real:
    """The probability of each of BINS equal intervals of the weight, for the eye: more exactly than a pixel."""
    shares = np.arange(1, BINS) / BINS
    above = np.concatenate([[1.0], law.sketch(shares), [0.0]])
    return np.asarray(np.maximum(above[:-1] - above[1:], 0.0))


def _draws(setting: Setting) -> Real:
    """Realisations of all keys, draws x n x d, from a fixed seed: for the eye, no number depends on them."""
    model = setting.model
    roots = np.linalg.cholesky(np.stack([model.covariance(key) for key in range(model.keys)]))
    return np.asarray(model.means + np.einsum("kij,nkj->nki", roots, _standard(*model.means.shape)))


@lru_cache(maxsize=32)
def _standard(keys: int, dimension: int) -> Real:
    return np.random.default_rng(0).standard_normal((DRAWS, keys, dimension))


def _output(heads: Heads, draws: Real) -> JsonObject:
    """Outputs along v_0 and v_1: of the draws, and the computed mean with one standard deviation around it."""
    values = np.eye(draws.shape[1])
    covariance = heads.moments.covariance[:2, :2]
    return {
        "draws": regard.attention.averaged_heads(heads.queries, draws, values).output[:, :2].round(4),
        "mean": heads.moments.mean[:2],
        "deviation": _ellipse(heads.moments.mean[:2], covariance, 1.0),
    }


def _ellipse(centre: Real, covariance: Real, deviations: float) -> Real:
    """The outline of so many standard deviations around a centre, for drawing."""
    values, vectors = np.linalg.eigh(covariance)
    around = np.linspace(0, 2 * np.pi, 73)
    circle = np.stack([np.cos(around), np.sin(around)])
    outline = centre + deviations * (vectors * np.sqrt(np.maximum(values, 0.0)) @ circle).T
    return np.asarray(outline.round(4))


def _numbers(one: Heads, two: Heads, negative: float) -> tuple[Number, ...]:
    pairs = [
        ("error", "mean squared error E‖c − target‖²", one.error, two.error),
        ("variance", "of which variance", one.variance, two.variance),
        ("share", f"P(weight of key 0 > {in_full(SHARE)})", one.law.value_above(SHARE), two.law.value_above(SHARE)),
    ]
    numbers = []
    for name, label, first, second in pairs:
        numbers.append(Number(name=f"one-{name}", label=label, value=first, form=".6f", column="one head"))
        numbers.append(Number(name=f"two-{name}", label=label, value=second, form=".6f", column="two heads"))
    return (*numbers, Number(name="negative", label="P(k₀·μ₀ < 0)", value=negative, form=".6f"))


def _say(setting: Setting, one: Heads, two: Heads, negative: float) -> tuple[str, ...]:
    ratio = one.error / two.error
    nearer = f"is {ratio:.3g} times smaller with two heads" if ratio > 1 else "is no smaller with two heads here"
    swings = regard.noise.swing_is_bimodal(setting.iso, setting.spread, setting.scale)
    why = "has two peaks: the head swings" if swings else "has one peak: nothing swings yet"
    along, across = regard.noise.shape_of_noise(setting.model)
    return (
        f"The mean squared error {nearer}. For key 0 against key 1 alone the weight {why}.",
        f"In {negative:.2%} of draws key 0 points away from its mean (marked ×), at every scale of the query: there "
        "the first of two heads lets go of v₀. This is the remaining error of two heads.",
        f"The cloud of key 0 is {along:.3g} long along its mean and {across:.3g} wide across it (standard deviations; "
        "across: all other directions together).",
    )


def _formulas(setting: Setting, one: Heads, two: Heads, negative: float) -> tuple[str, ...]:
    noise = rf"\Sigma_0 = {setting.iso:g}\,I + {setting.spread:g}\,\mu_0\mu_0^\top"
    scale = f"{setting.scale:g}"
    queries = rf"q = {scale}\,(\mu_0 + \mu_1) \;\text{{or}}\; q_1 = {scale}\,\mu_0,\ q_2 = {scale}\,\mu_1"
    error = (
        r"\mathbb{E}\lVert c - \tfrac{v_0+v_1}{2} \rVert^2 = "
        rf"{tex(one.bias, 2)} + {tex(one.variance)} \;\text{{or}}\; {tex(two.bias, 2)} + {tex(two.variance)}"
    )
    along = rf"\sqrt{{{setting.iso + setting.spread:.4g}}}"
    chance = rf"P(k_0 \cdot \mu_0 < 0) = \Phi\left(\frac{{-1}}{{{along}}}\right) = {tex(negative)}"
    return (noise, queries, error, chance)


def _python(setting: Setting) -> str:
    options = f"spread={shortest_text(setting.spread)}, iso={shortest_text(setting.iso)}"
    return "\n".join(
        [
            "from regard import noise",
            f"model = noise.gaussian_setting({setting.keys}, {options})",
            "for heads in (noise.one_head, noise.two_heads):",
            f"    queries = heads({setting.keys}, {shortest_text(setting.scale)})",
            "    law = noise.weight_law(noise.score_laws(model, queries), 0)",
            f"    print(noise.study(model, queries).error, law.above({SHARE:g}).value)",
            f"print(noise.negative_score({shortest_text(setting.iso)}, {shortest_text(setting.spread)}))",
        ]
    )


def _shell(setting: Setting) -> str:
    options = {"keys": setting.keys, "spread": setting.spread, "iso": setting.iso, "scale": setting.scale}
    return "regard noise compare " + " ".join(f"--{name} {shortest_text(value)}" for name, value in options.items())


PAGE = Page(
    place=2,
    title="Noise and heads",
    hint="Raise the spread of key 0 and see one head swing between two values while two stay; then lower the scale.",
    about="What random keys do to one head that shares its attention, and to two.",
    start={"keys": "10", "spread": "0.5", "iso": "0.01", "scale": "20"},
    answer=answer,
)
