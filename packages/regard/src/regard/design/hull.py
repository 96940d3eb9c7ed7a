"""Is key j a convex combination of the other keys? Found in floating point, then decided exactly.

Exactly one holds (Gordan): a query q with k_j.q > k_i.q for all i != j, or weights w >= 0 with sum 1 and
sum_i w_i k_i = k_j. The search solves min ||q|| subject to (k_j - k_i).q / ||k_j - k_i|| >= 1 by the dual
active-set method of Goldfarb and Idnani, whose failure is a combination. Nothing it finds is trusted:
:mod:`regard.rigor` proves it on the stored numbers, or exact rationals decide.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import rigor
from regard.array_types import Array, Float
from regard.arrays import as_array, refuse_rounded
from regard.errors import CouldNotFindOut, InputError
from regard.rigor.exact import pivots

Indices = NDArray[np.intp]

BLOCK = 1 << 20  # numbers of the keys that one step looks at
CUTS = 96  # violated rows that join the pool after each look at all of them
FLAT = 1e-27  # a squared unit vector's part outside the active rows' span below this is rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Membership:
    """Whether key `key` lies in the convex hull of the others, with the proof.

    Outside: `query` makes it the strict argmax; `whole_query` does where floats have too few digits for it
    (Python integers; a query may be scaled freely). Inside: the rows `support` with `weights` (each within its
    entry of `radii`) combine to it; `exact_weights` are the rationals where those are the proof.
    """

    key: int
    inside: bool
    proof: str
    query: Float | None = None  # d numbers
    whole_query: tuple[int, ...] | None = None
    support: Indices | None = None  # row numbers; as many weights and radii
    weights: Float | None = None
    radii: Float | None = None
    exact_weights: tuple[flint.fmpq, ...] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Guess:
    """What floating point believes: a query that wins, or rows and positive weights that combine to the key."""

    query: Float | None
    support: Indices
    weights: Float


def decide(keys: ArrayLike, j: int, *, pool: Indices | None = None, seconds: float = 60.0) -> Membership:
    """Decides, in exact arithmetic on the stored numbers, whether k_j is in the hull of the other keys.

    keys: n x d finite numbers (kept in their own dtype; any float or integer that float64 holds exactly).
    pool: rows worth trying first, such as those of the highest score under a good query.
    seconds: how long exact rationals may take before :class:`CouldNotFindOut` is raised.

    >>> square = [[0, 0], [2, 0], [2, 2], [0, 2], [1, 1]]
    >>> decide(square, 4).inside, decide(square, 0).inside
    (True, False)
    """
    rigor.check_arithmetic()
    K = _matrix(keys, j)
    twin = _identical_row(K, j)
    if twin is not None:
        return _copy_of(j, twin)
    guess = _search(K, j, pool)
    proved = prove(K, j, guess)
    return proved if proved is not None else _decide_exactly(K, j, guess, seconds)


def prove(K: Array, j: int, guess: Guess) -> Membership | None:
    """The guess as a proved statement, or None where it cannot be proved as it stands."""
    if guess.query is not None:
        if not (np.isfinite(guess.query).all() and rigor.strictly_wins(K, j, guess.query)):
            return None
        return Membership(key=j, inside=False, proof="strict win, exact", query=guess.query)
    if not len(guess.support) or not np.isfinite(guess.weights).all():
        return None
    points, target = _floats(K[guess.support]), _floats(K[j])
    basis = rigor.choose_basis(points, target, guess.weights)
    enclosed = rigor.enclose_combination(points, target, guess.weights, basis)
    if enclosed is not None:
        mid, rad = enclosed
        return Membership(key=j, inside=True, proof="enclosure", support=guess.support, weights=mid, radii=rad)
    exact = rigor.exact_combination(points[basis], target, guess.weights[basis], np.arange(len(basis)))
    return None if exact is None else _inside_exactly(j, guess.support[basis], exact)


def _search(K: Array, j: int, pool: Indices | None) -> Guess:
    n, d = K.shape
    if n == 1:
        return Guess(query=_floats(K[j]), support=np.zeros(0, dtype=np.intp), weights=np.zeros(0))
    with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range is left to exact arithmetic
        search = _Search(K, j, _first_pool(K, j) if pool is None else pool[pool != j])
        # the method is finite, but rounding could send it round in circles: far more than it ever takes
        for _ in range(400 + 60 * min(n, d + 1)):
            worst = search.most_violated()
            if worst is None and (search.wins() or not search.activate_failing_rows()):
                return Guess(query=search.q, support=search.support(), weights=search.weights())
            if worst is not None and not search.enforce(worst):
                break
        return Guess(query=None, support=search.support(), weights=search.weights())


class _Search:
    """State of the dual active-set method: q = sum_a u_a normal_a over the active rows, and their QR."""

    def __init__(self, K: Array, j: int, pool: Indices) -> None:
        self.K, self.j, self.key = K, j, _floats(K[j])
        self.q = np.zeros(K.shape[1])
        self.active: list[int] = []  # places in the pool
        self.u = np.zeros(0)  # their multipliers, never negative
        self.Q = np.zeros((K.shape[1], K.shape[1] + 1), order="F")  # the first columns; the normals are Q R
        self.R = np.zeros((K.shape[1] + 1, K.shape[1] + 1), order="F")
        self._set_pool(pool)

    def _set_pool(self, pool: Indices) -> None:
        normals = self.key - _floats(self.K[pool])
        top = np.abs(normals).max(axis=1, initial=0)  # first, so that squares neither overflow nor vanish
        normals = normals / top[:, None]
        lengths = np.linalg.norm(normals, axis=1)
        self.pool, self.normals, self.lengths = pool, normals / lengths[:, None], lengths * top

    def most_violated(self) -> int | None:
        """The pool's row that the query fails by most; None if it fails none."""
        slack = self.normals @ self.q - 1
        slack[self.active] = 0
        worst = int(np.argmin(slack))
        return worst if slack[worst] < -1e-9 else None

    def enforce(self, p: int) -> bool:
        """Move to the shortest query that satisfies the active rows and p; False if there is none."""
        from scipy.linalg.blas import dtrsv

        normal, multiplier = self.normals[p], 0.0
        while True:
            inner, rest = self._project(normal)
            # as p's multiplier grows by 1, those of the active rows fall by r, so that q stays on their constraints
            r = dtrsv(self.R[: len(inner), : len(inner)], inner) if len(inner) else inner
            outside = float(rest @ rest)
            drop, dual_step = _first_to_vanish(self.u, r)
            full_step = (1 - float(normal @ self.q)) / outside if outside > FLAT else math.inf
            step = min(dual_step, full_step)
            if step == math.inf:
                # no query: p's normal is minus a non-negative combination of the active ones, which is the proof
                self.active, self.u = [*self.active, p], np.append(np.maximum(-r, 0), 1.0)
                return False
            if full_step < math.inf:
                self.q = self.q + step * rest
            self.u, multiplier = self.u - step * r, multiplier + step
            if step == full_step:
                self._add(p, inner, rest, multiplier)
                return True
            self._remove(drop)

    def _project(self, normal: Float) -> tuple[Float, Float]:
        """Coordinates in the active rows' span, and the part outside it; twice, so that it is orthogonal."""
        Q = self.Q[:, : len(self.active)]
        inner = normal @ Q
        rest = normal - Q @ inner
        again = rest @ Q
        return inner + again, rest - Q @ again

    def _add(self, p: int, inner: Float, rest: Float, multiplier: float) -> None:
        m = len(self.active)
        length = math.sqrt(rest @ rest)
        self.Q[:, m], self.R[:m, m], self.R[m, m] = rest / length, inner, length
        self.active.append(p)
        self.u = np.append(self.u, multiplier)

    def _remove(self, place: int) -> None:
        from scipy.linalg import qr_delete

        m = len(self.active)
        if m > 1:
            Q, R = qr_delete(self.Q[:, :m], self.R[:m, :m], place, 1, which="col", check_finite=False)
            self.Q[:, : m - 1], self.R[: m - 1, : m - 1] = Q[:, : m - 1], R[: m - 1]
        del self.active[place]
        self.u = np.delete(self.u, place)

    def wins(self) -> bool:
        """Does the query win against all rows, as far as floating point can see?"""
        scores = _scores(self.K, self.q)
        lead = scores[self.j] - scores
        lead[self.j] = math.inf
        self.lead = lead
        return bool(lead.min() > 0)

    def activate_failing_rows(self) -> bool:
        """Let the rows that the query fails join the active ones; False if none is new."""
        bad = np.flatnonzero(self.lead <= 0)
        bad = bad[np.argsort(self.lead[bad], kind="stable")[: 8 * CUTS]]
        # the distance to a row's plane is the better order, but costs a look at the row: only for the worst few
        lengths = np.linalg.norm(self.key - _floats(self.K[bad]), axis=1)
        kept = self.pool[self.active]
        bad = bad[np.argsort(self.lead[bad] / lengths, kind="stable")]
        new = bad[~np.isin(bad, kept)][:CUTS]
        self._set_pool(np.concatenate([kept, new]))
        self.active = list(range(len(kept)))
        return len(new) > 0

    def support(self) -> Indices:
        return self.pool[self.active][self.u > 0]

    def weights(self) -> Float:
        """Weights on the rows themselves; the method's are on differences of length 1."""
        w = (self.u / self.lengths[self.active])[self.u > 0]
        return np.asarray(w / w.sum() if len(w) else w, dtype=np.float64)


def _first_to_vanish(u: Float, r: Float) -> tuple[int, float]:
    falling = r > 0
    if not falling.any():
        return -1, math.inf
    steps = np.where(falling, u / np.where(falling, r, 1.0), math.inf)
    place = int(np.argmin(steps))
    return place, float(steps[place])


def pool_size(d: int) -> int:
    """How many rows the search looks at before it looks at all: about five times what a combination needs."""
    return 5 * (d + 1) + 128


def _first_pool(K: Array, j: int) -> Indices:
    """The rows that beat key j, or come nearest to it, when its own direction from the mean is the query."""
    n, size = len(K), pool_size(K.shape[1])
    if n <= size:
        return np.delete(np.arange(n), j)
    q = _floats(K[j]) - K.mean(axis=0, dtype=np.float64)
    order: Indices = np.argpartition(-_scores(K, q), size)[: size + 1]
    return np.asarray(order[order != j], dtype=np.intp)


def _scores(K: Array, q: Float) -> Float:
    if K.dtype == np.float64:
        return np.asarray(K @ q, dtype=np.float64)
    return np.concatenate([_floats(K[some]) @ q for some in rigor.row_chunks(len(K), K.shape[1], BLOCK)])


def _decide_exactly(K: Array, j: int, guess: Guess, seconds: float) -> Membership:
    """Wolfe's minimum-norm point of the differences k_i - k_j, in exact rationals, from the guess's support."""
    deadline = time.monotonic() + seconds
    support, weights = _independent(K, j, guess)
    while True:
        rows = _Differences(K, j, support)
        support, weights = _minimum(rows, support, weights, deadline)
        rows = _Differences(K, j, support)
        point = rows.combine(weights)
        if not any(point):
            return _inside_exactly(j, support, rows.unscale_weights(weights))
        # the point of least norm is at right angles to its face: its opposite separates key j, unless a row beyond
        # the face scores higher, which then joins
        query = [-x for x in point]
        worse = rigor.rivals(K, j, query)
        if not len(worse):
            return _outside_exactly(K, j, query)
        _check_time(deadline, j)
        scores = _scores(K[worse], np.array([x / (1 << max(map(int.bit_length, query))) for x in query]))
        support = np.append(support, worse[int(np.argmax(scores))])
        weights = [*weights, flint.fmpq(0)]


class _Differences:
    """The differences k_i - k_j as integer vectors, each scaled by a power of two to about the same size."""

    def __init__(self, K: Array, j: int, support: Indices) -> None:
        self.key = j
        whole, _ = rigor.integers(_floats(K[np.append(support, j)]))
        D = [[int(x) for x in row - whole[-1]] for row in whole[:-1]]
        bits = [max(abs(x).bit_length() for x in row) for row in D]
        self.shifts = [max(bits) - b for b in bits]
        self.rows = [[x << s for x in row] for row, s in zip(D, self.shifts, strict=True)]

    def combine(self, weights: list[flint.fmpq]) -> list[int]:
        """sum_i w_i D_i, times the positive integer that makes it whole."""
        common = _common_denominator(weights)
        whole = [int((w * common).p) for w in weights]
        sums = [sum(w * x for w, x in zip(whole, column, strict=True)) for column in zip(*self.rows, strict=True)]
        divisor = math.gcd(*sums) or 1
        return [x // divisor for x in sums]

    def unscale_weights(self, weights: list[flint.fmpq]) -> list[flint.fmpq]:
        """The weights on the differences themselves, with sum 1."""
        raw = [w * (1 << s) for w, s in zip(weights, self.shifts, strict=True)]
        total = sum(raw, flint.fmpq(0))
        return [w / total for w in raw]

    def affine_minimum(self) -> list[flint.fmpq]:
        """Weights of sum 1, of any sign, whose combination has the smallest norm; rows affinely independent."""
        m, d = len(self.rows), len(self.rows[0])
        if m == d + 1:  # the whole space: the combination is zero
            columns = [list(c) for c in zip(*self.rows, strict=True)] + [[1] * m]
            y = flint.fmpz_mat(columns).solve(flint.fmpz_mat([[0]] * d + [[1]]))
            return [y[i, 0] for i in range(m)]
        D = flint.fmpz_mat(self.rows)
        # the Gram matrix of the rows with a 1 appended: regular for affinely independent rows, also where they span 0
        gram = D * D.transpose() + flint.fmpz_mat(m, m, [1] * (m * m))
        y = gram.solve(flint.fmpz_mat(m, 1, [1] * m))
        total = sum((y[i, 0] for i in range(m)), flint.fmpq(0))
        return [y[i, 0] / total for i in range(m)]


def _minimum(
    rows: _Differences, support: Indices, weights: list[flint.fmpq], deadline: float
) -> tuple[Indices, list[flint.fmpq]]:
    """Wolfe's minor cycle: towards the affine minimum, dropping each row whose weight vanishes on the way."""
    support, weights = support.copy(), list(weights)
    while True:
        best = rows.affine_minimum()
        if all(y > 0 for y in best):
            return support, best
        # as far towards the affine minimum as all weights stay non-negative
        step = min(w / (w - y) for w, y in zip(weights, best, strict=True) if y <= 0)
        weights = [w + step * (y - w) for w, y in zip(weights, best, strict=True)]
        keep = [i for i, w in enumerate(weights) if w > 0]
        support, weights = support[keep], [weights[i] for i in keep]
        rows.rows, rows.shifts = [rows.rows[i] for i in keep], [rows.shifts[i] for i in keep]
        _check_time(deadline, rows.key)


def _independent(K: Array, j: int, guess: Guess) -> tuple[Indices, list[flint.fmpq]]:
    """An affinely independent part of the guess's support, with positive weights to start from."""
    support = guess.support
    if not len(support):
        support = np.array([0 if j else 1], dtype=np.intp)
    rows = _Differences(K, j, support)
    columns = flint.fmpz_mat([[*row, 1] for row in rows.rows]).transpose()
    # modulo a prime, which is quick: what is independent there is independent in the rationals
    reduced, rank = flint.nmod_mat(columns, (1 << 61) - 1).rref()
    keep = pivots(reduced, rank)
    return support[keep], [flint.fmpq(1, len(keep))] * len(keep)


def _check_time(deadline: float, j: int) -> None:
    if time.monotonic() > deadline:
        raise CouldNotFindOut(
            f"whether key {j} is in the hull of the others could not be decided in time: rounding hides it, "
            "and exact rationals were not done; allow more seconds"
        )


def _outside_exactly(K: Array, j: int, query: list[int]) -> Membership:
    floats = _as_floats(K, j, query)
    if floats is not None:
        return Membership(key=j, inside=False, proof="strict win, exact", query=floats)
    return Membership(key=j, inside=False, proof="strict win, exact", whole_query=_shorten_query(K, j, query))


def _shorten_query(K: Array, j: int, query: list[int]) -> tuple[int, ...]:
    """As few digits of the query as still win: exact minimum points have thousands."""
    length = max(x.bit_length() for x in query)
    bits = 64
    while bits < length:
        short = [x >> (length - bits) for x in query]
        if rigor.strictly_wins(K, j, short):
            return tuple(short)
        bits *= 2
    return tuple(query)


def _as_floats(K: Array, j: int, query: list[int]) -> Float | None:
    """Floats that still win: the query rounded, or, for a thin cone, a nearby direction from a reduced lattice."""
    top = max(abs(x) for x in query)
    rounded = np.array([x / top for x in query])
    if rigor.strictly_wins(K, j, rounded):
        return rounded
    # reducing a lattice of more dimensions takes too long for a nicety
    if len(query) > 12:
        return None
    for bits in range(20, 120, 4):
        for candidate in _near_integers(query, bits):
            if max(map(abs, candidate)) < 1 << 53 and rigor.strictly_wins(K, j, candidate):
                return np.array(candidate, dtype=np.float64)
    return None


def _near_integers(query: list[int], bits: int) -> list[list[int]]:
    """Small integer vectors close to the query's line: a reduced basis of Z^d that pays 2^bits for straying."""
    d, big = len(query), int(np.argmax([abs(x) for x in query]))
    unit = 1 << bits
    basis = []
    for i in range(d):
        e = [int(k == i) for k in range(d)]
        # e minus its part along the query, measured on the query's largest coordinate
        stray = [unit * (e[k] * query[big] - e[big] * query[k]) // query[big] for k in range(d)]
        basis.append(stray + e)
    reduced = flint.fmpz_mat(basis).lll().tolist()
    near = [[int(x) for x in row[d:]] for row in reduced]
    return near + [[-x for x in row] for row in near]


def _identical_row(K: Array, j: int) -> int | None:
    for some in rigor.row_chunks(len(K), K.shape[1], BLOCK):
        same = np.flatnonzero((K[some] == K[j]).all(axis=1)) + some.start
        same = same[same != j]
        if len(same):
            return int(same[0])
    return None


def _copy_of(j: int, twin: int) -> Membership:
    one, index = np.ones(1), np.array([twin], dtype=np.intp)
    return Membership(
        key=j, inside=True, proof="identical row", support=index, weights=one, radii=np.zeros(1),
        exact_weights=(flint.fmpq(1),),
    )  # fmt: skip


def _inside_exactly(j: int, support: Indices, exact: list[flint.fmpq]) -> Membership:
    keep = [i for i, w in enumerate(exact) if w > 0]
    weights = np.array([int(exact[i].p) / int(exact[i].q) for i in keep])
    return Membership(
        key=j, inside=True, proof="exact rationals", support=support[keep], weights=weights,
        radii=np.abs(weights) * 2 * rigor.U, exact_weights=tuple(exact[i] for i in keep),
    )  # fmt: skip


def _common_denominator(weights: list[flint.fmpq]) -> int:
    return math.lcm(*(int(w.q) for w in weights))


def _floats(x: Array) -> Float:
    return np.asarray(x, dtype=np.float64)


def _matrix(keys: ArrayLike, j: int) -> Array:
    K = as_array(keys, "the keys")
    if K.ndim != 2 or 0 in K.shape:
        raise InputError(f"the keys must be an n x d matrix with n, d >= 1, but have shape {K.shape}")
    if not 0 <= j < len(K):
        raise InputError(f"key {j} does not exist: {len(K)} keys are counted from 0 to {len(K) - 1}")
    return exact_floats(K, "the keys")


def exact_floats(array: Array, what: str) -> Array:
    """The array as floats that float64 holds exactly; anything else would change what the answer is about."""
    if array.dtype in (np.float16, np.float32, np.float64):
        return array
    if array.dtype.kind not in "biu":
        raise InputError(f"{what} must be float16, float32, float64 or integers, but are {array.dtype}: convert them")
    refuse_rounded(array, what)
    return array.astype(np.float64)
