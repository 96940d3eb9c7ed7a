"""``regard mistakes``: the known ways to get attention wrong, one as a file, and tests tried against all of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.output import AsJson, Group, Progress, echo, show
from regard.errors import InputError
from regard.files import write_new_file

app = typer.Typer(
    cls=Group,
    help="Every known way to get attention wrong: list them, see one, and try your own tests against them.",
)


@app.callback(invoke_without_command=True)
def list_all(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every known way to get attention wrong: list them, see one, and try your own tests against them.

    Without a command: the list, by stage of a Transformer.
    """
    if ctx.invoked_subcommand is None:
        from regard.mistakes.catalogue import list_mistakes

        show(list_mistakes(), as_json=as_json)


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A mistake of the list, as in scale-missing.")],
    file: Annotated[str | None, typer.Argument(metavar="[FILE.py]", help="Where to write it; else printed.")] = None,
    numpy: Annotated[bool, typer.Option("--numpy", help="In NumPy instead of torch.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the smallest module with one mistake in it, which runs and shows by how much it is wrong.

    Beside it stands the right one, and the input on which they differ.

    Example: regard mistakes show scale-missing wrong.py
    """
    from regard.mistakes.catalogue import find_mistake
    from regard.mistakes.smallest import smallest_module

    made = smallest_module(find_mistake(name), library="numpy" if numpy else "torch")
    if file is not None:
        write_new_file(file, made.code, endings=(".py",))
        if not as_json:
            echo(f"{file}: {made.sentence}. Run it: python {file}")
            return
    show(made, as_json=as_json)


@app.command("test")
def try_tests(
    command: Annotated[str, typer.Argument(help='Your tests as you run them: "pytest tests/test_attention.py".')],
    function: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="What they test, as they import it: mypkg.attention:attend.")
    ],
    adapter: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="For another kind of function; see above.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--mistake", metavar="NAME", help="Only this one; may be given several times.")
    ] = None,
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="How long the tests may take as they are.")] = 600.0,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Run the tests in this folder and not in a copy of it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Which mistakes do your tests let through? Each in turn is put in the place of your function, and they are run.

    The function takes (q, k, v) or (q, k, v, mask), or is an nn.Module of those with its own linear maps. Each mistake
    that gets through is told with an assertion that would catch it. Your tests run with your rights, in a copy of the
    current folder, once per mistake; one that hangs is stopped.

    Exit code 0: all are caught; 1: some get through; 2: the tests do not pass as they are, or the function's kind is
    not known; 3: they fail even with a right function.

    For another kind, an adapter says where attention stands in it: a function adapt(attend, original) that returns
    what replaces the original, where attend(q, k, v, allowed=None) is the one with the mistake.

    Example: regard mistakes test "pytest tests/test_attention.py" --function mypkg.attention:attend
    """
    if limit <= 0:
        raise InputError(f"--limit must be a positive number of seconds, not {limit:g}.")
    from regard.mistakes.suite_check import check_suite

    progress: Any = Progress("mistakes")
    found = check_suite(
        command, function, adapter=adapter, only=only or (), limit=limit, in_place=in_place, progress=progress
    )
    show(found, as_json=as_json)
