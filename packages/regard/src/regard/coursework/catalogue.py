"""All claims by name: ``claims["average-of-two"]``. The folder is the list; a new file in it is a new claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from regard.coursework import checklists
from regard.coursework.claim import Claim
from regard.coursework.contents import PACKAGE, TOPICS, claim_modules, format_contents
from regard.coursework.problem_sets import SETS, find_set, sets_beginning
from regard.coursework.set_questions import QuestionSelection, SetQuestion
from regard.coursework.verdict import Table
from regard.errors import InputError, similar_names
from regard.progress import Progress
from regard.results import Result


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing(Result):
    """Every claim with its statement, by topic."""

    claims: tuple[Claim, ...]

    def __str__(self) -> str:
        return format_contents(self.claims)

    def to_dict(self) -> dict[str, Any]:
        return {"claims": [claim.to_dict() for claim in self.claims]}


class Claims(Mapping[str, Claim]):
    """The claims of the coursework, loaded when they are first asked for.

    >>> claims["average-of-too"]
    Traceback (most recent call last):
    regard.errors.InputError: There is no claim 'average-of-too'; did you mean average-of-two?
    """

    def __getitem__(self, name: str) -> Claim:
        if name not in claim_modules():
            raise InputError(f"There is no claim {str(name)[:60]!r}; {self._hint(str(name))}")
        claim: Claim = import_module(f"{PACKAGE}.{claim_modules()[name]}").CLAIM
        return claim

    def __iter__(self) -> Iterator[str]:
        return iter([claim.name for claim in self._sorted_claims()])

    def __len__(self) -> int:
        return len(claim_modules())

    def __contains__(self, name: object) -> bool:
        return name in claim_modules()

    def __repr__(self) -> str:
        return f"<{len(self)} claims: {', '.join(self)}>"

    def listing(self) -> Listing:
        """Every claim with its statement."""
        return Listing(claims=self._sorted_claims())

    def find(self, name: str) -> Claim:
        """The claim with this name, or the only one whose name begins so.

        >>> claims.find("average-w").name
        'average-within-budget'
        """
        fitting = [name] if name in self else [one for one in claim_modules() if name and one.startswith(name.lower())]
        if len(fitting) > 1:
            raise InputError(
                f"{name!r} begins the names of {', '.join(sorted(fitting))}: write more of the one you mean."
            )
        return self[fitting[0] if fitting else name]

    def of(self, set: str, question: str | None = None) -> QuestionSelection:
        """The questions of a set, or those whose label is or begins with ``question``, with the claims behind them.

        >>> print(claims.of("cse151b-hw4", "1b ii").questions[0].claims[0].name)
        one-head-swings
        """
        chosen = find_set(set)
        labels = chosen.labels if question is None else chosen.find(question)
        asked = [
            SetQuestion(
                set=chosen.name,
                label=label,
                claims=self._claims_for(chosen.name, label),
                checklist=checklists.of(chosen.name, label),
            )
            for label in labels
        ]
        return QuestionSelection(set=chosen, questions=tuple(asked))

    def check(self, *, progress: Progress | None = None) -> Table:
        """Check all of them, each with its default parameters."""
        rows = []
        for done, claim in enumerate(self._sorted_claims()):
            if progress is not None:
                progress(done, len(self))
            rows.append(claim.check())
        return Table(rows=tuple(rows))

    def _claims_for(self, name: str, label: str) -> tuple[Claim, ...]:
        """The claims of one question; what the set says in passing (a hint) comes last."""
        of_the_set = [
            (claim, source) for claim in self._sorted_claims() for source in claim.sources if source.name == name
        ]
        here = [(source.aside, claim) for claim, source in of_the_set if label in source.labels]
        return tuple(claim for _, claim in sorted(here, key=lambda pair: pair[0]))

    def _hint(self, name: str) -> str:
        """What was meant, probably: a claim that looks alike, a problem set, or one that looks alike."""
        if sets_beginning(name):
            return f"that is a problem set: regard claims {name}, or claims.of({name!r}) from Python."
        known = [*claim_modules(), *SETS]
        near = similar_names(name.lower(), known, cutoff=0.4)
        return f"did you mean {near[0]}?" if near else "regard claims lists them all."

    def _sorted_claims(self) -> tuple[Claim, ...]:
        everything = [self[name] for name in claim_modules()]
        return tuple(sorted(everything, key=lambda claim: (TOPICS.index(claim.topic), claim.name)))


claims = Claims()
