"""The page of derivations: typeset formulas with their marks, and what was typed only as text."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.lab.page import State, pages


def answer(**words):
    page = pages()["derivation"]
    return page.answer(State(words, start=page.start)).to_dict()


def test_every_line_is_typeset_with_its_mark():
    start = answer()
    assert [line["mark"] for line in start["picture"]["lines"]] == ["follows"] * 5 + ["false"]
    assert all(line["mathml"].startswith("<math") for line in start["picture"]["lines"])
    assert "line 5 is false" in start["picture"]["summary"]
    assert "Z_p = P Z" in start["picture"]["problem"]


def test_what_is_not_read_is_text_and_a_hint_is_a_remark():
    typed = answer(claim="singular-energy", text="$\\oplus <script> = 1$", hints="1")
    (line,) = typed["picture"]["lines"]
    assert (line["mark"], line["mathml"]) == ("not read", "")
    assert any(one.startswith("Hint: look at line 1 first") for one in typed["picture"]["remarks"])
    with pytest.raises(InputError, match="The page takes 20,000 letters"):
        answer(text="x" * 20_001)
