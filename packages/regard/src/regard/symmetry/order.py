"""The coursework's layer and order: its lemmas, one sentence told two ways, and what positions leave over.

With f the layer (:func:`regard.layers.block`), f(PX) = P f(X) for every permutation P, from three lemmas:
softmax(P A P^T) = P softmax(A) P^T, ReLU(PA) = P ReLU(A), P 1 = 1. Once positions are added, g(X) = f(X + Phi):

    g(PX) = P f(X + P^T Phi)        always;
    g(PX) = P g(X) for all X        if P Phi = Phi, that is, P moves rows only among equal positions;
                                    and only if, when W_Q W_K^T is not 0 and the square W_V, W_1 and W_2 are
                                    invertible (:func:`seen_orders` shows it on an input).

Without such a condition more may survive: with W_Q W_K^T = 0 every row is the mean of all values, and g is
order-blind whatever Phi is. The proof is in docs/symmetry.md.

That a layer sees every reordering once positions are added is shown by an input, enclosed in rigorous balls. With
E = P^T Phi - Phi, g(PX) = P g(X) for all X means f(Y + E) = f(Y) for all Y. The feed-
forward part of a ReLU layer is never one-to-one (where no unit is active it is constant), but far out, in a direction
u in which the active units have a one-to-one linear map M = W_1 D_u W_2, it is: h M + a constant. The proof
sends a value there. It puts t x into row i and t y into row m, with y W_V = u, and x so short
along B y^T that row m has the highest score of row i; then, as t grows,

    row i of f(Y + E) - row i of f(Y)  ->  e_m W_V M,

which is not 0 unless e_m is. For square, invertible W_1 and W_2 some u has all units active, and M = W_1 W_2.

:func:`seen_orders` builds these inputs in floats; what it reports was computed again from them, by enclosures of the
layer's two outputs that know nothing of the proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import CouldNotFindOut, InputError
from regard.layers import block
from regard.notation import readable
from regard.results import Result
from regard.rigor import balls
from regard.symmetry.order_blindness import Permutation
from regard.written_numbers import at_least, at_most, in_full

WORDS = ("the", "dog", "bit", "the", "man")
SWAPPED = (0, 4, 2, 3, 1)  # "the man bit the dog"


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """Weights of the coursework's layer; call it with X (n x d).

    W_Q, W_K and W_V are d x d; W_1 is d x h, b_1 has h numbers, W_2 is h x d and b_2 has d numbers.
    """

    W_Q: Float
    W_K: Float
    W_V: Float
    W_1: Float
    b_1: Float
    W_2: Float
    b_2: Float

    def __call__(self, X: npt.ArrayLike) -> Float:
        return block(X, self.W_Q, self.W_K, self.W_V, self.W_1, self.b_1, self.W_2, self.b_2).output


def random_layer(dim: int, *, hidden: int | None = None, seed: int | np.random.Generator = 0) -> Layer:
    """A layer with normal weights of variance 1/rows.

    >>> random_layer(4)(np.zeros((3, 4))).shape
    (3, 4)
    """
    rng, wide = np.random.default_rng(seed), hidden or 4 * dim
    square = [rng.standard_normal((dim, dim)) / np.sqrt(dim) for _ in range(3)]
    up, down = rng.standard_normal((dim, wide)) / np.sqrt(dim), rng.standard_normal((wide, dim)) / np.sqrt(wide)
    b_1, b_2 = rng.standard_normal(wide), rng.standard_normal(dim)
    return Layer(W_Q=square[0], W_K=square[1], W_V=square[2], W_1=up, b_1=b_1, W_2=down, b_2=b_2)


# the lemmas


@dataclass(frozen=True, kw_only=True, eq=False)
class Lemmas(Result):
    """The three lemmas in exact arithmetic, and what floats make of two of their steps on this machine."""

    relu: bool  # ReLU(PA) = P ReLU(A), bit for bit
    ones: bool  # P 1 = 1
    softmax: bool  # softmax(P A P^T) = P softmax(A) P^T, in rationals, e replaced by 3
    rows_of_product: bool  # (PA) B = P (AB) bit for bit in float64: a property of the BLAS, not a theorem
    reordered_sum: bool  # (A P^T)(P B) = A B bit for bit in float64

    @property
    def answer(self) -> bool:
        return self.relu and self.ones and self.softmax

    @property
    def marked_text(self) -> str:
        """What was found, in words, with its formulas marked."""
        exact = "hold exactly" if self.answer else "FAIL"
        said = ["differ in the last bits", "were bit-identical"]
        return (
            f"$ReLU(PA) = P ReLU(A)$, $P1 = 1$ and $softmax(PAP^T) = P softmax(A) P^T$ {exact}. In float64 here, "
            f"$(PA)B$ and $P(AB)$ {said[self.rows_of_product]}; $(AP^T)(PB)$ and $AB$ {said[self.reordered_sum]}."
        )

    def __str__(self) -> str:
        return readable(self.marked_text)


def lemmas(*, size: int = 127, seed: int | np.random.Generator = 0) -> Lemmas:
    """Check the lemmas on a random case: exactly where arithmetic is exact, and say what floats do.

    >>> lemmas().answer
    True
    """
    rng = np.random.default_rng(seed)
    p, order = rng.permutation(size), rng.permutation(size)
    A, B = rng.standard_normal((2, size, size))
    whole, few = rng.integers(-5, 6, (7, 7)), rng.permutation(7)
    return Lemmas(
        relu=bool(np.array_equal(np.maximum(A[p], 0), np.maximum(A, 0)[p])),
        ones=bool(np.array_equal(np.ones((size, 1))[p], np.ones((size, 1)))),
        softmax=_exact_softmax(whole[np.ix_(few, few)]) == _permute(_exact_softmax(whole), few),
        rows_of_product=bool(np.array_equal(A[p] @ B, (A @ B)[p])),
        reordered_sum=bool(np.array_equal(A[:, order] @ B[order], A @ B)),
    )


def _exact_softmax(scores: npt.NDArray[np.int64]) -> list[list[flint.fmpq]]:
    """Rows of 3^a / sum 3^a in rationals: the lemma moves terms of sums about, so any positive base will do."""
    raised = [[flint.fmpq(3) ** int(a) for a in row] for row in scores]
    return [[entry / sum(row, flint.fmpq(0)) for entry in row] for row in raised]


def _permute(matrix: list[list[flint.fmpq]], p: Permutation) -> list[list[flint.fmpq]]:
    return [[matrix[i][j] for j in p] for i in p]


# positions


def equal_positions(Phi: npt.ArrayLike) -> list[list[int]]:
    """Groups of rows of Phi that coincide: exactly the permutations within groups have P Phi = Phi.

    >>> equal_positions([[1.0], [2.0], [1.0], [3.0]])
    [[0, 2], [1], [3]]
    """
    groups: dict[bytes, list[int]] = {}
    for t, row in enumerate(check_array(Phi, what="Phi") + 0.0):
        groups.setdefault(row.tobytes(), []).append(t)
    return list(groups.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class Sentences(Result):
    """The outputs of one layer for "the dog bit the man" and "the man bit the dog", word by word."""

    words: tuple[str, ...]  # in the first sentence
    differences: tuple[float, ...]  # |output in the first - output of the same word in the second|, largest entry
    size: float  # root mean square of the outputs
    with_positions: bool

    @property
    def answer(self) -> bool:
        """True where the two sentences can be told apart (differences beyond 1e-12 of the outputs' size)."""
        return max(self.differences) > 1e-12 * self.size

    def __str__(self) -> str:
        how = "with positions" if self.with_positions else "without positions"
        each = ", ".join(f"{w} {d:.2g}" for w, d in zip(self.words, self.differences, strict=True))
        verdict = "can be told apart" if self.answer else "give the same outputs, reordered"
        return (
            f'"the dog bit the man" and "the man bit the dog" {verdict} {how}: '
            f"word by word the outputs differ by {each} (their size: {self.size:.2g})."
        )


def dog_and_man(
    positions: npt.ArrayLike | None = None, *, layer: Layer | None = None, dim: int = 8, seed: int = 0
) -> Sentences:
    """One layer, two sentences with the same words: how far apart are a word's outputs?

    ``positions`` (5 x dim) is added to both sentences if given; words are normal vectors.

    >>> dog_and_man().answer, dog_and_man(np.eye(5, 8)).answer
    (False, True)
    """
    Phi = np.zeros((5, dim)) if positions is None else check_array(positions, what="positions")
    if len(Phi) != len(WORDS):
        raise InputError(f"positions has {len(Phi)} rows, but the sentences have 5 words; give 5 rows.")
    rng, width = np.random.default_rng(seed), Phi.shape[1]
    vectors = {word: rng.standard_normal(width) for word in dict.fromkeys(WORDS)}
    X, P = np.array([vectors[word] for word in WORDS]), list(SWAPPED)
    f = layer or random_layer(width, seed=rng)
    first, second = f(X + Phi), f(X[P] + Phi)
    return Sentences(
        words=WORDS,
        differences=tuple(np.abs(first - second[P]).max(axis=1).tolist()),  # SWAPPED undoes itself
        size=float(np.sqrt(np.mean(first**2))),
        with_positions=positions is not None,
    )


DIRECTIONS = 64  # that are tried for the active units
DOUBLINGS = 40  # of t; a lead of t^2 against a change of t
FEW = 8  # orders that are tried in floats before all are enclosed
NEAR = 0.01  # how near the limit of the proof a difference must be, relatively, to end the search


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderWitnesses(Result):
    """For every reordering an input on which it shows. ``least`` bounds all those differences from below."""

    orders: int
    least: float  # the largest entry of g(PX) - P g(X) is at least this, for every P that was tried
    farthest: float  # t, the length of the inputs
    off: float  # how far a difference is from the limit e_m W_V M, relatively, at most

    def __str__(self) -> str:
        return (
            f"All {self.orders:,} reorderings show: for each there is an X with some entry of |g(PX) - P g(X)| above "
            f"{at_least(self.least, 3)} (enclosed), which is the limit of the proof to {at_most(self.off, 1)} (t up to "
            f"{in_full(self.farthest)})."
        )


def seen_orders(layer: Layer, Phi: Float, orders: Sequence[Sequence[int]] | None = None) -> OrderWitnesses:
    """An input for every reordering (by default all but the identity) on which g(PX) != P g(X), enclosed.

    Every order must move a position to another place: P Phi != Phi.

    >>> from regard.symmetry import random_layer
    >>> seen_orders(random_layer(4, hidden=4), np.eye(3, 4)).least > 0
    True
    """
    here = tuple(range(len(Phi)))
    others = (one for one in itertools.permutations(here) if one != here)
    wanted = [tuple(one) for one in (others if orders is None else orders)]
    moved = {order: Phi[np.argsort(order)] - Phi for order in wanted}
    if still := [order for order, E in moved.items() if not E.any()]:
        raise InputError(f"Order {list(still[0])} moves rows among equal positions only, and no layer can see that.")
    shown = []
    for m in range(len(Phi)):
        mine = [order for order, E in moved.items() if int(np.linalg.norm(E, axis=1).argmax()) == m]
        if mine:
            shown.append(_least_difference(layer, Phi, mine, m))
    least, lengths, off = zip(*shown, strict=True)
    return OrderWitnesses(orders=len(wanted), least=min(least), farthest=max(lengths), off=max(off))


def _least_difference(layer: Layer, Phi: Float, orders: list[tuple[int, ...]], m: int) -> tuple[float, float, float]:
    """The least difference over these orders, the t that it took, and how far it is from the limit."""
    i, (x, y, M) = (m + 1) % len(Phi), _directions(layer)
    limits = [(Phi[np.argsort(order)[m]] - Phi[m]) @ layer.W_V @ M for order in orders]
    for doubling in range(DOUBLINGS):
        # X + Phi is then 0 but for two rows, and X + P^T Phi is that plus E: nothing else is in the way of the limit
        t, X = 2.0**doubling, -Phi
        X[i] += t * x
        X[m] += t * y
        stays = layer(X + Phi)[i]
        few = [layer(X + Phi[np.argsort(order)])[i] - stays for order in orders[:FEW]]
        if _limit_deviation(few, limits[:FEW]) > NEAR / 2:
            continue  # in floats and for a few, which is quick; what counts is enclosed, for all
        with balls.precise():
            stay, *go = enclosed_row(layer, X, Phi, [tuple(range(len(Phi))), *orders], i)
            differences = [[a - b for a, b in zip(row, stay, strict=True)] for row in go]
        least = [max(max(balls.below(abs(d)) for d in row), 0.0) for row in differences]
        off = _limit_deviation([np.array([float(d.mid()) for d in row]) for row in differences], limits)
        if min(least) > 0 and off < NEAR:
            return min(least), t, off
    raise CouldNotFindOut(f"No input up to t = 2^{DOUBLINGS} showed every reordering; the weights may be singular.")


def _limit_deviation(differences: list[Float], limits: list[Float]) -> float:
    """How far the differences are from their limits, relatively, at most."""
    apart = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(differences, limits, strict=True)]
    return float(max(apart))


def _directions(layer: Layer) -> tuple[Float, Float, Float]:
    """x and y of the proof, and the linear map M of the units that are active far out along y W_V."""
    B, rng = layer.W_Q @ layer.W_K.T, np.random.default_rng(0)
    best: tuple[float, Any, Float] | None = None
    for u in _candidates(layer, rng):
        M = (layer.W_1 * (u @ layer.W_1 > 0)) @ layer.W_2
        try:
            y = np.linalg.solve(layer.W_V.T, u)
        except np.linalg.LinAlgError:
            raise InputError("W_V must be square and invertible: otherwise a layer need not see positions.") from None
        y = y / float(np.linalg.norm(y))
        # how far the limit e M is from 0 at least, times how quickly row m takes the lead
        worth = float(np.linalg.svd(M, compute_uv=False)[-1] * np.linalg.norm(B @ y))
        if best is None or worth > best[0]:
            best = worth, y, M
    if best is None or not best[0] > 0:
        raise InputError("W_Q W_K^T, or the feed-forward part in every direction that was tried, is singular.")
    _, y, M = best
    return (B @ y) / (2 * np.linalg.norm(B, 2)), y, M


def _candidates(layer: Layer, rng: np.random.Generator) -> list[Float]:
    """Directions of h: those in which all units are active where W_1 is square and invertible, else random ones."""
    dim, units = layer.W_1.shape
    if units != dim:
        return list(rng.standard_normal((DIRECTIONS, dim)))
    try:
        # u W_1 = these numbers, all positive: every unit is active along u
        return list(np.linalg.solve(layer.W_1.T, 1 + rng.random((dim, DIRECTIONS))).T)
    except np.linalg.LinAlgError:
        raise InputError(
            "W_1 must be invertible where it is square: otherwise a layer need not see positions."
        ) from None


def enclosed_row(
    layer: Layer, X: Float, Phi: Float, orders: Sequence[tuple[int, ...]], row: int
) -> list[list[flint.arb]]:
    """Row ``row`` of f(X + P^T Phi) for each order, in balls: the layer as it is written, all orders at once."""
    n, names = len(Phi), ("W_Q", "W_K", "W_V", "W_1", "W_2")
    weights = {name: flint.arb_mat(getattr(layer, name).tolist()) for name in names}
    sums = [
        [[flint.arb(a) + flint.arb(b) for a, b in zip(X[j], Phi[p], strict=True)] for p in range(n)] for j in range(n)
    ]
    # an order only chooses which n of these n^2 rows it has: their products with the weights serve all orders
    every = flint.arb_mat([sums[j][p] for j in range(n) for p in range(n)])  # row j n + p: x_j + phi_p
    places = [[int(p) for p in np.argsort(order)] for order in orders]
    own = flint.arb_mat([sums[row][place[row]] for place in places])
    scores = (own * weights["W_Q"] * (every * weights["W_K"]).transpose()).tolist()
    scale = 1 / flint.arb(layer.W_Q.shape[1]).sqrt()
    attention = [[flint.arb(0)] * (n * n) for _ in places]
    for at, place in enumerate(places):
        for j, weight in enumerate(balls.weights([scores[at][j * n + place[j]] * scale for j in range(n)])):
            attention[at][j * n + place[j]] = weight
    hidden = (flint.arb_mat(attention) * every * weights["W_V"] * weights["W_1"]).tolist()
    active = [[(h + flint.arb(b)).max(flint.arb(0)) for h, b in zip(line, layer.b_1, strict=True)] for line in hidden]
    output: list[list[flint.arb]] = (flint.arb_mat(active) * weights["W_2"]).tolist()
    return [[z + flint.arb(b) for z, b in zip(line, layer.b_2, strict=True)] for line in output]


def invertible(matrix: Float) -> bool:
    """Whether a square matrix is invertible, proved: its inverse is enclosed. False says nothing.

    >>> invertible(np.eye(3)), invertible(np.ones((2, 2)))
    (True, False)
    """
    with balls.precise():
        try:
            flint.arb_mat(matrix.tolist()).inv()
        except ZeroDivisionError:
            return False
    return True


def blind_layer(Phi: Float, *, dull: str = "W_V") -> Layer:
    """A layer that sees no order although Phi is added: it does not look along the differences of the positions.

    With U the span of all phi_s - phi_t and N the projection on its complement, W_Q = W_K = N (so that W_Q W_K^T is not
    0) and one of W_V and W_1 is N too, the others I: then f(Y + E) = f(Y) for every E with rows in U. There is one
    whenever the differences do not span everything, as at lengths up to the dimension. All this in real numbers: N
    rounded to floats is singular only to rounding.

    >>> layer, Phi, X = blind_layer(np.eye(2, 4)), np.eye(2, 4), np.arange(8.0).reshape(2, 4)
    >>> bool(np.allclose(layer(X[::-1] + Phi), layer(X + Phi)[::-1]))
    True
    """
    dim = Phi.shape[1]
    if dull not in ("W_V", "W_1"):
        raise InputError(f"dull must be W_V or W_1, not {dull!r}.")
    _, sigma, rows = np.linalg.svd(Phi[1:] - Phi[0], full_matrices=True)
    rank = int((sigma > 1e-12 * max(sigma.max(initial=0.0), 1.0)).sum())
    if rank == dim:
        raise InputError(f"The differences of these positions span all {dim} dimensions; give fewer positions.")
    N, eye, zero = rows[rank:].T @ rows[rank:], np.eye(dim), np.zeros(dim)
    W_V, W_1 = (N, eye) if dull == "W_V" else (eye, N)
    return Layer(W_Q=N, W_K=N, W_V=W_V, W_1=W_1, b_1=zero, W_2=eye, b_2=zero)
