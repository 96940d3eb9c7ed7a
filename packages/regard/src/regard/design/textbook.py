"""The coursework's closed forms, each with the assumption it needs and the bound it promises.

They hold for special keys only, and are seldom the shortest: `shortest_for_orthonormal` is, for orthonormal keys. The
functions take the assumption as given; `textbook_query` checks it and picks the form that applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import numpy as np

from regard.array_types import Float
from regard.rigor import row_chunks

FEW = 64  # keys that are looked at before the rest
TOLERANCE = 1e-9  # how far products of keys may be from 0 and 1 and still count as orthonormal or unit


@dataclass(frozen=True, eq=False)
class Textbook:
    """A closed form, where it comes from, its query and norm, and the norm its statement promises."""

    name: str
    query: Float
    norm: float
    promised_norm: float


def copying_query(keys: Float, index: int, eps: float) -> Float:
    """q = 2 ln(n/eps) k_j (d numbers): for n unit keys (n x d) with every other key at distance >= 1 from k_j.

    Then k_j.k_j - k_i.k_j = ||k_i - k_j||² / 2 >= 1/2, so the others' total is at most (n-1) eps/n < eps.

    >>> copying_query(np.eye(3), 0, 0.03).round(4).tolist()
    [9.2103, 0.0, 0.0]
    """
    return np.asarray(2 * (log(len(keys)) - log(eps)) * keys[index])


def sharing_query(keys: Float, indices: Sequence[int], eps: float) -> Float:
    """q = T sum_S k (d numbers) with T = ln((n-s)/eps): for orthonormal keys (n x d); norm T sqrt(s).

    Scores are T on S and 0 elsewhere, so each of S gets 1/(s + (n-s) e^-T) = 1/(s + eps), exactly.

    >>> sharing_query(np.eye(4), [0, 1], 0.02).round(4).tolist()
    [4.6052, 4.6052, 0.0, 0.0]
    """
    rest = len(keys) - len(indices)
    if rest == 0:
        return np.zeros(keys.shape[1])
    return np.asarray(max(log(rest) - log(eps), 0.0) * keys[list(indices)].sum(axis=0))


def shortest_for_orthonormal(keys: Float, indices: Sequence[int], eps: float) -> Float:
    """The shortest query (d numbers) that gives each of S at least 1/(s+eps), for orthonormal keys (n x d).

    q = T [ ((n-s)/n) sum_S k - (s/n) sum_rest k ], of norm T sqrt(s (n-s) / n): the same scores less their mean,
    since adding a constant to all scores changes no weight.

    >>> q = shortest_for_orthonormal(np.eye(4), [0, 1], 0.02)
    >>> q.round(4).tolist()
    [2.3026, 2.3026, -2.3026, -2.3026]
    """
    chosen = np.zeros(len(keys), dtype=bool)
    chosen[list(indices)] = True
    n, s = len(keys), int(chosen.sum())
    if s == n:
        return np.zeros(keys.shape[1])
    strength = max(log(n - s) - log(eps), 0.0)
    return np.asarray(strength * (((n - s) / n) * keys[chosen].sum(axis=0) - (s / n) * keys[~chosen].sum(axis=0)))


def textbook_query(keys: Float, indices: Sequence[int], eps: float) -> Textbook | None:
    """The closed form whose assumption these keys (n x d) meet (to 1e-9), or None."""
    return ClosedForms(keys, indices).query(indices, eps)


class ClosedForms:
    """Which closed form some keys allow, for several questions: what all of them need is found out once."""

    def __init__(self, keys: Float, chosen: Sequence[int]) -> None:
        self.keys, self.chosen = keys, list(chosen)  # of these keys one or several are asked about at a time

    def query(self, indices: Sequence[int], eps: float) -> Textbook | None:
        """As `textbook_query`; indices: among the chosen ones."""
        keys, s = self.keys, len(indices)
        n = len(keys)
        if n > keys.shape[1] and s > 1:
            return None  # more keys than dimensions: not orthonormal, and sharing has no other closed form
        if self._orthonormal:
            query = sharing_query(keys, indices, eps)
            promised = max(log(n - s) - log(eps), 0.0) * sqrt(s) if n > s else 0.0
            return Textbook("T times the sum of the chosen keys (orthonormal keys)", query, _norm(query), promised)
        if s == 1 and indices[0] in self._separate_keys:
            query = copying_query(keys, indices[0], eps)
            name = "2 ln(n/eps) times the key (unit keys, the others at distance 1 or more)"
            return Textbook(name, query, _norm(query), 2 * (log(n) - log(eps)))
        return None

    @cached_property
    def _orthonormal(self) -> bool:
        keys = self.keys
        return len(keys) <= keys.shape[1] and bool(np.abs(keys @ keys.T - np.eye(len(keys))).max() <= TOLERANCE)

    @cached_property
    def _separate_keys(self) -> set[int]:
        """The chosen keys with all others at distance 1 or more; none where some key is not of length 1."""
        keys = self.keys
        if not _unit(np.vecdot(keys[:FEW], keys[:FEW])):  # nearly always the first few say no
            return set()
        own = keys[self.chosen]
        lengths, near = np.vecdot(own, own), np.zeros(len(own), dtype=np.intp)
        for some in row_chunks(len(keys), keys.shape[1]):
            block = keys[some]
            squares = np.vecdot(block, block)
            near += (squares[:, None] + lengths - 2 * (block @ own.T) < 1 - TOLERANCE).sum(axis=0)
            if near.min() > 1 or not _unit(squares):  # each is near itself
                return set()
        return {index for index, count in zip(self.chosen, near.tolist(), strict=True) if count == 1}


def _unit(squares: Float) -> bool:
    return bool(np.abs(squares - 1).max() <= TOLERANCE)


def _norm(query: Float) -> float:
    return float(np.linalg.norm(query))
