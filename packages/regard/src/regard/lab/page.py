"""What a page is, and what it answers."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path

from regard.errors import InputError
from regard.lab.state import State
from regard.markup import escape
from regard.plugins import LAB_PAGES, load_plugins
from regard.strict_json import JsonObject

BAR = re.compile(r"<mo[^>]*>&#x02016;</mo>")
NUMBER = re.compile(r"(?<![_^.\w])\d+(?:\.\d+)?(?![.\d])")  # one that stands by itself: k_0 and \tfrac12 keep theirs
PLACE = re.compile(r"9(\d{5})7")  # where one stood
AFTER_ROOT = re.compile(r"</msqrt>(?=<mi>(?:ln|max|min|exp|sin|cos)</mi>)")  # no browser leaves room there by itself
WORDS = re.compile(r"\\text\{[^{}]*\}")
NO_LETTER = re.compile(r"<mi>(&#x0223C;|[~:;])</mi>")  # signs that the converter takes for letters


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number beside the picture: a name for tests and scripts, a label for people, and how it is written.

    Numbers with a column stand in a table, one row per label; the others in a list.
    """

    name: str
    label: str
    value: float
    form: str = ".4g"
    column: str = ""

    def to_dict(self) -> JsonObject:
        said = {"name": self.name, "label": self.label, "value": self.value, "column": self.column}
        return {**said, "text": format(self.value, self.form)}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A surprise of the picture, explained in two sentences; `lit` is the class of what lights up in the drawing."""

    question: str
    because: str
    lit: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the computation: its name, formulas with the current numbers, and what of the page lights up."""

    title: str
    formulas: tuple[str, ...]
    lit: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything that a page shows for one state.

    picture: whatever the page's own script draws. say: sentences. formulas: LaTeX with the current numbers in it (no
    text that a user typed). python, shell: lines that reproduce the numbers. state: the words of the address, where the
    page changed them. why: what surprises here, explained. steps: how the numbers come about, one press each.
    """

    picture: JsonObject
    python: str
    shell: str
    numbers: tuple[Number, ...] = ()
    say: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    state: dict[str, str] = field(default_factory=dict)
    why: tuple[Explanation, ...] = ()
    steps: tuple[Step, ...] = ()

    def to_dict(self) -> JsonObject:
        steps = [{"title": s.title, "lit": s.lit, "formulas": [mathml(one) for one in s.formulas]} for s in self.steps]
        return {
            "why": [asdict(one) for one in self.why],
            "steps": steps,
            "picture": self.picture,
            "python": self.python,
            "shell": self.shell,
            "numbers": [number.to_dict() for number in self.numbers],
            "say": list(self.say),
            "formulas": [mathml(formula) for formula in self.formulas],
            "state": self.state,
        }


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the lab; its file defines one as ``PAGE``.

    place: its place in the row of pages. title: its name there. hint: one sentence on what to try. about: one on what
    it shows, also in a copy without Python. start: every word of
    its address with the value it begins with. answer: from a state to what is shown, in a tenth of a second or so.
    files: scripts and styles of its own, by their addresses (of a plugin). close: ends what it has in the background.
    """

    place: int
    title: str
    hint: str
    start: dict[str, str]
    answer: Callable[[State], Answer]
    about: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


def pages() -> dict[str, Page]:
    """Every page by its name, in order: whatever files the folder ``pages`` holds, and what plugins add.

    >>> list(pages())[:2]
    ['copy', 'noise']
    """
    from regard.lab import pages as folder

    names = [module.name for module in pkgutil.iter_modules(folder.__path__)]
    loaded: dict[str, Page] = {name: importlib.import_module(f"regard.lab.pages.{name}").PAGE for name in names}
    loaded |= load_plugins(LAB_PAGES)
    return dict(sorted(loaded.items(), key=lambda item: item[1].place))


def tex(value: float, digits: int = 4) -> str:
    """A number as it stands in a formula.

    >>> tex(0.25), tex(1.5e-10)
    ('0.25', '1.5\\\\cdot 10^{-10}')
    """
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa}\cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def mathml(formula: str, *, inline: bool = False) -> str:
    """A LaTeX formula as MathML, which browsers draw by themselves; on a line of its own, or within one.

    While a hand drags, only the numbers of a formula change: what is converted, and kept, is its form without them.

    >>> mathml("x^2").startswith("<math")
    True
    >>> mathml("a = 0.25") == mathml("a = 7").replace("7", "0.25")
    True
    >>> "<mtext>&lt;sos&gt;</mtext>" in mathml(r"w = \\text{<sos>}")
    True
    """
    numbers: list[str] = []

    def replace_number(match: re.Match[str]) -> str:
        numbers.append(match[0])
        return f"9{len(numbers) - 1:05d}7"

    made = _convert_formula(NUMBER.sub(replace_number, formula), inline)
    return PLACE.sub(lambda match: numbers[int(match[1])], made)


@lru_cache(maxsize=1024)
def _convert_formula(formula: str, inline: bool) -> str:
    from latex2mathml.converter import convert

    formula = WORDS.sub(lambda match: escape(match[0]), formula)  # the converter copies them as they are
    return with_both_bars(str(convert(formula, display="inline" if inline else "block")))


def with_both_bars(mathml: str) -> str:
    """Norms as pairs: the converter leaves out which bar opens and which closes, and browsers then misplace them.

    It also leaves out the space between a root and the name of a function.

    >>> with_both_bars("<mo>&#x02016;</mo><mi>q</mi><mo>&#x02016;</mo>")
    '<mo form="prefix" stretchy="false">&#x02016;</mo><mi>q</mi><mo form="postfix" stretchy="false">&#x02016;</mo>'
    """
    forms = cycle(("prefix", "postfix"))
    mathml = AFTER_ROOT.sub('</msqrt><mspace width="0.2em"/>', NO_LETTER.sub(r"<mo>\1</mo>", mathml))
    return BAR.sub(lambda _: f'<mo form="{next(forms)}" stretchy="false">&#x02016;</mo>', mathml)


ANSWERS, LINES, WHY = "answers", "lines", "why"
HIDEABLE = {
    ANSWERS: "verdicts, proofs and checklists of claims; the shortest and the textbook's query, the ceilings, the tour",
    LINES: "the Python and shell lines, which compute the same for whoever runs them",
    WHY: "the explanations of what surprises, and the tour",
}
REFUSED = "Verdicts, proofs and shortest queries are hidden in this lab: whoever started it chose so."


def checked_parts(words: Sequence[str]) -> frozenset[str]:
    """The parts to hide, from words that may hold several with commas between.

    >>> sorted(checked_parts(["answers,why"]))
    ['answers', 'why']
    >>> checked_parts(["proofs"])
    Traceback (most recent call last):
    regard.errors.InputError: There is nothing called 'proofs' to hide; there are answers, lines, why.
    """
    parts = [part.strip() for word in words for part in word.split(",") if part.strip()]
    for part in parts:
        if part not in HIDEABLE:
            raise InputError(f"There is nothing called {part!r} to hide; there are {', '.join(HIDEABLE)}.")
    return frozenset(parts)


def without_hidden_parts(answer: Answer, hidden: frozenset[str]) -> Answer:
    """The answer without its lines and its explanations, where these are hidden; pages leave out answers themselves."""
    if LINES in hidden:
        answer = replace(answer, python="", shell="")
    return replace(answer, why=()) if {WHY, ANSWERS} & hidden else answer
