"""Instances of a problem: small sizes first, then different primes; special ones among them (identity, ties, zeros)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import flint
import numpy as np

from regard.array_types import Float
from regard.coursework.derivations.evaluation import HALF, Instance, Matrix, exact, identity, matrix_of

if TYPE_CHECKING:
    from regard.coursework.derivations.problem import Problem, Symbol

COUNT = 9


def make_instances(problem: Problem, *, seed: int = 0, count: int = COUNT) -> list[Instance]:
    """Instances that satisfy everything which is given; the same ones for the same seed."""
    made: list[Instance] = []
    for n in range(4 * count):  # conditions of the problem refuse some draws
        if len(made) == count:
            break
        where = draw_instance(problem, n, n, random.Random(f"{seed} {n}"))
        if where is not None:
            made.append(where)
    return made


def draw_instance(problem: Problem, sizes: int, n: int, rng: random.Random) -> Instance | None:
    """The n-th instance, with the sizes of another one; None where it does not satisfy what is given."""
    values: dict[str, Any] = {name: exact(choices[sizes % len(choices)]) for name, choices in problem.sizes.items()}
    for name, symbol in problem.symbols.items():
        values[name] = _draw(symbol, values, n, rng)
    ones = int(values.get(problem.words.rows, 0)) if problem.words.rows else 0
    where = Instance(values, {**problem.definitions, **problem.values}, ones=ones)
    return where if all(problem.holds(condition, where) for condition in problem.conditions) else None


class LatentRandom(random.Random):
    """Draws that hang on a list of numbers, near ones on near ones: what the adversary moves."""

    def __init__(self, latent: Float) -> None:
        super().__init__(0)
        self.shares, self.drawn = (latent / (1 + np.abs(latent)) + 1) / 2, 0

    def random(self) -> float:
        self.drawn += 1
        return float(self.shares[self.drawn % len(self.shares)])

    def randint(self, a: int, b: int) -> int:
        return min(b, a + int(self.random() * (b - a + 1)))

    def choice(self, seq: Any) -> Any:
        return seq[self.randint(0, len(seq) - 1)]

    def shuffle(self, x: Any) -> None:
        x.sort(key=lambda _: self.random())


def draw_from_latent(problem: Problem, latent: Float) -> Instance | None:
    """The instance that a list of numbers stands for, its sizes and all."""
    rng = LatentRandom(latent)
    return draw_instance(problem, rng.randint(0, 4 * COUNT - 1), rng.randint(1, 4 * COUNT), rng)


def _size(word: str, values: Mapping[str, Any]) -> int:
    return int(word) if word.isdigit() else int(values[word])


def _draw(symbol: Symbol, values: dict[str, Any], n: int, rng: random.Random) -> Any:
    rows, columns = (_size(word, values) for word in symbol.shape)
    if symbol.last:
        count = _size(symbol.last, values)
        return _family(symbol, values, count, rows, n, rng)
    if symbol.choices:
        return exact(Fraction(symbol.choices[n % len(symbol.choices)]))
    if symbol.up_to:
        return exact(1 + (n // 2) % _size(symbol.up_to, values) if n else _size(symbol.up_to, values))
    if symbol.kind == "whole":
        return exact((0, 1, -1, 2, 3, -4, 0, 5, 6)[n % 9] if rng.random() < 0.7 else rng.randint(-9, 9))
    if symbol.kind == "permutation":
        return _permutation(rows, n, rng)
    if symbol.kind.startswith("orthonormal"):
        beside = values[symbol.kind.removeprefix("orthonormal beside ")] if " " in symbol.kind else None
        return _columns(rows, columns, beside.ncols() if beside else 0, n)
    if symbol.kind.startswith("diagonal of "):
        family = values[symbol.kind.removeprefix("diagonal of ")]
        return matrix_of([[family[i + 1] if i == j else 0 for j in range(rows)] for i in range(rows)])
    if (rows, columns) == (1, 1) and symbol.shape == ("1", "1"):
        value = flint.fmpq(rng.randint(1, 9), rng.choice((1, 2, 3)))
        return value if symbol.kind == "positive" or rng.random() < 0.6 else -value
    return matrix_of([[_entry(n, rng) for _ in range(columns)] for _ in range(rows)])


def _entry(n: int, rng: random.Random) -> flint.fmpq:
    # one instance has many zeros, where a line that divides by entries or cancels them shows
    return exact(0) if n == 5 and rng.random() < 0.5 else flint.fmpq(rng.randint(-3, 3), rng.choice((1, 1, 2)))


def _permutation(size: int, n: int, rng: random.Random) -> Matrix:
    order = list(range(size))
    if n % 4 == 1 and size > 1:
        order = [*order[1:], order[0]]  # a cycle, which is not its own inverse
    elif n % 4 != 0:
        rng.shuffle(order)
    return matrix_of([[int(j == order[i]) for j in range(size)] for i in range(size)])


def _columns(rows: int, columns: int, first: int, n: int) -> Matrix:
    """Columns of a rational orthogonal matrix, a product of two reflections; others go beside them."""
    rng = random.Random(f"{rows} {n} {first > 0 or rows != columns}")
    made = identity(rows)
    for _ in range(0 if n == 0 else 2):
        v = [rng.randint(-2, 2) for _ in range(rows)]
        v[rng.randrange(rows)] += 3
        square = sum(x * x for x in v)
        if square:
            column = matrix_of([[x] for x in v])
            made *= identity(rows) - column * column.transpose() * flint.fmpq(2, square)
    return matrix_of([row[first : first + columns] for row in made.tolist()])


def _family(
    symbol: Symbol, values: dict[str, Any], count: int, rows: int, n: int, rng: random.Random
) -> dict[int, Any]:
    if symbol.kind.startswith("columns of "):
        matrix = values[symbol.kind.removeprefix("columns of ")]
        return _columns_of(matrix, count)
    if symbol.kind == "sorted":
        return _descending(count, n, rng)
    if symbol.kind == "unit, at distance 1 from the first":
        return {i + 1: vector for i, vector in enumerate(_unit_vectors(count, rows, n, rng))}
    if symbol.kind == "orthonormal":
        return _columns_of(_columns(rows, count, 0, n), count)
    if rows == 1:
        low = 1 if symbol.kind == "positive" else -4
        # the first instance is all zeros, unless the numbers must be positive
        return {i + 1: flint.fmpq(rng.randint(low, 4), 2) * int(n != 0 or low > 0) for i in range(count)}
    return {i + 1: matrix_of([[_entry(n, rng)] for _ in range(rows)]) for i in range(count)}


def _columns_of(matrix: Matrix, count: int) -> dict[int, Matrix]:
    """The first columns of a matrix, each by itself, from 1."""
    return {i + 1: matrix_of([[row[i]] for row in matrix.tolist()]) for i in range(count)}


def _descending(count: int, n: int, rng: random.Random) -> dict[int, flint.fmpq]:
    drawn = sorted((flint.fmpq(rng.randint(1, 9), rng.choice((1, 2))) for _ in range(count)), reverse=True)
    if n % 4 == 2:
        drawn = [drawn[0]] * count  # ties
    if n % 4 == 3 and count > 1:
        drawn[-1] = exact(0)
    if n == 6:
        drawn = [exact(0)] * count  # the matrix is zero
    return {i + 1: value for i, value in enumerate(drawn)}


def _unit_vectors(count: int, rows: int, n: int, rng: random.Random) -> list[Matrix]:
    """Rational unit vectors whose product with the first is at most 1/2, exactly 1/2 where there is room."""
    made = [[exact(int(i == 0)) for i in range(rows)]]
    while len(made) < count:
        if rows >= 4 and rng.random() < 0.5:
            signs = [flint.fmpq(rng.choice((-1, 1)), 2) for _ in range(3)]
            one = [HALF, *signs, *[exact(0)] * (rows - 4)]
        else:
            one = _unit_vector(rows, rng)
        if one[0] <= HALF:
            made.append(one)
    return [matrix_of([[x] for x in one]) for one in made]


def _unit_vector(rows: int, rng: random.Random) -> list[flint.fmpq]:
    """By stereographic projection, so that its entries are rational."""
    if rows == 1:
        return [exact(-1)]
    point = [flint.fmpq(rng.randint(-3, 3), rng.choice((1, 2, 3))) for _ in range(rows - 1)]
    square = sum((x * x for x in point), exact(0))
    return [(square - 1) / (square + 1), *(2 * x / (square + 1) for x in point)]
