"""Whether the machine rounds as every bound assumes: tried out before a proof, in each thread that makes one."""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from regard import design, lowrank, rigor, subspace
from regard.coursework.catalogue import claims
from regard.errors import CouldNotFindOut
from regard.noise import NoiseModel, score_laws
from regard.noise.integrals import cross_moments, head_moments
from regard.positions.nearest import nearest_offset, offsets_within
from regard.rigor.balls import precise
from regard.subspace.recheck import check

TINY = np.array([[0.0, 1e-310], [-1.0, 0.0], [1.0, 0.0]])  # key 0 is a corner, unless 1e-310 is taken for 0
SQUARE = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])
FLUSHED = "takes numbers below 2.2e-308 for zero. Switch that off"
TURNED = "does not round to the nearest number"
# how <fenv.h> calls upward, downward and toward zero
MODES = (0x400000, 0x800000, 0xC00000) if platform.machine() in ("arm64", "aarch64") else (0x800, 0x400, 0xC00)


@contextmanager
def flushing() -> Iterator[None]:
    assert torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def rounding(mode: int) -> Iterator[None]:
    process = ctypes.CDLL(None)
    assert process.fesetround(mode) == 0
    try:
        yield
    finally:
        process.fesetround(0)


def test_this_machine_rounds_as_it_should() -> None:
    rigor.check_arithmetic()
    with np.errstate(all="raise"):
        rigor.check_arithmetic()


def test_numbers_flushed_to_zero_are_noticed() -> None:
    with flushing(), pytest.raises(CouldNotFindOut, match=FLUSHED):
        rigor.check_arithmetic()
    rigor.check_arithmetic()


@pytest.mark.parametrize("mode", MODES)
def test_another_rounding_is_noticed(mode: int) -> None:
    with rounding(mode), pytest.raises(CouldNotFindOut, match=TURNED):
        rigor.check_arithmetic()
    rigor.check_arithmetic()


def test_each_thread_has_its_own() -> None:
    """What another thread has switched on is no business of ours, and what is on in ours is seen in ours."""
    said: list[str] = []

    def prove() -> None:
        with flushing():
            try:
                rigor.check_arithmetic()
            except CouldNotFindOut as error:
                said.append(str(error))

    thread = threading.Thread(target=prove)
    thread.start()
    thread.join()
    assert FLUSHED in said[0]
    rigor.check_arithmetic()


SPECTRUM = lowrank.spectrum(np.diag([3.0, 2.0, 1.0]))
FOUND = design.copy(SQUARE, 0, eps=0.1)
WINS = design.winnable(SQUARE, jobs=1).to_dict()
EXTRACTED = subspace.extract(np.eye(2)[:, :1], np.ones((2, 1)))
SCORES = score_laws(NoiseModel(means=np.eye(2), isotropic=0.3), [[5.0, 5.0], [4.0, 5.0]])
PROOFS = {
    "ceiling": lambda: design.ceiling(TINY, 0),
    "ceilings": lambda: design.ceilings(TINY),
    "copy": lambda: design.copy(SQUARE, 0, eps=0.5),
    "several": lambda: design.copy_many(SQUARE, [0, 1], eps=0.5),
    "share": lambda: design.share(SQUARE, [0, 1], eps=0.1),
    "match": lambda: design.match(SQUARE, [0.2] * 5, kl=0.1),
    "verify": lambda: design.verify(FOUND, SQUARE),
    "winnable": lambda: design.winnable(TINY, jobs=1),
    "verify winnable": lambda: design.verify_winnable(SQUARE, WINS),
    "extract": lambda: subspace.extract(np.eye(2)[:, :1], np.ones((2, 1))),
    "recheck": lambda: check(EXTRACTED, np.eye(2)[:, :1], np.ones((2, 1))),
    "spectrum": lambda: lowrank.spectrum(np.diag([3.0, 1.0])),
    "check of a spectrum": lambda: SPECTRUM.check(np.diag([3.0, 2.0, 1.0])),
    "sketch": lambda: lowrank.sketch(np.diag(np.arange(1.0, 31.0)), rank=3, seed=0),
    "effect": lambda: lowrank.softmax_effect(SPECTRUM, rank=1, inputs=np.eye(3)),
    "one head": lambda: head_moments(SCORES),
    "two heads": lambda: cross_moments(SCORES, 0, 1),
    "nearest": lambda: nearest_offset(4, 100),
    "within": lambda: offsets_within(0.5, 4, 100),
    "claim": lambda: claims["copying-condition"].check(),
    "balls": precise,
}


@pytest.mark.parametrize("name", PROOFS)
def test_nothing_is_proved_where_numbers_are_flushed_to_zero(name: str) -> None:
    with flushing(), pytest.raises(CouldNotFindOut, match=FLUSHED):
        PROOFS[name]()
    PROOFS[name]()


def test_the_corner_is_a_corner() -> None:
    assert design.ceiling(TINY, 0).ceiling == 1.0
