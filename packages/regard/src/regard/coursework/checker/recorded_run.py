"""Running a person's model in the one runner of other people's code, and reading the recording that comes back."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner, read_source
from regard.sandbox.tool import Tool
from regard.strict_json import parse_json
from regard.tracing.recording import Recording, read_recording

RECORDING = 30.0  # seconds more than the limit: what recording a small model takes on a busy machine
MOST_BYTES = 100_000_000  # of a recording
RECORDER = Tool(module="regard.coursework.checker.recording_tool", doing="Checking a Transformer runs it, which")


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedRun:
    """A recording, what the code printed, and what kept it in."""

    recording: Recording
    printed: str
    tier: Tier
    confined: str


def record_in_sandbox(
    spec: str, *, default: str, seed: int, limit: float, jail: bool | Tier = False, code: bytes | None = None
) -> RecordedRun:
    """The recording of ``my.py:NAME`` or ``my.ipynb:NAME``; whatever fails is refused.

    ``code``: the text of a file that lies nowhere."""
    path, _, name = spec.rpartition(":") if not spec.endswith(".ipynb") else (spec, "", default)
    if path.endswith(".ipynb"):
        if not Path(path).is_file():
            raise InputError(f"{path}: there is no such file.")
        spec, code = f"{path}.py:{name}", definitions_of(read_source(path), path)
    runner = Runner(spec, function=default, clock=Clock(RECORDING + limit), jail=jail, code=code, tool=RECORDER)
    with runner:
        asked = {"name": runner.function, "seed": seed}
        data = runner.ask(asked, doing="recording it", most=MOST_BYTES)
    return RecordedRun(
        recording=read_recording(data), printed=runner.printed_text, tier=runner.tier, confined=runner.jail_description
    )


def definitions_of(notebook: bytes, path: str) -> bytes:
    """The imports, definitions and constants of a notebook's code cells; nothing else of it is run, so that no training
    starts. Lines are counted through the code cells."""
    try:
        cells = parse_json(notebook, constants=True)["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is no notebook that can be read; save it again as .ipynb.") from None
    kept: list[str] = []
    for code in codes:
        # magics of a notebook are no Python; an empty line in their place keeps the count of lines
        lines = ["" if line.lstrip().startswith(("%", "!", "?")) else line for line in code.splitlines()]
        try:
            body = ast.parse("\n".join(lines)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            body = []  # a cell that cannot be parsed takes no other with it
        wanted = {n for one in body if _is_definition(one) for n in range(_first_line(one), (one.end_lineno or 0) + 1)}
        kept += [line if number in wanted else "" for number, line in enumerate(lines, 1)]
    return "\n".join([*kept, ""]).encode("utf-8", errors="replace")


def _is_definition(one: ast.stmt) -> bool:
    """An import, a function, a class, or a name for a number, a text or a collection of these."""
    if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
        try:
            ast.literal_eval(one.value)  # a value that calls nothing: rate = 0.1, and not model = train()
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return False
        return True
    if isinstance(one, (ast.Import, ast.ImportFrom)):  # regard serves the other cells: an answer stands on its own
        names = [one.module or ""] if isinstance(one, ast.ImportFrom) else [alias.name for alias in one.names]
        return not any(name.partition(".")[0] == "regard" for name in names)
    return isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _first_line(one: ast.stmt) -> int:
    above: list[ast.expr] = getattr(one, "decorator_list", [])
    # decorators stand above the line that a definition is counted by
    return min([one.lineno, *(decorator.lineno for decorator in above)])
