"""In a notebook results show their paragraph and draw themselves; the two short notebooks run from top to bottom."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from places import DOCS
from processes import PATIENCE
from regard import claims, design, lowrank, noise, subspace
from regard.lab.page import State, pages
from regard.positions import positions
from regard.results import Result
from regard.symmetry import symmetry

FOLDER = DOCS / "notebooks"
NOTEBOOKS = {
    "designing-a-query": ["No shorter query does", "No query does", "can get at most 0.2", "holds so far"],
    "noise-and-heads": ["Two heads are 11 x steadier here", "8.0715%", "local optimum", "REFUTED"],
}

SQUARE = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]]
DRAWN = {
    "copy": lambda: design.copy(SQUARE, 0, eps=0.1),
    "copy-in-space": lambda: design.copy(np.eye(3), 0, eps=0.1),
    "never": lambda: design.copy(SQUARE, 4, eps=0.1),
    "share": lambda: design.share(SQUARE, [0, 1], eps=0.1),
    "match": lambda: design.match(np.eye(2), [0.9, 0.1], kl=0.01),
    "ceiling": lambda: design.ceiling(SQUARE, 4),
    "compare": lambda: noise.compare(keys=3),
    "study": lambda: noise.study(noise.gaussian_setting(3), noise.one_head(3, 5.0)),
    "optimise": lambda: noise.optimise(noise.gaussian_setting(3), max_norm=5.0, starts=0, points=128),
    "positions": lambda: positions(dim=4, length=300),
    "table": lambda: positions([[0.0, 1.0], [0.5, 0.5], [0.5, 0.7]]),
    "spectrum": lambda: lowrank.spectrum(np.diag([3.0, 2.0])),
    "lowrank": lambda: lowrank.study(np.diag([3.0, 2.0]), rank=1),
    "symmetry": lambda: symmetry(lambda X: X + np.arange(5)[:, None], length=5, dim=3),
    "extract": lambda: subspace.extract([[1], [0]], [[1], [1]]),
    "claim": lambda: claims["average-of-two"].check(),
    "claim-with-proof": lambda: claims["average-of-two"].solution(),
}
SILENT = {
    "several": lambda: design.copy_many(np.eye(3), [0, 2], eps=0.1),
    "many-keys": lambda: design.copy(np.random.default_rng(0).standard_normal((1009, 2)), 3, max_norm=1.0),
    "sketch": lambda: lowrank.study(lowrank.sketch(np.diag([3.0, 2.0]), rank=1, seed=0), rank=1),
    "no-angle": lambda: subspace.extract(np.eye(2), np.eye(2)),
}
VOID = {"br", "hr", "img", "meta", "link", "input"}


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order; the text of <pre> is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.paragraph = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "pre" in self.open:
            self.paragraph += data


def read(page: str) -> Balanced:
    reader = Balanced()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module", params=DRAWN)
def drawn(request) -> Result:
    return DRAWN[request.param]()


def test_a_result_shows_its_paragraph_and_its_picture(drawn: Result) -> None:
    page = read(drawn._repr_html_())
    assert page.paragraph == str(drawn)  # escaped on the way, and back
    assert page.seen.count("svg") == 1
    assert page.seen.count("path") > 5
    assert "style" not in page.seen  # it would hold for the whole notebook


def test_without_matplotlib_the_paragraph_is_all(drawn: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = read(drawn._repr_html_())
    assert (page.paragraph, page.seen) == (str(drawn), ["pre"])


@pytest.mark.parametrize("name", SILENT)
def test_what_has_no_picture_has_its_paragraph(name: str) -> None:
    result = SILENT[name]()
    page = read(result._repr_html_())
    assert (page.paragraph, page.seen) == (str(result), ["pre"])


def test_text_is_escaped() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Rude(Result):
        def __str__(self) -> str:
            return "a < b & <script>alert('no')</script>"

    shown = Rude()._repr_html_()
    assert "<script" not in shown
    assert read(shown).paragraph == str(Rude())


def test_a_picture_is_of_the_keys_that_were_asked_about() -> None:
    keys = np.array(SQUARE)
    found = design.ceiling(keys, 4)
    keys[:] = 7.0
    assert found.figure().axes[0].collections[0].get_offsets().tolist() == SQUARE
    assert "_keys" not in found.to_json()


@pytest.mark.slow
def test_a_picture_leaves_the_notebooks_own_alone() -> None:
    """No pyplot: a notebook's backend stays what it was, and no figure is left open."""
    code = (
        "import sys; from regard import noise; from regard.positions import positions\n"
        "assert '<svg' in positions(dim=4, length=9)._repr_html_()\n"
        "assert '<svg' in noise.study(noise.gaussian_setting(3), noise.one_head(3, 5.0))._repr_html_()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


def test_a_paragraph_without_a_picture_imports_no_matplotlib() -> None:
    code = (
        "import sys; from regard import attend\n"
        "print(attend([1.0], [[1.0]], [[1.0]])._repr_html_(), 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip().startswith("<pre>One query")
    assert done.stdout.strip().endswith("</pre> False")


# the guides' links into the lab


def links() -> list[str]:
    text = "".join((FOLDER.parent / name).read_text("utf-8") for name in ("tutorial.md", "teaching.md", "lab.md"))
    found = set(re.findall(r"http://127\.0\.0\.1:8321/[^\s)]+", text))
    return sorted(link for link in found if "/translator?" not in link)  # that needs a trained one


@pytest.mark.parametrize("link", links())
def test_a_link_into_the_lab_opens_what_it_says(link: str) -> None:
    address = urlsplit(link)
    page = pages()[address.path.removeprefix("/")]
    assert page.answer(State(dict(parse_qsl(address.query)), start=page.start)).python


# the notebooks

# Run in a process of its own: notebook kernels open sockets and threads that outlive them, and warn about it.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_its_prose_promises(name: str, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    out = tmp_path / "executed.ipynb"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(FOLDER / f"{name}.ipynb"), str(out)],
        capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    text = said(json.loads(out.read_text(encoding="utf-8")))
    assert all(promise in text for promise in NOTEBOOKS[name]), [p for p in NOTEBOOKS[name] if p not in text]
    assert text.count("<svg") >= 4


def said(notebook) -> str:
    """What the cells printed and showed, as text."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return "\n".join(
        "".join(output.get("text", [])) + "".join(output.get("data", {}).get("text/html", [])) for output in outputs
    )


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_file_is_clean(name: str) -> None:
    """No outputs, no counts: what is in the repository is what a person wrote; prose, formula, code, picture."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(not c["outputs"] and c["execution_count"] is None for c in code)
    prose = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]
    assert sum("$$" in text for text in prose) >= 4
    links = re.findall(r"\]\(\.\./([\w-]+)\.md", "".join(prose))
    assert links
    assert all((FOLDER.parent / f"{link}.md").exists() for link in links)
