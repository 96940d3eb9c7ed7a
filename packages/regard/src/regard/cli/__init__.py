"""The command line: one module per group, nothing imported before it is needed.

A group is a file here that holds a ``typer.Typer`` and imports the mathematics inside its functions, so that
``regard --help`` answers at once. It may import every other room; none but :mod:`regard_models.commands` imports it.
What other packages add comes through :mod:`regard.plugins`. Begin with ``design.py``, a group, and with ``output.py``:
verbs return through :func:`regard.cli.output.show`.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from regard.cli import (
    assignment,
    claims,
    demo,
    design,
    example,
    grade,
    lab,
    lowrank,
    noise,
    positions,
    subspace,
    symmetry,
    translator,
)
from regard.cli.branches import named_part
from regard.cli.output import Group
from regard.errors import InputError, RegardError, was_stopped
from regard.extras import EXTRAS, missing_package_error
from regard.terminal import printable

INTERRUPTED = 130
FAULT = 4  # the exit code that nobody should ever see
STOPPED = "Stopped. Every file that was written is whole; where work is kept, the same command goes on from there."
_debug = False
UsageError: Any = typer.BadParameter.__mro__[1]  # click's, wherever this version of typer keeps it

app = typer.Typer(
    cls=Group,
    name="regard",
    help="A laboratory for attention: design queries, study them, and check what you are told.\n\n"
    'Try: regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01\n\n'
    "Files to try the rest with: regard example\n\n"
    "Keys are counted from 0. Every verb takes --json. Exit codes: 0 yes or done, 1 answered no, "
    "2 bad input, 3 could not find out, 4 a fault of ours.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(design.app, name="design")
app.add_typer(translator.app, name="translator")
app.add_typer(subspace.app, name="subspace")
app.add_typer(noise.app, name="noise")
app.command(name="claims")(claims.claims)
app.add_typer(assignment.app, name="assignment")
app.command(name="grade")(grade.grade)
app.command(name="demo")(demo.demo)
app.command(name="example")(example.example)
app.add_typer(lab.app, name="lab")
app.command(name="positions")(positions.positions)
app.command(name="lowrank")(lowrank.lowrank)
app.command(name="symmetry")(symmetry.symmetry)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    debug: bool = typer.Option(False, "--debug", help="Show the trace of a fault: regard --debug VERB ..."),
) -> None:
    global _debug
    _debug = debug
    if version:
        from regard import __version__

        typer.echo(__version__)
        raise typer.Exit()


def whole_app(words: Sequence[str]) -> typer.Typer:
    """The app with what other distributions add to it; where the first word is one of ours, they are not looked for."""
    if not isinstance(app, typer.Typer):  # a tree that is built already
        return app
    own = {group.name for group in app.registered_groups} | {command.name for command in app.registered_commands}
    if words and words[0] in own:
        return app
    from regard.plugins import BROUGHT_BY, COMMANDS, load_plugins, missing_plugin

    added = load_plugins(COMMANDS)
    if words and words[0] not in added and (COMMANDS, words[0]) in BROUGHT_BY:
        raise missing_plugin(COMMANDS, words[0], what=f"regard {words[0]}")
    whole = copy.copy(app)
    named = [typer.models.TyperInfo(group, name=name) for name, group in added.items() if name not in own]
    whole.registered_groups = [*app.registered_groups, *named]
    return whole


def main() -> None:
    """Run the command line; every failure is one sentence on standard error, never a traceback."""
    try:
        words = sys.argv[1:]
        code = named_part(whole_app(words), words)(standalone_mode=False)
        if code == INTERRUPTED:  # typer swallows Ctrl-C and says nothing
            raise KeyboardInterrupt
        sys.exit(code)
    except UsageError as error:  # unknown options, missing arguments, words that are not numbers
        if not sys.argv[1:] or type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(2)
        where = getattr(error, "ctx", None)
        path = where.command_path if where is not None else "regard"
        _leave(f"{error.format_message().rstrip('.')}; see {path} --help.", 2)
    except (typer.Abort, KeyboardInterrupt):
        _leave(STOPPED, INTERRUPTED)
    except RegardError as error:
        _leave(str(error), error.exit_code)
    except BrokenPipeError:
        # Python flushes standard output once more at its end, and would complain about the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _leave("This needs more memory than the machine has: pass fewer rows, or a smaller part of the file.", 3)
    except OSError as error:
        _leave(f"The system refused {error.filename or 'an operation'}: {error.strerror or error}.", 2)
    except Exception as error:
        if was_stopped(error):
            _leave(STOPPED, INTERRUPTED)
        if (absent := _not_installed(error)) is not None:
            _leave(str(absent), absent.exit_code)
        if _debug:
            raise
        what = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        _leave(
            f"This is a fault of ours, not of what you typed ({what}). Please report it in the project's issues with "
            "the command; regard --debug VERB ... shows where it happened.",
            FAULT,
        )


def _not_installed(error: Exception) -> InputError | None:
    """What to say where a package of one of our extras was imported in vain; None where something else went wrong."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in EXTRAS:
        return None
    # A translator needs more than torch: the smallest extra would only lead to the next refusal.
    extra = "translator" if "translator" in sys.argv[1:3] and EXTRAS[package] == "torch" else EXTRAS[package]
    return missing_package_error("This command", package, extra=extra)


def _leave(message: str, code: int) -> None:
    print(f"regard: {printable(message)}", file=sys.stderr)
    sys.exit(code)
