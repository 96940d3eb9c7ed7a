"""Every row's verdict: against exact 2-D hulls, with certificates that hold and perturbed ones that do not."""

from __future__ import annotations

import copy
import json
import logging
import os
import signal
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import rigor
from regard.design import hull, winnable_screen
from regard.design.winnable_check import verify_winnable
from regard.design.winnable_rows import winnable
from regard.errors import CouldNotFindOut, InputError

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])


def strict_corners(points):
    """Indices of the strict vertices of a planar set, by Andrew's chain in fractions; repeated points are none."""
    exact = [tuple(Fraction(float(x)) for x in p) for p in points]
    unique = sorted(set(exact))

    def chain(order):
        kept = []
        for p in order:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], p) <= 0:
                kept.pop()
            kept.append(p)
        return kept

    corners = set(chain(unique)) | set(chain(unique[::-1]))
    return [i for i, p in enumerate(exact) if p in corners and exact.count(p) == 1]


def _turn(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def won(result):
    return [j for j, way in enumerate(result.ways) if way in "cwq"]


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 9), st.just(2)), elements=st.sampled_from([0, 1, 2, 0.1, 0.3, 0.9, 1e8])
    )
)
@settings(max_examples=60, deadline=None)
def test_planar_sets_are_decided_as_their_exact_hull_says(K):
    result = winnable(K, jobs=1)
    assert won(result) == strict_corners(K)
    assert result.undecided_rows == []
    assert result.answer == (len(won(result)) == len(K))
    assert verify_winnable(K, json.loads(result.to_json())).answer


@given(arrays(np.float32, (6, 3), elements=st.integers(-4, 4).map(float)), st.sampled_from([1e-30, 1.0, 1e30]))
@settings(max_examples=60, deadline=None)
def test_the_float32_screen_proves_only_what_is_true(K, factor):
    K = K * np.float32(factor)
    prepared = winnable_screen.prepare(K)
    proved = winnable_screen.winners(K, np.arange(6), prepared)
    for j in np.flatnonzero(proved):
        q = winnable_screen.queries(K[[j]].astype(float), prepared.centre, None)[0].astype(float)
        assert rigor.strictly_wins(K, int(j), q)


def test_the_screen_is_tight_enough_to_be_of_use():
    K = np.random.default_rng(1).standard_normal((1009, 97))
    assert winnable_screen.winners(K, np.arange(1009), winnable_screen.prepare(K)).all()


def test_a_lead_below_the_float32_bound_is_not_called_a_win():
    K = np.array([[1.0, 0.0], [1.0 - 2.0**-26, 1e-9], [-1.0, 0.0]])
    assert winnable_screen.winners(K, np.arange(3), winnable_screen.prepare(K)).tolist() == [False, False, True]


def planted():
    """307 x 13 float32, with copies (rows 3 and 200), a rounded pair (5), the mean of many (7), and an exact middle."""
    rng = np.random.default_rng(3)
    K = rng.standard_normal((307, 13)).astype(np.float32)
    K[200] = K[3]
    K[5] = 0.3 * K[6] + 0.7 * K[8]
    K[7] = K[20:150].mean(axis=0)
    K[11] = (np.float32([1, 2, 3] * 4 + [4]) + np.float32([5, 4, 1] * 4 + [2])) / 2
    K[12], K[13] = np.float32([1, 2, 3] * 4 + [4]), np.float32([5, 4, 1] * 4 + [2])
    return K


@pytest.fixture(scope="module")
def rows():
    return planted()


@pytest.fixture(scope="module")
def result(rows):
    return winnable(rows, jobs=1)


def test_planted_rows_are_found_and_nothing_else_differs_from_one_by_one(rows, result):
    assert {3, 7, 11, 200} <= set(result.never)
    assert result.ways[5] in "cwq", "the rounded pair is a vertex again"
    assert result.never == [j for j in range(len(rows)) if hull.decide(rows, j).inside]
    kinds = {p.row: p.kind for p in result.proofs}
    assert (kinds[3], kinds[7]) == ("identical row", "enclosure")


def test_every_winner_has_a_query_that_wins_exactly(rows, result):
    for j in won(result):
        assert rigor.strictly_wins(rows, j, result.query(rows, j))
    with pytest.raises(InputError, match="row 3 has no winning query to show: it never wins"):
        result.query(rows, 3)


def test_the_paragraph_and_the_numbers_agree(rows, result):
    text = str(result)
    assert text.startswith(f"{307 - len(result.never)} of 307 rows can win. ")
    assert f"{len(result.never)} rows (3, " in text
    assert "float32" in text
    assert "undecided" not in text
    assert "strictly larger score" in result.details()


def test_the_certificate_is_proved_again_from_its_file(rows, result, tmp_path):
    result.save(tmp_path / "proof.json")
    checked = verify_winnable(rows, tmp_path / "proof.json")
    assert (checked.answer, checked.checked, checked.undecided) == (True, 307, 0)
    assert verify_winnable(rows, tmp_path / "proof.json", only=[7, 8]).checked == 2


def spoiled(certificate, row, **changes):
    new = copy.deepcopy(certificate)
    proof = next(p for p in new["proofs"] if p["row"] == row)
    for name, change in changes.items():
        proof[name] = change(proof[name])
    return new


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (3, {"support": lambda s: [4]}),
        (3, {"support": lambda s: [3]}),
        (3, {"support": lambda s: [9999]}),
        (3, {"weights": lambda w: ["2"]}),
        (3, {"weights": lambda w: ["1/0"]}),
        (3, {"weights": lambda w: []}),
        (7, {"support": lambda s: [*s[:-1], s[0]]}),
        (7, {"support": lambda s: [*s[:-1], 7]}),  # itself; some other key might make another true proof
        (7, {"support": lambda s: s[:-1], "weights": lambda w: w[:-1]}),
        (11, {"weights": lambda w: ["1/3", "2/3"]}),
        (11, {"weights": lambda w: ["1/2", "1/2"][:1]}),
        (5, {"query": lambda q: [-x for x in q]}),
        (5, {"query": lambda q: q[1:]}),
        (5, {"query": lambda q: None}),
    ],
)
def test_a_spoiled_proof_is_rejected_and_named(rows, result, row, changes):
    checked = verify_winnable(rows, spoiled(result.to_dict(), row, **changes), only=[row, 0, 1])
    assert list(checked.failed) == [row]
    assert not checked.answer
    assert f"the first is row {row}" in str(checked)


def test_a_swapped_verdict_is_rejected(rows, result):
    for row, letter in [(3, "c"), (7, "w"), (0, "n"), (0, "q")]:
        certificate = result.to_dict()
        certificate["ways"] = certificate["ways"][:row] + letter + certificate["ways"][row + 1 :]
        assert list(verify_winnable(rows, certificate, only=[row]).failed) == [row]


def test_a_certificate_for_other_rows_is_refused(rows, result):
    other = rows.copy()
    other[0, 0] = np.nextafter(other[0, 0], np.float32(9))
    with pytest.raises(InputError, match="about other numbers than these rows"):
        verify_winnable(other, result.to_dict())
    with pytest.raises(InputError, match="does not fit 306 rows"):
        verify_winnable(rows[1:], result.to_dict())
    with pytest.raises(InputError, match="not a certificate of winnable"):
        verify_winnable(rows, {"ways": "c"})


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_its_checkpoint(rows, result, tmp_path, monkeypatch):
    def stop(done, total):
        raise KeyboardInterrupt

    path = tmp_path / "state.json"
    with pytest.raises(KeyboardInterrupt):
        winnable(rows, jobs=1, checkpoint=path, progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]
    calls = []  # the centred screen is over: it must not be asked again
    monkeypatch.setattr(
        winnable_screen, "winners", lambda table, which, prepared: calls.append(prepared) or _none(which)
    )
    again = winnable(rows, jobs=1, checkpoint=path)
    assert all(prepared.whiten is not None for prepared in calls)
    assert again.never == result.never
    assert won(again) == won(result)
    seen = []
    finished = winnable(rows, jobs=1, checkpoint=path, progress=lambda done, total: seen.append(done))
    assert (finished.ways, seen) == (again.ways, [])


def _none(which):
    return np.zeros(len(which), dtype=bool)


def test_a_checkpoint_of_other_rows_or_of_nothing_is_refused(rows, tmp_path):
    path = tmp_path / "state.json"
    winnable(rows[:20], jobs=1, checkpoint=path)
    with pytest.raises(InputError, match="belongs to other rows or another version"):
        winnable(rows, jobs=1, checkpoint=path)
    path.write_text("{nonsense")
    with pytest.raises(InputError, match="not one that winnable wrote"):
        winnable(rows, jobs=1, checkpoint=path)


@pytest.mark.slow
def test_processes_give_the_same_verdicts(rows, result):
    assert winnable(rows, jobs=2).ways == result.ways


def test_no_task_hands_over_what_joblib_would_leave_with_one_worker(rows, monkeypatch):
    """On Dask joblib parts from every argument that can be referred to weakly: lost with its worker, it hangs."""
    run, seen = joblib.Parallel.__call__, []

    def look(self, tasks):
        tasks = list(tasks)
        seen.extend(type(argument) for _, arguments, named in tasks for argument in (*arguments, *named.values()))
        return run(self, tasks)

    monkeypatch.setattr(joblib.Parallel, "__call__", look)
    winnable(rows, jobs=1)
    assert set(seen) == {tuple, list, int, float}


@pytest.mark.slow
def test_a_killed_worker_of_the_callers_cluster_changes_nothing():
    """Dask with certificates and without a dashboard; what its plain HTTP port serves is nothing."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    rows = np.random.default_rng(2).standard_normal((1500, 24))
    rows[7] = rows[10:60].mean(axis=0)  # rounded: only the exact search can tell
    killed: list[int] = []
    no_pages = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    with (
        dask.config.set(no_pages),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            security=Security.temporary(),
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        assert cluster.scheduler_address.startswith("tls://127.0.0.1:")
        workers = list(client.run(os.getpid).values())

        def kill_one(done, total):  # the tasks that come next are on their way to it before anybody knows
            if not killed and done < total:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        found = winnable(rows, jobs=2, progress=kill_one)
    assert len(workers) == 2
    assert killed == workers[:1]
    assert found.to_json() == winnable(rows, jobs=1).to_json()


def test_norms_from_1e_minus_8_to_1e8_and_every_dtype():
    rng = np.random.default_rng(7)
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        K = rng.standard_normal((23, 2)) * (10.0 ** rng.integers(-8, 9, 23))[:, None]
        K = (np.clip(K, -6e4, 6e4) if dtype == np.float16 else K).astype(dtype)
        assert won(winnable(K, jobs=1)) == strict_corners(K)


def test_undecided_rows_are_said_and_never_guessed(rows, monkeypatch):
    def refuse(*arguments, **options):
        raise CouldNotFindOut("no time")

    monkeypatch.setattr(hull, "decide", refuse)
    result = winnable(rows, jobs=1)
    assert {5, 7, 11} <= set(result.undecided_rows)
    assert result.never == [3, 200]
    assert "could not be decided" in str(result)
    assert verify_winnable(rows, result.to_dict()).undecided == len(result.undecided_rows)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros(3), r"n x d matrix with n, d >= 1, but have shape \(3,\)"),
        (np.zeros((0, 3)), "n, d >= 1"),
        (np.array([[1.0], [np.nan]]), "row 1 has NaN or infinity"),
        (np.array([[1j]]), "float16, float32, float64 or integers, but are complex128"),
        (np.array([[2**60 + 1]]), r"integers beyond 2\^53"),
    ],
)
def test_bad_rows_are_named(bad, message):
    with pytest.raises(InputError, match=message):
        winnable(bad, jobs=1)


def test_a_tiny_query_cannot_pass_off_a_tie_as_a_win():
    """The lengths of such a query underflow when squared; the bound on its products must not vanish with them."""
    a, b = np.array([0.34375, 0.8125, 0.328125]), np.array([-1.3125, 0.90625, 0.4375])
    rows = np.array([a, b, (a + b) / 2])
    for seed in range(20):
        across = np.cross(a - b, np.random.default_rng(seed).standard_normal(3))
        certificate = winnable(rows, jobs=1).to_dict()
        certificate["ways"] = certificate["ways"][:2] + "q"
        certificate["proofs"] = [{"row": 2, "query": (1e-200 * across).tolist()}]
        assert 2 in verify_winnable(rows, certificate).failed


@pytest.mark.parametrize("query", [["abc", "1"], [1.0, "a"], [[1.0], [2.0]], [10**400, 1]])
def test_a_query_that_is_no_query_proves_nothing(query):
    certificate = winnable(SQUARE, jobs=1).to_dict()
    certificate["ways"], certificate["proofs"] = "qcccn", [{"row": 0, "query": query}, *certificate["proofs"]]
    assert list(verify_winnable(SQUARE, certificate).failed) == [0]


def test_no_processes_and_less_than_no_time_are_refused():
    with pytest.raises(InputError, match="jobs must be a number of processes"):
        winnable(SQUARE, jobs=0)
    with pytest.raises(InputError, match="seconds must be a number that is not negative; it is -1"):
        winnable(SQUARE, seconds=-1)


@pytest.mark.parametrize("jobs", [0, 10**20, -(10**20)])
def test_a_number_of_processes_that_cannot_be(jobs: int) -> None:
    with pytest.raises(InputError, match="jobs must be a number of processes"):
        winnable([[0.0, 0.0], [1.0, 0.0]], jobs=jobs)


@pytest.mark.parametrize("read", ["verify", "resume"])
def test_certificates_that_are_no_files(tmp_path: Path, read: str) -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    ask = (lambda p: verify_winnable(rows, p)) if read == "verify" else (lambda p: winnable(rows, jobs=1, checkpoint=p))
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InputError, match="not a file; give a file"):
            ask(path)
    for text in ("[" * 100_000, '{"ways": ' + "9" * 5000 + "}", "\x00"):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(InputError, match=r"is not (a certificate of winnable|one that winnable wrote)"):
            ask(tmp_path / "odd.json")
