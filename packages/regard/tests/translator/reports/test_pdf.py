"""The PDF: every word of the page is on its sheets, inside the margins; it is the same file every time."""

from __future__ import annotations

import re
import sys
import types
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.translator.reports import checked_format, pdf, report
from regard.translator.reports.markup import read_markup
from regard.translator.reports.paper import HEIGHT, WIDTH, Paper, Style, width_of
from regard.translator.reports.paragraphs import comparison_paragraph
from regard.translator.reports.typesetting import Cell, break_lines, columns
from regard.translator.scoring.intervals import t_interval
from regard.translator.studies.comparison import compare
from regard.translator.studies.summary import Comparison, Entry, differences_of
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import train
from toy_translator import tiny, write_corpus

torch.set_num_threads(1)

words = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x17F, exclude_categories=["Cc", "Zs", "Cf"]), max_size=30
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, a comparison and a study, in one page and in one PDF."""
    folder = tmp_path_factory.mktemp("pdf")
    quick = tiny(write_corpus(folder / "toy"), "epochs=2", "width=8", "feed_forward=11", "batch=16")
    train(quick, folder / "one")
    compare(quick, ["learned", "positions=none"], folder / "compared", seeds=2, command="regard translator compare")
    (folder / "space.toml").write_text("[model]\nwidth = [4, 8]\n")
    tune(quick, folder / "tuned", trials=2, space=folder / "space.toml", pruner="none", confirm=2)
    return folder


def sheets(page: str) -> Paper:
    """The paper of a page, before it is a file."""
    kept: list[Paper] = []

    class Kept(Paper):
        def pdf(self, *, title: str, author: str = "") -> bytes:
            kept.append(self)
            return b""

    before = pdf.Paper
    pdf.Paper = Kept  # type: ignore[misc]
    try:
        pdf.report_pdf(page, title="A title")
    finally:
        pdf.Paper = before  # type: ignore[misc]
    return kept[0]


@pytest.mark.slow
def test_every_word_of_the_page_is_on_the_sheets_and_inside_them(made):
    report([made / "one", made / "compared", made / "tuned"], made / "page.html", author="Ada <Lovelace>")
    page = (made / "page.html").read_text()
    paper = sheets(page)
    assert len(paper.sheets) > 3
    said = "".join(text.get_text() for sheet in paper.sheets for text in sheet.texts)
    body = re.sub(r"<style>.*?</style>|<nav>.*?</nav>|<title>.*?</title>", "", page)
    wanted = next(read_markup(body).find("body")).text()
    letters = [Counter(re.sub(r"\s", "", text)) for text in (wanted, said)]
    assert not letters[0] - letters[1]  # nothing is lost; numbers of sheets and repeated heads come on top
    for word in ("Ada <Lovelace>", "Learning curve", "Made by regard"):
        assert word in said
    for sheet in paper.sheets:
        assert len(sheet.texts) > 2, "a blank sheet"
        for text in sheet.texts:
            x, y = text.get_position()
            assert 0 <= x * WIDTH <= WIDTH - 40
            assert 30 <= y * HEIGHT <= HEIGHT - 40


@pytest.mark.slow
def test_the_file_is_a_pdf_and_the_same_every_time(made):
    for name in ("a", "b"):
        report([made / "one"], made / f"{name}.pdf", title="Homework", command="the same")
    first, second = (made / "a.pdf").read_bytes(), (made / "b.pdf").read_bytes()
    assert first.startswith(b"%PDF-")
    assert b"/Title (Homework)" in first
    assert first == second
    with pytest.raises(InputError, match=r"a\.pdf is there already"):
        report([made / "one"], made / "a.pdf")


@pytest.mark.parametrize(
    ("name", "format", "answer"),
    [
        ("a.html", None, "html"),
        ("a.htm", None, "html"),
        ("a.PDF", None, "pdf"),
        ("a", None, "html"),
        ("a", "pdf", "pdf"),
        ("a.txt", "pdf", "pdf"),
        ("a.pdf", "html", "a.pdf ends like pdf, and the format is html; give another --out or --format."),
        ("a.html", "pdf", "a.html ends like html, and the format is pdf"),
        ("a", "docx", "A report is html or pdf, not 'docx'; give --format html or --format pdf."),
    ],
)
def test_the_format_is_asked_for_or_told_by_the_name(tmp_path, name, format, answer):
    if answer in ("html", "pdf"):
        assert checked_format(tmp_path / name, format) == answer
    else:
        with pytest.raises(InputError) as caught:
            checked_format(tmp_path / name, format)
        assert answer in str(caught.value)


def test_without_matplotlib_the_pdf_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.translator.reports.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Pictures need matplotlib; install it with: pip install 'regard\[plots\]'"):
        report(["nowhere"], tmp_path / "a.pdf")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", types.ModuleType("matplotlib.figure"))
    with pytest.raises(InputError, match="Pictures need matplotlib"):
        Paper()


@pytest.mark.parametrize("before", range(34, 42))
def test_the_words_over_the_settings_and_two_rows_of_a_table_stay_together(before):
    filling = "<p>word</p>" * before
    rows = "".join(f"<tr><td>row{i}</td></tr>" for i in range(9))
    table = f"<div class='scroll'><table><thead><tr><th>name</th></tr></thead><tbody>{rows}</tbody></table></div>"
    on = [[text.get_text() for text in sheet.texts] for sheet in sheets(f"<body>{filling}{table}</body>").sheets]
    assert all("row1" in sheet for sheet in on if "row0" in sheet)
    settings = (
        "<div class='settings'><div><b>[data]</b><table><tr><td>path</td><td>builtin</td></tr></table></div></div>"
    )
    page = f"<body>{filling}<p class='lead'>Bold</p>{settings}</body>"
    on = [[text.get_text() for text in sheet.texts] for sheet in sheets(page).sheets]
    assert all("[data]" in sheet for sheet in on if "Bold" in sheet)


def test_what_a_font_lacks_is_no_fault():
    page = "<body><p>日本語 and emoji 🦊 &amp; $maths$ _here_</p></body>"
    assert pdf.report_pdf(page, title="t").startswith(b"%PDF-")


@pytest.mark.slow
def test_a_long_table_repeats_its_head_and_a_wide_one_fits():
    rows = "".join(f"<tr><td>row{i}</td><td class='n'>{i}</td></tr>" for i in range(120))
    head = "<thead><tr><th>name</th><th class='n'>number</th></tr></thead>"
    paper = sheets(f"<body><div class='scroll'><table>{head}<tbody>{rows}</tbody></table></div></body>")
    assert len(paper.sheets) > 2
    for sheet in paper.sheets:
        assert [text.get_text() for text in sheet.texts][:2] == ["name", "number"]
    wide = "".join(f"<td class='n'>{i}.123456789</td>" for i in range(60))
    paper = sheets(
        f"<body><div class='scroll'><table><tbody><tr>{wide}</tr><tr>{wide}</tr></tbody></table></div></body>"
    )
    assert max(text.get_position()[0] for text in paper.sheets[0].texts) * WIDTH < WIDTH - 40


@settings(max_examples=60, deadline=None)
@given(st.lists(words, max_size=25), st.floats(40, 500))
def test_no_line_is_wider_than_its_column_and_no_letter_is_lost(some, width):
    text = " ".join(some)
    lines = break_lines([(text, Style())], width)
    for line in lines:
        assert line.width <= width + 0.1 or max(len(w) for w, _ in line.pieces) == 1
    said = "".join(word for line in lines for word, _ in line.pieces)
    assert said.replace(" ", "") == text.replace(" ", "")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1, max_size=5), st.floats(60, 600))
def test_columns_fit_or_are_refused(rows, width):
    cells = [[Cell(pieces=((word, Style()),)) for word in row] for row in rows]
    found = columns(cells, width, gap=5)
    if found is not None:
        assert sum(found) + 10 <= width + 0.01
    else:
        least = [max(cell.widths()[0] for cell in column) for column in zip(*cells, strict=True)]
        assert sum(least) + 10 > width


def test_widths_add_up():
    style = Style()
    both = width_of("one two", style)
    assert both == pytest.approx(width_of("one", style) + width_of(" ", style) + width_of("two", style), abs=0.5)


def compared(**values: list[float]) -> Comparison:
    entries = [
        Entry(
            name=name, embedding={}, changes=[], coverage=[], parameters=1, cpu_seconds=1, best_epochs=[], runs=[],
            measures={"validation perplexity": t_interval(numbers), "BLEU": t_interval([1 / v for v in numbers])},
        )
        for name, numbers in values.items()
    ]  # fmt: skip
    several = len(next(iter(values.values())))
    return Comparison(
        folder="", scored_on="", seeds=list(range(several)), entries=entries, differences=differences_of(entries),
        groups=[], bleu_signature="", chrf_signature="", notes=[],
    )  # fmt: skip


def test_a_comparison_in_words_claims_no_more_than_its_seeds_show():
    said = comparison_paragraph(compared(a=[9.0, 9.1, 9.05, 9.02], b=[12.0, 12.2, 12.1, 12.05], c=[8.5, 9.6, 9.1, 9.3]))
    assert said.startswith("The lowest validation perplexity has a, 9.04: better beyond chance than b, and not beyond")
    assert "and not beyond chance better than c." in said
    assert "chance cannot be told from a difference" in comparison_paragraph(compared(a=[9.0], b=[12.0]))
    assert comparison_paragraph(compared(a=[9.0, 9.1])) == ""
