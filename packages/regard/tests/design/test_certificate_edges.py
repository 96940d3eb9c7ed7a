"""Certificates at their edges: where a demand is met exactly, a proof of "never" must not go through."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from regard import design
from regard.design.certificate import fingerprint


def forged(keys: np.ndarray, eps: float, copies: int) -> dict[str, object]:
    """A certificate that says no more than: so many keys are equal to key 0, which is too many for this demand."""
    honest = json.loads(json.dumps(design.copy(np.ones((3, 2)), 0, eps=1.0).to_dict()["certificate"]))
    honest.pop("combination", None)
    bound = 1 / (1 + copies)
    bound = bound if Fraction(bound) >= Fraction(1, 1 + copies) else math.nextafter(bound, 1)
    data = {"shape": list(keys.shape), "sha256": fingerprint(keys)}
    return {**honest, "data": data, "question": {**honest["question"], "eps": float(eps)}, "bound": bound}


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_as_many_copies_as_are_allowed_are_not_too_many(copies: int) -> None:
    """With m equal keys beside it a key gets 1/(1 + m), which meets the demand 1/(1 + eps) for eps = m."""
    keys = np.ones((1 + copies, 2))
    assert design.copy(keys, 0, eps=float(copies)).reachable
    assert not design.verify(forged(keys, copies, copies), keys).holds
    assert design.verify(forged(keys, np.nextafter(copies, 0), copies), keys).holds, "a little less is too much to ask"


def test_one_further_key_makes_them_too_many() -> None:
    """The further key takes some weight, however little: 1/(1 + m) is approached and never reached."""
    keys = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert design.verify(forged(keys, 1.0, 1), keys).holds
    assert not design.verify(forged(keys, np.nextafter(1.0, 2), 1), keys).holds
