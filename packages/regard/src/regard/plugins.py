"""What other distributions add: groups of commands, pages of the lab, kinds of questions, found by their entry points.

regard-models is one. Nothing here imports it: it stands on regard, never the other way.
"""

from __future__ import annotations

from importlib.metadata import entry_points  # slow to import: whoever needs plugins imports this module late
from typing import Any

from regard.errors import InputError

COMMANDS, LAB_PAGES, QUESTION_KINDS = "regard.commands", "regard.lab_pages", "regard.question_kinds"
NOT_INSTALLED = "which is not installed"
# What is asked for by name though its distribution may not be installed.
BROUGHT_BY = {(COMMANDS, "model"): "regard-models", (QUESTION_KINDS, "audit"): "regard-models"}


def load_plugins(group: str) -> dict[str, Any]:
    """Everything that installed distributions add to a group, by its name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=group))}


def plugin_names(group: str) -> list[str]:
    """What installed distributions add to a group, by name, none of it loaded."""
    return sorted({entry.name for entry in entry_points(group=group)})


def load_plugin(group: str, name: str, *, what: str) -> Any:
    """One plugin; if it is not installed, the error says that ``what`` needs its distribution.

    >>> load_plugin(QUESTION_KINDS, "no such kind", what="This question")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: This question needs a plugin that is not installed.
    """
    for entry in entry_points(group=group, name=name):
        return entry.load()
    raise missing_plugin(group, name, what=what)


def missing_plugin(group: str, name: str, *, what: str) -> InputError:
    """The error that says which distribution brings it.

    >>> print(missing_plugin(COMMANDS, "model", what="regard model"))
    regard model needs regard-models, which is not installed: pip install regard-models.
    """
    distribution = BROUGHT_BY.get((group, name))
    if distribution is None:
        return InputError(f"{what} needs a plugin that is not installed.")
    return InputError(f"{what} needs {distribution}, {NOT_INSTALLED}: pip install {distribution}.")
