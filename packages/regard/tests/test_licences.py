"""The page of licences names everything that is pinned, and nothing else; no network is asked."""

from __future__ import annotations

import re

import pytest

from places import DOCS, ROOT
from tools import licences

PAGE = (DOCS / "licences.md").read_text(encoding="utf-8")
_, *ROWS = re.findall(r"^\| ([^ |]+) \| ([^ |]+) \| ([^|]+) \|$", PAGE, flags=re.MULTILINE)  # without the titles


@pytest.mark.parametrize("lock", [*sorted(ROOT.glob("*.lock")), ROOT / "constraints.txt"], ids=lambda path: path.name)
def test_the_page_names_every_package_of_a_lock_file(lock):
    pinned = re.findall(r"^([A-Za-z][^=\s]*)==([^\s\\]+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert pinned
    missing = set(pinned) - {(name, version) for name, version, _ in ROWS}
    assert not missing, f"{sorted(missing)} of {lock.name} are not on docs/licences.md; run make licences"


def test_the_page_names_nothing_else_and_is_as_the_tool_writes_it():
    assert [(name, version) for name, version, _ in ROWS] == licences.pins()
    assert licences.HEAD + "".join(f"| {name} | {version} | {said} |\n" for name, version, said in ROWS) == PAGE


def test_every_licence_is_stated_and_each_copyleft_is_named_in_words():
    assert not [name for name, _, said in ROWS if said in ("not stated", "UNKNOWN", "Other/Proprietary License")]
    copyleft = {name for name, _, said in ROWS if re.search("GPL|MPL|EPL|CDDL", said)}
    assert copyleft == set(re.findall(r"\*\*([^*]+)\*\*", licences.HEAD)) - {"STIX Two Math", "iframe-worker"}


def test_what_is_not_installed_in_its_version_is_no_row():
    with pytest.raises(SystemExit, match="no-such-package is not installed here"):
        licences.licence("no-such-package", "1.0")
    with pytest.raises(SystemExit, match=r"pytest is installed as .*, not 0\.0\.1"):
        licences.licence("pytest", "0.0.1")
    name, version, said = next(row for row in ROWS if row[0] == "pytest")
    assert licences.licence(name, version) == said
