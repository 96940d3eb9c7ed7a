"""Formulas in plain letters: what is one, and how it is shown in terminal, page and picture."""

from __future__ import annotations

import html
import re

import pytest

from regard import claims
from regard.latex import formulas, latex
from regard.notation import MEANINGS, pieces, readable

PLAIN = re.compile(r"\|\||sqrt|<=|>=|->|!=|\b(?:alpha|eps|sigma|mu)\b|\w\^")  # what a reader should never see
NO_MEANING_NEEDED = set("()[]=/−+,<>:;?.!%")


def texts(name):
    """Every text of a claim that a reader sees."""
    claim = claims[name]
    checked = claim.check().to_dict()
    parts = [value for reading in checked["readings"] for value in reading.values() if isinstance(value, str)]
    return [claim.statement, *claim.proof().text.split("\n\n"), *parts]


@pytest.mark.parametrize("name", claims)
def test_nothing_is_lost_and_prose_has_no_plain_formulas(name):
    for text in texts(name):
        found = pieces(text)
        rebuilt = "".join(readable(p.text) if p.formula else p.text for p in found)
        assert rebuilt.split() == readable(text).split()
        prose = " ".join(p.text for p in found if not p.formula)
        assert not PLAIN.search(re.sub(r"`[^`]*`|\(with [^)]*\)|--set \S+", "", prose)), prose


@pytest.mark.parametrize("name", claims)
def test_every_formula_can_be_set_and_every_sign_has_a_meaning(name):
    convert = pytest.importorskip("regard.lab.page", reason="the lab is not installed").mathml
    made = [convert(line) for line in formulas(claims[name].formula)]
    made += [convert(latex(p.text), inline=True) for text in texts(name) for p in pieces(text) if p.formula]
    signs = {html.unescape(sign).strip() for one in made for sign in re.findall(r"<m[io][^>]*>([^<]+)<", one)}
    assert not {sign for sign in signs if sign.replace("~", "∼") not in MEANINGS} - NO_MEANING_NEEDED
    assert not [one for one in made if one.count("<mrow>") != one.count("</mrow>")]
    bars = "".join(made).count("&#x02016;")
    assert "".join(made).count('<mo form="prefix" stretchy="false">&#x02016;') * 2 == bars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a key, an index, A big one", []),
        ("A and B", ["B"]),
        ("so a -> 0 and a I", ["a -> 0", "a I"]),
        ("of norm sqrt(2) L, half", ["sqrt(2) L"]),
        ("norm(x + y) is one", ["norm(x + y)"]),
        ("(k_0 is the first)", ["k_0"]),
        ("q = 2 k_0 (k_0 is a key)", ["q = 2 k_0", "k_0"]),
        ("sigma_1 >= ... >= sigma_k.", ["sigma_1 >= ... >= sigma_k"]),
        ("N(mu_i, a I) with means", ["N(mu_i, a I)"]),
        ("see two-heads-steady, 3 keys", []),
        ("HOLDS (with n = 10, eps = 0.01)", []),
        ("use `eps_0 >= 1` here", []),
        ("L' = 3, t' is", ["L' = 3", "t'"]),
        ("", []),
        ("   \n ", []),
        (")(", []),
        ("((((a_1", ["a_1"]),
    ],
)
def test_what_is_a_formula(text, expected):
    assert [p.text for p in pieces(text) if p.formula] == expected


def test_pictures_have_their_formulas_set():
    pictures = pytest.importorskip("regard.pictures")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'regard[plots]'")
    from matplotlib.text import Text

    drawn = pictures.figure()
    claim = claims["singular-tail"]
    claim.draw_into(drawn, **claim.resolve_parameters())
    said = [text.get_text() for text in drawn.findobj(Text)]
    assert r"$\sigma _{k} / \|A\|$" in said
    assert not [one for one in said if PLAIN.search(re.sub(r"\$[^$]*\$", "", one))]
    assert pictures.with_formulas("costs $5 and eps") == "costs $5 and eps"  # somebody's own mathematics is left alone


@pytest.mark.parametrize(
    "formula",
    [
        r"\alpha_{0} = \frac{e^{3.00}}{e^{3.00} + e^{-1.25}} = 0.9866",
        r"\lVert A - B \rVert = \sigma_{5} = 15.5591 \;\le\; \frac{45.2}{\sqrt{5}}",
        r"k_0 + k_12 x^2 10^{-10} \tfrac1N 1.5\cdot 10^{-3}",
        r"w_i = 10000^{-2i/8}, \quad 9000007 = 9000017, 7 \le 3.",
        r"\min_{s < t < 1000} \text{at 3 keys}",
    ],
)
def test_only_the_form_of_a_formula_is_converted_and_its_numbers_come_back(formula):
    convert = pytest.importorskip("latex2mathml.converter", reason="the lab is not installed").convert
    from regard.lab.page import mathml, with_both_bars

    assert mathml(formula) == with_both_bars(convert(formula, display="block"))
