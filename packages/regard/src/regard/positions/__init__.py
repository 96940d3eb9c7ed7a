"""Positions: sinusoidal, learned and rotary; when two of them are equal, which are nearest, how near.

>>> from regard.positions import positions
>>> print(positions(dim=4, length=10**7))
All distinct (sinusoidal positions, dim 4, length 10,000,000, real).
The nearest two are 0 and 1146053, at distance 2.95581e-05.
Proof: an equal first pair means a difference of 2 pi m, m > 0, and pi would be rational.
The nearest is proved by continued fraction over all offsets to 9,999,999.

It may import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``answer.py``, the verb; ``nearest.py``
works in real arithmetic, ``number_formats.py`` in what machines store.
"""

from __future__ import annotations

from regard.positions.answer import Positions, positions
from regard.positions.encodings import Differences, differences, frequencies, rotate, sinusoidal
from regard.positions.nearest import Nearest, convergents, distance, nearest_offset
from regard.positions.number_formats import Table, round_to
from regard.positions.rows import Collision, first_collision, first_equal_rows, nearest_rows

__all__ = [
    "Collision",
    "Differences",
    "Nearest",
    "Positions",
    "Table",
    "convergents",
    "differences",
    "distance",
    "first_collision",
    "first_equal_rows",
    "frequencies",
    "nearest_offset",
    "nearest_rows",
    "positions",
    "rotate",
    "round_to",
    "sinusoidal",
]
