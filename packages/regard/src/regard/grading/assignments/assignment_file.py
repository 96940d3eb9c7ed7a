"""Reading an assignment's TOML file: every key known, every number in its range, and all mistakes at once."""

from __future__ import annotations

import difflib
import keyword
import math
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from regard.array_types import Float
from regard.coursework.answers.answer_check import Stage
from regard.coursework.catalogue import claims
from regard.errors import InputError
from regard.grading.questions.assignment import LADDER, Assignment, Kind, LatePolicy, Limits, Line, Reveal, Task
from regard.grading.submissions.archives import WEIGHTS
from regard.toml import read_toml
from regard.written_numbers import in_full

LIKE = "what regard assignment new cse151b-hw4 writes"
TOP = ("name", "title", "deadline", "reveal", "partial", "late", "limits", "question")
OF_A_QUESTION = (
    *("id", "kind", "claim", "points", "function", "hint", "text", "reveal", "partial", "set", "file", "checklist"),
    *("count", "good", "bad", "within", "weights"),
)
MOST_QUESTIONS = 100
KINDS_WITH_A_CLAIM = (Kind.CLAIM, Kind.TRANSFORMER)


class Mistakes:
    """Collects what is wrong, each in one sentence that says where."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, where: str, said: str) -> None:
        self.sentences.append(f"{where}: {said}")

    def check_keys(self, where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                self.add(
                    where,
                    f"unknown key {key!r}; "
                    + (f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}."),
                )

    def number(
        self, where: str, table: Mapping[str, Any], key: str, default: float, *, least: float, most: float
    ) -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            self.add(where, f"{key} must be a number from {in_full(least)} to {in_full(most)}; {value!r} is not.")
            return default
        return value

    def whole(self, where: str, table: Mapping[str, Any], key: str, default: int, *, least: int, most: int) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.add(where, f"{key} must be a whole number from {least} to {most}; {value!r} is not.")
            return default
        return value

    def word(self, where: str, table: Mapping[str, Any], key: str, default: str = "") -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            self.add(where, f"{key} must be text; {value!r} is not.")
            return default
        return value

    def table(self, where: str, table: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.add(where, f"{key} must be a table, as in [{key}]; {value!r} is not.")
            return {}
        return value


def read_assignment(path: str | os.PathLike[str]) -> Assignment:
    """The assignment of a TOML file; InputError with every mistake of it, one line each."""
    place = Path(path)
    try:
        table = read_toml(place, like=LIKE)
    except FileNotFoundError:
        raise InputError(f"{place}: there is no such file; regard assignment new writes one.") from None
    mistakes = Mistakes()
    assignment = _assignment(table, place, mistakes)
    if mistakes.sentences:
        count = len(mistakes.sentences)
        lines = [
            f"{place} has {count} mistake{'s' * (count != 1)}:",
            *(f"  {n}. {m}" for n, m in enumerate(mistakes.sentences, 1)),
        ]
        raise InputError("\n".join(lines))
    return assignment


def _assignment(table: dict[str, Any], place: Path, mistakes: Mistakes) -> Assignment:
    here = "at the top"
    mistakes.check_keys(here, table, TOP)
    name = mistakes.word(here, table, "name", place.stem)
    if not name.strip() or len(name) > 80 or not name.isprintable():
        mistakes.add(here, f"name must be 1 to 80 printable characters; {name!r} is not.")
    reveal = _reveal(here, table, Reveal.COUNTEREXAMPLE, mistakes)
    ladder = _ladder(here, table, LADDER, mistakes)
    asked = table.get("question", [])
    if not isinstance(asked, list) or not asked or not all(isinstance(one, dict) for one in asked):
        mistakes.add(here, "there is no question; each is a table [[question]] with an id and a claim.")
        asked = []
    if len(asked) > MOST_QUESTIONS:
        mistakes.add(here, f"there are {len(asked)} questions, and at most {MOST_QUESTIONS} are taken.")
    tasks = tuple(_task(n, one, place, (reveal, ladder), mistakes) for n, one in enumerate(asked[:MOST_QUESTIONS], 1))
    _refuse_twins(tasks, mistakes)
    return Assignment(
        name=name,
        title=mistakes.word(here, table, "title", name),
        tasks=tasks,
        path=place,
        deadline=_deadline(table, mistakes),
        late=_late(mistakes.table(here, table, "late"), mistakes),
        limits=_limits(mistakes.table(here, table, "limits"), mistakes),
    )


def _deadline(table: Mapping[str, Any], mistakes: Mistakes) -> datetime | None:
    value = table.get("deadline")
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        mistakes.add(
            "at the top",
            f"deadline must be a date with time and zone, as in 2026-11-20T23:59:00+01:00; {value} is not.",
        )
        return None
    return value


def _late(table: dict[str, Any], mistakes: Mistakes) -> LatePolicy:
    mistakes.check_keys("[late]", table, ("per_day", "most_days", "grace_minutes"))
    return LatePolicy(
        per_day=mistakes.number("[late]", table, "per_day", 0.0, least=0, most=1),
        most_days=mistakes.whole("[late]", table, "most_days", 0, least=0, most=365),
        grace=timedelta(minutes=mistakes.number("[late]", table, "grace_minutes", 0.0, least=0, most=10_000)),
    )


def _limits(table: dict[str, Any], mistakes: Mistakes) -> Limits:
    mistakes.check_keys("[limits]", table, ("instances", "moves", "seconds"))
    return Limits(
        instances=mistakes.whole("[limits]", table, "instances", 60, least=10, most=10_000),
        moves=mistakes.whole("[limits]", table, "moves", 40, least=0, most=10_000),
        seconds=mistakes.number("[limits]", table, "seconds", 60.0, least=1, most=3600),
    )


def _reveal(where: str, table: Mapping[str, Any], default: Reveal, mistakes: Mistakes) -> Reveal:
    value = table.get("reveal", default.value)
    if value not in list(Reveal):
        mistakes.add(where, f"reveal must be one of {', '.join(Reveal)}; {value!r} is not.")
        return default
    return Reveal(value)


def _ladder(
    where: str, table: Mapping[str, Any], default: Mapping[Stage, float], mistakes: Mistakes
) -> Mapping[Stage, float]:
    """Shares of the points by stage; ``partial = "all or nothing"`` is one step."""
    value = table.get("partial")
    if value is None or value == "steps":
        return default
    if value == "all or nothing":
        return {Stage.ADVERSARY: 1.0}
    if not isinstance(value, dict):
        mistakes.add(where, f"partial must be 'steps', 'all or nothing', or a table of shares; {value!r} is not.")
        return default
    mistakes.check_keys(f"{where}, partial", value, tuple(Stage))
    shares = {
        stage: mistakes.number(f"{where}, partial", value, stage, 0.0, least=0, most=1)
        for stage in Stage
        if stage in value
    }
    if not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):  # shares like 0.1 + 0.2 + 0.7 sum to 1 up to rounding
        mistakes.add(where, f"the shares of partial must sum to 1; they sum to {sum(shares.values()):g}.")
        return default
    return shares


def _task(
    number: int, table: dict[str, Any], place: Path, defaults: tuple[Reveal, Mapping[Stage, float]], mistakes: Mistakes
) -> Task:
    id = str(mistakes.word(f"question {number}", table, "id", str(number)))
    where = f"question {number} ({id})" if id != str(number) else f"question {number}"
    mistakes.check_keys(where, table, OF_A_QUESTION)
    if not id.strip() or len(id) > 40 or not id.isprintable():
        mistakes.add(where, f"id must be 1 to 40 printable characters; {id!r} is not.")
    claim = _claim(where, table, mistakes)
    kind = _kind(where, table, claim, mistakes)
    return Task(
        id=id,
        kind=kind,
        points=mistakes.number(where, table, "points", 1, least=0, most=1000),
        function=_function(where, table, claim, kind, mistakes),
        claim=claim,
        sizes=_sizes(where, table, claim, kind, mistakes),
        text=mistakes.word(where, table, "text"),
        hint=mistakes.word(where, table, "hint"),
        reveal=_reveal(where, table, defaults[0], mistakes),
        ladder=_ladder(where, table, defaults[1], mistakes),
        file=_file(where, table, place, kind, mistakes),
        checklist=_checklist(where, table, kind, mistakes),
        within=_within(where, table, claim, kind, mistakes),
        count=mistakes.whole(where, table, "count", 4, least=1, most=20),
        **_perplexities(where, table, kind, mistakes),
    )


def _claim(where: str, table: Mapping[str, Any], mistakes: Mistakes) -> str:
    name = mistakes.word(where, table, "claim")
    try:
        return claims[name].name if name else ""
    except InputError as error:
        mistakes.add(where, str(error))
        return ""


def _kind(where: str, table: Mapping[str, Any], claim: str, mistakes: Mistakes) -> Kind:
    """As it is said; else what the claim asks for."""
    natural = Kind.OWN if "file" in table else Kind.WRITTEN
    if claim:
        one = claims[claim]
        natural = Kind.TRANSFORMER if one.asks_for_code else Kind.CLAIM if one.question is not None else Kind.WRITTEN
    value = table.get("kind", natural.value)
    if value not in list(Kind):
        mistakes.add(where, f"kind must be one of {', '.join(Kind)}; {value!r} is not.")
        return Kind.WRITTEN
    kind = Kind(value)
    if kind in KINDS_WITH_A_CLAIM and natural is not kind and (claim or not table.get("claim")):
        asks = f"{claim} asks for something of kind {natural.value}" if claim else "it names no claim"
        mistakes.add(where, f"kind = {kind.value!r} does not fit: {asks}.")
    return kind


def _function(where: str, table: Mapping[str, Any], claim: str, kind: Kind, mistakes: Mistakes) -> str:
    if kind is Kind.WRITTEN:
        return ""
    default = "TransformerTranslator" if kind is Kind.TRANSFORMER else claim.replace("-", "_")
    name = mistakes.word(where, table, "function", default)
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        mistakes.add(where, f"function must be a name that Python takes, as in query_3b; {name!r} is not.")
    return name


def _sizes(where: str, table: Mapping[str, Any], claim: str, kind: Kind, mistakes: Mistakes) -> dict[str, float]:
    given = mistakes.table(where, table, "set")
    if not given:
        return {}
    question = claims[claim].question if claim else None
    if kind is not Kind.CLAIM or question is None:
        mistakes.add(where, "set fixes sizes of a claim's instances; this question has none.")
        return {}
    try:
        chosen = question.chosen_sizes(given, claim)
    except InputError as error:
        mistakes.add(where, str(error))
        return {}
    return {size.name: size.ladder[0] for size in chosen if size.name in given}


def _file(where: str, table: Mapping[str, Any], place: Path, kind: Kind, mistakes: Mistakes) -> Path | None:
    name = mistakes.word(where, table, "file")
    needs = kind in (Kind.OWN, Kind.PERPLEXITY)
    if not name:
        if needs:
            mistakes.add(where, f"a question of kind {kind.value} needs file = '...', beside the assignment.")
        return None
    if not needs:
        mistakes.add(where, f"file is for questions of kind own and perplexity; this one is {kind.value}.")
        return None
    path = place.parent / name
    try:
        _try_file(path, kind)
    except (InputError, OSError) as error:
        mistakes.add(where, str(error))
        return None
    return path


def _try_file(path: Path, kind: Kind) -> None:
    """Load the file and make its first instance: a mistake in it is found here, not among the submissions."""
    if kind is Kind.OWN:
        from regard.grading.questions.own_question import JudgeError, question_of

        try:
            question = question_of(path)
            question.shape(question.make(_eye(), level=1).given)
        except JudgeError as error:
            raise InputError(str(error)) from None
    else:
        from regard.grading.questions.perplexity import read_hidden_sentences

        read_hidden_sentences(path)


def _eye() -> Float:
    import numpy as np

    return np.eye(8)


def _checklist(where: str, table: Mapping[str, Any], kind: Kind, mistakes: Mistakes) -> tuple[Line, ...]:
    value = table.get("checklist", [])
    if not isinstance(value, list) or len(value) > 30:
        mistakes.add(where, "checklist must be a list of at most 30 lines.")
        return ()
    if kind is Kind.WRITTEN and not value and "claim" not in table:
        mistakes.add(where, "a written question needs a checklist, by which a person marks it.")
    lines = [_line(f"{where}, checklist", one, mistakes) for one in value]
    return tuple(line for line in lines if line is not None)


def _line(where: str, value: object, mistakes: Mistakes) -> Line | None:
    """A sentence, or a table with text, key and points."""
    table: dict[str, Any] = {"text": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    mistakes.check_keys(where, table, ("text", "key", "points"))
    text = mistakes.word(where, table, "text").strip()
    if not text:
        mistakes.add(where, "each line is a sentence, or {text = '...', points = 1, key = '...'}.")
        return None
    points = mistakes.number(where, table, "points", 1.0, least=0.01, most=1000)
    return Line(text=text, key=mistakes.word(where, table, "key"), points=points)


def _within(where: str, table: Mapping[str, Any], claim: str, kind: Kind, mistakes: Mistakes) -> float:
    question = claims[claim].question if claim and kind is Kind.CLAIM else None
    if "within" in table and (question is None or not question.measure):  # the students' build cannot measure it
        mistakes.add(where, "within compares with the best possible answer, and this question knows none.")
        return 0.0
    return mistakes.number(where, table, "within", 0.0, least=0, most=1e9)


def _perplexities(where: str, table: Mapping[str, Any], kind: Kind, mistakes: Mistakes) -> dict[str, Any]:
    if kind is not Kind.PERPLEXITY:
        return {}
    good = mistakes.number(where, table, "good", 10.0, least=1, most=1e9)
    bad = mistakes.number(where, table, "bad", 100.0, least=1, most=1e9)
    if not good < bad:
        mistakes.add(where, f"good, {good:g}, must be below bad, {bad:g}: a smaller perplexity is better.")
    return {"good": good, "bad": bad, "weights": _weights(where, table, mistakes)}


def _weights(where: str, table: Mapping[str, Any], mistakes: Mistakes) -> str:
    name = mistakes.word(where, table, "weights")
    if name and (not name.endswith(WEIGHTS) or "/" in name or "\\" in name):
        mistakes.add(where, f"weights must be the name of a {WEIGHTS} file that students hand in; {name!r} is not.")
        return ""
    return name


def _refuse_twins(tasks: tuple[Task, ...], mistakes: Mistakes) -> None:
    for what in ("id", "function"):
        seen: set[str] = set()
        for task in tasks:
            value = getattr(task, what)
            if value and value.casefold() in seen:
                mistakes.add("at the top", f"two questions have the {what} {value!r}; each needs its own.")
            seen.add(value.casefold())
