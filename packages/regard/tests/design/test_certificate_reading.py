"""How strictly a certificate is read: every field at the edge of what it may be, by hand-written certificates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import flint
import numpy as np
import pytest

from regard.design.certificate import MOST_DIGITS, Certificate, floats, read_answers
from regard.errors import InputError

DATA = {"shape": [3, 2], "sha256": "of three keys"}
HEAD = {"format": "regard-certificate/1", "scale": 1.0, "allowed": None, "data": DATA}
COPY = {"verb": "copy", "keys": [0], "eps": 0.1}
EXACT = {"weights": ["1/3", "5"], "mixture": ["1"]}
NEVER = {**HEAD, "question": COPY, "claim": "unreachable", "combination": EXACT, "bound": 0.5}
DUAL = {"weights": [0.25, 0.0], "mixture": [1.0]}
SHORTEST = {**HEAD, "question": COPY, "claim": "shortest", "query": [1.5, -2.0], "dual": DUAL, "norm": 2.5, "gap": 0.0}
CEILING = {**HEAD, "question": {"verb": "copy", "keys": [0]}, "claim": "ceiling", "direction": [1, 0], "gap": 0.0}
TARGET = {"verb": "match", "target": [0.5, 0.5, 0.0], "kl": 0.1}
MATCH = {**SHORTEST, "question": TARGET, "dual": {"weights": [1.0, 2.0, 3.0], "mixture": []}}


def weights(*some: object, of: dict[str, Any] = NEVER, part: str = "combination") -> dict[str, Any]:
    return {**of, part: {**of[part], "weights": list(some)}}


@pytest.mark.parametrize(
    "given",
    [
        NEVER,
        SHORTEST,
        CEILING,
        MATCH,
        {**CEILING, "direction": [0.5, -1.0]},
        {**SHORTEST, "query": ["1/3", "-2"]},
        {**NEVER, "combination": {"weights": [1.0, 0.5], "mixture": [1.0], "basis": [1]}},
        weights("1/2", "1/2"),
        weights("0", "1"),
        weights("7" * MOST_DIGITS, "1"),
        weights(0.0, 1.0, of=SHORTEST, part="dual"),
        {**NEVER, "bound": 5000},
        {**NEVER, "allowed": [0, 1, 2]},
        {**SHORTEST, "question": {"verb": "share", "keys": [0, 1], "eps": 0.1}, "allowed": [0, 1],
         "dual": {"weights": [1.0, 1.0], "mixture": [0.5, 0.5]}},
        {**CEILING, "data": {**DATA, "shape": [2, 1]}, "direction": [1]},
        {**CEILING, "data": {**DATA, "shape": [1, 2]}},
    ],
)  # fmt: skip
def test_what_was_read_is_written_again(given: dict[str, Any]) -> None:
    assert Certificate.from_dict(given).to_dict() == given


@pytest.mark.parametrize("direction", [[1, 0.5], [0.5, 1]])
def test_a_direction_with_one_fraction_is_one_of_floats(direction: list[float]) -> None:
    assert isinstance(Certificate.from_dict({**CEILING, "direction": direction}).direction, np.ndarray)


def test_rationals_are_rounded_to_the_nearest_float() -> None:
    assert floats((flint.fmpq(1, 3), flint.fmpq(-7, 2))).tolist() == [1 / 3, -3.5]


def test_a_whole_number_that_a_float_can_hold_is_a_number() -> None:
    assert Certificate.from_dict({**NEVER, "bound": 2**1000}).bound == 2.0**1000


@pytest.mark.parametrize(
    "given",
    [
        {**NEVER, "scale": 2**53 + 1},
        {**NEVER, "bound": 10**308 - 1},
        {**NEVER, "question": {**COPY, "eps": 2**53 + 1}},
        {**SHORTEST, "query": [0.5, -(2**53) - 1]},
        {**CEILING, "direction": [0.5, 2**53 + 1]},
        weights(1.0, 2**53 + 1, of=SHORTEST, part="dual"),
        {**NEVER, "combination": {"weights": [1.0, 2**53 + 1], "mixture": [1.0], "basis": [1]}},
        {**NEVER, "combination": {"weights": [1.0, 1.0], "mixture": [2**53 + 1], "basis": [1]}},
    ],
)
def test_a_whole_number_that_a_float_would_round_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"The certificate's .* integers beyond 2\^53 that float64 rounds"):
        Certificate.from_dict(given)


SHAPES = [None, [3], [3, 2, 1], [3, 0], [0, 2], [3, -2], [True, 2], [3, 2.0], "ab", {"3": 2}, [[3], [2]]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        *(({**CEILING, "data": {**DATA, "shape": shape}}, "must give the 'shape' of its keys") for shape in SHAPES),
        *(({**CEILING, "data": {**DATA, "sha256": other}}, "and their 'sha256'") for other in (None, 5, [])),
        ({**NEVER, "bound": 10**309}, "'bound' must be a finite number; it is a int"),
        ({**NEVER, "bound": -(10**309)}, "'bound' must be a finite number; it is a int"),
        ({**NEVER, "bound": True}, "'bound' must be a finite number"),
        ({**NEVER, "question": {**COPY, "eps": 0}}, "must give 'eps' as a positive number"),
        ({**NEVER, "question": {**COPY, "eps": -0.1}}, "must give 'eps' as a positive number"),
        ({**NEVER, "question": {**COPY, "keys": [1]}, "allowed": [0, 2]}, "a key that its own mask forbids"),
        (weights("1/2", "x"), "or as many rationals like 1/3"),
        (weights("x", "1/2"), "or as many rationals like 1/3"),
        (weights("1/2"), "must be 2 finite numbers, or as many rationals"),
        (weights("1", "1", "1"), "must be 2 finite numbers, or as many rationals"),
        (weights("1/0", "1"), "or as many rationals like 1/3"),
        (weights("7" * (MOST_DIGITS + 1), "1"), "or as many rationals like 1/3"),
        (weights("-1/2", "1"), "must be non-negative, and some of them positive"),
        (weights("1", "-1/2"), "must be non-negative, and some of them positive"),
        (weights("0", "0"), "must be non-negative, and some of them positive"),
        (weights(-1.0, 1.0, of=SHORTEST, part="dual"), "must be non-negative, the largest near 1"),
        (weights(0.0, 0.0, of=SHORTEST, part="dual"), "must be non-negative, the largest near 1"),
        (weights(0.0, 1e-100, of=SHORTEST, part="dual"), "must be non-negative, the largest near 1"),
        (weights(0.0, 1e100, of=SHORTEST, part="dual"), "must be non-negative, the largest near 1"),
        ({**SHORTEST, "dual": {**DUAL, "basis": [0]}}, "a field 'basis' that its dual does not use"),
        ({**NEVER, "combination": {**EXACT, "basis": [0]}}, "must be rationals, or floats with the basis"),
        (weights(1.0, 1.0), "must be rationals, or floats with the basis"),
        ({**MATCH, "question": {**TARGET, "target": [1.5, -0.5, 0.0]}}, "must be a distribution"),
        ({**MATCH, "question": {**TARGET, "target": [0.5, 0.4, 0.0]}}, "must be a distribution"),
        ({**MATCH, "question": {**TARGET, "target": [0.5, 0.6, 0.0]}}, "must be a distribution"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        Certificate.from_dict(given)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", ["designs", "ceilings"])
def test_the_answers_of_a_whole_result_are_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({name: [NEVER, CEILING]}))
    assert read_answers(path) == [NEVER, CEILING]


@pytest.mark.parametrize("content", [[], {"designs": []}, {"designs": [NEVER, 5]}, {"ceilings": [5, NEVER]}, 5])
def test_a_list_with_anything_else_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="holds no certificate: it must be a JSON object"):
        read_answers(path)


@pytest.mark.parametrize("beside", [NEVER, {"certificate": NEVER}, {"norm": 1.0}, {"ceilings": []}, {"note": ""}])
def test_beside_a_list_of_answers_stands_nothing_that_nobody_checks(beside: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"designs": [SHORTEST], "unanswered": {}, **beside}))
    with pytest.raises(InputError, match=f"a list of designs and beside it '{next(iter(beside))}'"):
        read_answers(path)


@pytest.mark.parametrize("name", ["norm", "eps", "weights"])
def test_a_name_twice_is_refused_at_any_depth(name: str, tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(SHORTEST).replace(f'"{name}": ', f'"{name}": 7, "{name}": '))
    with pytest.raises(InputError, match=f"the name '{name}' appears twice"):
        read_answers(path)


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("certificate", {"claim": "shortest"}), ("certificate", {"claim": None}), ("certificate", {"scale": "1"}),
        ("certificate", {"query": [1.0, 0.0]}), ("certificate", {"norm": True}), ("certificate", {"norm": "2.5"}),
        ("certificate", {"dual": DUAL}), ("certificate", {"shape": [3, 2]}), ("certificate", {"question": COPY}),
        ("certificate", {"allowed": [0]}), ("certificate", {"sha256": b""}), ("question", {"verb": "copy"}),
        ("question", {"keys": [0]}), ("question", {"eps": "0.1"}), ("dual", {"weights": [0.25, 0.0]}),
        ("dual", {"mixture": None}), ("dual", {"basis": [0]}),
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_refused_where_it_is_put_in(part: str, changed: dict[str, Any]) -> None:
    read = Certificate.from_dict(SHORTEST)
    with pytest.raises(InputError, match=f"A certificate's '{next(iter(changed))}' must be of type"):
        replace(read if part == "certificate" else getattr(read, part), **changed)
