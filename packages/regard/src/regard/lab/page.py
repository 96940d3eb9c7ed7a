"""What a page is: the words of its address, read with care because anybody can type one, what it answers to them, and
texts with their formulas as MathML, for the lab and the site; which parts are formulas, the ground says.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib import resources
from itertools import cycle
from pathlib import Path

from regard.errors import InputError
from regard.extras import LAB_PAGES, load_plugins
from regard.markup import escape
from regard.notation import latex, pieces
from regard.strict_json import JsonObject
from regard.toml import parse_toml
from regard.written_numbers import in_full, is_count, real_number


class State:
    """Words by name; what the address leaves out has its value from the start of the page.

    >>> state = State({"eps": "0.1"}, start={"eps": "0.01", "keys": "1,0; 0,1", "do": ""})
    >>> state.number("eps", least=0, most=1), state.rows("keys", width=2, most=9)
    (0.1, [[1.0, 0.0], [0.0, 1.0]])
    >>> state.number("eps", least=0.5, most=1)
    Traceback (most recent call last):
    regard.errors.InputError: eps must be a number from 0.5 to 1, not '0.1'.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        *,
        start: Mapping[str, str],
        runs: Path = Path("runs"),
        folders: Sequence[Path] = (),
        model: str | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        for name in given:
            if name not in start:
                raise InputError(
                    f"The address has {name!r}, which this page does not know; it knows {', '.join(start)}."
                )
        self.words: dict[str, str] = {**start, **given}
        # The lab's own, not the address's: where the runs of translators are, below which a file may be opened, and
        # which model is looked at: its file is run; and what a teacher has taken out.
        self.runs, self.folders, self.model, self.hidden = runs, tuple(folders), model, hidden

    def text(self, name: str) -> str:
        """A word as it was given."""
        return self.words[name]

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """A word that must be one of a few."""
        word = self.words[name]
        if word not in choices:
            raise InputError(f"{name} must be one of {', '.join(choices)}, not {word!r}.")
        return word

    def number(self, name: str, *, least: float, most: float) -> float:
        """A number within a range."""
        return _number(self.words[name], name, least, most)

    def whole_number(self, name: str, *, least: int, most: int) -> int:
        """A whole number within a range."""
        value = _number(self.words[name], name, least, most)
        if value != int(value):
            raise InputError(f"{name} must be a whole number from {least} to {most}, not {self.words[name]!r}.")
        return int(value)

    def numbers(self, name: str, *, count: int, size: float = 1e6) -> list[float]:
        """A list of numbers, such as 1,0."""
        parts = self.words[name].split(",")
        if len(parts) != count:
            raise InputError(f"{name} must be {count} numbers separated by commas, not {self.words[name]!r}.")
        return [_number(part, name, -size, size) for part in parts]

    def rows(self, name: str, *, width: int, most: int, size: float = 1e6) -> list[list[float]]:
        """Rows of numbers, such as 1,0; 0,1."""
        rows = [row.split(",") for row in self.words[name].split(";")]
        odd = next((row for row in rows if len(row) != width), None)
        if len(rows) > most or odd is not None:
            came = f"{len(rows)} rows" if odd is None else f"a row {','.join(odd).strip()[:40]!r}"
            raise InputError(f"{name} must be at most {most} rows of {width} numbers, such as 1,0; 0,1, not {came}.")
        return [[_number(part, name, -size, size) for part in row] for row in rows]

    def file(self, path: str) -> Path:
        """A file's path, if it lies below a folder that the lab may open: links are followed first."""
        real = Path(path).resolve()
        if not any(real.is_relative_to(folder) for folder in self.folders):
            below = " or ".join(str(folder) for folder in self.folders) or "no folder"
            raise InputError(f"The lab opens files below {below} only; start it with --folder DIR for another.")
        return real

    def indices(self, name: str, *, below: int) -> list[int]:
        """Different whole numbers counted from 0, in order, such as 0,2; there may be none."""
        words = [word for word in self.words[name].split(",") if word.strip()]
        if not all(is_count(word.strip()) and int(word) < below for word in words):
            raise InputError(f"{name} must be whole numbers from 0 to {below - 1}, not {self.words[name]!r}.")
        return sorted({int(word) for word in words})


def _number(word: str, name: str, least: float, most: float) -> float:
    try:
        value = real_number(word)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise InputError(f"{name} must be a number from {in_full(least)} to {in_full(most)}, not {word.strip()!r}.")
    return value


def format_rows(rows: Sequence[Sequence[float]]) -> str:
    """Rows as they stand in an address and on a command line, every digit kept.

    >>> format_rows([[1.0, 0.5], [0.1, -2.0]])
    '1,0.5; 0.1,-2'
    """
    return "; ".join(",".join(shortest_text(value) for value in row) for row in rows)


def shortest_text(value: float) -> str:
    """A number in the fewest digits that give it back exactly.

    >>> shortest_text(-0.0), shortest_text(0.1), shortest_text(3.0)
    ('0', '0.1', '3')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


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
        """As a browser gets it: formulas as MathML, numbers as they are written."""
        return {
            **vars(self),
            "why": [asdict(one) for one in self.why],
            "steps": [{**asdict(one), "formulas": [mathml(line) for line in one.formulas]} for one in self.steps],
            "numbers": [number.to_dict() for number in self.numbers],
            "say": list(self.say),
            "formulas": [mathml(formula) for formula in self.formulas],
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


# what a sign of a formula stands for
MEANINGS: dict[str, str] = parse_toml(
    resources.files("regard.lab").joinpath("meanings.toml").read_text(encoding="utf-8")
)
LONG = 24  # letters of a formula that a narrow column may have to break
RELATION = re.compile(r" (?=(?:=|<=|>=|<|>|!=|->|~|=>|<=>) )")
LEADING = re.compile(r"(<math[^>]*><mrow>)<mo>(?!&#x02212;)")  # a minus at the front is a sign, not an operation
TRAILING = re.compile(r"<mo>([^<]*)</mo></mrow></math>$")


@lru_cache(maxsize=1024)
def typeset(text: str) -> tuple[tuple[str, bool], ...]:
    """A text with its formulas as MathML: parts in order, each with whether it is MathML or prose.

    >>> [part for part, is_formula in typeset("So $n = 10$ keys.") if not is_formula]
    ['So ', ' keys.']
    """
    pairs: list[tuple[str, bool]] = []
    for piece in pieces(text):
        pairs += (
            [(_inline_mathml(part), True) for part in _split_at_relations(piece.text)]
            if piece.formula
            else [(piece.text, False)]
        )
    return tuple(pairs)


def _split_at_relations(formula: str) -> list[str]:
    """A long formula in parts that begin with a relation: a browser breaks a line between formulas, never inside one.

    >>> _split_at_relations("P(alpha_a > 0.9) >= 1 - (n-1) e^-T = 0.98")
    ['P(alpha_a > 0.9)', '>= 1 - (n-1) e^-T', '= 0.98']
    """
    formula = " ".join(formula.split())
    if len(formula) <= LONG:
        return [formula]
    parts, start = [], 0
    for relation in RELATION.finditer(formula):
        before = formula[: relation.start()]
        if before.count("(") == before.count(")") and before.count("||") % 2 == 0:
            parts.append(formula[start : relation.start()])
            start = relation.end()
    return [*(part for part in parts if part), formula[start:]]


def _inline_mathml(formula: str) -> str:
    """MathML within a line; an operator at an end keeps the space that it has between its two sides."""
    made = LEADING.sub(r'\1<mo form="infix">', mathml(latex(formula), inline=True))
    return TRAILING.sub(r'<mo form="infix">\1</mo></mrow></math>', made)
