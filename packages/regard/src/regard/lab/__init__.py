"""The lab: a small local server and its pages. User interface and prose; the mathematics is called, never written here.

A page is one file in :mod:`regard.lab.pages` and one of the same name in ``static/pages``. The browser sends the page's
state, the words of its address; Python computes and answers with numbers, sentences, formulas, the lines that reproduce
them, and what to draw. It may import everything but grading and the command line. Begin with ``page.py`` (what a page
is) and ``server.py``; the server's own parts are in :mod:`regard.web`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.lab.notebook import show as show
    from regard.lab.offline_copy import export as export
    from regard.lab.server import Lab as Lab

# The public surface: a name, and its module. Loaded on first use: the processes for tasks need none of it.
_WHERE = {"Lab": "server", "export": "offline_copy", "show": "notebook"}

__all__ = ["Lab", "export", "show"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"regard.lab.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'regard.lab' has no attribute {name!r}")
