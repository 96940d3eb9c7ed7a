"""Formulas as MathML, made when the pages are built: browsers draw it, and the site asks nobody for a script."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    content = DISPLAY.sub(lambda found: convert(html.unescape(found[1]).strip(), display="block"), content)
    return INLINE.sub(lambda found: convert(html.unescape(found[1])), content)
