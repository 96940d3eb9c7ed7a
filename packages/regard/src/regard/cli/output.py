"""How the command line speaks: a paragraph or JSON on standard output, notes and progress on standard error.

Words of the command line into values, without loading a validation library for it.

Typer hands every option to Pydantic, whose import alone takes as long as a whole small answer. What is plainly a word,
a list of words or a number in its range is turned into a value here, and what is no number is refused here; everything
else stays typer's. Where a version of typer works in another way, nothing is changed at all.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args

import typer

from regard.errors import InputError
from regard.files import check_target
from regard.notation import in_plain_letters
from regard.pictures import ENDINGS, NEEDED
from regard.terminal import printable
from regard.written_numbers import real_number, whole_number

if TYPE_CHECKING:
    from regard.results import Result

# options that several verbs have
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a paragraph.")]
Details = Annotated[bool, typer.Option("--details", help="Also print the figures behind the answer.")]
Plot = Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Write a picture (.svg, .png, .pdf).")]

TYPED = {  # where a result names a method for more, whoever types has an option for it
    "to_json() ": "--json ",
    "to_csv() ": "--csv ",
    "details() ": "--details ",
    "save() with verify_winnable() ": "--out with --verify ",
}
_METHOD = re.compile("|".join(map(re.escape, TYPED)))
_INVITATION = re.compile(r"(^|(?<= ))[^.\n]*: details\(\) shows them\.\n?", re.MULTILINE)  # gone where they are shown


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
    """The command, its words read by :mod:`regard.cli.output`; a group sees to its own commands."""
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
    said = result.to_json() if as_json else str(result)
    if details and not as_json and (more := result.details()):
        said = f"{_INVITATION.sub('', said).strip()}\n\n{more}"
    said = said if as_json else as_typed(said)
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
    """A line on standard error with the time left, once two seconds have passed; a log gets only a few of them."""

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


# Decimal digits only, and few enough of them: what is not certain to be read alike by Python and Pydantic is not plain.
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_REAL = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class NotPlainError(Exception):
    """Typer's own machinery has to look at this value."""


def read_plain_values(parameters: Iterable[Any]) -> list[Any]:
    """The same options and arguments, read here where what they get is plain."""
    made = list(parameters)
    for parameter in made:
        build = getattr(parameter, "get_runtime_param", None)
        if build is not None and not isinstance(build, _Reader):
            parameter.get_runtime_param = _Reader(build)
    return made


@dataclass(frozen=True)
class _Reader:
    """Stands where typer asks a parameter for its converter; builds typer's only for values that are not plain."""

    build: Any

    def __call__(self) -> _Reader:
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        refuse_loose_numbers(value, param)
        try:
            return plain_value(value, param)
        except (NotPlainError, AttributeError):  # an attribute that another version of typer does not have
            return self.build().coerce(value, param=param, ctx=ctx)


def refuse_loose_numbers(value: Any, param: Any) -> None:
    """Every number that is typed is read as strictly as those in a file: 1_0, nan and digits of other scripts are none.

    Python writes 1_000 for a thousand, and so would read 1_0 as 10; whoever types that has more likely slipped.
    """
    wanted = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    kinds = {wanted, *get_args(wanted)}
    if not kinds & {int, float}:
        return
    read, like = (real_number, "0.5 or 1e-3") if float in kinds else (whole_number, "12")
    for word in value if isinstance(value, (list, tuple)) else [value]:
        try:
            read(word) if isinstance(word, str) else None
        except ValueError as error:
            raise typer.BadParameter(f"{error}; write one like {like}.", param=param) from None


def plain_value(value: Any, param: Any) -> Any:
    """What a parameter gets for this value, where that is plain; otherwise `NotPlainError`."""
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    wanted, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    if info.parser is not None:
        raise NotPlainError
    if wanted == list[str] and isinstance(value, (list, tuple)) and all(type(word) is str for word in value):
        return list(value)
    if wanted is str and type(value) is str:
        return value
    if wanted in (int, float):
        return _number(value, wanted, info)
    raise NotPlainError


def _number(value: Any, wanted: type, info: Any) -> int | float:
    """A plain number within the parameter's range."""
    form = _WHOLE if wanted is int else _REAL
    # a default from our own code, which may be a whole number where a real one is wanted
    default = type(value) is wanted or (type(value) is int and abs(value) < 2**53)
    if not (default or (type(value) is str and form.fullmatch(value))):
        raise NotPlainError
    number: int | float = wanted(value)
    inside = (info.min is None or number >= info.min) and (info.max is None or number <= info.max)
    if not inside:
        raise NotPlainError
    return number
