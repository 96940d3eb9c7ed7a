"""The arithmetic of the lab's figures, in a real browser, against Python."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lab_browser import browser  # noqa: F401
from regard import attend, design
from regard.lab.offline_copy import bundle
from regard.positions import positions

ASK = """([name, ...words]) => modules["/attention.js"][name](...words)"""


@pytest.fixture(scope="module")
def ask(browser):  # noqa: F811
    page = browser.new_page()
    page.add_script_tag(content=bundle(["/attention.js"]).replace("const modules", "var modules"))
    yield lambda *words: page.evaluate(ASK, json.loads(json.dumps(words)))
    page.close()


@pytest.mark.slow
def test_scores_weights_and_output_are_those_of_python(ask):
    rng = np.random.default_rng(3)
    for scale in (0.1, 3.0, 300.0):
        keys, values, query = rng.normal(size=(7, 3)), rng.normal(size=(7, 5)), scale * rng.normal(size=3)
        result = attend(query, keys, values)
        weights = ask("softmax", ask("scores", keys.tolist(), query.tolist()))
        np.testing.assert_allclose(weights, result.weights, rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(ask("output", weights, values.tolist()), result.output, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_the_ceiling_is_the_proved_one(ask):
    rng = np.random.default_rng(5)
    for _ in range(5):
        others, share = rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6))
        inside = share @ others
        proved = design.ceiling(np.vstack([others, inside]), 6)
        assert ask("isInside", inside.tolist(), others.tolist())
        assert ask("ceiling", inside.tolist(), others.tolist()) == pytest.approx(proved.ceiling, rel=1e-9)
        far = 3 * others[np.argmax((others**2).sum(axis=1))]
        assert not ask("isInside", far.tolist(), others.tolist())
        assert ask("ceiling", far.tolist(), others.tolist()) == 1
    square = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    assert ask("ceiling", [0, 0], square) == pytest.approx(1 / 5, rel=1e-12)
    assert len(ask("hull", [*square, [0, 0], [1, 0]])) == 4


@pytest.mark.slow
def test_positions_meet_where_python_says(ask):
    pair = positions(dim=2, length=1000, format="bfloat16").equal
    here, there = ([ask("bfloat16", float(turn(t))) for turn in (np.sin, np.cos)] for t in pair)
    assert here == there
    assert ask("bfloat16", 1 + 2**-8) == 1  # a tie, to even
