"""The lab: a small local server and its pages. User interface and prose; the mathematics is called, never written here.

A page is one file in :mod:`regard.lab.pages` and one of the same name in ``static/pages``. The browser sends the page's
state, the words of its address; Python computes and answers with numbers, sentences, formulas, the lines that reproduce
them, and what to draw.
"""

from __future__ import annotations

from regard.lab.exporting import export
from regard.lab.notebook import show
from regard.lab.server import Lab

__all__ = ["Lab", "export", "show"]
