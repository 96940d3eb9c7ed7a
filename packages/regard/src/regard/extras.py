"""What is not installed with the core: which extra brings each package, and the one sentence that says so.

``pip install regard`` brings NumPy and what the proofs stand on. Pictures, trained models and the lab need more, which
is declared in ``pyproject.toml`` as extras. Whoever imports such a package first calls :func:`require`.

Other distributions add groups of commands, pages of the lab and kinds of questions, found by their entry points.
regard-models is one. Nothing here imports it: it stands on regard, never the other way.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from regard.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

# The package as it is imported, and the smallest extra that brings it.
EXTRAS = {
    "ctranslate2": "engine",
    "datasets": "huggingface",
    "gensim": "translator",
    "latex2mathml": "lab",
    "matplotlib": "plots",
    "optuna": "translator",
    "psycopg": "postgres",
    "pypdfium2": "pdf",
    "sacrebleu": "translator",
    "sacremoses": "translator",
    "sklearn": "translator",
    "tokenizers": "translator",
    "torch": "torch",
    "typst": "reports",
    "uplot": "lab",
}


def require(what: str, *packages: str, extra: str | None = None) -> None:
    """Raise InputError, with the command that installs it, if one of the packages is missing.

    ``what`` is the subject of the sentence, in the singular: what the person asked for. ``extra`` names a larger
    extra than the package's own, where the smallest would only lead to the next refusal.

    >>> require("A sum", "numpy")
    >>> require("The report", "numpy", "no_package", extra="translator")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: The report needs no_package, which is not installed: pip install 'regard[translator]'.
    """
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        raise missing_package_error(what, *absent, extra=extra)


def missing_package_error(what: str, *packages: str, extra: str | None = None) -> InputError:
    """The error that says which extra brings the packages.

    >>> print(missing_package_error("A picture", "matplotlib"))
    A picture needs matplotlib, which is not installed: pip install 'regard[plots]'.
    """
    is_not = "is not installed" if len(packages) == 1 else "are not installed"
    bringing = extra or ",".join(sorted({EXTRAS[name] for name in packages}))
    return InputError(f"{what} needs {' and '.join(packages)}, which {is_not}: pip install 'regard[{bringing}]'.")


COMMANDS, LAB_PAGES, QUESTION_KINDS = "regard.commands", "regard.lab_pages", "regard.question_kinds"
NOT_INSTALLED = "which is not installed"
# What is asked for by name though its distribution may not be installed.
BROUGHT_BY = {(COMMANDS, "model"): "regard-models", (QUESTION_KINDS, "audit"): "regard-models"}


def _entries(group: str) -> EntryPoints:
    from importlib.metadata import entry_points  # slow to import

    return entry_points(group=group)


def load_plugins(group: str) -> dict[str, Any]:
    """Everything that installed distributions add to a group, by its name."""
    return {entry.name: entry.load() for entry in sorted(_entries(group))}


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
    for entry in _entries(group):
        if entry.name == name:
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
