"""Can any query make this row the strict argmax? Asked of every row of an embedding matrix.

Row j can win exactly when k_j is outside the convex hull of the other rows (Gordan). Most rows win under a
query that costs one matrix product (:mod:`regard.design.winnable_screen`); the rest are searched and then decided
exactly (:mod:`regard.design.hull`). Every verdict is a statement about the stored numbers in exact arithmetic.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Array
from regard.arrays import as_array
from regard.design import hull, winnable_screen
from regard.errors import CouldNotFindOut, InputError
from regard.files import read_file, write_file
from regard.progress import Progress
from regard.results import Result, plain
from regard.rigor import check_arithmetic, row_chunks
from regard.strict_json import parse_json

FORMAT = "regard winnable 1"
MOST_JOBS = 4096
LARGEST = 1 << 30  # bytes of a certificate; one of 30,000 rows of BERT has some million

# What every task needs: the rows and their Screen. Tuples and lists only, because joblib on Dask leaves a bare array
# with one worker and waits for ever where that one dies; as it is, any worker can run any task.
Carried = tuple[Array, winnable_screen.Screen]


class Way(StrEnum):
    """How a row's verdict was reached: the letter that stands for it in a certificate, one per row."""

    CENTRED = "c"
    WHITENED = "w"
    OWN_QUERY = "q"
    NEVER = "n"
    UNDECIDED = "?"
    # on the way there, in checkpoints only
    UNTOUCHED = "."
    NOT_CENTRED = "C"  # that screening query did not win
    NOT_WHITENED = "W"  # nor did this one: to be searched


WAYS = {
    Way.CENTRED.value: "wins with q = k_j - mean",
    Way.WHITENED.value: "wins with q = W (k_j - mean), W the inverse covariance",
    Way.OWN_QUERY.value: "wins with a query of its own",
    Way.NEVER.value: "never wins",
    Way.UNDECIDED.value: "undecided",
}
OPEN = (Way.UNTOUCHED, Way.NOT_CENTRED, Way.NOT_WHITENED)  # without a verdict
FAILED = {Way.CENTRED: Way.NOT_CENTRED, Way.WHITENED: Way.NOT_WHITENED}  # what a screening query that loses leaves


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """The proof of one row that needed its own: a query that wins, or rows and weights that combine to it.

    `query` holds floats, or integers as strings where floats have too few digits. `weights` are floats within
    `radii` of weights that combine exactly, or rationals as strings.
    """

    row: int
    kind: str
    query: list[float] | list[str] | None = None
    support: list[int] | None = None
    weights: list[float] | list[str] | None = None
    radii: list[float] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Winnable(Result):
    """Every row's verdict, and what proves it. `ways` has one letter per row, explained in `legend`."""

    format: str = FORMAT
    rows: int
    dimensions: int
    dtype: str
    fingerprint: str
    ways: str
    proofs: list[Proof]
    resumed: int = 0  # verdicts taken from an earlier run's file, not proved again
    legend: dict[str, str] = dataclasses.field(default_factory=lambda: dict(WAYS))

    @property
    def never(self) -> list[int]:
        """Rows that no query whatsoever makes the strict argmax."""
        return [j for j, way in enumerate(self.ways) if way == Way.NEVER]

    @property
    def undecided_rows(self) -> list[int]:
        """Rows of which neither was proved."""
        return [j for j, way in enumerate(self.ways) if way == Way.UNDECIDED]

    @property
    def answer(self) -> bool:
        return not self.never

    def query(self, rows: ArrayLike, j: int) -> NDArray[np.float64]:
        """A query that makes row j the strict argmax; the one that was proved, or the recipe applied again."""
        for proof in self.proofs:
            if proof.row == j and proof.query is not None:
                return _query_floats(proof.query)
        if self.ways[j] not in (Way.CENTRED, Way.WHITENED):
            raise InputError(f"row {j} has no winning query to show: it {WAYS[self.ways[j]]}")
        table = _table(rows)
        centre = winnable_screen.prepare(table).centre
        matrix = winnable_screen.whitening(table, centre) if self.ways[j] == Way.WHITENED else None
        recipe = winnable_screen.queries(np.asarray(table[[j]], dtype=np.float64), centre, matrix)
        return np.asarray(recipe[0], dtype=np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as JSON, for :func:`regard.design.winnable_check.verify_winnable`."""
        write_file(path, self.to_json().encode())

    def __str__(self) -> str:
        never, undecided = self.never, self.undecided_rows
        said = f"{self.rows - len(never) - len(undecided):,} of {self.rows:,} rows can win."
        if never:
            each = "it is exactly a mixture" if len(never) == 1 else "each is exactly a mixture"
            said += f" {_few(never)} never can: {each} of other rows."
        if undecided:
            said += f" {_few(undecided)} could not be decided."
        lines = [said, f"Proved in exact arithmetic on the stored {self.dtype} numbers (details() shows how)."]
        if self.resumed:
            lines.append(
                f"{self.resumed:,} of these verdicts are an earlier run's, taken from its file as they were: "
                "save() with verify_winnable() proves everything again."
            )
        return "\n".join(lines)

    def details(self) -> str:
        """What winning means, and with which queries the rows win."""
        count = Counter(self.ways)
        return (
            "A row wins if some query gives it a strictly larger score than every other row.\n"
            f"{count[Way.CENTRED]:,} rows win with their own direction from the mean, {count[Way.WHITENED]:,} with the "
            f"whitened one, {count[Way.OWN_QUERY]:,} with a query of their own. Rows are counted from 0."
        )


def winnable(
    rows: ArrayLike,
    *,
    jobs: int = -1,
    seconds: float = 60.0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Winnable:
    """Decides for every row of an n x d matrix whether any query makes it the strict argmax of Kq.

    rows: n x d stored floats, memory-mapped if you like; integers that float64 holds exactly are converted. Their
    dtype is what the verdict covers.
    jobs: processes, through joblib: whoever chose a cluster by ``joblib.parallel_config`` has the work done there.
    seconds: how long exact rationals may take on one row before it counts as undecided.
    checkpoint: a file that is brought up to date on the way; the same call again goes on from it.
    progress: called with (rows decided, rows).

    >>> verdict = winnable([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]], jobs=1)
    >>> verdict.never, verdict.proofs[0].support, verdict.proofs[0].weights
    ([4], [0, 2], ['1/2', '1/2'])
    """
    if jobs == 0 or abs(jobs) > MOST_JOBS:
        raise InputError(
            f"jobs must be a number of processes (at most {MOST_JOBS:,}), or -1 for every core; it is {jobs}"
        )
    if not seconds >= 0:
        raise InputError(f"seconds must be a number that is not negative; it is {seconds}")
    check_arithmetic()
    table = _table(rows)
    state = _State.start(table, checkpoint)
    progress = progress or (lambda done, total: None)
    for j, twin in _copies(table):
        state.settle(j, Way.NEVER, Proof(row=j, kind="identical row", support=[twin], weights=["1"]))
    small = table.size < 1 << 16 and jobs == -1  # starting processes would take longer than the work
    try:
        _settle_all(table, state, 1 if small else jobs, seconds, progress)
    except BrokenProcessPool:
        raise CouldNotFindOut(
            "A process that winnable had started was killed, perhaps for want of memory; ask for fewer processes "
            "(--jobs). With --resume FILE.json the same command goes on from what is known."
        ) from None
    return state.result(table)


def _settle_all(table: Array, state: _State, jobs: int, seconds: float, progress: Progress) -> None:
    from joblib import Parallel

    with Parallel(n_jobs=jobs) as parallel:
        prepared = winnable_screen.prepare(table)
        _screen(table, prepared, Way.CENTRED, state, parallel, progress)
        if state.open():
            prepared = dataclasses.replace(prepared, whiten=winnable_screen.whitening(table, prepared.centre))
            _screen(table, prepared, Way.WHITENED, state, parallel, progress)
            _search(table, prepared, seconds, state, parallel, progress)


def _screen(
    table: Array, prepared: winnable_screen.Screen, way: Way, state: _State, parallel: Any, progress: Progress
) -> None:
    from joblib import delayed

    todo = state.open(untried=way)
    tasks = [todo[a : a + winnable_screen.QUERIES] for a in range(0, len(todo), winnable_screen.QUERIES)]
    carried = (table, prepared)
    # between batches the checkpoint is written: eight tasks for each worker keep them busy and lose little
    for batch in _batches(tasks, 8 * _workers(parallel)):
        won = parallel(delayed(_winners)(carried, which) for which in batch)
        for which, wins in zip(batch, won, strict=True):
            for j, win in zip(which, wins, strict=True):
                state.settle(j, way if win else FAILED[way], None)
        state.save()
        progress(state.count_decided(), len(table))


def _search(
    table: Array,
    prepared: winnable_screen.Screen,
    seconds: float,
    state: _State,
    parallel: Any,
    progress: Progress,
) -> None:
    from joblib import delayed

    # float64 saves a conversion at every look at all rows; beyond half a gigabyte the conversion is cheaper
    wide = table.astype(np.float64) if table.size < 1 << 26 else table
    carried = (wide, prepared)
    for batch in _batches(state.open(), 8 * _workers(parallel)):
        proofs = parallel(delayed(_decide)(carried, j, seconds) for j in batch)
        for j, proof in zip(batch, proofs, strict=True):
            way = Way.UNDECIDED if proof is None else Way.NEVER if proof.support else Way.OWN_QUERY
            state.settle(j, way, proof)
        state.save()
        progress(state.count_decided(), len(table))


def _winners(carried: Carried, which: list[int]) -> NDArray[np.bool_]:
    table, prepared = carried
    return winnable_screen.winners(table, np.array(which, dtype=np.intp), prepared)


def _decide(carried: Carried, j: int, seconds: float) -> Proof | None:
    table, prepared = carried
    pool = winnable_screen.best_rivals(table, j, prepared, hull.pool_size(table.shape[1]))
    try:
        member = hull.decide(table, j, pool=pool, seconds=seconds)
    except CouldNotFindOut:
        return None
    if not member.inside:
        whole = member.whole_query
        query: Any = [str(flint.fmpz(x)) for x in whole] if whole else plain(member.query)
        return Proof(row=j, kind="strict win", query=query)
    exact = member.exact_weights
    if exact and len(exact) == table.shape[1] + 1 and len(exact) > 9:
        exact = None  # d + 1 rows fix their weights: the check solves for them, and megabytes of digits are spared
    weights: Any = [str(w) for w in exact] if exact else plain(member.weights)
    radii = None if exact else plain(member.radii)
    return Proof(row=j, kind=member.proof, support=plain(member.support), weights=weights, radii=radii)


class _State:
    """What is known so far: one `Way` per row, and the proofs of the rows that needed their own."""

    def __init__(self, fingerprint: str, n: int, path: Path | None) -> None:
        self.fingerprint, self.path = fingerprint, path
        self.ways, self.resumed = [Way.UNTOUCHED] * n, 0
        self.proofs: dict[int, Proof] = {}

    @classmethod
    def start(cls, table: Array, checkpoint: str | os.PathLike[str] | None) -> _State:
        path = None if checkpoint is None else Path(checkpoint)
        state = cls(fingerprint(table), len(table), path)
        if path is not None and path.exists():
            state._load(path)
        return state

    def _load(self, path: Path) -> None:
        try:
            saved = parse_json(read_file(path, most=LARGEST))
            fits = saved["format"] == FORMAT and len(saved["ways"]) == len(self.ways)
            fits = fits and saved["fingerprint"] == self.fingerprint
            ways, proofs = [Way(letter) for letter in saved["ways"]], {p["row"]: Proof(**p) for p in saved["proofs"]}
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):  # it is no file, or too large a one
                raise
            raise InputError(
                f"the checkpoint {path} is not one that winnable wrote ({repr(error)[:120]}): name another file"
            ) from None
        if not fits:
            raise InputError(
                f"the checkpoint {path} belongs to other rows or another version: name another file, or delete it"
            )
        again = {Way.UNDECIDED: Way.NOT_WHITENED}  # more time may decide it
        self.ways, self.proofs = [again.get(way, way) for way in ways], proofs
        self.resumed = self.count_decided()

    def open(self, *, untried: Way | None = None) -> list[int]:
        """Rows without a verdict; with `untried`, those that this screening query has not been tried on."""
        tried = {None: (), Way.CENTRED: (Way.NOT_CENTRED, Way.NOT_WHITENED)}.get(untried, (Way.NOT_WHITENED,))
        return [j for j, way in enumerate(self.ways) if way in OPEN and way not in tried]

    def settle(self, j: int, way: Way, proof: Proof | None) -> None:
        self.ways[j] = way
        if proof is not None:
            self.proofs[j] = proof

    def count_decided(self) -> int:
        return sum(way not in OPEN for way in self.ways)

    def save(self) -> None:
        """Bring the checkpoint up to date, if there is one."""
        if self.path is None:
            return
        proofs = [plain(p) for p in self.proofs.values()]
        known = {"format": FORMAT, "fingerprint": self.fingerprint, "ways": "".join(self.ways), "proofs": proofs}
        write_file(self.path, json.dumps(known).encode())

    def result(self, table: Array) -> Winnable:
        return Winnable(
            rows=len(table),
            resumed=self.resumed,
            dimensions=table.shape[1],
            dtype=str(table.dtype),
            fingerprint=self.fingerprint,
            ways="".join(self.ways),
            proofs=[self.proofs[j] for j in sorted(self.proofs)],
        )


def fingerprint(table: Array) -> str:
    """SHA-256 of the shape, the dtype and the numbers, row by row.

    >>> fingerprint(np.zeros((2, 3)))[:8]
    '4e18cd64'
    """
    digest = hashlib.sha256(f"{table.shape} {table.dtype.str}".encode())
    for part in row_chunks(len(table), table.shape[1], winnable_screen.BLOCK):
        digest.update(np.ascontiguousarray(table[part]).tobytes())
    return digest.hexdigest()


def _copies(table: Array) -> Iterator[tuple[int, int]]:
    """Rows that equal another one, with it; 0 and -0 are equal."""
    seen: dict[bytes, int] = {}
    twins: dict[int, int] = {}
    for part in row_chunks(len(table), table.shape[1], winnable_screen.BLOCK):
        # adding 0 turns -0 into 0, whose bytes then agree
        chunk = np.ascontiguousarray(table[part] + table.dtype.type(0))
        for offset, row in enumerate(chunk):
            j = part.start + offset
            first = seen.setdefault(hashlib.blake2b(row.tobytes(), digest_size=16).digest(), j)
            # equal digests are taken for a hint only
            if first != j and bool((table[first] == table[j]).all()):
                twins[j] = first
                twins.setdefault(first, j)
    return iter(twins.items())


def _query_floats(query: list[float] | list[str]) -> NDArray[np.float64]:
    """The floats as they are; integers over a common power of two."""
    if not isinstance(query[0], str):
        return np.array(query)
    whole = [int(flint.fmpz(x)) for x in query]
    return np.array([x / (1 << max(map(int.bit_length, whole))) for x in whole])


def _table(rows: ArrayLike) -> Array:
    table = rows if isinstance(rows, np.ndarray) else as_array(rows, "the rows")
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"the rows must be an n x d matrix with n, d >= 1, but have shape {table.shape}")
    table = hull.exact_floats(table, "the rows")
    for part in row_chunks(len(table), table.shape[1], winnable_screen.BLOCK):
        if not np.isfinite(table[part]).all():
            j = part.start + int(np.argmin(np.isfinite(table[part]).all(axis=1)))
            raise InputError(f"the rows must hold finite numbers, but row {j} has NaN or infinity: remove it")
    return table


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    items = list(items)
    return (items[a : a + size] for a in range(0, len(items), size))


def _workers(parallel: Any) -> int:
    from joblib import effective_n_jobs

    return int(effective_n_jobs(parallel.n_jobs))


def _few(rows: list[int]) -> str:
    shown = ", ".join(str(j) for j in rows[:5]) + (", ..." if len(rows) > 5 else "")
    return f"{len(rows):,} rows ({shown})" if len(rows) > 1 else f"Row {shown}"
