"""The numbers that a model is tried with: its parameters and its inputs, each a function of the seed alone.

They are drawn twice: where the model runs, and again where it is judged
(``coursework.checker.provenance``). So a recording can say whatever it likes about what the model was given; what was
really given is known outside. NumPy only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from regard.array_types import Array
from regard.tracing.constructor_arguments import LONGEST, PLACES, SIZES

SHAPES = ((3, PLACES), (4, 5))  # sentences, places: traced
LONG = (1, LONGEST)
FRESH = ((1, 1), (2, 3), (5, PLACES), (1, 6), (70, 3), LONG)  # outputs only
FIRST_WORD = 4  # of what is traced: ids below are markers in many vocabularies, and who hides them reads otherwise
VALUE_WIDTH = 13  # unlike the keys' width
LOSS_WORDS = 11


def parameter(seed: int, name: str, shape: Sequence[int], *, ones: bool, table: bool) -> Array:
    """Fresh numbers for a parameter: of size 1 in tables, of size 1/sqrt(width) in matrices; gains, which start as
    ones, around 1."""
    drawn = _generator(seed, "parameter", name).standard_normal(tuple(shape))
    if len(shape) < 2:
        return np.asarray(drawn * 0.4 + float(ones))
    return np.asarray(drawn * (1.0 if table else math.sqrt(2 / (shape[-1] + shape[-2]))))


def sentences(shape: tuple[int, int], pad: int, seed: int) -> Array:
    """Word numbers in sentences padded at their ends: of falling lengths where the run is traced, else of rising ones,
    so that what the first sentence alone says of padding is not enough."""
    first = FIRST_WORD if shape in SHAPES else 0
    allowed = [word for word in range(first, int(SIZES["source_words"])) if word != pad]
    drawn = _generator(seed, "sentences", *shape, pad).choice(allowed, size=shape)
    falling = drawn if shape in SHAPES else drawn[::-1]
    for row in range(1, shape[0]):
        falling[row, max(1, shape[1] - row - 1) :] = pad
    return np.asarray(drawn, dtype=np.int64)


def states(shape: tuple[int, int], width: int, seed: int) -> Array:
    """Random states (N, T, width)."""
    return _generator(seed, "states", *shape, width).standard_normal((*shape, width))


def words_kept(shape: tuple[int, int]) -> Array:
    """Which places of a mask are words: fewer in every sentence."""
    kept = np.ones(shape, dtype=bool)
    for row in range(1, shape[0]):
        kept[row, shape[1] - row - 1 :] = False
    return kept


def vectors(shape: tuple[int, int], *, axes: int, shorter: bool, seed: int) -> dict[str, Array]:
    """Queries, keys and values as (N, T, width of all heads): two heads where there are four axes, one sentence where
    there are two; one key less than queries if ``shorter``."""
    n, t = (1, shape[1]) if axes == 2 else shape
    s = max(1, t - 1) if shorter else t
    heads = 2 if axes == 4 else 1
    draw = _generator(seed, "vectors", n, t, axes)
    sizes = {"query": (n, t, heads * 11), "key": (n, s, heads * 11), "value": (n, s, heads * VALUE_WIDTH)}
    return {name: draw.standard_normal(size) for name, size in sizes.items()}


def losses(seed: int) -> dict[str, Array]:
    """Scores and padded targets for a loss."""
    draw = _generator(seed, "losses")
    targets = draw.integers(1, LOSS_WORDS, (3, 5))
    for row in range(1, 3):
        targets[row, 4 - row :] = 0
    return {"scores": draw.standard_normal((3, 5, LOSS_WORDS)), "targets": targets}


def _generator(seed: int, *about: object) -> np.random.Generator:
    """A generator of its own for everything that is drawn, so that no order of drawing matters."""
    digest = hashlib.sha256(repr((int(seed), *about)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
