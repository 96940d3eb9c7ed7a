"""The figures of the first page: the lab's own scripts as one file, which a page from the disk may load."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from regard.lab.offline_copy import bundle

DATA = Path(__file__).parent / "pictures" / "story.json"  # by docs/_pictures.py


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs with all files."""
    data = json.dumps(json.loads(DATA.read_text(encoding="utf-8")), ensure_ascii=False)
    script = f'{bundle(["/story.js"])}\nmodules["/story.js"].begin({data});\n'
    files.append(File.generated(config, "story.js", content=script))
    return files


# What the theme leaves out for those who do not see the page, or have no mouse: the search has no name, the buttons
# of code blocks and the parts of a contents list are landmarks of one name, an empty cell of a table head is called a
# head, and what is wider than a telephone is not scrolled by the arrow keys.
NAMES_AND_KEYS = """<script>{
const complete = () => {
  for (const one of document.querySelectorAll("nav.md-code__nav:not([aria-label])"))
    one.setAttribute("aria-label", "Copy " + one.firstChild.dataset.clipboardTarget);
  const wide = ".md-typeset__scrollwrap, div.formula, .language-text code, :is(p, li, td):has(math)";
  for (const one of document.querySelectorAll(wide))
    if (one.scrollWidth > one.clientWidth && getComputedStyle(one).overflowX === "auto") one.tabIndex = 0;
};
new MutationObserver(complete).observe(document.body, {childList: true, subtree: true});
for (const name of ["load", "resize", "toggle"]) addEventListener(name, complete, true);
}</script>"""


def on_post_page(output: str, **_: Any) -> str:
    """Called by mkdocs with each page."""
    output = re.sub(r"<th(?: [^>]*)?>\s*</th>", "<td></td>", output).replace("</body>", NAMES_AND_KEYS + "</body>")
    output = re.sub(r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', output)
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
