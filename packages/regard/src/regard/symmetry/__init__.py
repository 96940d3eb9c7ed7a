"""Symmetry: is a map from rows to rows order-blind, and what positions do to that.

It may import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``order_blindness.py``, the verb;
``maps.py`` reads maps from files, ``order.py`` proves that positions are seen.
"""

from __future__ import annotations

from regard.symmetry.maps import load_map
from regard.symmetry.order import Layer, blind_layer, dog_and_man, equal_positions, lemmas, random_layer, seen_orders
from regard.symmetry.order_blindness import Symmetry, symmetry

__all__ = [
    "Layer",
    "Symmetry",
    "blind_layer",
    "dog_and_man",
    "equal_positions",
    "lemmas",
    "load_map",
    "random_layer",
    "seen_orders",
    "symmetry",
]
