"""A notebook as a Python file: functions are found by their names, whatever happened to the cells.

Cells run one after the other, each by itself: one that fails, or cannot even be parsed, does not take the others
with it. Outputs are never read. Code that somebody turned into a text cell by mistake counts, if it is needed. A
line of the made file is told as cell and line again.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from regard.errors import InputError
from regard.strict_json import parse_json

MOST_CELLS = 2000
MOST_CODE = 1_000_000  # characters
PARSED, PARSED_IN_ALL = 20_000, 100_000  # characters of a cell, and of a notebook, that are parsed outside the jail
DEFINES = re.compile(
    r"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|(\w+)[ \t]*(?::[^=\n]*)?=(?!=)"
    r"|(?:from[ \t]+\S+[ \t]+)?import[ \t]+([^#\n]+))",
    re.MULTILINE,
)
PREFIX = re.compile(r"^\s*[%!?]")
DRIVER = """\
def _cells(texts):
    import sys
    for number, skipped, text in texts:
        try:
            exec(compile("\\n" * skipped + text, __file__, "exec"), globals())
        except (Exception, SystemExit) as error:
            print(f"cell {number} failed: {type(error).__name__}: {error}", file=sys.stderr)


def display(*things):
    print(*things)


"""


@dataclass(frozen=True, kw_only=True)
class Code:
    """Python, made from a notebook: the text that is run, and where each cell begins among its lines."""

    source: bytes
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    notes: tuple[str, ...]
    written: tuple[str, ...]  # the text cells
    names: frozenset[str]  # what is defined at the top of some cell
    cell_texts: tuple[str, ...] = ()  # the code, cell by cell

    def with_cell_numbers(self, message: str) -> str:
        """The message, with lines of the made file as cells and lines."""
        return re.sub(r"\bline (\d+)", lambda line: self._place(int(line[1])), message)

    def _place(self, line: int) -> str:
        at = bisect_right(self.starts, line - 1) - 1
        return f"cell {self.numbers[at]}, line {line - self.starts[at]}" if at >= 0 else f"line {line}"


def code_of(data: bytes, *, wanted: tuple[str, ...] = ()) -> Code:
    """The notebook's code; ``wanted`` are the names for which code in a text cell is taken, too."""
    cells = _cells(data)
    notes: list[str] = []
    kept, read = [], 0
    for n, kind, text in cells:
        if kind == "code" and (code := _python(text)).strip():
            read += len(code)
            if problem := _syntax_problem(code) if read <= PARSED_IN_ALL else "":
                notes.append(f"cell {n} cannot be parsed: {problem}.")
            else:
                kept.append((n, code))
    if read > MOST_CODE:
        raise InputError(f"it has more than {MOST_CODE:,} characters of code; an answer is short.")
    names = {name for _, text in kept for name in defined_names(text)}
    for n, kind, text in cells:
        stray = set(defined_names(text)) & (set(wanted) - names) if kind != "code" else set()
        if stray and len(text) <= PARSED and not _syntax_problem(text):
            notes.append(f"cell {n} is not a code cell, but holds {', '.join(sorted(stray))}: it was run.")
            kept.append((n, text))
            names |= stray
    kept.sort()
    starts, line, rows = [], 0, []
    for n, text in kept:
        starts.append(line)
        rows.append((n, line, text))
        line += text.count("\n") + 1
    return Code(
        source=(DRIVER + f"_cells({rows!r})\ndel _cells\n").encode("utf-8", errors="replace"),
        starts=tuple(starts),
        numbers=tuple(n for n, _ in kept),
        notes=tuple(notes),
        written=tuple(text for _, kind, text in cells if kind == "markdown"),
        names=frozenset(names),
        cell_texts=tuple(text for _, text in kept),
    )


@lru_cache(maxsize=8)  # each question looks for its function, and a large notebook takes seconds
def _cells(data: bytes) -> list[tuple[int, str, str]]:
    """Number, kind and text of each cell; cells are counted from 1, as people do."""
    try:
        book = parse_json(data, constants=True)  # Jupyter writes NaN into outputs
        cells = book.get("cells") or [cell for sheet in book.get("worksheets", []) for cell in sheet["cells"]]
        told = [(n, str(cell.get("cell_type")), _text(cell)) for n, cell in enumerate(cells[:MOST_CELLS], 1)]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise InputError(
            "it is no notebook that can be read; save it again as .ipynb, or hand in a .py file."
        ) from None
    return told


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()


def _python(text: str) -> str:
    """The cell without what only a notebook understands."""
    first = text.lstrip().partition("\n")[0]
    if first.startswith("%%") and not re.match(r"%%(time|timeit|capture|prun)\b", first):
        return ""
    return "\n".join("" if PREFIX.match(line) else line for line in text.split("\n"))


def _syntax_problem(text: str) -> str:
    """Why a short text is no Python; a long one is left to the jail."""
    if len(text) > PARSED:
        return ""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}"
    return ""


def defined_names(text: str | bytes) -> list[str]:
    """Names that Python code defines where a line begins.

    Told by the lines alone: Python's own parser can be kept busy for minutes by a short text, and this runs outside.

    >>> defined_names("def f(x): return x\\ng = lambda x: x\\nclass H: pass")
    ['f', 'g', 'H']
    """
    text = text.decode("utf-8-sig", errors="replace") if isinstance(text, bytes) else text
    names: list[str] = []
    for line in DEFINES.finditer(text.replace("\r", "\n")):
        one, several = line[1] or line[2], line[3]
        imported = [part.split() for part in several.strip(" (\t").split(",")[:100]] if several else []
        names += [one] if one else [words[-1] for words in imported if words]
    return names
