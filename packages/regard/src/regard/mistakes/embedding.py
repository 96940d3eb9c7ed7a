"""The embedding, x = E[s] + P[t], and the known ways to get it wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regard.array_types import Array
from regard.mistakes.mistake import Weight, wrong_versions

Exponents = Callable[[Array, int], tuple[Array, Array]]


def scale_tokens(x: Array) -> Array:
    """Nothing: the rows are taken as they are."""
    return x


def rows_in_order(table: Array, ids: Array) -> Array:
    """Row t at place t."""
    return table[: ids.shape[1]]


def no_rows(table: Array, ids: Array) -> float:
    """A mistake that needs no table."""
    return 0.0


def words_and_places(y: Array, rows: Array) -> Array:
    """No rows are added here: they are in it already."""
    return y


def add_rows(x: Array, rows: Array) -> Array:
    """Token and position."""
    return x + rows


def scale_sum(x: Array) -> Array:
    """Nothing here, either."""
    return x


def multiply(x: Array, number: float = 0.3) -> Array:
    """A number times x."""
    return number * x


def add_multiple(x: Array, rows: Array, number: float = 0.3) -> Array:
    """The token, and the position multiplied by a number."""
    return x + number * rows


ROWS = (
    *wrong_versions(
        "embedding", "rows", "positions, tokens", "add row t of the table at place t, counted along the sentence",
        [
            ("positions-missing", "no positions added", no_rows),
            ("positions-twice", "the positions added twice", lambda p, ids: 2 * p[: ids.shape[1]]),
            ("positions-reversed", "positions counted from the end of the input",
             lambda p, ids: np.flip(p[: ids.shape[1]], (0,))),
            ("positions-last-rows", "the last rows of the table of positions instead of the first",
             lambda p, ids: p[len(p) - ids.shape[1] :]),
            ("positions-table-reversed", "the table of positions read from its last row backwards",
             lambda p, ids: np.flip(p, (0,))[: ids.shape[1]]),
            ("positions-by-sentence", "the position of a sentence in the batch instead of a word's in it",
             lambda p, ids: p[: ids.shape[0], None]),
            ("positions-first", "the first position at every place", lambda p, ids: p[0]),
            ("positions-last", "the last position at every place", lambda p, ids: p[ids.shape[1] - 1]),
            ("positions-by-length", "one position for all places, that of the length", lambda p, ids: p[ids.shape[1]]),
            ("positions-by-word", "the row of the word's id where the row of its place belongs",
             lambda p, ids: p[ids % len(p)]),
            ("positions-after-attention", "the positions added behind attention's sum and norm instead of before them",
             {"rows": no_rows, "late rows": add_rows}),
        ],
    ),
    *wrong_versions(
        "embedding", "rows", "positions, tokens", "",
        [("positions-from-1", "positions counted from 1", lambda p, ids: p[1 : ids.shape[1] + 1])],
        Weight.VARIATION,
    ),
)  # fmt: skip

TOKENS = wrong_versions(
    "embedding", "tokens", "tokens",
    "the sum of the two rows as it is; the 2017 paper scales, the model asked for does not",
    [
        ("embedding-scaled", "the embedding multiplied by the root of the width", lambda x: x * x.shape[-1] ** 0.5),
        ("embedding-sum-scaled", "the sum of token and position multiplied by the root of the width",
         {"tokens": scale_tokens, "sum of rows": lambda x: x * x.shape[-1] ** 0.5}),
        ("embedding-shrunk", "the embedding divided by the root of the width", lambda x: x / x.shape[-1] ** 0.5),
        ("embedding-times-width", "the embedding multiplied by the width", lambda x: x * x.shape[-1]),
        ("embedding-times-a-number", "the embedding multiplied or divided by a number", multiply),
        ("embedding-sum-times-a-number", "the sum of token and position multiplied or divided by a number",
         {"sum of rows": multiply}),
        ("positions-times-a-number", "the positions multiplied or divided by a number before they are added",
         {"join": add_multiple}),
    ],
    Weight.DEPARTURE,
)  # fmt: skip

JOIN = wrong_versions(
    "embedding", "join", "positions, tokens", "add the two rows",
    [("positions-multiplied", "the position multiplied with the token instead of added", lambda x, p: x * p)],
)  # fmt: skip


# the table of sines and cosines


def exponents(i: Array, d: int) -> tuple[Array, Array]:
    """Of the sine and the cosine in the columns 2i and 2i + 1."""
    return 2 * i / d, 2 * i / d


def interleave(sines: Array, cosines: Array) -> Array:
    """Sines in the even columns, cosines in the odd ones."""
    return np.stack([sines, cosines], axis=2).reshape(len(sines), -1)


def halves(sines: Array, cosines: Array) -> Array:
    """Sines in the first half of the columns."""
    return np.concatenate([sines, cosines], axis=1)


def sinusoids(
    length: int,
    width: int,
    powers: Exponents = exponents,
    arrange: Callable[[Array, Array], Array] = interleave,
    base: float = 10000.0,
) -> Array:
    """Columns 2i and 2i + 1 of row t are the sine and the cosine of t / 10000^(2i/d).

    >>> sinusoids(2, 2).round(3).tolist()
    [[0.0, 1.0], [0.841, 0.54]]
    """
    t = np.arange(length, dtype=np.float64)[:, None]
    first, second = powers(np.arange((width + 1) // 2, dtype=np.float64), width)
    return arrange(np.sin(t * base**-first), np.cos(t * base**-second))[:, :width]


def _to_the_last(i: Array, d: int) -> tuple[Array, Array]:
    return i / max(d / 2 - 1, 1), i / max(d / 2 - 1, 1)


FORMULAS = (
    *wrong_versions(
        "embedding", "formula", "positions", "",
        [
            ("positions-sinusoidal", "sinusoidal positions", sinusoids),
            ("positions-sinusoidal-halves", "sinusoidal positions, sines in the first half",
             lambda n, d: sinusoids(n, d, arrange=halves)),
            ("positions-cosines-first", "sinusoidal positions, cosines first",
             lambda n, d: sinusoids(n, d, arrange=lambda s, c: interleave(c, s))),
            ("positions-halves-d-1", "sinusoidal positions with frequencies down to 1/10000 exactly",
             lambda n, d: sinusoids(n, d, _to_the_last, halves)),
            ("positions-d-1", "sinusoidal positions with frequencies down to 1/10000 exactly",
             lambda n, d: sinusoids(n, d, _to_the_last)),
        ],
        Weight.VARIATION,
    ),
    *wrong_versions(
        "embedding", "formula", "positions", "columns 2i and 2i+1 are sin and cos of t / 10000^(2i/d)",
        [
            ("sinusoid-exponent-doubled", "the exponent of the sinusoidal table doubled: 4i/d",
             lambda n, d: sinusoids(n, d, lambda i, d: (4 * i / d, 4 * i / d))),
            ("sinusoid-exponent-by-column", "the exponent 2j/d with the column j where 2i/d belongs",
             lambda n, d: sinusoids(n, d, lambda i, d: (4 * i / d, 2 * (2 * i + 1) / d))),
            ("sinusoid-exponent-doubled-shifted",
             "the exponent of the sinusoidal table doubled, and shifted in the cosines",
             lambda n, d: sinusoids(n, d, lambda i, d: (4 * i / d, 4 * (i + 0.5) / d))),
            ("sinusoid-exponent-halved", "the exponent i/d in the sinusoidal table",
             lambda n, d: sinusoids(n, d, lambda i, d: (i / d, i / d))),
            ("sinusoid-exponent-column", "another exponent, j/d by column, in the cosines than in the sines",
             lambda n, d: sinusoids(n, d, lambda i, d: (2 * i / d, (2 * i + 1) / d))),
            ("sinusoid-cosine-shifted", "the cosines with the exponent of the next pair",
             lambda n, d: sinusoids(n, d, lambda i, d: (2 * i / d, 2 * (i + 1) / d))),
            ("sinusoid-floor-division", "an exponent that floor division made 0",
             lambda n, d: sinusoids(n, d, lambda i, d: (2 * i // d, 2 * i // d))),
            ("sinusoid-no-exponent", "one frequency for all columns",
             lambda n, d: sinusoids(n, d, lambda i, d: (0 * i + 1, 0 * i + 1))),
            ("sinusoid-exponent-quarter", "the exponent i/(2d) in the sinusoidal table",
             lambda n, d: sinusoids(n, d, lambda i, d: (i / 2 / d, i / 2 / d))),
            ("sinusoid-base-1000", "the base 1000 instead of 10000 in the sinusoidal table",
             lambda n, d: sinusoids(n, d, base=1000.0)),
            ("sinusoid-base-100000", "the base 100000 instead of 10000 in the sinusoidal table",
             lambda n, d: sinusoids(n, d, base=100000.0)),
            ("sinusoid-inverted", "frequencies that grow instead of fall in the sinusoidal table",
             lambda n, d: sinusoids(n, d, lambda i, d: (-2 * i / d, -2 * i / d))),
            ("sinusoid-sines-only", "sines in the even and in the odd columns",
             lambda n, d: sinusoids(n, d, arrange=lambda s, c: interleave(s, s))),
        ],
    ),
)  # fmt: skip
MISTAKES = (*ROWS, *TOKENS, *JOIN, *FORMULAS)
