"""The list of claims without loading them: ``regard claims`` answers before NumPy would be there.

``contents.json`` beside this file holds each claim's topic, name and statement, and of each file in ``claims/`` a
checksum. Where one of those files is new, gone or changed, the list is not used and the claims themselves are asked, so
that it can be late but never wrong. ``python -m regard.coursework.contents`` writes it anew; a test says when to.
"""

from __future__ import annotations

import json
import textwrap
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.coursework.problem_sets import SETS
from regard.coursework.verdict import WIDTH, wrap_text
from regard.files import write_file
from regard.notation import readable
from regard.strict_json import parse_json

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim, as the list of all shows it."""

    topic: str
    name: str
    statement: str


def stored_entries() -> tuple[Entry, ...] | None:
    """What the stored list holds; None where it is not of the claims that are there."""
    try:
        stored = parse_json((HERE / "contents.json").read_bytes())
        if stored["files"] == _checksums():
            return tuple(Entry(*claim) for claim in stored["claims"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def format_contents(claims: Iterable[Entry]) -> str:
    """Every claim with its statement, by topic, as text."""
    topics: dict[str, list[str]] = {}
    for claim in claims:
        line = f"  {claim.name:<30}" + textwrap.shorten(readable(claim.statement), WIDTH - 32, placeholder=" ...")
        topics.setdefault(claim.topic, []).append(line)
    lines = [line for topic, under in topics.items() for line in (f"{topic}:", *under)]
    by_set = wrap_text(f"By problem set: regard claims SET, with SET one of {', '.join(SETS)}.")
    return "\n".join([*lines, "", "Next: regard claims NAME, or regard claims --check for all verdicts.", by_set])


def write_contents() -> None:
    """Write the list anew from the claims themselves."""
    from regard.coursework.catalogue import claims

    listed = [[claim.topic, claim.name, claim.statement] for claim in claims.listing().claims]
    text = json.dumps({"files": _checksums(), "claims": listed}, indent=1, ensure_ascii=False)
    write_file(HERE / "contents.json", f"{text}\n".encode())


def _checksums() -> dict[str, int]:
    """A checksum of every claim's file, by name; line ends do not count, since checkouts differ in them."""
    files = sorted((HERE / "claims").glob("*.py"))
    return {file.stem: zlib.crc32(file.read_bytes().replace(b"\r\n", b"\n")) for file in files}


if __name__ == "__main__":
    write_contents()
