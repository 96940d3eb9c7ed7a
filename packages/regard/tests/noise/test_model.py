"""The noise model and its TOML form: every mistake named, all of them at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.noise import EXAMPLE, Magnitude, NoiseModel, Spread, compare, optimise, read_model, score_laws, study
from regard.noise.scores import Sampler


def test_the_parts_add() -> None:
    C = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]])
    joint = 0.1 * np.eye(6)
    model = NoiseModel(
        means=np.eye(2, 3),
        isotropic=[0.3, 0.0],
        spreads=[Spread(key=0, variance=0.5), Spread(key=0, variance=2.0, along=[0.0, 0.0, 1.0])],
        covariances={0: C},
        joint=joint,
    )
    expected = 0.3 * np.eye(3) + np.diag([0.5, 0, 2.0]) + C + 0.1 * np.eye(3)
    np.testing.assert_allclose(model.covariance(0), expected)
    np.testing.assert_allclose(model.covariance(1), 0.1 * np.eye(3))
    Q = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])
    np.testing.assert_allclose(model.score_covariance(Q, 0), Q @ expected @ Q.T)
    np.testing.assert_allclose(model.full_covariance()[:3, :3], expected)


def test_draws_have_the_stated_covariance() -> None:
    generator = np.random.default_rng(0)
    A = generator.normal(size=(6, 6))
    model = NoiseModel(means=generator.normal(size=(3, 2)), isotropic=0.2, joint=A @ A.T / 6)
    Q = np.array([[1.0, 0.5], [-1.0, 2.0]])
    scores = score_laws(model, Q)
    s = Sampler(scores).random(200_000, generator)  # draws x heads x keys
    flat = s.transpose(0, 2, 1).reshape(len(s), -1)
    big = np.kron(np.eye(3), Q)
    expected = big @ model.full_covariance() @ big.T
    np.testing.assert_allclose(np.cov(flat.T), expected, atol=0.05 * np.abs(expected).max())
    np.testing.assert_allclose(flat.mean(axis=0), (model.means @ Q.T).ravel(), atol=0.05)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"means": [[1.0, 2.0], [3.0]]}, "means must be an array of numbers with rows of one length"),
        (
            {"means": [1.0, 2.0]},
            r"means must have 2 dimensions but has shape \(2,\); reshape it to one row per vector",
        ),
        ({"means": np.zeros((0, 3))}, r"means has shape \(0, 3\): it needs at least one number"),
        (
            {"means": [[1.0], [np.nan]]},
            r"means: row 1, column 0 \(counted from 0\) is nan; every number must be finite",
        ),
        ({"isotropic": -0.1}, "isotropic is a variance and must not be negative, but it is -0.1"),
        ({"isotropic": [0.1, 0.2]}, "isotropic must be one finite number or 3, one for every key"),
        ({"isotropic": "much"}, "isotropic must be one finite number or 3"),
        ({"spreads": [Spread(key=3, variance=1.0)]}, "a spread names key 3, but keys are counted from 0 to 2"),
        ({"spreads": [Spread(key=0, variance=-1.0)]}, "a spread's variance must be a number >= 0, not -1.0"),
        ({"spreads": [Spread(key=0, variance=1.0, along="up")]}, "along a vector or \"mean\", not 'up'"),
        ({"spreads": [Spread(key=0, variance=1.0, along=[1.0])]}, "a spread's direction needs 2 finite numbers"),
        ({"magnitudes": [Magnitude(key=0, probabilities=(0.5, 0.6))]}, "sum to 1, but they sum to 1.1"),
        ({"magnitudes": [Magnitude(key=0, values=(1.0,))]}, "as many finite values as probabilities"),
        ({"magnitudes": [Magnitude(key=1), Magnitude(key=1)]}, "key 1 has two magnitudes"),
        ({"magnitudes": [Magnitude(key=-1)]}, "a magnitude names key -1"),
        (
            {"covariances": {0: [[1, 2], [2, 1]]}},
            "positive semidefinite, but its smallest eigenvalue is -1",
        ),
        ({"covariances": {0: [[1, 2], [0, 1]]}}, "the covariance of key 0 must be symmetric"),
        ({"covariances": {5: np.eye(2)}}, "a covariance names key 5"),
        ({"joint": np.eye(5)}, r"the joint covariance must be 6 x 6 and finite, not shape \(5, 5\)"),
    ],
)
def test_every_mistake_in_a_model_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NoiseModel(**{"means": np.ones((3, 2)), **given})  # type: ignore[arg-type]


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(InputError, match=r"has 3 mistakes: isotropic .*; a spread .*; the joint") as caught:
        NoiseModel(means=np.eye(2), isotropic=-1.0, spreads=[Spread(key=7, variance=1.0)], joint=-np.eye(4))
    assert str(caught.value).count(".") <= 2  # one sentence (and the point of a number)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros((0, 2)), r"queries has shape \(0, 2\): it needs at least one number"),
        ([1.0, 2.0, 3.0], "the keys' length 2, but they have 3"),
        ([np.inf, 0.0], r"queries: entry 0 \(counted from 0\) is inf; every number must be finite"),
        ([["a", "b"]], "queries holds text; real numbers are needed"),
    ],
)
def test_wrong_queries_are_named(queries: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        study(NoiseModel(means=np.eye(2)), queries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": [0, 2]}, r"different keys from 0 to 1, not \[0, 2\]"),
        ({"target": []}, "target must name different keys"),
        ({"target": [1, 1]}, "target must name different keys"),
        ({"values": np.eye(3)}, r"one row for each of the 2 keys, not shape \(3, 3\)"),
        ({"values": [["x"], ["y"]]}, "values holds text; real numbers are needed"),
        ({"share": 1.0}, "share must lie between 0 and 1, not 1"),
        ({"quantiles": [0.5, 2.0]}, "quantile levels must lie between 0 and 1"),
    ],
)
def test_wrong_options_of_a_study_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        study(NoiseModel(means=np.eye(2), isotropic=1.0), [1.0, 1.0], **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_values_carry_the_moments_of_the_weights() -> None:
    generator = np.random.default_rng(1)
    V = generator.normal(size=(5, 3))
    model = NoiseModel(means=np.eye(5), isotropic=0.3)
    result = study(model, generator.normal(size=(2, 5)), values=V, target=(1, 3, 4))
    np.testing.assert_allclose(result.output_mean, result.weight_mean @ V)
    np.testing.assert_allclose(result.output_covariance, V.T @ result.weight_covariance @ V)
    goal = V[[1, 3, 4]].mean(axis=0)
    assert result.bias_squared == pytest.approx(np.sum((result.output_mean - goal) ** 2))
    assert result.variance == pytest.approx(np.trace(result.output_covariance))
    assert json.loads(result.to_json())["heads"] == 2


def test_a_single_key_takes_everything() -> None:
    result = study(NoiseModel(means=[[1.0, 0.0]], isotropic=0.3), [2.0, 1.0], target=(0,))
    assert result.weight_mean == pytest.approx([1.0])
    assert result.share_probability.tolist() == [1.0]


def write(folder: Path, text: str) -> Path:
    file = folder / "model.toml"
    file.write_text(text)
    return file


def test_the_example_file_is_the_coursework_setting(tmp_path: Path) -> None:
    model = read_model(write(tmp_path, EXAMPLE))
    assert model.means.shape == (10, 10)
    assert model.covariance(0)[0, 0] == 0.51
    uncommented = EXAMPLE.replace("# [[mag", "[[mag").replace("# key = 0", "key = 0").replace("# values", "values")
    with_length = read_model(write(tmp_path, uncommented.replace("# prob", "prob")))
    assert with_length.magnitude(0)[0].tolist() == [0.5, 1.5]


def test_matrices_come_from_files_beside_the_model(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(2))
    np.save(tmp_path / "j.npy", 0.2 * np.eye(4))
    text = 'means = "m.npy"\n[[covariance]]\nkey = 1\nmatrix = [[1.0, 0.0], [0.0, 2.0]]\n[joint]\nmatrix = "j.npy"\n'
    model = read_model(write(tmp_path, text))
    np.testing.assert_allclose(model.covariance(1), np.diag([1.2, 2.2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("means = [[1", "is not valid TOML"),
        ("isotropic = 1.0", "it needs either means or orthonormal"),
        ("orthonormal = 3\nmeans = [[1.0]]", "it needs either means or orthonormal"),
        ("orthonormal = 0", "orthonormal must be a whole number from 1 to 10000, not 0"),
        (
            "orthonormal = 3\nspraed = 1\niso = 2",
            "2 mistakes:\n- there is no key 'spraed'; did you mean 'spread'.\n- there is no key 'iso'",
        ),
        ("orthonormal = 3\n[spread]\nkey = 0", r"spread must be written \[\[spread\]\]"),
        ("orthonormal = 3\njoint = 4", r"joint must be a table, written \[joint\]"),
        (
            "orthonormal = 3\n[[spread]]\nkey = 0\nsize = 2",
            "- spread 1: there is no key 'size'.*\n- spread 1: variance is missing: the extra variance.",
        ),
        ("orthonormal = 3\nisotropic = -1\n[[spread]]\nkey = 9\nvariance = 1", "has 2 mistakes:\n- isotropic"),
        ('means = "nowhere.npy"', "nowhere.npy"),
        ('spraed = 1\nmeans = "nowhere.npy"', "2 mistakes:\n- there is no key 'spraed'; .*\n- .*nowhere.npy"),
        (
            "orthonormal = 3\niso = 2\nisotropic = -1\n[[spread]]\nkey = 0\n[[spread]]\nkey = 9\nvariance = 1\nx = 1",
            "has 5 mistakes:\n- there is no key 'iso'.*\n- spread 1: variance is missing.*\n- spread 2: there is "
            "no key 'x'.*\n- isotropic is a variance and must not be negative, but it is -1.\n- a spread names key 9",
        ),
        (
            "orthonormal = 1\n[[magnitude]]\nkey = [0]\nvalues = [1]\nprobabilities = [1]",
            r"has a mistake:\n- magnitude 1: key must be a whole number, not \[0\]",
        ),
        (
            "orthonormal = 1\n" + 2 * "[[covariance]]\nkey = 0\nmatrix = [[1]]\n",
            "key 0 has two covariances, write their sum",
        ),
        ('orthonormal = 2\nisotropic = "x"', "isotropic must be one finite number"),
    ],
)
def test_every_mistake_in_a_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_model(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.toml does not exist"):
        read_model(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    "ask",
    [
        lambda odd: NoiseModel(means=[[odd, 0.5], [0, 1]]),
        lambda odd: NoiseModel(means=np.eye(2), isotropic=odd),
        lambda odd: study(NoiseModel(means=np.eye(2), isotropic=0.1), [[odd, 0]]),
        lambda odd: study(NoiseModel(means=np.eye(2), isotropic=0.1), [[1, 0]], values=[[odd], [0]]),
        lambda odd: compare(keys=2, scale=odd),
        lambda odd: optimise(NoiseModel(means=np.eye(2), isotropic=0.1), max_norm=odd),
    ],
)
def test_an_integer_that_float64_rounds_is_refused(ask) -> None:
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds, such as 9007199254740993"):
        ask(2**53 + 1)
