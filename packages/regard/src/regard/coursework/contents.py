"""The list of claims without loading them: ``regard claims`` answers before NumPy would be there.

A claim's topic and statement stand in its TOML file; a claim that has none is asked itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from regard.coursework.problem_sets import SETS
from regard.coursework.verdict import WIDTH, wrap_text
from regard.notation import readable
from regard.toml import parse_toml

if TYPE_CHECKING:
    from regard.coursework.claim import Claim

PACKAGE = "regard.coursework.claims"
TOPICS = ("attention", "noise", "order", "rank", "translator")


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim, as the list of all shows it."""

    topic: str
    name: str
    statement: str


def claim_modules() -> dict[str, str]:
    """The module of every claim, by the claim's name; only the files' names are read."""
    modules = iter_modules(import_module(PACKAGE).__path__)
    return {module.name.replace("_", "-"): module.name for module in modules}


def read_entries() -> list[Entry]:
    """Every claim with its statement, in the order of the list."""
    entries = []
    for name, module in claim_modules().items():
        words = Path(__file__).parent / "claims" / f"{name}.toml"
        if words.is_file():
            table = parse_toml(words.read_text(encoding="utf-8"))
            entries.append(Entry(table["topic"], name, table["statement"]))
        else:
            claim = import_module(f"{PACKAGE}.{module}").CLAIM
            entries.append(Entry(claim.topic, name, claim.statement))
    return sorted(entries, key=lambda entry: (TOPICS.index(entry.topic), entry.name))


def format_contents(claims: Iterable[Entry | Claim]) -> str:
    """Every claim with its statement, by topic, as text."""
    topics: dict[str, list[str]] = {}
    for claim in claims:
        line = f"  {claim.name:<30}" + textwrap.shorten(readable(claim.statement), WIDTH - 32, placeholder=" ...")
        topics.setdefault(claim.topic, []).append(line)
    lines = [line for topic, under in topics.items() for line in (f"{topic}:", *under)]
    by_set = wrap_text(f"By problem set: regard claims SET, with SET one of {', '.join(SETS)}.")
    return "\n".join([*lines, "", "Next: regard claims NAME, or regard claims --check for all verdicts.", by_set])
