"""The notebooks as pages of the site: text, code, and what the cells show."""

from __future__ import annotations

import base64
import importlib.util
import sys
from xml.etree import ElementTree

import pytest

from places import DOCS

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install 'regard[dev]'")
pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'regard[docs]'")


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setenv("NOTEBOOKS", "stored")
    spec = importlib.util.spec_from_file_location("_notebooks", DOCS / "_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "_notebooks", module)
    spec.loader.exec_module(module)
    return module


def written(path, *cells):
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


def cell(source, *outputs):
    made = nbformat.v4.new_code_cell(source)
    made.outputs = [nbformat.v4.new_output(kind, **given) for kind, given in outputs]
    return made


def test_a_page_has_its_text_its_code_and_its_outputs(hook, tmp_path):
    drawn = "<pre>A share &lt; 1</pre><svg xmlns='http://www.w3.org/2000/svg' id='one'></svg>"
    path = written(
        tmp_path / "small.ipynb",
        nbformat.v4.new_markdown_cell("# A small one\n\nWith $x^2$."),
        cell("x = 1\nx", ("execute_result", {"data": {"text/html": drawn, "text/plain": "1"}})),
        cell("print('<b>')", ("stream", {"name": "stdout", "text": "<b>\n"})),
        cell("import sys", ("stream", {"name": "stderr", "text": "a warning"})),
    )
    page = hook.page(path)
    assert page.startswith(
        "# A small one\n\n*A notebook: `docs/notebooks/small.ipynb`. What its cells show was computed"
    )
    assert "kept in its file.*" in page
    assert "With $x^2$." in page
    assert "```python\nx = 1\nx\n```" in page
    whole = hook.on_page_content(page)
    assert '<pre>A share &lt; 1</pre><img class="svg"' in whole
    assert "<svg" not in whole  # an image of its own: its names meet no other's
    assert "<pre>&lt;b&gt;\n</pre>" in whole
    assert "a warning" not in whole
    assert "data-cell" not in whole


@pytest.mark.parametrize("before", ["<svg ", "<?xml version='1.0'?><svg ", '<svg xmlns="http://www.w3.org/2000/svg" '])
def test_a_drawing_says_what_it_is(hook, before):
    """Inside HTML an SVG needs no namespace; as an image of its own it is broken without."""
    shown = nbformat.v4.new_output("display_data", data={"image/svg+xml": f'{before}viewBox="0 0 7 5"><g/></svg>'})
    encoded = hook.output(shown).partition("base64,")[2].partition('"')[0]
    drawing = ElementTree.fromstring(base64.b64decode(encoded))
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert (drawing.get("width"), drawing.get("height")) == ("7", "5")  # else it is as wide as the page
    assert drawing[0].tag == "{http://www.w3.org/2000/svg}g"


def test_a_drawing_that_no_browser_would_show_ends_the_build(hook):
    shown = nbformat.v4.new_output("display_data", data={"text/html": "<svg><text>a &nbsp; b</text></svg>"})
    with pytest.raises(ElementTree.ParseError, match="undefined entity"):
        hook.output(shown)


def test_a_link_to_a_notebook_leads_to_its_page(hook):
    written = "the [vectors](notebooks/word-vectors.ipynb#how), and the file `notebooks/word-vectors.ipynb`"
    expected = "the [vectors](notebooks/word-vectors.md#how), and the file `notebooks/word-vectors.ipynb`"
    assert hook.on_page_markdown(written) == expected


def test_one_without_outputs_says_so(hook, tmp_path):
    page = hook.page(written(tmp_path / "long.ipynb", nbformat.v4.new_markdown_cell("# Long"), cell("train()")))
    assert "It trains for minutes: run it to see what its cells show." in page
    assert "notebook-output" not in page


def test_every_notebook_is_a_page_of_the_site(hook):
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (DOCS / "notebooks").glob("*.ipynb"):
        assert f"notebooks/{path.stem}.md" in nav
        assert hook.page(path).startswith("# ")
