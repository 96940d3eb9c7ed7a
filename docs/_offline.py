"""The site works from the disk and below any folder of a web host; what would need its address is left out."""

from __future__ import annotations

from typing import Any

ADDRESSED = ("404.html", "sitemap.xml")  # a host shows the first anywhere, so its links begin at the host's root


def on_post_template(output: str, *, template_name: str, **_: Any) -> str:
    """Called by mkdocs for every page of the theme's own: an empty one is not written."""
    return "" if template_name in ADDRESSED else output
