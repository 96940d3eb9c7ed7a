"""The coursework's layer and order: its lemmas, one sentence told two ways, and what positions leave over.

With f the layer (:func:`regard.layers.block`), f(PX) = P f(X) for every permutation P, from three lemmas:
softmax(P A P^T) = P softmax(A) P^T, ReLU(PA) = P ReLU(A), P 1 = 1. Once positions are added, g(X) = f(X + Phi):

    g(PX) = P f(X + P^T Phi)        always;
    g(PX) = P g(X) for all X        if P Phi = Phi, that is, P moves rows only among equal positions;
                                    and only if, when W_Q W_K^T is not 0 and the square W_V, W_1 and W_2 are
                                    invertible (:mod:`regard.symmetry.order_witnesses` shows it on an input).

Without such a condition more may survive: with W_Q W_K^T = 0 every row is the mean of all values, and g is
order-blind whatever Phi is. The proof is in docs/symmetry.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import InputError
from regard.layers import block
from regard.notation import readable
from regard.results import Result
from regard.symmetry.order_blindness import Permutation

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
