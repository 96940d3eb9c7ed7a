"""What a reader copies from a --json file is held against the certificate in it, field by field."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard import design

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
ANSWERS = {
    "reachable": lambda: design.copy(SQUARE, 0, eps=0.1),
    "never": lambda: design.copy(SQUARE, 4, eps=0.1),
    "budget": lambda: design.share(SQUARE, [0, 1], max_norm=2.0),
}
WRONG = {
    "verb": "match", "chosen": [3], "eps": 0.7, "kl": 0.7, "max_norm": 0.7, "weights": [0.2] * 5, "attention": 0.123,
    "lower_bound": 0.7, "bound": 0.123, "gap": 0.5, "query": [9.0, 9.0], "norm": 0.7,
}  # fmt: skip


@pytest.mark.parametrize("which", ANSWERS)
@pytest.mark.parametrize("field", [*WRONG, "reachable"])
def test_every_figure_around_a_certificate_is_checked(which, field):
    stated = json.loads(ANSWERS[which]().to_json())
    assert design.verify(stated, SQUARE).answer
    stated[field] = not stated["reachable"] if field == "reachable" else WRONG[field]
    checked = design.verify(stated, SQUARE)
    assert not checked.answer
    assert f"the file states its own {field}" in str(checked)
