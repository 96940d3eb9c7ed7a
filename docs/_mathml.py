"""Formulas as MathML, made when the pages are built: browsers draw it, and the site asks nobody for a script."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

from regard.lab.page import MEANINGS, mathml

FONT = Path(__file__).parent.parent / "packages/regard/src/regard/lab/static/math.woff2"

SIGN = re.compile("<m[io][^>]*>([^<]+)</m[io]>")
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>([.,;:!?)]*)', flags=re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    content = DISPLAY.sub(lambda found: explain_signs(mathml(html.unescape(found[1]).strip()), "div"), content)
    return INLINE.sub(
        lambda found: keep_together(explain_signs(mathml(html.unescape(found[1]), inline=True)), found[2]), content
    )


def keep_together(formula: str, mark: str) -> str:
    """A formula and the mark behind it, which no line may begin with."""
    return f'<span class="together">{formula}{mark}</span>' if mark else formula


def explain_signs(formula: str, element: str = "span") -> str:
    """A formula in an element that says what its signs mean under the pointer."""
    signs = dict.fromkeys(html.unescape(sign) for sign in SIGN.findall(formula))
    said = "; ".join(f"{sign}: {MEANINGS[sign]}" for sign in signs if sign in MEANINGS)
    return f'<{element} class="formula" title="{html.escape(said)}">{formula}</{element}>'


def on_post_build(config: Any, **_: Any) -> None:
    """The mathematics font of the lab is the site's too."""
    shutil.copy(FONT, Path(config["site_dir"]) / FONT.name)
