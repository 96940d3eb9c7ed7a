"""What a head's keys allow at all: which tokens can never win, and how long a query copying needs.

The keys are those of one context, as the kernel got them: positions are in them (after rotary embedding too), and the
numbers are the stored float32 ones, which float64 holds exactly. Every verdict is about those numbers in exact
arithmetic and about every query there is, not only those that the model makes:

* a token can win if some query gives it the strictly largest score; then longer queries in that direction give it any
  weight below 1, so its ceiling is 1 (:func:`regard.design.winnable`, rechecked by separate code);
* any other token has the ceiling of :func:`regard.design.ceiling`, with its certificate;
* copying it, to a weight of 1/(1 + eps), needs a query of a certain length (:func:`regard.design.copy_many`,
  proved from below); if even the head's longest query is shorter, the head cannot copy that token, whatever it asks.

The kernel itself works in float32: statements about its rounded scores these are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Flags, Float
from regard.errors import CouldNotFindOut
from regard.results import Result
from regard.written_numbers import at_most
from regard_models.head_measures.spread import EPS

ARITHMETIC = "exact arithmetic on the stored float32 keys, positions included"
_SECONDS = 20.0  # a last resort for one key's rationals: it then counts as undecided, and is named


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadCeilings(Result):
    """What is proved of one head's keys; places are counted from 0."""

    layer: int
    head: int
    query: int  # the keys are those that this query may read
    places: tuple[int, ...]
    words: tuple[str, ...]
    ceilings: tuple[float | None, ...]  # of every key; None where it could not be found out
    never: tuple[int, ...]  # places of keys that no query makes the strict argmax
    undecided: tuple[int, ...]
    needs: tuple[float | None, ...]  # proved least length of a query that copies the key; None where none does
    longest: float  # the longest query that the head made here
    out_of_reach: tuple[int, ...]  # places that no query of that length copies
    eps: float
    verified: bool  # all verdicts of `winnable` were proved again by the separate check

    def __str__(self) -> str:
        said = f"layer {self.layer} head {self.head}: {len(self.places)} keys; "
        said += "every one can win" if not self.never and not self.undecided else self._losers()
        reach = len(self.places) - len(self.out_of_reach)
        return f"{said}; a query as long as its longest, {self.longest:.3g}, could copy {reach} of them"

    def _losers(self) -> str:
        words = dict(zip(self.places, zip(self.words, self.ceilings, strict=True), strict=True))
        few = [f"{words[p][0]!r} at {p} (at most {at_most(words[p][1] or 0.0, 3)})" if words[p][1] is not None
               else f"{words[p][0]!r} at {p}" for p in self.never[:4]]  # fmt: skip
        more = f" and {len(self.never) - 4} more" if len(self.never) > 4 else ""
        never = f"never wins: {', '.join(few)}{more}" if self.never else ""
        open_ = f"{len(self.undecided)} could not be decided" if self.undecided else ""
        return "; ".join(part for part in (never, open_) if part)


def head_ceilings(
    k: Float, q: Float, allowed: Flags, *, scale: float, words: Sequence[str], layer: int, head: int, eps: float = EPS
) -> HeadCeilings:
    """The verdicts about one head: keys (keys, width), queries (queries, width), allowed (queries, keys)."""
    from regard.design import verify_winnable, winnable

    row = fullest_row(allowed)
    places = np.flatnonzero(allowed[row])
    keys = np.ascontiguousarray(k[places], dtype=np.float64)
    verdict = winnable(keys, jobs=1, seconds=_SECONDS)
    verified = verify_winnable(keys, verdict.to_dict()).answer
    ceilings: dict[int, float | None] = dict.fromkeys(range(len(keys)), 1.0)
    ceilings |= {j: _ceiling(keys, j) for j in verdict.never} | dict.fromkeys(verdict.undecided_rows, None)
    can = [j for j in range(len(keys)) if j not in (*verdict.never, *verdict.undecided_rows)]
    needs = _needs(keys, can, eps, scale)
    longest = float(np.linalg.norm(q, axis=1).max())
    far = [j for j in range(len(keys)) if _is_out_of_reach(j, ceilings, needs, longest, eps)]
    return HeadCeilings(
        layer=layer, head=head, query=row, places=_pick_places(places, range(len(places))),
        words=tuple(words[p] for p in places.tolist()), ceilings=tuple(ceilings[j] for j in range(len(keys))),
        never=_pick_places(places, verdict.never), undecided=_pick_places(places, verdict.undecided_rows),
        needs=tuple(needs.get(j) for j in range(len(keys))), longest=longest,
        out_of_reach=_pick_places(places, far), eps=eps,
        verified=verified,
    )  # fmt: skip


def fullest_row(allowed: Flags) -> int:
    """The last of the queries that may read most keys: where no mask is, the last; in a causal model too."""
    counts = allowed.sum(axis=1)
    return int(len(counts) - 1 - counts[::-1].argmax())


def _ceiling(keys: Float, j: int) -> float | None:
    from regard.design import ceiling

    try:
        return ceiling(keys, j).ceiling
    except CouldNotFindOut:
        return None


def _needs(keys: Float, which: list[int], eps: float, scale: float) -> dict[int, float | None]:
    """The proved least length of a query that copies each key."""
    from regard.design import copy_many

    if len(keys) < 2 or not which or scale <= 0:
        return {}
    designs = copy_many(keys, which, eps=eps, scale=scale)
    return {design.chosen[0]: design.lower_bound for design in designs if design.reachable}


def _is_out_of_reach(
    j: int, ceilings: dict[int, float | None], needs: dict[int, float | None], longest: float, eps: float
) -> bool:
    """Whether it is proved that no query of that length copies key j."""
    top, least = ceilings[j], needs.get(j)
    return (top is not None and top < 1 / (1 + eps)) or (least is not None and least > longest)


def _pick_places(places: npt.NDArray[np.intp], which: Sequence[int] | range) -> tuple[int, ...]:
    return tuple(int(places[j]) for j in which)
