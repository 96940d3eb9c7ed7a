"""How the command line speaks: a paragraph or JSON on standard output, notes and progress on standard error."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard.cli.plain_values import read_plain_values
from regard.terminal import printable

if TYPE_CHECKING:
    from regard.results import Result

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a paragraph.")]


Details = Annotated[bool, typer.Option("--details", help="Also every digit, and the arithmetic of the proof.")]


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
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, Group):
            parameters = type(command).get_params
            command.get_params = lambda ctx: read_plain_values(parameters(command, ctx))
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.short_help:
                command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
        super().format_commands(ctx, formatter)


def show(result: Result, *, as_json: bool, details: bool = False, formulas: bool = False) -> NoReturn:
    """Print a result and leave with 0 (yes, done) or 1 (answered no). With ``formulas``, those in it are in Unicode."""
    said = result.to_json() if as_json else as_typed(str(result))
    if details and not as_json and (more := result.details()):
        said += f"\n\n{as_typed(more)}"
    echo(in_unicode(said) if formulas and not as_json else said)
    raise typer.Exit(0 if result.answer else 1)


def echo(text: str, *, nl: bool = True) -> None:
    """Print to standard output; whatever a file's name or a file's text brings, it does not drive the terminal."""
    typer.echo(printable(text), nl=nl)


def as_typed(said: str) -> str:
    """What a result says in Python, with the options of the command line in the place of its methods.

    >>> as_typed("[1.224] (1 number; to_json() has every digit)")
    '[1.224] (1 number; --json has every digit)'
    """
    return _METHOD.sub(lambda found: TYPED[found[0]], said)


def in_unicode(text: str) -> str:
    """Formulas as a book prints them, where the terminal can show every sign of them; else as they are typed."""
    from regard.notation import readable

    nicer = _in_columns(text, readable(text))
    try:
        nicer.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text
    return nicer


def _in_columns(before: str, after: str) -> str:
    """The lines after a change; a column stays in its place where a cell before it became shorter.

    >>> _in_columns("||q||^2     3.1", "‖q‖²     3.1")
    '‖q‖²        3.1'
    >>> _in_columns("  1B.ii     mu_a", "  1B.ii     μ_a")
    '  1B.ii     μ_a'
    """
    lines = []
    for old, new in zip(before.split("\n"), after.split("\n"), strict=True):
        olds, news = re.split(r"(\s{3,})", old), re.split(r"(\s{3,})", new)
        if len(olds) == len(news):
            shorter = [0, *(len(a) - len(b) for a, b in zip(olds, news, strict=True))]
            # odd parts are the gaps between cells: each gets back what the cell before it has lost
            news = [part + " " * lost * (n % 2) for n, (part, lost) in enumerate(zip(news, shorter, strict=False))]
        lines.append("".join(news))
    return "\n".join(lines)


def note(message: str) -> None:
    """Something worth knowing that is not part of the answer."""
    print(f"note: {printable(message)}", file=sys.stderr)


def write_new(path: str, text: str, *endings: str) -> None:
    """Write a text file that begins somebody's work; one that is there is never overwritten."""
    from regard.arrays import check_target
    from regard.errors import InputError
    from regard.files import write_file

    if check_target(path, endings).exists():
        raise InputError(f"{path!r} is there already and is left as it is; name another file.")
    write_file(path, text.encode())


def check_plot(*paths: str | None) -> None:
    """Refuse a picture that could not be written, before the work rather than after."""
    from importlib.util import find_spec

    from regard.arrays import check_target
    from regard.errors import InputError
    from regard.pictures import ENDINGS, NEEDED

    wanted = [check_target(path, ENDINGS) for path in paths if path is not None]
    if wanted and find_spec("matplotlib") is None:
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
