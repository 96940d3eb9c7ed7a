"""Declared tables: what a field says is what a file is held to, and every mistake is told at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from regard.declared_tables import Mistakes, commented_lines, entry, read_table, read_tables
from regard.errors import InputError
from regard.toml import parse_toml


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Paint:
    name: str = entry(about="what it is called", test=str.strip, form="text that is not blank")
    coats: int = entry(2, "how often it is put on", least=1, most=7)
    share: float = entry(0.5, "how much of it is water", least=0, below=1)
    matt: bool = entry(False, "no gloss")
    colour: Colour = entry(Colour.RED, "its colour")
    dry: int | float | None = entry(None, "hours until it is dry", above=0)
    tools: list[str] = entry(["brush"], "what it is put on with")
    where: dict[str, Any] = entry({}, "which wall gets how much")


def test_what_is_written_comes_back_in_its_type():
    mistakes = Mistakes("paint.toml")
    text = 'name = "lime"\ncoats = 3\nshare = 0\nmatt = true\ncolour = "blue"\ndry = 5\nwhere = {north = 1}'
    paint = read_table(Paint, parse_toml(text), mistakes)
    mistakes.raise_if_any()
    assert paint == Paint(
        name="lime", coats=3, share=0.0, matt=True, colour=Colour.BLUE, dry=5, where={"north": 1}, tools=["brush"]
    )
    assert type(paint.share) is float
    assert type(paint.dry) is int


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("coats = 0", "coats must be a whole number from 1 to 7, not 0."),
        ("coats = true", "coats must be a whole number from 1 to 7, not True."),
        ("coats = 2.0", "coats must be a whole number from 1 to 7, not 2.0."),
        ("share = 1", "share must be a number of at least 0 and below 1, not 1.0."),
        ("share = nan", "share must be a finite number, not nan."),
        ("matt = 1", "matt must be true or false, not 1."),
        ('colour = "green"', "colour must be one of red, blue, not 'green'."),
        ("colour = {}", "colour must be one of red, blue, not {}."),
        ("dry = 0", "dry must be a number above 0, not 0."),
        ('tools = "brush"', "tools must be a list, not 'brush'."),
        ("where = 3", "where must be a table, not 3."),
        ("coat = 3", "there is no key 'coat'; did you mean 'coats'?"),
        ('name = " "', "name must be text that is not blank, not ' '."),
    ],
)
def test_every_mistake_names_the_key_the_rule_and_what_came(written, sentence):
    mistakes = Mistakes("paint.toml")
    read_table(Paint, {"name": "lime"} | parse_toml(written), mistakes)
    assert mistakes.sentences == [sentence]


def test_all_at_once_and_nothing_twice():
    mistakes = Mistakes("paint.toml")
    paints = [{"coats": 9}, {"name": "lime", "matt": "yes"}, {"name": "chalk", "gloss": 1}]
    read = read_tables(Paint, paints, "paint", mistakes)
    mistakes.add("paint 2: matt must be true or false, not 'yes'.")
    assert [paint.name for paint in read] == ["lime", "chalk"]  # the first has no name, which it needs
    with pytest.raises(InputError) as refused:
        mistakes.raise_if_any()
    assert str(refused.value).splitlines() == [
        "paint.toml has 4 mistakes:",
        "- paint 1: name is missing: what it is called.",
        "- paint 1: coats must be a whole number from 1 to 7, not 9.",
        "- paint 2: matt must be true or false, not 'yes'.",
        "- paint 3: there is no key 'gloss'; there are coats, colour, dry, matt, name, share, tools, where.",
    ]


def test_of_very_many_mistakes_the_first_are_told():
    mistakes = Mistakes("paint.toml")
    read_table(Paint, {"name": "lime"} | dict.fromkeys([f"x{n}" for n in range(60)], 1), mistakes)
    told = str(mistakes.error()).splitlines()
    assert told[0] == "paint.toml has 60 mistakes:"
    assert told[50].startswith("- there is no key 'x49'")
    assert told[51:] == ["- and 10 more."]


def test_what_is_no_list_of_tables():
    mistakes = Mistakes("paint.toml")
    assert read_tables(Paint, {"name": "lime"}, "paint", mistakes) == []
    assert mistakes.sentences == ["paint must be written [[paint]], a table for each."]


def test_a_default_is_not_shared():
    mistakes = Mistakes("paint.toml")
    one, two = (read_table(Paint, {"name": name}, mistakes) for name in ("lime", "chalk"))
    one.tools.append("roller")
    assert two.tools == ["brush"]


def test_the_comments_are_written_above_the_keys():
    lines = commented_lines(Paint(name='"lime"', matt=True))
    assert lines[:2] == ["# what it is called", 'name = "\\"lime\\""']
    assert lines[6:8] == ["# no gloss", "matt = true"]
