"""Eight bits for a weight: the bound, the measurement, and what the stream holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from regard_models.attention_page.html_document import (
    Errors,
    decode,
    encode,
    encode_whole,
    max_pool,
    measure_errors,
    pack,
    unpack,
)

rows = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=17),
    elements=st.floats(0, 1, width=32, allow_subnormal=False),
)


@pytest.mark.slow
@given(rows)
def test_no_weight_is_off_by_more_than_a_255th_of_the_largest_in_its_row(weights):
    largest, codes = encode(weights)
    off = np.abs(decode(largest, codes).astype(np.float64) - weights)
    # the bound of exact arithmetic, and a few units of float32 on top
    assert (off <= largest[:, None] * (1 / 255 + 1e-6)).all()
    assert measure_errors(weights, decode(largest, codes)).entry == off.max()


def test_the_bound_is_nearly_reached_and_small_weights_do_better():
    fine = np.linspace(0, 1, 100_001, dtype=np.float32)[None]
    stored = decode(*encode(fine))
    off = np.abs(stored.astype(np.float64) - fine)[0]
    assert 0.99 / 255 < off.max() <= 1 / 255 * 1.0001
    assert off[fine[0] < 0.01].max() < 0.11 / 255  # error grows with the root


def test_rows_of_nothing_stay_nothing_and_the_largest_is_kept_exactly():
    weights = np.array([[0, 0, 0], [0.25, 0.5, 0.25]], np.float32)
    stored = decode(*encode(weights))
    assert (stored[0] == 0).all()
    assert stored[1, 1] == np.float32(0.5)
    assert measure_errors(weights, stored).row == pytest.approx(abs(stored[1].astype(float) - weights[1]).sum())


def test_a_linear_code_would_lose_what_the_root_keeps():
    weights = np.full((1, 1001), 0.1 / 1000, np.float32)
    weights[0, 0] = 0.9
    linear = np.rint(255 * weights / weights.max()) / 255 * weights.max()
    assert np.abs(linear - weights).sum() == pytest.approx(0.1, rel=1e-3)  # all of the small ones
    assert measure_errors(weights, decode(*encode(weights))).row < 0.05


@given(rows, st.integers(1, 9))
def test_a_pooled_picture_keeps_every_maximum(weights, size):
    small = max_pool(weights, size)
    assert small.shape == tuple(min(size, n) for n in weights.shape)
    assert small.max() == weights.max()
    for row, column in np.ndindex(small.shape):  # against slow blocks
        first = [i * n // s for i, n, s in zip((row, column), weights.shape, small.shape, strict=True)]
        last = [(i + 1) * n // s for i, n, s in zip((row, column), weights.shape, small.shape, strict=True)]
        assert small[row, column] == weights[first[0] : last[0], first[1] : last[1]].max()


def test_codes_of_a_whole_picture_never_leave_eight_bits():
    assert encode_whole(np.array([[0, 0.25, 1, 4]], np.float32), 1.0).tolist() == [[0, 128, 255, 255]]
    assert encode_whole(np.zeros((2, 2), np.float32), 0.0).tolist() == [[0, 0], [0, 0]]


def test_a_stream_is_the_arrays_one_after_another():
    letters = pack(np.array([1.5, 2], "<f4"), np.array([[1, 2], [3, 255]], np.uint8))
    assert letters.isascii()
    assert not set(letters) & set("<>&\"'\\\n")
    assert unpack(letters) == np.array([1.5, 2], "<f4").tobytes() + bytes([1, 2, 3, 255])


def test_the_worse_of_two_errors_is_the_larger_of_each():
    assert Errors(entry=1, row=2).maximum(Errors(entry=0, row=3)) == Errors(entry=1, row=3)
