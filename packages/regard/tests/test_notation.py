"""Formulas in plain letters: what is one, and how it is shown in terminal, page and picture."""

from __future__ import annotations

import html
import re

import pytest

from regard import claims
from regard.coursework import checklists
from regard.lab.page import MEANINGS
from regard.notation import in_plain_letters, latex, latex_lines, pieces, readable, without_marks

PLAIN = re.compile(r"\|\||sqrt|<=|>=|->|!=|\b(?:alpha|eps|sigma|mu)\b|\w\^")  # what a reader should never see
NO_MEANING_NEEDED = set("()[]=/−+,<>:;?.!%")


def texts(name):
    """Every text of a claim that a reader sees."""
    claim = claims[name]
    checked = claim.check().marked_dict()
    parts = [value for one in checked["readings"] for key, value in one.items() if key != "reading"]
    return [claim.statement, *claim.proof().text.split("\n\n"), *(one for one in parts if isinstance(one, str))]


@pytest.mark.parametrize("name", claims)
def test_every_formula_of_a_claim_is_marked(name):
    for text in texts(name):
        assert text.count("$") % 2 == 0, text
        prose = " ".join(p.text for p in pieces(text) if not p.formula)
        assert not PLAIN.search(re.sub(r"`[^`]*`", "", prose)), prose
        # a mark in the middle of a word would be a slip
        assert not re.search(r"\w\0|\0\w", re.sub(r"\$[^$]*\$", "\0", text)), text


def test_every_formula_of_a_checklist_is_marked():
    for item in (item for one in checklists.questions() for item in checklists.of(*one).items):
        for text in (item.text, item.key):
            assert text.count("$") % 2 == 0, text
            assert not PLAIN.search(re.sub(r"`[^`]*`|\$[^$]*\$", "", text)), text


@pytest.mark.parametrize("name", claims)
def test_every_formula_can_be_set_and_every_sign_has_a_meaning(name):
    convert = pytest.importorskip("regard.lab.page", reason="the lab is not installed").mathml
    made = [convert(line) for line in latex_lines(claims[name].formula)]
    made += [convert(latex(p.text), inline=True) for text in texts(name) for p in pieces(text) if p.formula]
    signs = {html.unescape(sign).strip() for one in made for sign in re.findall(r"<m[io][^>]*>([^<]+)<", one)}
    assert not {sign for sign in signs if sign.replace("~", "∼") not in MEANINGS} - NO_MEANING_NEEDED
    assert not [one for one in made if one.count("<mrow>") != one.count("</mrow>")]
    bars = "".join(made).count("&#x02016;")
    assert "".join(made).count('<mo form="prefix" stretchy="false">&#x02016;') * 2 == bars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a key, --set eps=0.1, softmax(PAP^T)", "a key, --set eps=0.1, softmax(PAP^T)"),
        ("$softmax(PAP^T)$ and $a I$", "softmax(PAPᵀ) and a I"),
        ("$||q||^2 <= 2 sqrt(2) L$, $sqrt(n/eps) -> infinity$", "‖q‖² ≤ 2 √2 L, √(n/ε) → ∞"),
        ("$k_0.mu_10 != x^(n-1)$", "k₀·μ₁₀ ≠ x^(n-1)"),
        ("$e^|s_0 - s_1|$, $sigma_k^2$", "e^|s₀ - s₁|, σ_k²"),
        ("costs $5", "costs $5"),
        ("", ""),
    ],
)
def test_only_what_is_marked_is_shown_as_a_formula(text, expected):
    assert readable(text) == expected
    assert readable([text, {"said": text}, 3]) == [expected, {"said": expected}, 3]
    assert "".join(readable(f"${p.text}$") if p.formula else p.text for p in pieces(text)) == expected


def test_marks_are_taken_off_for_files_and_letters_go_back_for_plain_terminals():
    text = "$||q||^2 <= 2 sqrt(2) ln(n/eps)$ and $alpha_10$"
    assert without_marks([text]) == ["||q||^2 <= 2 sqrt(2) ln(n/eps) and alpha_10"]
    assert in_plain_letters(readable(text)) == without_marks(text)


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
    assert pictures.with_formulas("costs $5 and eps") == "costs $5 and eps"  # one sign alone marks nothing


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
