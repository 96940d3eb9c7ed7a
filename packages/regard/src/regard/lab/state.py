"""The state of a page: the words of its address, read with care, because anybody can type an address."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import InputError
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
