"""JSON that can mean one thing only: no name twice, no NaN, no number without end, and nothing too deep."""

from __future__ import annotations

import json
import math
import time

import pytest

from regard.strict_json import parse_json


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5e-300, 10**400, "é\u2028", [], {}, {"a": {"a": [{"a": 1}, {"a": 1}]}, "b": [1, [2]]}]
)
def test_what_json_wrote_is_read_back(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value).encode("utf-16")):
        assert parse_json(text) == value
        assert parse_json(text if isinstance(text, bytes) else text.encode()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 1}', "the name 'a' appears twice"),
        ('{"b": 0, "a": 1, "c": [], "a": 2}', "the name 'a' appears twice"),
        ('[{"x": {"a": 1, "\\u0061": 2}}]', "the name 'a' appears twice"),
        ("NaN", "NaN is not a JSON number"),
        ('{"a": [Infinity]}', "Infinity is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1" * 5000, "a whole number in it has thousands of digits"),
        ('{"a": -' + "1" * 5000 + "}", "a whole number in it has thousands of digits"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 100_000, "it is nested too deeply"),
        ("", "Expecting value"),
        ("{} {}", "Extra data"),
        (b"\xff\xff{}", "codec can't decode"),
    ],
)
def test_what_can_mean_two_things_or_none_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse_json(text)


def test_other_programs_write_constants():
    assert parse_json('[Infinity, -Infinity, {"a": 1}]', constants=True) == [math.inf, -math.inf, {"a": 1}]
    assert math.isnan(parse_json(b"NaN", constants=True))
    with pytest.raises(ValueError, match="appears twice"):
        parse_json('{"a": NaN, "a": 1}', constants=True)


def test_long_names_are_cut():
    name = "a" * 10_000
    with pytest.raises(ValueError, match=r"^the name 'a{40}' appears twice$"):
        parse_json(f'{{"{name}": 1, "{name}": 2}}')


@pytest.mark.slow
def test_many_names_and_many_lines_stay_quick():
    """In processor time, which no load stretches: a table of 200,000 names, one of them twice at its very end."""
    names = ", ".join(f'"{n}": {n}' for n in range(200_000))
    start = time.process_time()
    assert len(parse_json(f"{{{names}}}")) == 200_000
    with pytest.raises(ValueError, match="the name '199999' appears twice"):
        parse_json(f'{{{names}, "199999": 0}}')
    for _ in range(20_000):
        parse_json(b'{"event": "step", "step": 1, "loss": 0.5}')
    assert time.process_time() - start < 5
