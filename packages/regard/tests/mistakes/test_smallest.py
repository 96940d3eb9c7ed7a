"""The smallest wrong modules: each runs, differs from the right one, and computes what the catalogue computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import attend as reference
from regard.errors import InputError
from regard.mistakes.attention import RIGHT, Sizes, attend, hide
from regard.mistakes.catalogue import catalogue, find_mistake, list_mistakes
from regard.mistakes.smallest import smallest_module

CALLS = [one for one in catalogue().values() if set(one.replaces) <= {"scale", "late scale", "softmax", "context"}]


def run(code: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "shown"}
    exec(compile(code, "<shown>", "exec"), space)
    return space


def test_the_list_has_every_mistake_once_with_its_sentence():
    listed = list_mistakes()
    assert len({one.name for one in listed.mistakes}) == len(listed.mistakes) == len(catalogue()) > 150
    assert all(one.sentence and one.stage for one in listed.mistakes)
    assert "scale-missing" in str(listed)


def test_a_wrong_name_gets_the_right_one():
    with pytest.raises(InputError, match="no mistake 'softmx-twice'; did you mean 'softmax-twice'"):
        find_mistake("softmx-twice")


@pytest.mark.slow
def test_every_mistake_is_a_module_that_differs_on_its_input():
    for mistake in catalogue().values():
        made = smallest_module(mistake, library="numpy")
        assert made.differs_by, mistake.name
        assert mistake.said in made.code
        assert "# wrong" in made.code, mistake.name
        with np.errstate(all="ignore"):
            wrong, right = run(made.code)["compare"]()
        assert np.isfinite(right).all()
        equal = wrong.shape == right.shape and np.allclose(wrong, right, atol=1e-7)
        assert not equal, mistake.name


@pytest.mark.parametrize("name", [one.name for one in CALLS if one.name != "scale-by-another-number"])
def test_what_is_shown_is_what_the_catalogue_computes(name):
    shown = run(smallest_module(find_mistake(name), library="numpy").code)
    q, k, v = np.random.default_rng(3).normal(size=(3, 2, 3, 5, 7))
    assert np.allclose(shown["right_attend"](q, k, v), reference(q, k, v, scale=7**-0.5).output)
    sizes = Sizes(width=7, heads=3, states=21, batch=2, length=5, asked_heads=3)
    steps = {**RIGHT, "mask": hide, **find_mistake(name).replaces}
    if "answer" not in steps:
        assert np.allclose(shown["attend"](q, k, v), attend(q, k, v, sizes, None, -np.inf, steps))


@pytest.mark.slow
def test_every_module_differs_in_torch_too():
    torch = pytest.importorskip("torch")
    for mistake in catalogue().values():
        wrong, right = run(smallest_module(mistake).code)["compare"]()
        equal = wrong.shape == right.shape and torch.allclose(wrong, right.to(wrong.dtype), atol=1e-6)
        assert not equal, mistake.name
