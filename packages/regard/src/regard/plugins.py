"""What other distributions add: groups of commands, pages of the lab, kinds of questions, found by their entry points.

regard-models is one. Nothing here imports it: it stands on regard, never the other way.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from regard.errors import InputError

COMMANDS, LAB_PAGES, QUESTION_KINDS = "regard.commands", "regard.lab_pages", "regard.question_kinds"
NOT_INSTALLED = "which is not installed"
# What is asked for by name though its distribution may not be installed.
BROUGHT_BY = {(COMMANDS, "model"): "regard-models", (QUESTION_KINDS, "audit"): "regard-models"}


def load_plugins(group: str) -> dict[str, Any]:
    """Everything that installed distributions add to a group, by its name."""
    from importlib.metadata import entry_points

    return {entry.name: entry.load() for entry in sorted(entry_points(group=group))}


def plugin_names(group: str) -> list[str]:
    """What installed distributions add to a group, by name, none of it loaded.

    Read from their files, since importlib.metadata takes a sixth of the time of ``regard --help`` to import.
    """
    names: set[str] = set()
    for folder in sys.path:
        with contextlib.suppress(OSError):  # not a folder, or nobody may look into it
            for found in os.listdir(folder or "."):
                if found.endswith((".dist-info", ".egg-info")):
                    names |= _names_in(os.path.join(folder, found, "entry_points.txt"), group)
    return sorted(names)


def _names_in(path: str, group: str) -> set[str]:
    """The names below [group] in a distribution's list of entry points; none where it has no such list."""
    names, here = set(), False
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith("["):
                here = line == f"[{group}]"
            elif here and "=" in line and not line.startswith(("#", ";")):
                names.add(line.partition("=")[0].strip())
    return names


def load_plugin(group: str, name: str, *, what: str) -> Any:
    """One plugin; if it is not installed, the error says that ``what`` needs its distribution.

    >>> load_plugin(QUESTION_KINDS, "no such kind", what="This question")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: This question needs a plugin that is not installed.
    """
    from importlib.metadata import entry_points

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
