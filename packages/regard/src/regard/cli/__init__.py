"""The command line: one module for each verb or group of verbs, loaded when it is named.

A module here is called like its verb: it holds a group, a ``typer.Typer`` called ``app``, or one function of that name.
Those whose help must answer at once, ``design`` and ``claims``, import the mathematics inside their functions. The room
may import every other one; none but :mod:`regard_models.commands` imports it. What other packages add comes through
:mod:`regard.plugins`. Begin with ``design.py``, a group, and with ``output.py``: verbs return through
:func:`regard.cli.output.show`.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib import import_module
from typing import Any

import typer

import regard
from regard.cli.output import Group, with_plain_values
from regard.errors import InputError, RegardError, similar_names, was_stopped
from regard.extras import EXTRAS, missing_package_error
from regard.plugins import BROUGHT_BY, COMMANDS, load_plugin, plugin_names
from regard.terminal import printable

INTERRUPTED = 130
FAULT = 4  # the exit code that nobody should ever see
STOPPED = "Stopped. Every file that was written is whole; where work is kept, the same command goes on from there."
_debug = False
UsageError: Any = typer.BadParameter.__mro__[1]  # click's, wherever this version of typer keeps it

# Each verb with the first sentence of its help, so that the list of all verbs loads none of them.
VERBS = {
    "design": "Queries that copy, share or match, the shortest ones, with certificates; or the proof that none exists.",
    "noise": "Random keys: what noise does to attention, by integrals and not only by samples.",
    "positions": "Are any two positions equal, which two are nearest, and how near? Proved in real arithmetic.",
    "symmetry": "Is a map order-blind, and if not, which swap of two rows shows it best?",
    "lowrank": "Singular values, the best approximation of a rank, and its exact error, with proved bounds.",
    "subspace": "Recover vectors from sums of vectors.",
    "claims": "What the coursework states, whether it holds, and why.",
    "mistakes": "Every known way to get attention wrong: list them, see one, and try your own tests against them.",
    "assignment": "Set homework: write an assignment, try it out, make the students' files.",
    "grade": "Grade submissions: each runs in a jail, on instances drawn for its student, and against an adversary.",
    "translator": "A translator to train, score and use: a one-layer Transformer encoder, or an encoder-decoder.",
    "lab": "Open the lab in the browser: a small server on this machine, for you alone. Ctrl-C stops it.",
    "demo": "Run the main verbs on what is built in, and end with a page of pictures.",
    "example": "Print an example to begin with: keys, queries, a matrix, a torch model, a map, a noise model.",
}
# The same for what other packages bring, so that neither does the list load them.
BROUGHT = {"model": "Any torch model: audit it, compare it with its twin, see the attention that it really used."}


class Program(Group):
    """The verbs of the table above, each loaded when it is named, and behind them those of other packages."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*VERBS, *plugin_names(COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return with_plain_values(_load_verb(cmd_name))

    def first_sentence(self, ctx: Any, name: str) -> str:
        return (VERBS | BROUGHT).get(name) or super().first_sentence(ctx, name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer does it, which knows no verb that is not loaded and so would suggest none."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = similar_names(args[0], self.list_commands(ctx), cutoff=0.6)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)


@cache
def _load_verb(name: str) -> Any:
    """The command of one verb; None where no package has it."""
    if name in VERBS:
        module = import_module(f"regard.cli.{name}")
        return _build_command(name, getattr(module, "app", None) or getattr(module, name))
    if name in plugin_names(COMMANDS) or (COMMANDS, name) in BROUGHT_BY:
        return _build_command(name, load_plugin(COMMANDS, name, what=f"regard {name}"))
    return None


def _build_command(name: str, verb: Any) -> Any:
    """What typer makes of a group or a function, under this name."""
    root = typer.Typer(add_completion=False, rich_markup_mode=None)
    root.callback()(lambda: None)  # without one, typer would take a single verb for the whole program
    if isinstance(verb, typer.Typer):
        root.add_typer(verb, name=name)
    else:
        root.command(name)(verb)
    command: Any = typer.main.get_command(root)
    return command.commands[name]


app = typer.Typer(
    cls=Program,
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


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    debug: bool = typer.Option(False, "--debug", help="Show the trace of a fault: regard --debug VERB ..."),
) -> None:
    global _debug
    _debug = debug
    if version:
        typer.echo(regard.__version__)
        raise typer.Exit()


def main() -> None:
    """Run the command line; every failure is one sentence on standard error, never a traceback."""
    try:
        code = app(standalone_mode=False)
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
    """What to say when a package of one of our extras is missing; None when something else went wrong."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in EXTRAS:
        return None
    # A translator needs more than torch: the smallest extra would only lead to the next refusal.
    extra = "translator" if "translator" in sys.argv[1:3] and EXTRAS[package] == "torch" else EXTRAS[package]
    return missing_package_error("This command", package, extra=extra)


def _leave(message: str, code: int) -> None:
    # a word of a file may have a megabyte
    shown = re.sub(r"(\S{200})\S{200,}", r"\1...", printable(message))
    print(f"regard: {shown}", file=sys.stderr)
    sys.exit(code)
