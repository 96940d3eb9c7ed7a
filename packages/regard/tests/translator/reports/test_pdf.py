"""The PDF: every word of the page is on its sheets, inside the margins; it is the same file every time."""

from __future__ import annotations

import contextlib
import html
import re
from collections import Counter

import pypdfium2
import pytest
import torch

from regard.errors import InputError
from regard.translator.reports import checked_format, pieces, report
from regard.translator.reports.pdf import choose_fonts, report_pdf
from regard.translator.reports.run_sections import comparison_paragraph
from regard.translator.reports.study_sections import comparison_tables
from regard.translator.scoring.significance import t_interval
from regard.translator.studies.comparison import compare
from regard.translator.studies.comparison_record import Comparison, Entry, differences_of
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import train
from toy_translator import tiny, write_corpus

torch.set_num_threads(1)


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


def texts(data: bytes) -> list[str]:
    """What can be searched for and copied, sheet by sheet."""
    with contextlib.closing(pypdfium2.PdfDocument(data)) as document:
        return [page.get_textpage().get_text_range() for page in document]


def sheets(body: str) -> list[str]:
    return texts(report_pdf(f"<html><body>{body}</body></html>", title="A title")[0])


@pytest.mark.slow
def test_every_word_of_the_page_is_on_the_sheets(made):
    report([made / "one", made / "compared", made / "tuned"], made / "page.html", author="Ada <Lovelace>")
    page = (made / "page.html").read_text()
    found = texts(report_pdf(page, title="A title")[0])
    assert len(found) > 3
    assert all(len(sheet) > 20 for sheet in found), [sheet for sheet in found if len(sheet) <= 20]
    body = re.sub(r"(?s)<style>.*?</style>|<nav>.*?</nav>|<title>.*?</title>", "", page)
    wanted = html.unescape(re.sub(r"<[^>]*>", " ", body))
    letters = [Counter(c for c in text if c.isalnum()) for text in (wanted, "".join(found))]
    assert not letters[0] - letters[1]  # nothing is lost; numbers of sheets and repeated heads come on top
    for word in ("Ada <Lovelace>", "Learning curve", "Made by regard"):
        assert word in "".join(found)


@pytest.mark.slow
def test_the_file_is_a_pdf_and_the_same_every_time(made):
    for name in ("a", "b"):
        report([made / "one"], made / f"{name}.pdf", title="Homework", command="the same")
    first, second = (made / "a.pdf").read_bytes(), (made / "b.pdf").read_bytes()
    assert first.startswith(b"%PDF-")
    with contextlib.closing(pypdfium2.PdfDocument(first)) as document:
        assert document.get_metadata_dict()["Title"] == "Homework"
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


@pytest.mark.parametrize("package", ["typst", "matplotlib"])
def test_without_a_package_the_pdf_is_refused_before_any_work(tmp_path, monkeypatch, package):
    monkeypatch.setattr("regard.extras.find_spec", lambda name: None if name == package else object())
    with pytest.raises(InputError, match=rf"A report as PDF needs {package}, .*: pip install 'regard\[reports\]'"):
        report(["nowhere"], tmp_path / "a.pdf")


def test_no_text_is_taken_for_markup():
    strange = 'a "b" \\ #let x = 1; $maths$ _here_ *there* [x](y) @z <label> // /* = -- ~ `raw`'
    (sheet,) = sheets(f"<p>{html.escape(strange)}</p><pre>{html.escape(strange)}</pre>")
    assert sheet.replace("\r\n", " ").count("#let x = 1; $maths$ _here_ *there* [x](y) @z <label>") == 2


def test_a_character_that_no_font_has_is_not_lost_and_told():
    strange = "\U00013000"  # a hieroglyph
    families, missing = choose_fonts({strange, "a", "ж", "\n"})
    data, notes = report_pdf(f"<html><body><p>ab {strange} жд</p></body></html>", title="t")
    assert f"ab {strange} жд" in texts(data)[0]
    if missing:  # as on every machine without a font of hieroglyphs
        assert families[-1] == "Last Resort High-Efficiency"
        (note,) = notes
        assert note.startswith(
            f"No font on this machine has {strange} (U+13000): in the PDF a box stands in their place"
        )
    else:
        assert (notes, len(families)) == ([], 3)


def test_characters_of_the_usual_fonts_need_no_other_one():
    assert choose_fonts(set("aäßжλש→∑\n\t")) == (["Libertinus Serif", "DejaVu Sans"], [])


def test_a_long_table_repeats_its_head_and_a_wide_one_is_whole():
    rows = "".join(f"<tr><td>row{i}</td><td class='n'>{i}</td></tr>" for i in range(240))
    head = "<thead><tr><th>name</th><th class='n'>number</th></tr></thead>"
    found = sheets(f"<div class='scroll'><table>{head}<tbody>{rows}</tbody></table></div>")
    assert len(found) > 2
    assert all(sheet.startswith("name") for sheet in found)
    wide = "".join(f"<td class='n'>{i + 100}.12</td>" for i in range(61))
    (sheet,) = sheets(f"<div class='scroll'><table><tbody><tr>{wide}</tr><tr>{wide}</tr></tbody></table></div>")
    assert all(sheet.count(f"{i + 100}.") >= 2 for i in range(61))


def test_the_words_of_a_picture_can_be_searched():
    svg = pieces.dots([("one", [pieces.Dot(value=3.0)])], title="t", x_label="how <far>")
    (sheet,) = sheets(pieces.figure(svg, "caption"))
    assert "how <far>" in sheet
    assert "caption" in sheet


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
    assert said.startswith("'a' has the best validation perplexity (9.04): better beyond chance than b, and not beyond")
    assert "and not beyond chance better than c." in said
    assert "with one seed this may be chance" in comparison_paragraph(compared(a=[9.0], b=[12.0]))
    assert comparison_paragraph(compared(a=[9.0, 9.1])) == ""


def test_of_one_seed_no_difference_is_listed():
    """A row for every pair would only say again that one seed says nothing about noise."""
    one, two = compared(a=[9.0], b=[12.0]), compared(a=[9.0, 9.1], b=[12.0, 12.2])
    assert "Differences, paired by seed" in str(two)
    assert "Differences, paired by seed" in comparison_tables(two)
    assert "Differences" not in str(one)
    assert "Differences" not in comparison_tables(one)
