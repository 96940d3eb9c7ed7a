"""A verdict: REFUTED stands on numbers that cannot be wrong, and every sentence names the numbers it is about."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from regard.coursework.catalogue import claims
from regard.coursework.verdict import Status, Verdict, Witness, format_parameters, refuted_verdict
from regard.rigor import balls
from regard.written_numbers import in_full

WORDS = {"counterexample": "n = 1", "region": "nowhere", "correction": "none"}


@pytest.mark.parametrize("side", [0.1, True, np.float64(1), np.int64(1), "1", None])
def test_a_witness_has_no_floats_and_nothing_that_was_made_of_them(side) -> None:
    with pytest.raises(TypeError, match=r"whole numbers, fractions or balls"):
        Witness(side, "<", 1)
    with pytest.raises(TypeError, match=r"whole numbers, fractions or balls"):
        Witness(1, "<", side)


def test_a_witness_in_balls_is_confirmed_only_if_every_number_in_them_agrees() -> None:
    with balls.precise():
        third = 1 / balls.ball(3)
    assert not Witness(third, "!=", Fraction(1, 3)).is_confirmed
    assert not Witness(third, ">", Fraction(1, 3)).is_confirmed
    assert Witness(third, "<", Fraction(1, 3) + Fraction(1, 2**200)).is_confirmed
    assert not Witness(third, "<", Fraction(1, 3) + Fraction(1, 2**300)).is_confirmed


def test_refuted_cannot_be_made_without_a_confirmed_witness() -> None:
    for witness in ((), (Witness(1, ">", 2),), (Witness(2, ">", 1), Witness(1, ">", 2))):
        with pytest.raises(ValueError, match=r"REFUTED needs a counterexample that rigorous arithmetic confirms"):
            Verdict(status=Status.REFUTED, by="x", because="x", witness=witness)
    made = refuted_verdict("x", witness=Witness(Fraction(2), ">", 1), **WORDS)
    assert made.status is Status.REFUTED
    assert made.by == "counterexample, rechecked in exact arithmetic"
    with pytest.raises(ValueError, match=r"REFUTED needs"):
        replace(made, because="something else")


def test_what_is_not_confirmed_is_not_refuted() -> None:
    made = refuted_verdict("x", witness=(Witness(2, ">", 1), Witness(1, ">", 2)), **WORDS)
    assert made.status is Status.NOT_REFUTED
    assert made.because == "Arithmetic with error bounds does not confirm what looked like one: n = 1."


def test_a_parameter_is_shown_with_the_digits_that_name_it() -> None:
    assert format_parameters({"power": 2.0000000000000004, "n": 10}) == "power = 2.0000000000000004, n = 10"
    for value in (0.1, 1e-300, 5e-324, 0.9999999999999999, 2.8284271247461903, 7, 10**9):
        assert float(in_full(value)) == value
    assert "power = 2.0000000000000004" in str(claims["singular-energy"].check(power=2.0000000000000004))


@pytest.mark.parametrize("name", list(claims))
def test_a_reading_uses_a_parameter_or_says_that_it_does_not(name: str) -> None:
    for reading in claims[name].readings:
        check = getattr(reading.check, "func", reading.check)  # one function may decide several readings, by a partial
        tree = ast.parse(textwrap.dedent(inspect.getsource(check)))
        loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        unused = {p.name for p in claims[name].parameters} - loaded
        assert set(reading.ignores) == unused, (name, reading.name)


def test_a_reading_says_so_where_what_was_set_plays_no_part() -> None:
    found = claims["average-of-two"].check(tilt=0.5).judged[0]
    assert "no part" not in str(found)
    found = claims["the-bisector"].check(n=3).judged[2]
    assert found.ignored == ("n",)
    assert "(n: not used in this reading.)" in str(found)
    assert found.to_dict()["ignored"] == ["n"]
    assert "no part" not in str(claims["the-bisector"].check())
