"""Your own Transformer, checked: how much is right; where a mistake is if you ask, and what it is if you ask again."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regard.coursework.checker import recorded_run
from regard.coursework.checker.diagnosis import HIDES_FUTURE, Diagnosis
from regard.coursework.checker.notebook_template import NAME
from regard.coursework.checker.part_diagnosis import judge
from regard.coursework.checker.provenance import restore_inputs, uncounted_heads
from regard.coursework.checker.search import affordable_tries
from regard.errors import CouldNotFindOut, InputError
from regard.results import Result
from regard.sandbox.jail import Tier
from regard.tracing.recording import Recording

PADDING, FUTURE = ("either", "masked", "read"), ("read", "hidden")
WIDTH = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class TransformerReport(Result):
    """A diagnosis, told with ``hints``: 0 how much, 1 where, 2 what."""

    claim: str
    function: str
    diagnosis: Diagnosis
    hints: int
    printed: str = ""
    confined: str = ""  # what kept it in, in words; empty for a model of this process
    doubts: tuple[str, ...] = ()  # what its process said and could not be checked again outside

    @property
    def answer(self) -> bool:
        return self.diagnosis.answer

    @property
    def status(self) -> str:
        """In words: "holds so far" or "fails"."""
        return "holds so far" if self.answer else "fails"

    def __str__(self) -> str:
        # each hint tells more: how much is right, then where it is wrong, then what it is
        told = [self._success_lines, self._summary_lines, self._location_lines, self._mistake_lines][
            0 if self.answer else 1 + min(self.hints, 2)
        ]()
        if self.printed:
            first, *more = self.printed.splitlines()
            told.append(f"Your code printed: {first[:70]}{' ...' * bool(more or first[70:])}")
        if "in a jail" in self.confined:
            told.append(f"It ran {self.confined}.")
            told += [f"Said by its process, and not checked again outside: {doubt}." for doubt in self.doubts]
        head, *rest = told
        return "\n".join([f"{self.claim}: {self.function} {head}", *(_fold(line) for line in rest)])

    def _success_lines(self) -> list[str]:
        parts = len(self.diagnosis.parts)
        count = f"in all of its {parts} parts" if parts > 1 else "exactly"
        apart = "; but for what is noted" if self.diagnosis.departures else ""
        return [
            "is right.",
            f"With your own parameters it equals the reference {count} (float64{apart}), on inputs of several shapes; "
            "the backward pass agrees with differences of forward. Trials are no proof.",
            *(f"Note: {note}." for note in self.diagnosis.notes),
            *(
                [f"Not observable: {'; '.join(self.diagnosis.not_observable)}."]
                if self.diagnosis.not_observable
                else []
            ),
        ]

    def _summary_lines(self) -> list[str]:
        diagnosis, parts = self.diagnosis, self.diagnosis.parts
        right = sum(verdict == "right" for verdict in parts.values())
        lines = ["is not right yet.", f"{right} of {len(parts)} parts equal the reference."]
        if diagnosis.raised is not None:
            lines = [
                "is not finished.",
                f"{right} of {len(parts)} parts are right; then forward stops: {diagnosis.raised}.",
            ]
        count = len(diagnosis.mistakes)
        if count:
            lines.append(f"There {'is 1 mistake' if count == 1 else f'are {count} mistakes'} that we can name.")
        if not diagnosis.explained and diagnosis.raised is None:
            lines.append("What else differs is none of the mistakes we know.")
        return [*lines, "--hint says where, --hint --hint says what."]

    def _part_lines(self) -> list[str]:
        parts, raised = self.diagnosis.parts, self.diagnosis.raised
        stops = [] if raised is None else [f"Then forward stops: {raised}."]
        return [self._summary_lines()[0], *(f"{stage}: {verdict}" for stage, verdict in parts.items()), *stops]

    def _location_lines(self) -> list[str]:
        diagnosis = self.diagnosis
        lines = self._part_lines()
        lines += [f"Look at {one.where}." for one in diagnosis.mistakes]
        lines += [diagnosis.difference_sentence()] if diagnosis.difference_sentence() else []
        return [*lines, "--hint --hint says what it is."] if diagnosis.mistakes else lines

    def _mistake_lines(self) -> list[str]:
        diagnosis = self.diagnosis
        lines = self._part_lines()
        if diagnosis.explained and diagnosis.mistakes:
            lines.append(f"It is exactly ours, but with {'this' if len(diagnosis.mistakes) == 1 else 'these'}:")
        lines += [f"{number}. {one}" for number, one in enumerate(diagnosis.mistakes, 1)]
        lines += [diagnosis.difference_sentence()] if diagnosis.difference_sentence() else []
        return [*lines, *(f"Note: {note}." for note in diagnosis.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what the mistakes are is left out below two hints, where they are below one."""
        told = self.diagnosis.to_dict()
        if self.hints < 2:
            told["mistakes"] = [{key: one[key] for key in ("stage", "line", "method")} for one in told["mistakes"]]
        if self.hints < 1:
            told["mistakes"] = len(told["mistakes"])
            told["parts"] = sum(verdict == "right" for verdict in self.diagnosis.parts.values())
        return {
            "claim": self.claim,
            "function": self.function,
            "status": self.status,
            "hints": self.hints,
            "diagnosis": told,
            "printed": self.printed,
            "confined": self.confined,
            "doubts": [*self.doubts],
        }


def _fold(line: str) -> str:
    return textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def check_transformer(
    thing: Any,
    *,
    claim: str = "translator",
    seed: int = 0,
    limit: float = 10.0,
    hints: int = 0,
    padding: str = "either",
    jail: bool | Tier = False,
    progress: Callable[[int, int], None] | None = None,
) -> TransformerReport:
    """Check a Transformer, or one of its parts.

    ``thing`` is "my.py:NAME", which is run in a process of its own, in a jail if you say so, or a class, a module or a
    function, which is run in this process and cannot be stopped. ``padding`` says whether the model asked for hides
    padding ("masked"), reads it ("read"), or may do either; a file can say so itself, by ``REGARD = {"padding":
    "masked"}``. ``limit`` bounds the run of your code in seconds, once torch is there and with half a minute for the
    recording; the search for mistakes ends after a fixed number of tries.
    """
    if limit <= 0:
        raise InputError(f"limit is {limit!r}, but it counts seconds: give a number above 0.")
    if isinstance(thing, str):
        if progress is not None:
            progress(0, 1)
        ran = recorded_run.record_in_sandbox(thing, default=NAME, seed=seed, limit=limit, jail=jail)
        name = thing if ":" in thing else f"{thing}:{NAME}"
        name += " (lines are counted through its code cells)" * (".ipynb" in thing)
        return check_recording(ran, name=name, seed=seed, claim=claim, hints=hints, padding=padding)
    if jail is not False:
        raise InputError("A model of this process cannot be put in a jail; name its file, as in my.py:NAME.")
    recording = _record_here(thing, seed)
    diagnosis = _diagnose(recording, name=recording.name, padding=padding)
    return TransformerReport(claim=claim, function=recording.name, diagnosis=diagnosis, hints=hints)


def check_recording(
    ran: recorded_run.RecordedRun,
    *,
    name: str,
    seed: int,
    claim: str = "translator",
    hints: int = 0,
    padding: str = "either",
    several_heads: bool = False,
) -> TransformerReport:
    """What a recording that another process sent is worth: judged on the inputs that were really given to it.

    ``several_heads``, where a class is marked: one head is a doubt, unless its process says that it was asked for
    several, which is a mistake; and no file declares that it is meant to hide the future.
    """
    recording, doubts = restore_inputs(ran.recording, seed)
    doubts += (uncounted_heads(recording),) if several_heads and uncounted_heads(recording) else ()
    if several_heads:  # where a class is marked, all are asked for the same model
        recording = replace(recording, future="read")
    diagnosis = _diagnose(recording, name=name, padding=recording.padding if padding == "either" else padding)
    return TransformerReport(
        claim=claim,
        function=name,
        diagnosis=diagnosis,
        hints=hints,
        printed=ran.printed,
        confined=ran.confined,
        doubts=doubts,
    )


def _diagnose(recording: Recording, *, name: str, padding: str) -> Diagnosis:
    if padding not in PADDING:
        raise InputError(f"padding is {padding!r}; it must be one of {', '.join(PADDING)}.")
    if recording.future not in FUTURE:
        raise InputError(f"REGARD says that the future is {recording.future!r}; it must be {' or '.join(FUTURE)}.")
    accepted = HIDES_FUTURE if recording.future == "hidden" else frozenset[str]()
    diagnosis = judge(recording, padding=padding, accepted=accepted, tries=affordable_tries(recording))
    if diagnosis.unread:
        raise CouldNotFindOut(f"{name} {diagnosis.unread}")
    # once a part is right, how far it came says more than the error
    if diagnosis.raised is not None and "right" not in diagnosis.parts.values():
        raise InputError(f"{name} failed: {diagnosis.raised}; fix it first.")
    return diagnosis


def _record_here(thing: Any, seed: int) -> Any:
    try:
        from regard.tracing.part_recorder import record
    except ImportError:
        raise InputError("Checking a Transformer runs it, which needs torch: pip install 'regard[torch]'.") from None
    return record(thing, seed=seed)
