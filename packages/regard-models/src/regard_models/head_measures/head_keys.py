"""What a head's keys allow, and what their lengths do to it.

**What they allow at all**: which tokens can never win, and how long a query copying needs.

The keys are those of one context, as the kernel got them: positions are in them (after rotary embedding too), and the
numbers are the stored float32 ones, which float64 holds exactly. Every verdict is about those numbers in exact
arithmetic and about every query there is, not only those that the model makes:

* a token can win if some query gives it the strictly largest score; then longer queries in that direction give it any
  weight below 1, so its ceiling is 1 (:func:`regard.design.winnable`, rechecked by separate code);
* any other token has the ceiling of :func:`regard.design.ceiling`, with its certificate;
* copying it, to a weight of 1/(1 + eps), needs a query of a certain length (:func:`regard.design.copy_many`,
  proved from below); if even the head's longest query is shorter, the head cannot copy that token, whatever it asks.

The kernel itself works in float32: statements about its rounded scores these are not.

**How far their lengths swing**, and what that does to the head.

The coursework's one head: a query that shares its weight between two keys is thrown from one to the other as soon as
one key grows a little longer. Here the same is asked of a real head, in three ways:

    swing    sd / mean of ||k_j|| over the keys of this context
    evened   how far the weights move (total variation) if every key had the mean length: k_j -> k_j m / ||k_j||
    noise    of the row that shares most: if every length were to swing by that much again, k_j -> (1 + swing z_j) k_j
             with independent normal z_j, the standard deviation of its largest weight. Exact (integrals of
             :mod:`regard.noise`), beside draws through the head's own softmax.

All of this needs scores that are scale q.k and a mask and nothing else; :func:`plain_scores` finds out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Flags, Float
from regard.attention import softmax
from regard.errors import CouldNotFindOut
from regard.results import Result
from regard.written_numbers import at_most
from regard_models.head_measures.weight_patterns import EPS, mean_total_variation, normalise_rows

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


DRAWS = 4000
_NEAR = 2e-5, 2e-2  # recomputed weights may be off by rounding: at least, and at most (half precision) by so much


@dataclass(frozen=True, kw_only=True)
class SwingNoise(Result):
    """What a swing of the keys' lengths does to one row; ``measured`` by draws, with twice its standard error."""

    layer: int
    head: int
    query: int
    swing: float
    largest: float  # the largest weight as it is
    sd: float  # of that weight, exactly
    sd_accuracy: float
    measured_sd: float
    measured_sd_within: float
    mean: float  # of that weight, exactly
    measured_mean: float
    method: str


def scores_of(q: Float, k: Float, scale: float) -> Float:
    """scale q k^T of every head: (heads, queries, width) and (heads, keys, width)."""
    return np.asarray(scale * np.einsum("hqd,hkd->hqk", q, k, optimize=True), dtype=np.float64)


def plain_scores(
    q: Float, k: Float, scale: float, weights: Float, allowed: Flags, *, rounding: float = 0.0
) -> Float | None:
    """The scores, if their softmax over the allowed keys is what the head used; None if something else is in them.

    ``rounding``: what the kernel's arithmetic explains of a difference.
    """
    scores = scores_of(q, k, scale)
    again = masked_softmax(scores, allowed)
    near = min(max(rounding, _NEAR[0]), _NEAR[1])
    return scores if bool(np.abs(again - weights).max() <= near) else None


def masked_softmax(scores: Float, allowed: Flags) -> Float:
    """Softmax over the allowed keys; a row without any is zero."""
    some = allowed.any(axis=-1, keepdims=True)
    low = np.where(some, np.where(allowed, scores, -np.inf), 0.0)
    weights: Float = np.where(some, softmax(low), 0.0)
    return weights


def swing(k: Float) -> Float:
    """sd / mean of the keys' lengths, for every head.

    >>> swing(np.array([[[3.0, 0.0], [0.0, 1.0]]])).tolist()
    [0.5]
    """
    lengths = np.linalg.norm(k, axis=2)
    mean = lengths.mean(axis=1)
    relative: Float = np.divide(lengths.std(axis=1), mean, out=np.full(len(k), np.nan), where=mean > 0)
    return relative


def even_length_effect(scores: Float, k: Float, allowed: Flags) -> Float:
    """How far the weights move if every key had the mean length, for every head."""
    lengths = np.linalg.norm(k, axis=2)
    mean = lengths.mean(axis=1, keepdims=True)
    factor = np.divide(mean, lengths, out=np.ones_like(lengths), where=lengths > 0)
    return mean_total_variation(masked_softmax(scores, allowed), masked_softmax(scores * factor[:, None, :], allowed))


def swing_noise(scores: Float, allowed: Flags, amount: float, *, layer: int, head: int, seed: int = 0) -> SwingNoise:
    """The noise of one head's most sharing row: scores and allowed are (queries, keys)."""
    from regard.noise import weight_moments
    from regard.noise.scores import KeyLaw, merge_equal_laws

    row = most_sharing_row(masked_softmax(scores, allowed), allowed)
    s = scores[row, allowed[row]]
    s = s - s.max()  # a shift changes no weight; but the noise goes with the score itself
    spreads = np.abs(scores[row, allowed[row]]) * amount
    laws = merge_equal_laws(
        [KeyLaw(np.ones(1), np.array([[m]]), np.array([[sd**2]])) for m, sd in zip(s, spreads, strict=True)]
    )
    top = int(s.argmax())
    moments = weight_moments(laws)
    variance = max(float(moments.covariance[top, top]), 0.0)
    each = _draw_weights(s, spreads, seed)[:, top]
    return SwingNoise(
        layer=layer, head=head, query=row, swing=amount, largest=float(softmax(s)[top]), sd=variance**0.5,
        sd_accuracy=float(3 * moments.accuracy / max(variance**0.5, moments.accuracy**0.5)),
        measured_sd=float(each.std()), measured_sd_within=2 * _sd_error(each), mean=float(moments.mean[top]),
        measured_mean=float(each.mean()), method=moments.method,
    )  # fmt: skip


def most_sharing_row(weights: Float, allowed: Flags) -> int:
    """The row of (queries, keys) whose second largest weight is largest."""
    if weights.shape[1] < 2:
        return 0
    second = np.sort(normalise_rows(weights), axis=1)[:, -2]
    return int(np.where(allowed.sum(axis=1) > 1, second, -1.0).argmax())


def _draw_weights(s: Float, spreads: Float, seed: int) -> Float:
    """Weights for drawn lengths, in the arithmetic of the head: float32."""
    random = np.random.default_rng(seed)
    noisy = (s + spreads * random.standard_normal((DRAWS, len(s)))).astype(np.float32)
    weights: Float = softmax(noisy).astype(np.float64)
    return weights


def _sd_error(values: Float) -> float:
    """The standard error of a sample's standard deviation, from its fourth moment."""
    centred = values - values.mean()
    variance = float((centred**2).mean())
    if variance <= 0:
        return 0.0
    fourth = float((centred**4).mean())
    return float((max(fourth - variance**2, 0.0) / (4 * variance * len(values))) ** 0.5)
