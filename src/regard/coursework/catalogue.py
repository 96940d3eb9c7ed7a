"""All claims by name: ``claims["average-of-two"]``. The folder is the list; a new file in it is a new claim."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from regard.coursework.claim import TOPICS, Claim
from regard.coursework.verdict import WIDTH, Table
from regard.errors import InputError
from regard.progress import Progress
from regard.results import Result

PACKAGE = "regard.coursework.claims"


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing(Result):
    """Every claim with its statement, by topic."""

    claims: tuple[Claim, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        for topic in dict.fromkeys(claim.topic for claim in self.claims):
            lines += [f"{topic}:"]
            lines += [_line(claim) for claim in self.claims if claim.topic == topic]
        return "\n".join([*lines, "", "Next: regard claims NAME, or regard claims --check for all verdicts."])

    def to_dict(self) -> dict[str, Any]:
        return {"claims": [claim.to_dict() for claim in self.claims]}


def _line(claim: Claim) -> str:
    return f"  {claim.name:<30}" + textwrap.shorten(claim.statement, WIDTH - 32, placeholder=" ...")


class Claims(Mapping[str, Claim]):
    """The claims of the coursework, loaded when they are first asked for.

    >>> claims["average-of-too"]
    Traceback (most recent call last):
    regard.errors.InputError: There is no claim 'average-of-too'; did you mean average-of-two?
    """

    def __getitem__(self, name: str) -> Claim:
        if name not in self._modules():
            near = difflib.get_close_matches(str(name), self._modules(), n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else "regard claims lists them all."
            raise InputError(f"There is no claim {name!r}; {hint}")
        claim: Claim = import_module(f"{PACKAGE}.{self._modules()[name]}").CLAIM
        return claim

    def __iter__(self) -> Iterator[str]:
        return iter([claim.name for claim in self._sorted()])

    def __len__(self) -> int:
        return len(self._modules())

    def __contains__(self, name: object) -> bool:
        return name in self._modules()

    def __repr__(self) -> str:
        return f"<{len(self)} claims: {', '.join(self)}>"

    def listing(self) -> Listing:
        """Every claim with its statement."""
        return Listing(claims=self._sorted())

    def check(self, *, progress: Progress | None = None) -> Table:
        """Check all of them, each with its default parameters."""
        rows = []
        for done, claim in enumerate(self._sorted()):
            if progress is not None:
                progress(done, len(self))
            rows.append(claim.check())
        return Table(rows=tuple(rows))

    def _modules(self) -> dict[str, str]:
        found = iter_modules(import_module(PACKAGE).__path__)
        return {module.name.replace("_", "-"): module.name for module in found}

    def _sorted(self) -> tuple[Claim, ...]:
        everything = [self[name] for name in self._modules()]
        return tuple(sorted(everything, key=lambda claim: (TOPICS.index(claim.topic), claim.name)))


claims = Claims()
