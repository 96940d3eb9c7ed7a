"""The search for the nearest positions pays for what its whole-number phases have lost."""

from __future__ import annotations

import flint
import numpy as np
import pytest

from regard.positions.nearest import _Block, _lower_bound
from regard.positions.number_formats import SLACK, Turns

TURN = 2**64  # units


def distance_squared(units):
    """4 sin^2 of half the angle that many units make, enclosed."""
    with flint.ctx.workprec(256):
        return 4 * (flint.arb.pi() * flint.arb(int(units)) / TURN).sin() ** 2


@pytest.mark.parametrize(
    "shown", [*range(12), 1000, 12345678901, 2**61 + 7, 2**63, TURN - 1, TURN - 3, TURN - 4, TURN - 90]
)
@pytest.mark.parametrize("lost", range(SLACK + 1))
def test_the_bound_holds_wherever_the_phase_really_is(shown, lost):
    """A phase is shown too small by at most SLACK units: just before a whole turn it may be just behind it."""
    tight = _Block([Turns(1)], 2).tight
    bound = tight * float(_lower_bound(np.array([shown], dtype=np.uint64))[0])
    truth = distance_squared((shown + lost) % TURN)
    assert bound <= 0 or bool(flint.arb(bound) <= truth.upper())


@pytest.mark.parametrize("units", [0, 1, 2 * SLACK, TURN - 1, TURN - 2 * SLACK])
def test_no_offset_is_left_out_that_may_be_a_whole_turn(units):
    """The phase of an offset and that of its block are both shown too small."""
    block = _Block([Turns(units << 192)], 2)
    assert 1 in np.concatenate(block._first_pair(0, 0.0))
    far = _Block([Turns((2 * SLACK + 1) << 192)], 2)
    assert 1 not in np.concatenate(far._first_pair(0, 0.0))
