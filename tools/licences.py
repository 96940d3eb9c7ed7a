"""The licences of everything the lock file installs, as a table: ``python -m tools.licences > docs/licences.md``."""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# Licences of what is installed

Regard is Apache-2.0. It ships no code of others, and one font: the lab's and the site's mathematics are set in
**STIX Two Math** (SIL Open Font License 1.1, beside it as `math-font-licence.txt`), cut down by `python -m
tools.mathfont` from the npm package `@fontsource/stix-two-math` 5.3.0. What Regard stands on is installed by pip
under these licences. Made by `python -m tools.licences` from the packages' own metadata, in the versions of
`requirements.lock`.

Copyleft in whole or part, for whoever redistributes: **python-flint** (MIT, but it carries FLINT,
which is LGPL-3.0-or-later), **gensim** (LGPL-2.1), **psycopg** (LGPL-3.0), **uplot-python** (LGPL; uPlot itself, the
script that it carries, is MIT). The core needs python-flint alone of these; the others come with the extras
`translator`, `postgres` and `lab`.

| package | version | licence |
|---|---|---|"""


def main() -> None:
    print(HEAD)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, flags=re.MULTILINE):
        print(f"| {name} | {version} | {licence(name)} |")


def licence(name: str) -> str:
    """The expression that the package states, or its classifiers, or the first line of its licence field."""
    try:
        about: Message = metadata(name)  # type: ignore[assignment]
    except PackageNotFoundError:
        return "not installed here"
    if about["License-Expression"]:
        return str(about["License-Expression"])
    classified = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    return ", ".join(classified) or str(about["License"] or "not stated").strip().partition("\n")[0][:60]


if __name__ == "__main__":
    main()
