"""The notebook runs from top to bottom, on a corpus so small that it takes seconds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from places import DOCS
from processes import PATIENCE
from regard.coursework.checker.template import write_class_template
from toy_translator import FILLED

NOTEBOOK = DOCS / "notebooks" / "translator.ipynb"
VECTORS = DOCS / "notebooks" / "word-vectors.ipynb"
SMALL = "SIZE, EPOCHS, SEEDS, TRIALS = 200, 1, 2, 2"
SMALL_VECTORS = "SIZE, TEXT, EPOCHS, SEEDS, WIDTH = 120, 300, 1, 2, 8"

# Run in a process of its own: notebook kernels open sockets and threads that outlive them, and warn about it.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
parameters = next(i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", []))
notebook.cells.insert(parameters + 1, nbformat.v4.new_code_cell(sys.argv[2]))
NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[3])
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    return ran(NOTEBOOK, SMALL, tmp_path_factory.mktemp("notebook") / "executed.ipynb")


def ran(notebook, parameters, out):
    """The notebook with these parameters, executed."""
    pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(out.parent), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook), parameters, str(out)],
        capture_output=True, text=True, timeout=PATIENCE, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text(encoding="utf-8"))


def said(notebook) -> str:
    texts = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            texts.append("".join(output.get("text", [])) + "".join(output.get("data", {}).get("text/html", [])))
    return "\n".join(texts)


@pytest.mark.slow
@pytest.mark.nightly
def test_it_runs_and_shows_what_the_prose_promises(executed):
    text = said(executed)
    assert "No source sentence is in two splits." in text
    assert "outputs differ by at most" in text
    assert "Best validation perplexity" in text
    assert "Differences, paired by seed" in text
    assert text.count("<svg") >= 5
    assert "report.html: 1 run, 1 comparison, 1 study" in text


def test_it_is_kept_with_its_outputs():
    """So that the site shows them: it trains for minutes."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [bool(c["outputs"]) for c in code] == [False, False] + [True] * (len(code) - 2)  # parameters and imports
    assert not any(o["output_type"] == "error" for c in code for o in c["outputs"])
    assert "/tmp/" not in json.dumps(notebook)
    assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1
    prose = [c for c in notebook["cells"] if c["cell_type"] == "markdown"]
    assert sum("$$" in "".join(c["source"]) for c in prose) >= 4


@pytest.mark.slow
@pytest.mark.nightly
def test_the_vectors_notebook_runs_and_compares_on_the_input(tmp_path):
    text = said(ran(VECTORS, SMALL_VECTORS, tmp_path / "executed.ipynb"))
    for kind in ("word2vec:skipgram", "glove:glove", "bert:bert"):
        assert f"source={kind}+frozen=true" in text
    assert "(100.0% of types" in text
    assert "after the first epoch: learned " in text
    assert text.count("<svg") == 2
    assert "vectors.html: 1 comparison" in text


def test_the_vectors_notebook_is_kept_with_its_outputs():
    """It is what a course wants handed in: figures, coverage, impact, and a conclusion that speaks of them."""
    notebook = json.loads(VECTORS.read_text(encoding="utf-8"))
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert sum(bool(c["outputs"]) for c in code) >= 8
    assert not any(o["output_type"] == "error" for c in code for o in c["outputs"])
    assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1
    prose = "".join("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown")
    shown = said(notebook)
    conclusion = prose.partition("What it means")[2]
    figures = re.findall(r"\d+\.\d\d", conclusion)
    assert len(figures) >= 4
    assert [f for f in figures if f not in shown] == []
    assert "/tmp/" not in json.dumps(notebook)


@pytest.mark.slow
def test_the_homeworks_notebook_filled_in_runs_to_its_report(tmp_path):
    """`regard claims translator --template hw4.ipynb`, the class written, every cell run: all of it on that class."""
    path = tmp_path / "hw4.ipynb"
    written = write_class_template("translator", path)
    assert written.check == f"regard claims translator --answer {path}:TransformerTranslator"
    book = json.loads(path.read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8")
    for blank, answer in FILLED.items():
        assert json.dumps(blank)[1:-1] in text
        text = text.replace(json.dumps(blank)[1:-1], json.dumps(answer)[1:-1])
    path.write_text(text, encoding="utf-8")
    small = f"PAIRS, EPOCHS, SEEDS, TRIALS, OUT = 150, 1, 2, 2, {str(tmp_path / 'runs')!r}"
    done = said(ran(path, small, tmp_path / "executed.ipynb"))
    for part in (
        "Best validation perplexity",
        "95 % t-interval over seeds 0, 1",
        "2 trials (",
        "1 comparison, 1 study",
    ):
        assert part in done
    assert "model.width = " in done  # what its constructor takes is tried
    assert (tmp_path / "runs" / "report.html").read_text(encoding="utf-8").count("word2vec:train+frozen=true")
    titles = ["".join(cell["source"]) for cell in book["cells"] if "".join(cell["source"]).startswith("## ")]
    assert all(re.search(r"\((.* )?(seconds|minute)", title.splitlines()[0]) for title in titles[1:])
