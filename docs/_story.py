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


# What the theme leaves out for those who do not see the page: the search has no name, the buttons of all code
# blocks are landmarks of one name, and an empty cell of a table's head is called a head.
LANDMARK_NAMES = """<script>new MutationObserver(() => document.querySelectorAll("nav.md-code__nav:not([aria-label])")
.forEach((one) => one.setAttribute("aria-label", "Copy " + one.firstChild.dataset.clipboardTarget)))
.observe(document.body, {childList: true, subtree: true})</script>"""


def on_post_page(output: str, **_: Any) -> str:
    """Called by mkdocs with each page."""
    output = re.sub(r"<th(?: [^>]*)?>\s*</th>", "<td></td>", output).replace("</body>", LANDMARK_NAMES + "</body>")
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
