"""What the two published solutions assert, sentence by sentence: each holds, holds with a gap, or is false, and why.

The sentences are data, ``published_solutions.toml`` beside this file, in our own words.

>>> [(one.verdict, one.claim) for one in assertions_of("cs224n-w25-a4", "1-3i")]
[('holds', 'small-noise-keeps-the-average'), ('gap', 'small-noise-keeps-the-average')]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from regard.coursework.verdict import wrap_text
from regard.toml import parse_toml

VERDICTS = {"holds": "HOLDS", "gap": "HOLDS WITH A GAP", "false": "FALSE"}


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """One sentence of a published solution, our verdict on it, and what shows it: a reading of a claim, or Python."""

    says: str
    verdict: str
    why: str
    shows: str = ""  # a claim with its settings | a reading of it | what its check says
    python: str = ""  # lines; the last of them is true

    @property
    def claim(self) -> str:
        """The claim whose check shows it; empty where Python does."""
        return self.shows.partition(" ")[0]

    @property
    def evidence(self) -> str:
        """What to type: a command and the line of its output to look at; empty where it is Python."""
        if not self.shows:
            return ""
        asked, reading, status = self.shows.split(" | ")
        name, *settings = asked.split()
        options = "".join(f" --set {one}" for one in settings)
        return f"regard claims {name} --check{options} ({reading}: {status})"

    def __str__(self) -> str:
        lines = [wrap_text(f'"{self.says}" {VERDICTS[self.verdict]}. {self.why}', indent=2, hang=2)]
        lines += [f"    {self.evidence}"] if self.shows else [f"    >>> {line}" for line in self.python.splitlines()]
        return "\n".join(lines)


def assertions_of(set: str, question: str) -> tuple[Assertion, ...]:
    """The sentences of the published solution to one question, by the names of set and question; () without one."""
    return published_solutions().get((set, question), ())


@cache
def published_solutions() -> dict[tuple[str, str], tuple[Assertion, ...]]:
    """All of them, by set and question, in order."""
    text = resources.files("regard.coursework").joinpath("published_solutions.toml").read_text(encoding="utf-8")
    solutions = parse_toml(text)["solution"]
    return {(one["set"], one["question"]): tuple(Assertion(**each) for each in one["assertions"]) for one in solutions}
