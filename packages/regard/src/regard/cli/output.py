"""How the command line speaks: a paragraph or JSON on standard output, notes and progress on standard error."""

from __future__ import annotations

import re
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard.cli.plain_values import read_plain_values
from regard.errors import InputError
from regard.files import check_target, write_file
from regard.notation import in_plain_letters
from regard.pictures import ENDINGS, NEEDED
from regard.terminal import printable

if TYPE_CHECKING:
    from regard.results import Result

# options that several verbs have
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a paragraph.")]
Details = Annotated[bool, typer.Option("--details", help="Also print what stands behind the answer.")]
Plot = Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Write a picture (.svg, .png, .pdf).")]

TYPED = {  # where a result names a method for more, whoever types has an option for it
    "to_json() ": "--json ",
    "to_csv() ": "--csv ",
    "details() ": "--details ",
    "save() with verify_winnable() ": "--out with --verify ",
}
_METHOD = re.compile("|".join(map(re.escape, TYPED)))


class Group(typer.core.TyperGroup):
    """A group whose list of commands shows each one's first sentence whole, wrapped and not cut."""

    def get_params(self, ctx: Any) -> list[Any]:
        return read_plain_values(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return with_plain_values(super().get_command(ctx, cmd_name))

    def first_sentence(self, ctx: Any, name: str) -> str:
        """What the list says of a command."""
        return " ".join((self.get_command(ctx, name).help or "").partition("\n\n")[0].split())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.first_sentence(ctx, name)) for name in self.list_commands(ctx)])


def with_plain_values(command: Any) -> Any:
    """The command, its words read by :mod:`regard.cli.plain_values`; a group sees to its own commands."""
    if command is not None and not isinstance(command, Group):
        parameters = type(command).get_params
        command.get_params = lambda ctx: read_plain_values(parameters(command, ctx))
    return command


def show(
    result: Result, *, as_json: bool, details: bool = False, plot: str | None = None, code: int | None = None
) -> NoReturn:
    """Draw a result if a picture is wanted, print it, and leave with 0 (yes, done) or 1 (answered no), or ``code``."""
    if plot is not None:
        result.plot(plot)
    said = result.to_json() if as_json else as_typed(str(result))
    if details and not as_json and (more := result.details()):
        said += f"\n\n{as_typed(more)}"
    echo(said if as_json else encodable(said))
    raise typer.Exit(code if code is not None else 0 if result.answer else 1)


def load(spec: str, what: str, **options: Any) -> Any:
    """The array that somebody named or typed; what its reader noticed goes to standard error."""
    from regard.arrays import load_array  # NumPy, which no --help needs

    loaded = load_array(spec, what=what, **options)
    for remark in loaded.notes:
        note(remark)
    return loaded.array


def echo(text: str, *, nl: bool = True) -> None:
    """Print to standard output; whatever a file's name or a file's text brings, it does not drive the terminal."""
    typer.echo(printable(text), nl=nl)


def as_typed(said: str) -> str:
    """What a result says in Python, with the options of the command line in the place of its methods.

    >>> as_typed("[1.224] (to_json() has every digit)")
    '[1.224] (--json has every digit)'
    """
    return _METHOD.sub(lambda found: TYPED[found[0]], said)


def encodable(text: str) -> str:
    """The text, where the terminal can show every sign of it; else with its formulas in plain letters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return in_plain_letters(text)
    return text


def note(message: str) -> None:
    """Something worth knowing that is not part of the answer."""
    print(f"note: {printable(message)}", file=sys.stderr)


def write_new(path: str, text: str, *endings: str) -> None:
    """Write a text file that begins somebody's work; one that is there is never overwritten."""
    if check_target(path, endings).exists():
        raise InputError(f"{path!r} is there already and is left as it is; name another file.")
    write_file(path, text.encode())


def check_file(path: str | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, where one is wanted: before the work rather than after."""
    if path is not None:
        check_target(path, endings)


def check_plot(*paths: str | None) -> None:
    """The same for pictures, which also need matplotlib."""
    for path in paths:
        check_file(path, ENDINGS)
    if any(paths) and find_spec("matplotlib") is None:
        raise InputError(NEEDED)


class Progress:
    """A line on standard error, once two seconds have passed, with the time left; silent when it is not a terminal
    for all but every tenth of the way."""

    def __init__(self, what: str) -> None:
        self.what, self.start, self.shown = what, time.monotonic(), 0.0
        self.ended: tuple[int, int] | None = None  # the last stage that was shown to its end

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        elapsed, terminal = now - self.start, sys.stderr.isatty()
        # a log file gets ever fewer lines; a terminal is written over
        pause = 0.2 if terminal else max(5.0, elapsed / 5)
        if elapsed < 2 or (now - self.shown < pause and done < total) or self.ended == (done, total):
            return
        self.shown, self.ended = now, (done, total) if done >= total else None
        known = total <= 100 * done < 100 * total  # the first of many, with all imports in it, foretells nothing
        left = f", about {elapsed * (total - done) / done:.0f} s left" if known else ""
        end = "\r" if terminal and done < total else "\n"
        print(
            f"{self.what}: {done:,} of {total:,}{left} ",
            end=end,
            file=sys.stderr,
            flush=True,
        )
