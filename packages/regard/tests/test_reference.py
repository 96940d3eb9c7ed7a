"""docs/reference, a page per room: every name that regard and its rooms export is there, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import regard
from places import DOCS

ENTRY = re.compile(r"^::: (?P<module>[\w.]+)\n(?: +options: \{members: \[(?P<names>[^\]]*)\]\})?", re.MULTILINE)


def public(module):
    """What a module exports: its __all__, or what is defined in it without an underscore."""
    defined = [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__]
    return list(getattr(module, "__all__", defined))


def documented():
    """(module, name) of every entry."""
    found = []
    pages = sorted((DOCS / "reference").glob("*.md"))
    for entry in ENTRY.finditer("\n".join(page.read_text(encoding="utf-8") for page in pages)):
        module = importlib.import_module(entry["module"])
        names = entry["names"].replace(" ", "").split(",") if entry["names"] else public(module)
        found += [(module, name) for name in names]
    return found


def rooms():
    modules = {name: getattr(regard, name) for name in regard.__all__}
    return ["regard", *(f"regard.{name}" for name, value in modules.items() if inspect.ismodule(value))]


def test_every_entry_is_there():
    entries = documented()
    assert len(entries) > 100
    for module, name in entries:
        assert hasattr(module, name), f"{module.__name__} has no {name}"
    assert len(entries) == len({(module.__name__, name) for module, name in entries})


@pytest.mark.parametrize("room", rooms())
def test_every_public_name_is_in_the_reference(room):
    module = importlib.import_module(room)
    known = [getattr(where, name) for where, name in documented()]
    for name in public(module):
        value = getattr(module, name)
        if not inspect.ismodule(value) and name != "__version__":
            assert any(value is one for one in known), f"{room}.{name} is not in docs/reference"


def test_the_contents_and_the_site_list_every_page():
    contents = (DOCS / "reference.md").read_text(encoding="utf-8")
    site = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (DOCS / "reference").glob("*.md"):
        assert f"(reference/{page.name})" in contents
        assert f": reference/{page.name}\n" in site


def test_the_translator_exports_what_people_call():
    exported = set(importlib.import_module("regard.translator").__all__)
    assert {"train", "compare", "tune", "report", "load_run", "Settings"} <= exported
