"""Formulas as MathML, made when the pages are built: browsers draw it, and the site asks nobody for a script."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from regard.lab.page import mathml, with_both_bars

FONT = Path(__file__).parent.parent / "src" / "regard" / "lab" / "static" / "math.woff2"

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    content = DISPLAY.sub(lambda found: mathml(html.unescape(found[1]).strip()), content)
    return INLINE.sub(lambda found: with_both_bars(convert(html.unescape(found[1]))), content)


def on_post_build(config: Any, **_: Any) -> None:
    """The mathematics font of the lab is the site's too."""
    shutil.copy(FONT, Path(config["site_dir"]) / FONT.name)
