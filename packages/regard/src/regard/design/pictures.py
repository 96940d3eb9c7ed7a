"""Pictures of designs: keys in the plane with the query and the hull, or the weights as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.array_types import Float
from regard.design.answer import SHOWN, Ceiling, Design
from regard.pictures import BLUE, GREEN, GREY, VERMILION, save
from regard.pictures import figure as new_figure
from regard.written_numbers import at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_BARS = 30


def draw(answer: Design | Ceiling, keys: Float, path: str) -> None:
    """Write a picture of a design to a file; its ending says the format."""
    save(sketch(answer, keys), path)


def sketch(answer: Design | Ceiling, keys: Float) -> Figure:
    """The picture as a matplotlib figure: for keys in the plane the geometry, and always the weights."""
    flat = keys.shape[1] == 2
    figure = new_figure(9.6 if flat else 6.4, 4.4)
    axes = figure.subplots(1, 2 if flat else 1, squeeze=False)[0]
    if flat:
        _plane(axes[0], answer, keys)
    _bars(axes[-1], answer, keys)
    return figure


def _chosen_keys(answer: Design | Ceiling) -> list[int]:
    return [answer.key] if isinstance(answer, Ceiling) else list(answer.chosen)


def _weights(answer: Design | Ceiling, keys: Float) -> Float:
    """The weights that the answer's query really gives, or equal ones where there is no query."""
    if isinstance(answer, Design) and answer.weights is not None:
        return answer.weights
    rows = answer.certificate.allowed
    allowed = np.ones(len(keys), dtype=bool) if rows is None else np.isin(np.arange(len(keys)), rows)
    query = np.zeros(keys.shape[1]) if answer.query is None else answer.query
    # a common shift changes no weight, and keeps the scores small
    scores = answer.certificate.scale * ((keys - keys.mean(axis=0)) @ query)
    weights = np.where(allowed, np.exp(np.where(allowed, scores - scores[allowed].max(), 0.0)), 0.0)
    return np.asarray(weights / weights.sum())


def _plane(axes: Axes, answer: Design | Ceiling, keys: Float) -> None:
    weights, chosen = _weights(answer, keys), _chosen_keys(answer)
    _hull(axes, keys)
    colours = [VERMILION if i in chosen else BLUE for i in range(len(keys))]
    axes.scatter(keys[:, 0], keys[:, 1], s=40 + 400 * weights, c=colours, alpha=0.8, edgecolors="white", zorder=3)
    if len(keys) <= 25:
        for i, (x, y) in enumerate(keys):
            away = 3 + 0.36 * np.sqrt(40 + 400 * weights[i])  # just outside the disc
            axes.annotate(str(i), (x, y), xytext=(away, away), textcoords="offset points", fontsize=9, zorder=4)
    if answer.query is not None and np.any(answer.query):
        _arrow(axes, answer.query, keys, GREEN, f"query, norm {at_most(answer.norm or 0.0, 3)}")
    textbook = answer.textbook if isinstance(answer, Design) else None
    if textbook is not None:
        _arrow(axes, textbook.query, keys, GREY, f"textbook query, norm {textbook.norm:.3g}")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.15)
    axes.set_title("keys (area: weight), hull, and the query's direction", fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="best")


def _arrow(axes: Axes, query: Float, keys: Float, colour: str, label: str) -> None:
    """The direction of a query, drawn as long as the keys are wide: norms are in the legend."""
    centre = keys.mean(axis=0)
    reach = 0.6 * float(np.linalg.norm(keys - centre, axis=1).max(initial=1e-300))
    tip = centre + reach * query / np.linalg.norm(query)
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 2}
    axes.annotate("", xy=(float(tip[0]), float(tip[1])), xytext=(float(centre[0]), float(centre[1])), arrowprops=arrow)
    axes.plot([], [], color=colour, label=label)


def _hull(axes: Axes, keys: Float) -> None:
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = keys[ConvexHull(keys).vertices]
    except (QhullError, ValueError):
        return  # fewer than three keys, or all on a line: there is no area to shade
    axes.fill(corners[:, 0], corners[:, 1], color=BLUE, alpha=0.08, zorder=1)


def _bars(axes: Axes, answer: Design | Ceiling, keys: Float) -> None:
    weights, chosen = _weights(answer, keys), _chosen_keys(answer)
    shown = np.arange(len(keys))
    if len(keys) > MOST_BARS:
        shown = np.sort(np.union1d(np.argsort(-weights)[:MOST_BARS], chosen).astype(int))
    names = [str(i) for i in shown]
    axes.bar(names, weights[shown], color=[VERMILION if i in chosen else BLUE for i in shown])
    if isinstance(answer, Ceiling):
        axes.axhline(answer.ceiling, color=GREEN, lw=2, label=f"ceiling {at_most(answer.ceiling, SHOWN)}")
    _draw_demand(axes, answer)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="best")
    axes.set_xlabel("key" + ("" if len(shown) == len(keys) else " (the heaviest)"))
    axes.set_ylabel("attention weight")
    axes.tick_params(axis="x", labelsize=8 if len(names) <= 20 else 6)
    axes.set_title(_title(answer), fontsize=10)


def _draw_demand(axes: Axes, answer: Design | Ceiling) -> None:
    if isinstance(answer, Design) and answer.verb != "match" and answer.eps is not None:
        level = 1 / (len(answer.chosen) + answer.eps)
        axes.axhline(level, color=GREEN, lw=1.5, ls="--", label=f"asked for: {level:.4g}")
    if isinstance(answer, Design) and answer.verb == "match":
        target: Any = answer.certificate.question.target
        if len(target) <= MOST_BARS:
            axes.plot([str(i) for i in range(len(target))], target, "o", color=VERMILION, label="target")


def _title(answer: Design | Ceiling) -> str:
    if isinstance(answer, Ceiling):
        return f"key {answer.key} can never get more than {at_most(answer.ceiling, SHOWN)}"
    if not answer.reachable:
        return "no query does it"
    norm = f"norm {at_most(answer.norm or 0.0, SHOWN)}"
    return f"the shortest query, {norm}" if answer.max_norm is None else norm
