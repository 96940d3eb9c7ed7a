"""Pictures of random keys and their weights (matplotlib, loaded when asked for)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from regard.noise.coursework_settings import gaussian_setting, one_head, two_heads
from regard.noise.law import weight_law
from regard.noise.model import NoiseModel
from regard.noise.scores import make_generator, score_laws
from regard.pictures import BLUE, GREY, ORANGE, VERMILION, Axes, Figure, open_box, save
from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from regard.noise.comparison import Comparison
    from regard.noise.optimised_queries import OptimisedQueries
    from regard.noise.random_keys import Study


def comparison_figure(result: Comparison) -> Figure:
    """One head's swing and two heads' steadiness: the weight's density, the role of the length, the scale of q."""
    figure = new_figure(13.5, 4.1)
    left, middle, right = figure.subplots(1, 3)
    _densities(left, result)
    _by_length(middle, result)
    right.plot(result.scales, result.one_errors, "o-", color=ORANGE, label="one head")
    right.plot(result.scales, result.two_errors, "s-", color=BLUE, label="two heads")
    right.axvline(result.scale, color=GREY, lw=0.8, ls=":")
    right.set(xscale="log", xlabel="scale T of the queries", ylabel="E‖c − target‖²", ylim=(0, 0.55))
    right.set_xticks(result.scales, [f"{scale:g}" for scale in result.scales])
    right.minorticks_off()
    right.set_title("The effect of the scale", fontsize=11)
    right.legend(frameon=False, loc="best")
    for axis in (left, middle, right):
        open_box(axis)
    return figure


def _densities(axis: Axes, result: Comparison) -> None:
    """Probabilities of 50 bins of the weight: a density would be cut off at its spikes."""
    model = gaussian_setting(result.keys, spread=result.spread, iso=result.iso)
    edges = np.linspace(0, 1, 51)
    designs = ((one_head, "one head", ORANGE), (two_heads, "two heads, mean", BLUE))
    for design, name, colour in designs:
        law = weight_law(score_laws(model, design(result.keys, result.scale)), 0)
        above = np.array([1.0, *(law.above(float(edge)).value for edge in edges[1:-1]), 0.0])
        axis.stairs(above[:-1] - above[1:], edges, color=colour, lw=1.8, label=name)
    axis.set(xlabel="weight of key 0", ylabel="probability of the bin", xlim=(0, 1), yscale="log", ylim=(5e-4, 1))
    axis.set_title("Where the weight of key 0 lies", fontsize=11)
    axis.legend(frameon=False, loc="upper right")


def _by_length(axis: Axes, result: Comparison) -> None:
    x, variance = result.lengths, result.spread + result.iso
    axis.axvspan(x[0], 0, color=VERMILION, alpha=0.12, lw=0)
    density = np.exp(-((x - 1) ** 2) / (2 * max(variance, 1e-12)))
    axis.fill_between(x, 0, 0.35 * density, color=GREY, alpha=0.25, lw=0)
    axis.plot(x, result.one_weight_given_length, color=ORANGE, lw=1.8)
    axis.plot(x, result.two_weight_given_length, color=BLUE, lw=1.8)
    axis.set(xlim=(x[0], x[-1]), ylim=(-0.03, 1.12), xlabel="k₀·μ₀ of the draw", ylabel="E[weight of key 0 | k₀·μ₀]")
    p = result.negative_probability
    if x[0] < 0:
        note = f"k₀·μ₀ < 0\n{p:.1%} of draws"
        axis.text(x[0] / 2, 1.09, note, ha="center", va="top", color=VERMILION, fontsize=9)
    axis.text(1.0, 0.05, "density of k₀·μ₀", ha="center", color="#555555", fontsize=9)
    axis.set_title("Why: the weight given the draw", fontsize=11)


def plot_keys(path: str | os.PathLike[str], *, iso: float = 0.01, spread: float = 0.5, seed: int = 0) -> None:
    """The coursework's Figure 1: the mean of key 0 with realisations of k_0, for a I and for a I + spread mu mu^T."""
    figure, generator = new_figure(9.6, 5.3), make_generator(seed)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = (f"Σ = {iso:g} I: a round cloud", f"Σ = {iso:g} I + {spread:g} μμᵀ: same direction, other length")
    for axis, extra, title in zip(axes, (0.0, spread), titles, strict=True):
        _realisations(axis, gaussian_setting(2, spread=extra, iso=iso), generator)
        axis.set_title(title, fontsize=11)
    save(figure, path)


def _realisations(axis: Axes, model: NoiseModel, generator: np.random.Generator) -> None:
    draws = generator.multivariate_normal(model.means[0], model.covariance(0), size=120)
    # drawn in the plane turned by 45 degrees, so that "along the mean" is visibly a direction of its own
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    points, mean = draws @ turn.T, turn @ model.means[0]
    behind = draws[:, 0] < 0
    for point, negative in zip(points[:40], behind[:40], strict=True):
        axis.plot([0, point[0]], [0, point[1]], color=VERMILION if negative else BLUE, lw=0.7, alpha=0.45)
    axis.plot(*points[~behind].T, ".", color=BLUE, ms=5, label="k₀")
    if behind.any():
        axis.plot(*points[behind].T, "x", color=VERMILION, ms=6, label=f"k₀·μ₀ < 0: {behind.sum()} of {len(behind)}")
    axis.annotate("", mean, (0, 0), arrowprops={"arrowstyle": "-|>", "lw": 2.4, "color": "black"}, zorder=5)
    axis.annotate("μ₀", mean, (8, -12), textcoords="offset points", fontsize=13)
    axis.set(aspect="equal", xlim=(-1.6, 2.4), ylim=(-1.6, 2.4), xlabel="a plane that contains μ₀")
    axis.legend(frameon=False, loc="upper left")
    open_box(axis)


def study_figure(result: Study) -> Figure:
    """Mean and standard deviation of every weight, with the target beside it."""
    shown = result.keys_by_interest()[:20]
    x = np.arange(len(shown))
    figure = new_figure(max(5.0, 0.45 * len(shown) + 2), 3.8)
    axis = figure.subplots()
    goal = np.array([1 / len(result.target) if k in result.target else 0.0 for k in shown])
    axis.bar(x, goal, width=0.8, color=GREY, alpha=0.3, label="target")
    sd = np.sqrt(np.maximum(result.weight_covariance.diagonal(), 0.0))[shown]
    axis.errorbar(x, result.weight_mean[shown], yerr=sd, fmt="o", color=BLUE, capsize=3, label="weight: mean ± sd")
    axis.set_xticks(x, [str(k) for k in shown])
    axis.set(xlabel="key (counted from 0)", ylabel="weight, mean over heads")
    axis.set_title(f"E‖c − target‖² = {result.error:.4g}, of which {result.variance:.4g} is variance", fontsize=11)
    axis.legend(frameon=False, loc="best")
    open_box(axis)
    return figure


def optimised_figure(result: OptimisedQueries) -> Figure:
    """The scores q_h . mu_l that the found queries aim at, head by head."""
    scores = result.scores
    limit = float(np.abs(scores).max()) or 1.0
    figure = new_figure(0.5 * scores.shape[1] + 3, 0.5 * len(scores) + 1.9)
    axis = figure.subplots()
    image = axis.imshow(scores, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    axis.set_yticks(range(len(scores)), [f"head {h}" for h in range(len(scores))])
    axis.set_xticks(range(scores.shape[1]) if scores.shape[1] <= 24 else [0, scores.shape[1] - 1])
    axis.set_xlabel("key (counted from 0)")
    figure.colorbar(image, ax=axis, label="q·μ")
    axis.set_title(f"error {result.error:.4g} (designed: {result.designed_error:.4g})", fontsize=11)
    return figure
