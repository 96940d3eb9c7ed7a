"""Our own answers as programs, right and wrong: what stands in ``grading/solutions``, read as a student's file is."""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources

from regard.toml import package_table

HOME = "regard.grading.solutions"
RIGHT = "right"  # the name of the right one among the answers
Change = str | list[str]


@cache
def our_file(name: str) -> str:
    """The text of one of the files: right.py, or transformer.py for models."""
    return (resources.files(HOME) / name).read_text(encoding="utf-8")


def our_functions(claim: str) -> dict[str, str]:
    """The function that answers a claim, by what is wrong with it; it stands on what else there is in right.py."""
    text, name = our_file("right.py"), claim.replace("-", "_")
    found = [node for node in ast.parse(text).body if getattr(node, "name", "") == name]
    return _with_mistakes(ast.get_source_segment(text, found[0]) or "", claim) if found else {}


def our_models(kind: str) -> dict[str, str]:
    """The file with our models, by what is wrong with the one that a question of this kind asks for."""
    return _with_mistakes(our_file("transformer.py"), kind)


def _with_mistakes(right: str, which: str) -> dict[str, str]:
    changes: dict[str, Change] = package_table(HOME, "wrong.toml").get(which, {})
    return {RIGHT: right, **{said: _change(right, change) for said, change in changes.items()}}


def _change(right: str, change: Change) -> str:
    if isinstance(change, str):
        return f"{right.rpartition('    return ')[0]}    return {change}"
    there, instead = change
    return right.replace(there, instead)
