"""The five problem sets: their real names and terms, their questions in order, and how a question is found.

A label is compared part by part, so that it may be written as people write it: "1B.ii", "1b ii" and "q1Bii" are one
question, "3(a)" is the beginning of 3(a)i and of 3(a)ii, and 1B.i is never taken for the beginning of 1B.ii.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.errors import InputError, similar_names
from regard.toml import package_table

LEFT_OUT = {"question", "questions", "problem", "part", "q", "exercise"}  # words that name no question
RUN_TOGETHER = re.compile(r"([a-h])(i{1,3}|iv|v)")  # "bii" is b, ii


@dataclass(frozen=True, kw_only=True)
class QuestionText:
    """A question as its set asks it: the form of the answer, its points, and what is asked in our own words."""

    label: str
    form: str  # words, construction, proof, code, report, or remark: said in passing, not asked
    points: float
    asks: str
    also: str = ""  # a second part, to be answered in words
    sentences: int = 0  # how many the answer may have; 0: as many as it takes

    def __str__(self) -> str:
        form = {"construction": "a construction and an argument", "code": "code"}.get(self.form, f"a {self.form}")
        worth = f", {self.points:g} point{'s' * (self.points != 1)}" if self.points else ", not asked"
        return f"{self.asks}{' ' * bool(self.also)}{self.also} ({form.replace('a words', 'words')}{worth})"


@dataclass(frozen=True, kw_only=True)
class ProblemSet:
    """A problem set by its name, with its questions in order.

    >>> print(SETS["cse151b-hw4"])
    UCSD CSE 151B/251B, Homework 4 (June 2025)
    """

    name: str
    title: str
    term: str
    points: str  # whose the points are: the set's, or ours where it gives none
    questions: tuple[QuestionText, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its questions, in order."""
        return tuple(one.label for one in self.questions)

    def question(self, label: str) -> QuestionText:
        """What stands under one of its labels."""
        return next(one for one in self.questions if one.label == label)

    def __str__(self) -> str:
        return f"{self.title} ({self.term})" if self.term else self.title

    @property
    def walkthrough(self) -> str:
        """The page of the documentation that goes through it."""
        return f"walkthrough-{self.name}.md"

    def find(self, question: str) -> tuple[str, ...]:
        """The labels that are this question or begin with it.

        >>> SETS["cse151b-hw4"].find("1b")
        ('1B.i', '1B.ii')
        >>> SETS["cse151b-hw4"].find("1C")
        Traceback (most recent call last):
        regard.errors.InputError: cse151b-hw4 has no question '1C'. Did you mean 1B.i or 1A.i? It has ...
        """
        asked = label_parts(question)
        labels = tuple(label for label in self.labels if asked and _is_prefix(label_parts(label), asked))
        if labels:
            return labels
        near = self._near(question)
        hint = f"Did you mean {_join_with_or(near)}? " if near else ""
        raise InputError(
            f"{self.name} has no question {question[:40]!r}. {hint}It has {', '.join(self.labels)}; "
            f"regard claims {self.name} lists them."
        )

    def label(self, question: str) -> str:
        """The one question that is meant, by the set's own label.

        >>> SETS["cse151b-hw4"].label("1b ii")
        '1B.ii'
        """
        labels = self.find(question)
        exact = [label for label in labels if label_parts(label) == label_parts(question)]
        if not exact and len(labels) > 1:
            raise InputError(f"{self.name}: {question[:40]!r} begins {', '.join(labels)}; write one of them.")
        return (exact or list(labels))[0]

    def _near(self, question: str) -> list[str]:
        """The labels that look alike, as they would be typed."""
        plain = {" ".join(label_parts(label)): label for label in self.labels}
        return [plain[text] for text in similar_names(" ".join(label_parts(question)), plain, most=3)]


def label_parts(label: str) -> tuple[str, ...]:
    """What a label is made of.

    >>> label_parts("Question 1B.ii"), label_parts("(d)ii"), label_parts("Attention (a)"), label_parts("3aii")
    (('1', 'b', 'ii'), ('d', 'ii'), ('attention', 'a'), ('3', 'a', 'ii'))
    """
    words: list[str] = []
    for word in re.findall(r"\d+|[a-z]+", label.lower()):
        together = RUN_TOGETHER.fullmatch(word)
        words += together.groups() if together else [] if word in LEFT_OUT else [word]
    return tuple(words)


def _is_prefix(label: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Whether the asked parts begin the label; a word (not a letter or a numeral) may be cut short."""
    return len(asked) <= len(label) and all(
        # "att" for attention, but never "1" for 12 or i for ii
        mine == theirs or (len(theirs) > 4 and len(mine) > 1 and theirs.startswith(mine))
        for mine, theirs in zip(asked, label, strict=False)
    )


def _read_sets() -> dict[str, ProblemSet]:
    """The sets by name, from problem_sets.toml beside this file."""
    sets = [
        ProblemSet(**{**one, "questions": tuple(QuestionText(**question) for question in one["questions"])})
        for one in package_table("regard.coursework", "problem_sets.toml")["set"]
    ]
    return {one.name: one for one in sets}


SETS = _read_sets()


def find_set(name: str) -> ProblemSet:
    """The set with this name, or the only one whose name begins so.

    >>> find_set("cs224n").name
    'cs224n-w25-a4'
    >>> find_set("cs")
    Traceback (most recent call last):
    regard.errors.InputError: 'cs' begins the names of cs224n-w25-a4 and cse151b-hw4: write more of the one you mean.
    """
    candidates = sets_beginning(name)
    if len(candidates) > 1:
        names = " and ".join(one.name for one in candidates)
        raise InputError(f"{name!r} begins the names of {names}: write more of the one you mean.")
    if not candidates:
        near = similar_names(str(name).lower(), SETS)
        hint = f"did you mean {near[0]}?" if near else f"the sets are {', '.join(SETS)}."
        raise InputError(f"There is no problem set {str(name)[:40]!r}; {hint}")
    return candidates[0]


def sets_beginning(name: str) -> list[ProblemSet]:
    """The sets whose names begin so, in any case; a full name is itself."""
    plain = str(name).strip().lower()
    if plain in SETS:
        return [SETS[plain]]
    return [one for one in SETS.values() if plain and one.name.startswith(plain)]


@dataclass(frozen=True)
class Source:
    """A question of a problem set, or two next to each other, as the place of a claim.

    ``note`` says what is special there; ``reading`` is the name of the reading that has this set's premise, where that
    is not the claim's first.

    >>> print(Source("cs224n-w25-a4", "1-1"))
    cs224n-w25-a4, 1-1
    >>> print(Source("attention-position-svd", "Position (b)", note="without a condition"))
    attention-position-svd, Position (b), without a condition
    """

    name: str
    question: str
    also: str = ""  # a second label, where one statement answers two questions
    note: str = ""
    reading: str = ""
    aside: bool = False  # said in passing, in a hint or a footnote, beside what is asked

    def __post_init__(self) -> None:
        if self.name not in SETS:
            raise InputError(f"There is no problem set {self.name!r}; the sets are {', '.join(SETS)}.")
        for label in self.labels:
            if label not in SETS[self.name].labels:
                raise InputError(f"{self.name} has no question {label!r}; it has {', '.join(SETS[self.name].labels)}.")

    @property
    def labels(self) -> tuple[str, ...]:
        """The questions by the set's own labels."""
        return (self.question, self.also) if self.also else (self.question,)

    @property
    def where(self) -> str:
        """The question or questions, in words."""
        return " and ".join(self.labels)

    def __str__(self) -> str:
        return f"{self.name}, {self.where}" + (f", {self.note}" if self.note else "")


def _join_with_or(names: list[str]) -> str:
    """a, b or c."""
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
