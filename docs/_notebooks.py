"""The notebooks as pages of the site, with what their cells show.

The short ones are run when the site is built, so that they show what this version answers; one that keeps its outputs
in its file is shown with these; one that trains for a long time and keeps none is shown without. ``NOTEBOOKS=stored``
runs none. A cell's picture becomes an image of its own, so that the names inside one never meet those of another.
"""

from __future__ import annotations

import base64
import html
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
from mkdocs.structure.files import File

FOLDER = Path(__file__).parent / "notebooks"
SHORT = ("designing-a-query", "noise-and-heads")  # seconds, not minutes
SVG = re.compile(r"<svg\b.*?</svg>", flags=re.DOTALL)
SIZELESS = re.compile(r'<svg\b(?![^>]*\swidth=)(?=[^>]*\sviewBox="0 0 (\S+) (\S+)")')
NAMELESS = re.compile(r"<svg\b(?![^>]*\bxmlns=)")
LINK = re.compile(r"(\]\([\w/-]+)\.ipynb\b")
PLACE = re.compile(r'<div class="notebook-output" data-cell="([\w-]+)/(\d+)"></div>')
HEAD = "*A notebook: `docs/notebooks/{name}.ipynb`. {state}*\n\n"

_shown: dict[tuple[str, int], str] = {}  # the outputs of a notebook's cells, put into the page once it is HTML


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs with all files: a page for each notebook."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page: in the repository a link leads to a notebook, on the site to its page."""
    return LINK.sub(r"\1.md", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for every page: the outputs, which are HTML already."""
    return PLACE.sub(lambda found: _shown[found[1], int(found[2])], content)


def page(path: Path) -> str:
    """A notebook in Markdown; where a cell shows something stands an empty element, which is filled later."""
    notebook = nbformat.read(path, as_version=4)
    if path.stem in SHORT and os.environ.get("NOTEBOOKS") != "stored":
        _run(notebook)
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.source.strip():
            parts.append(f"```python\n{cell.source}\n```")
            if shown := "".join(map(output, cell.outputs)):
                _shown[path.stem, number] = f'<div class="notebook-output">{shown}</div>'
                parts.append(f'<div class="notebook-output" data-cell="{path.stem}/{number}"></div>')
    state = "It trains for minutes: run it to see what its cells show."
    if any(name == path.stem for name, _ in _shown):
        state = (
            "What its cells show was computed with this page."
            if path.stem in SHORT
            else "What its cells show was computed once, and kept in its file."
        )
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{HEAD.format(name=path.stem, state=state)}{rest}"


def output(shown: Any) -> str:
    """What a cell shows, as HTML: its own where it has some, pictures as images, or else its text."""
    if shown.output_type == "stream":
        return f"<pre>{html.escape(shown.text)}</pre>" if shown.name == "stdout" else ""
    if shown.output_type == "error":
        return f"<pre>{html.escape(shown.ename)}: {html.escape(shown.evalue)}</pre>"
    data = shown.data
    if "image/svg+xml" in data:
        return _drawing(data["image/svg+xml"])
    if "image/png" in data:
        return _image("png", base64.b64decode(data["image/png"]))
    if "text/html" in data:
        return SVG.sub(lambda found: _drawing(found[0]), data["text/html"])
    return f"<pre>{html.escape(data.get('text/plain', ''))}</pre>"


def _drawing(svg: str) -> str:
    """An SVG as an image. Inside HTML it need not say what and how large it is; alone it must, and be faultless XML."""
    svg = SIZELESS.sub(r'<svg width="\1" height="\2"', svg, count=1)
    svg = NAMELESS.sub('<svg xmlns="http://www.w3.org/2000/svg"', svg, count=1)
    ElementTree.fromstring(svg)  # a mistake ends the build: browsers would show a broken picture
    return _image("svg+xml", svg.encode())


def _image(kind: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return f'<img class="{kind[:3]}" alt="what the cell draws" src="data:image/{kind};base64,{text}">'


def _run(notebook: Any) -> None:
    """Run every cell, in an empty folder; a cell that fails ends the build, unless it says that it may."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        quiet = ["--IPKernelApp.log_level=40"]
        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources=resources, extra_arguments=quiet
        )
        client.execute()
