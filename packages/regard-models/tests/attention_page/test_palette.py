"""Colours that everybody tells apart: lightness runs one way, for normal and for colour-blind eyes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from regard_models.attention_page.html_document import DARK, HEADS, LIGHT, colormap

# Viénot, Brettel and Mollon (1999): what a red-blind and a green-blind eye make of linear RGB
BLIND = {
    "normal": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deutan": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour, sight):
    return float(BLIND[sight] @ linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("sight", BLIND)
@pytest.mark.parametrize(("ramp", "way"), [(LIGHT, -1), (DARK, 1)])
def test_lightness_runs_one_way(ramp, way, sight):
    steps = [luminance(colour, sight) for colour in ramp]
    assert all(way * (after - before) > 0.004 for before, after in itertools.pairwise(steps))
    brightest, darkest = max(steps), min(steps)
    assert (brightest + 0.05) / (darkest + 0.05) > 11  # the ends are far apart


def test_the_eight_first_heads_differ():
    for one, other in itertools.combinations(HEADS[:8], 2):
        assert np.abs(linear(one) - linear(other)).sum() > 0.1
    assert len(set(HEADS)) == len(HEADS)


def test_figures_have_the_ramp_of_light_pages():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from matplotlib.colors import to_hex

    assert to_hex(colormap()(0.0)) == LIGHT[0]
    assert to_hex(colormap()(1.0)) == LIGHT[-1]
