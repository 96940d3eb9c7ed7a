"""The licences of everything that the lock files install, as the page docs/licences.md: ``make licences``.

They are read from the packages' own metadata, so everything that a lock file names must be installed in its version.
"""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licences.md"
FIX = "make clean licences installs what the lock files say"
HEAD = """# Licences of what is installed

Regard is Apache-2.0. The package ships no code of others, and one font: the lab's and the site's mathematics are set in
**STIX Two Math** (SIL Open Font License 1.1, beside it as `math-font-licence.txt`), cut down by `python -m
tools.mathfont` from the npm package `@fontsource/stix-two-math` 5.3.0. The repository carries one small script of
others, with which the site is searched from the disk: `docs/iframe-worker.js` is `shim/index.js` of the npm package
**iframe-worker** 1.0.4 (MIT, beside it as `iframe-worker-licence.txt`). What Regard stands on is installed by pip
under these licences. Written by `make licences` from the packages' own metadata, in the versions of the lock files and
of `constraints.txt` (torch, and what it alone needs).

Copyleft in whole or part, for whoever redistributes: **python-flint** (MIT, but it carries FLINT,
which is LGPL-3.0-or-later), **gensim** (LGPL-2.1), **psycopg** and **psycopg-binary** (LGPL-3.0), **uplot-python**
(LGPL; uPlot itself, the script that it carries, is MIT); and file by file, under the MPL-2.0, **certifi**,
**hypothesis**, **pathspec** and **tqdm**. The core needs python-flint alone of these; the others come with the extras.

| package | version | licence |
|---|---|---|
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    return HEAD + "".join(f"| {name} | {version} | {licence(name, version)} |\n" for name, version in pins())


def pins() -> list[tuple[str, str]]:
    """Name and version of every package that is pinned, in alphabetical order."""
    files = [*ROOT.glob("*.lock"), ROOT / "constraints.txt"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return sorted(set(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)))


def licence(name: str, version: str) -> str:
    """The expression that the package states, or its classifiers, or the first line of its licence field."""
    try:
        about: Message = metadata(name)  # type: ignore[assignment]
    except PackageNotFoundError:
        raise SystemExit(f"{name} is not installed here; {FIX}.") from None
    if str(about["Version"]).partition("+")[0] != version:  # torch names its build after a +
        raise SystemExit(f"{name} is installed as {about['Version']}, not {version}; {FIX}.")
    if about["License-Expression"]:
        return str(about["License-Expression"])
    classified = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    return ", ".join(classified) or str(about["License"] or "not stated").strip().partition("\n")[0][:60]


if __name__ == "__main__":
    main()
