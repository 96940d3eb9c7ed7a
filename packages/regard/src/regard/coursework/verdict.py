"""What a check finds: HOLDS, REFUTED, MEASURED, ... for each reading of a statement, with what supports it."""

from __future__ import annotations

import operator
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from regard.coursework.problem_sets import Source, find_set
from regard.errors import InputError
from regard.notation import readable, without_marks
from regard.results import Result
from regard.written_numbers import in_full

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 100


class Status(StrEnum):
    """The possible verdicts; sampling alone never gives HOLDS, and a figure is MEASURED only with its record."""

    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    NOT_REFUTED = "NOT REFUTED"
    EXPLAINED = "EXPLAINED"
    MEASURED = "MEASURED"
    UNDECIDED = "UNDECIDED"


RELATIONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Witness:
    """What a counterexample comes to, left RELATION right, in whole numbers, fractions or balls; never in floats.

    >>> Witness(Fraction(1, 3), "<", Fraction(1, 2)).is_confirmed
    True
    """

    left: Any
    relation: str
    right: Any

    def __post_init__(self) -> None:
        for side in (self.left, self.right):
            # a float may be rounded, and a bool may come of a comparison of floats
            if isinstance(side, bool) or not (isinstance(side, (int, Fraction)) or _is_flint_number(side)):
                raise TypeError(f"A witness is made of whole numbers, fractions or balls; {side!r} is none of them.")

    @property
    def in_balls(self) -> bool:
        return any(type(side).__name__ == "arb" for side in (self.left, self.right))

    @property
    def is_confirmed(self) -> bool:
        """Whether it is true; in balls, whether it is true of every number in them."""
        if self.in_balls:
            from regard.rigor import balls

            with balls.precise(balls.TINY):
                sides = [balls.ball(side) if isinstance(side, Fraction) else side for side in (self.left, self.right)]
                return bool(RELATIONS[self.relation](*sides))
        return bool(RELATIONS[self.relation](self.left, self.right))


def _is_flint_number(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "flint"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One reading's verdict. ``by`` says what supports it; a refutation has its region and its correction.

    REFUTED is made only with witnesses, and only if all of them are confirmed.
    """

    status: Status
    by: str
    because: str
    region: str = ""
    counterexample: str = ""
    correction: str = ""
    tightness: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    witness: InitVar[tuple[Witness, ...]] = ()

    def __post_init__(self, witness: tuple[Witness, ...]) -> None:
        if self.status is Status.REFUTED and not (witness and all(one.is_confirmed for one in witness)):
            raise ValueError("REFUTED needs a counterexample that rigorous arithmetic confirms; refuted() makes it so.")

    def lines(self) -> list[str]:
        """The verdict as labelled paragraphs."""
        said = [("", self.because), ("Counterexample", self.counterexample), ("It holds", self.region)]
        said += [("Corrected", self.correction), ("Tightness", self.tightness)]
        return [wrap_text(f"{label}: {text}" if label else text, indent=4) for label, text in said if text]


def holds(by: str, because: str, *, region: str = "", tightness: str = "", **numbers: float) -> Verdict:
    """True on the whole stated range; ``by`` names the proof, exact arithmetic or enclosure that says so."""
    return Verdict(status=Status.HOLDS, by=by, because=because, region=region, tightness=tightness, numbers=numbers)


def refuted_verdict(
    because: str,
    *,
    witness: Witness | tuple[Witness, ...],
    counterexample: str,
    region: str,
    correction: str,
    **numbers: float,
) -> Verdict:
    """False: with the smallest counterexample, where it does hold, and what is true instead.

    ``witness`` is the counterexample as inequalities in rigorous numbers. Where one of them is not confirmed, nothing
    is refuted.
    """
    witnesses = (witness,) if isinstance(witness, Witness) else witness
    if not all(one.is_confirmed for one in witnesses):
        return not_refuted_verdict(
            1, f"Arithmetic with error bounds does not confirm what looked like one: {counterexample}."
        )
    exactly = "balls" if any(one.in_balls for one in witnesses) else "exact arithmetic"
    return Verdict(
        status=Status.REFUTED,
        by=f"counterexample, rechecked in {exactly}",
        because=because,
        counterexample=counterexample,
        region=region,
        correction=correction,
        numbers=numbers,
        witness=witnesses,
    )


def not_refuted_verdict(trials: int, because: str, *, tightness: str = "", **numbers: float) -> Verdict:
    """Nothing was found against it, and nothing proved: sampling never proves."""
    return Verdict(
        status=Status.NOT_REFUTED,
        by=f"{trials:,} trial{'s' * (trials != 1)}",
        because=because,
        tightness=tightness,
        numbers=numbers,
    )


def explained_verdict(because: str, **numbers: float) -> Verdict:
    """A question that asks for words: answered, with the numbers behind the words."""
    return Verdict(status=Status.EXPLAINED, by="the numbers shown", because=because, numbers=numbers)


def measured_verdict(record: str, because: str, **numbers: float) -> Verdict:
    """A figure of a run that took hours: read from its record, which ``record`` names with its date."""
    return Verdict(status=Status.MEASURED, by=record, because=because, numbers=numbers)


def undecided_verdict(missing: str, because: str) -> Verdict:
    """Nothing can be said here: ``missing`` is what it would take (a record, a library)."""
    return Verdict(status=Status.UNDECIDED, by=missing, because=because)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A precise statement that loose words can mean, and the check that decides it.

    ``check`` takes the claim's parameters by name and returns a Verdict. ``ignores`` names those that play no part.
    """

    name: str
    statement: str
    check: Callable[..., Verdict]
    ignores: tuple[str, ...] = ()


class MarkedResult(Result):
    """A result whose texts have their formulas marked: pages set them; dictionaries and JSON have them as typed."""

    def marked_dict(self) -> dict[str, Any]:
        """The dictionary with the marks left in its texts, for a page."""
        return super().to_dict()

    def to_dict(self) -> dict[str, Any]:
        return without_marks(self.marked_dict())


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadingVerdict(MarkedResult):
    """One reading with its verdict."""

    reading: str
    statement: str
    verdict: Verdict
    ignored: tuple[str, ...] = ()  # parameters that were set, and play no part in this reading

    def __str__(self) -> str:
        support = "needs" if self.verdict.status is Status.UNDECIDED else "by"
        head = f"  {self.reading}: {self.verdict.status.value} ({support} {self.verdict.by})."
        aside = [f"({', '.join(self.ignored)}: not used in this reading.)"] if self.ignored else []
        lines = [wrap_text(text, indent=4) for text in (self.statement, *aside)]
        return "\n".join([readable(head), *lines, *self.verdict.lines()])

    def marked_dict(self) -> dict[str, Any]:
        said = super().marked_dict()
        return {**{name: said[name] for name in ("reading", "statement", "ignored")}, **said["verdict"]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof(MarkedResult):
    """A proof as text, for these parameters; an empty line ends a step."""

    claim: str
    parameters: dict[str, float]
    text: str

    def __str__(self) -> str:
        where = f" (with {format_parameters(self.parameters)})" if self.parameters else ""
        steps = [" ".join(step.split()) for step in self.text.split("\n\n")]
        return "\n".join([f"{self.claim}, proof{where}", *(wrap_text(step, indent=2) for step in steps)])


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimReport(MarkedResult):
    """A claim, checked: a verdict for each reading, and its proof if that was asked for.

    The first reading is the statement's own and decides, unless a set was asked for whose premise is another reading:
    :meth:`for_set`.
    """

    claim: str
    parameters: dict[str, float]
    judged: tuple[ReadingVerdict, ...]
    sources: tuple[Source, ...] = ()
    asked: str = ""  # the name of the set whose premise decides
    proof: Proof | None = None  # where it was asked for, too
    _draw: Callable[[Any], None] = field(repr=False)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts in the readings' order."""
        return tuple(judged.verdict for judged in self.judged)

    @property
    def status(self) -> Status:
        """The verdict on the statement's own reading, or on that of the set which was asked for."""
        return self.deciding_reading.verdict.status

    @property
    def deciding_reading(self) -> ReadingVerdict:
        """The reading that decides, with its verdict."""
        mine = [source for source in self.sources if source.name == self.asked]
        return self.reading_for_source(mine[0]) if mine else self.judged[0]

    def reading_for_source(self, source: Source) -> ReadingVerdict:
        """The reading that has this source's premise, with its verdict."""
        # a source that names no reading has the statement's own
        return next((one for one in self.judged if one.reading == source.reading), self.judged[0])

    def for_set(self, name: str) -> ClaimReport:
        """The same verdicts, decided by the premise of this set."""
        asked = find_set(name).name
        known = list(dict.fromkeys(source.name for source in self.sources))
        if asked not in known:
            raise InputError(f"{self.claim} is in {', '.join(known)}, not in {asked}.")
        return replace(self, asked=asked)

    @property
    def premises_differ(self) -> bool:
        """Whether the sets state it under different premises, each with a verdict of its own."""
        return len({self.reading_for_source(source).reading for source in self.sources}) > 1

    @property
    def answer(self) -> bool:
        return self.status is not Status.REFUTED

    def __str__(self) -> str:
        where = f" (with {format_parameters(self.parameters)})" if self.parameters else ""
        decided = f"{self.status.value} for {self.asked}" if self.asked else self.status.value
        if not self.asked and len({self.reading_for_source(one).verdict.status for one in self.sources}) > 1:
            decided = self.verdicts_by_set()  # one verdict for all would be wrong for somebody
        head = [f"{self.claim}: {decided}{where}"]
        if self.premises_differ:
            head.append("\n".join(["  The sets' premises differ:", *self._lines_by_set()]))
        return "\n\n".join([*head, *map(str, self.judged), *([str(self.proof)] if self.proof is not None else [])])

    def _lines_by_set(self) -> list[str]:
        """A line for each source: its verdict, the set, the question, and the reading that has its premise."""
        rows = [(self.reading_for_source(one), f"{one.name}, {one.where}") for one in self.sources]
        widest = max(len(place) for _, place in rows)
        return [
            wrap_text(f"{judged.verdict.status.value:<12} {place:<{widest}}  {judged.reading}", indent=4, hang=13)
            for judged, place in rows
        ]

    def marked_dict(self) -> dict[str, Any]:
        judged = [one.marked_dict() for one in self.judged]
        sets = [
            {
                "set": one.name,
                "questions": list(one.labels),
                "reading": read.reading,
                "status": read.verdict.status.value,
            }
            for one, read in ((one, self.reading_for_source(one)) for one in self.sources)
        ]
        said = {"claim": self.claim, "status": self.status.value, "asked": self.asked, "sets": sets}
        proof = {"proof": self.proof.text} if self.proof is not None else {}
        return {**said, "parameters": self.parameters, "readings": judged, **proof}

    def verdicts_by_set(self) -> str:
        """The verdict for each problem set, where their premises differ."""
        each = ((one, self.reading_for_source(one).verdict.status.value) for one in self.sources)
        return "; ".join(f"{status} for {one.name}, {one.where}" for one, status in each)

    def figure(self) -> Figure:
        """The claim's picture, for these parameters."""
        from regard.pictures import figure

        made = figure()
        self._draw(made)
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Result):
    """Every claim's verdict, one line per reading."""

    rows: tuple[ClaimReport, ...]

    def __str__(self) -> str:
        lines = [self._brief_line(row) for row in self.rows]
        count = {status.value: sum(row.status is status for row in self.rows) for status in Status}
        summary = ", ".join(f"{number} {name}" for name, number in count.items() if number)
        head = f"{len(self.rows)} claims, each by its first reading: {summary}."
        return "\n".join(
            [head, "", *lines, "", "Next: regard claims NAME --check says why; --details lists every reading."]
        )

    def details(self) -> str:
        """Every reading with what supports it, or with its counterexample."""
        lines = []
        for row in self.rows:
            lines.append(row.claim)
            lines += [self._line(judged) for judged in row.judged]
            if row.premises_differ:
                lines.append(wrap_text(f"{'by set':<12} {row.verdicts_by_set()}", indent=2, hang=13))
        return "\n".join(lines)

    @staticmethod
    def _brief_line(row: ClaimReport) -> str:
        """One line: the verdict on the statement's own reading, and the other readings that end otherwise."""
        others = [j for j in row.judged[1:] if j.verdict.status is not row.status]
        start = f"{row.status.value:<12} {row.claim:<30}"
        # the sets end differently: one verdict for all would be wrong for somebody
        if len({row.reading_for_source(one).verdict.status for one in row.sources}) > 1:
            return wrap_text(f"{start} {row.verdicts_by_set()}", hang=len(start) + 1)
        line = f"{start} {'; '.join(f'{j.verdict.status.value} if read as {j.reading!r}' for j in others)}".rstrip()
        if len(line) <= WIDTH:
            return line
        count = Counter(j.verdict.status.value for j in others)
        return f"{start} other readings: {', '.join(f'{number} {status}' for status, number in count.items())}"

    @staticmethod
    def _line(judged: ReadingVerdict) -> str:
        verdict = judged.verdict
        detail = verdict.by
        if verdict.status is Status.REFUTED:
            detail = f"{verdict.counterexample.rstrip('.')}. It holds: {verdict.region}"
        if verdict.status is Status.UNDECIDED:
            detail = f"needs {verdict.by}"
        return wrap_text(f"{verdict.status.value:<12} {judged.reading}: {detail}", indent=2, hang=13)

    def to_dict(self) -> dict[str, Any]:
        return {"claims": [row.to_dict() for row in self.rows]}


def format_parameters(parameters: dict[str, float]) -> str:
    """The parameters in one line.

    >>> format_parameters({"n": 1000, "eps": 0.01})
    'n = 1000, eps = 0.01'
    """
    return ", ".join(f"{name} = {in_full(value)}" for name, value in parameters.items())


def wrap_text(text: str, *, indent: int = 0, hang: int = 0) -> str:
    """Each line of the text within the width, indented, its formulas in Unicode."""
    lines = [
        # names of claims and options have hyphens, and are to be copied whole
        textwrap.fill(
            line, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + hang), break_on_hyphens=False
        )
        for line in readable(text).strip().splitlines()
    ]
    return "\n".join(lines)
