"""The figures of the first page: the lab's own scripts as one file, which a page from the disk may load."""

from __future__ import annotations

import json
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
