"""What a command loads before it answers, and that the short ways in give what typer's long one gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from regard import cli
from regard.cli.output import Group, NotPlainError, plain_value
from regard.coursework import contents
from regard.coursework.catalogue import claims

LOADED = """
import sys
sys.argv = ["regard", *{words!r}]
from regard.cli import main
try:
    main()
except SystemExit as left:
    assert not left.code
print("LOADED", *sys.modules)
"""
NEVER = {"pydantic", "pydantic_core", "rich", "torch", "matplotlib", "joblib", "scipy", "numpy.f2py", "chardet"}


def loaded(*words):
    """The modules that a command has loaded by its end, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(words=words)], capture_output=True, text=True, check=True, env=os.environ
    )
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (("claims",), NEVER | {"numpy", "flint"}),
        (("design", "copy", "example:square", "0", "--eps", "0.1"), NEVER | {"regard.design.pictures"}),
        (("design", "share", "--keys", "1,0; 0,1; 1,1", "0", "1"), NEVER),
        (("positions", "--dim", "8", "--length", "4"), {"pydantic", "rich", "torch", "matplotlib"}),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(words, never):
    seen = loaded(*words) & never
    assert not seen, seen


app = typer.Typer(cls=Group)


@app.command()
def said(
    words: Annotated[list[str] | None, typer.Argument()] = None,
    eps: float = typer.Option(0.5),
    count: int = typer.Option(3, min=1, max=9),
    name: str = typer.Option(None),
    base: float = typer.Option(10_000),
    often: int = typer.Option(0, "-v", count=True),
    yes: bool = typer.Option(False, "--yes/--no"),
) -> None:
    typer.echo(json.dumps([words, eps, count, name, base, often, yes, type(eps).__name__, type(count).__name__]))


@app.command()
def another() -> None:
    typer.echo("nothing")


LINES = [
    *((), ("a", "b", "7"), ("--eps", "1"), ("--eps", "-2.5e-3"), ("--eps", ".5"), ("--eps", "5."), ("--eps", " 1")),
    *(("--count", "9"), ("--count", "0"), ("--count", "10"), ("--count", "+4")),
    *(("--count", "4" * 30), ("--name", ""), ("--name", "é"), ("-vv",), ("--yes",), ("--no", "x"), ("--eps",)),
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_plain_values_are_read_as_typer_reads_them(line, monkeypatch):
    """The same value of the same type, or the same refusal, with and without the short way."""
    quick = CliRunner().invoke(app, ["said", *line])
    monkeypatch.setattr("regard.cli.output.read_plain_values", list)
    slow = CliRunner().invoke(app, ["said", *line])
    assert (quick.exit_code, quick.output) == (slow.exit_code, slow.output)
    assert quick.output


LOOSE = [
    *(
        ("--eps", word)
        for word in ("1_0", "-1_0.5e3", "１", "nan", "inf", "1e400", "0x1", "ab", "", "9007199254740993")
    ),
    *(("--count", word) for word in ("1_0", "_7", "７", "1e0", "2.0", "inf", "")),
]


@pytest.mark.parametrize("line", LOOSE, ids=" ".join)
def test_a_number_that_only_python_would_read_is_refused(line):
    """1_0 is ten to Python, and so are digits of every script; 2^53 + 1 would become 2^53 without a word."""
    said = CliRunner().invoke(app, ["said", f"{line[0]}={line[1]}"])
    assert said.exit_code == 2
    rule = "too large for float64" if "400" in line[1] else "an integer beyond 2^53" if "993" in line[1] else "not a"
    shown = " ".join(said.output.replace("│", "").split())
    assert f"'{line[1]}' is {rule}" in shown
    assert "; write one like" in shown


def test_a_word_may_have_underscores():
    assert CliRunner().invoke(app, ["said", "--name", "1_0"]).exit_code == 0


def test_what_is_not_plain_is_left_to_typer():
    class Odd:
        multiple, nargs = False, 1

        class type_descriptor:  # noqa: N801 - as typer calls it
            annotation = bool

            class parameter_info:  # noqa: N801
                parser = min = max = None

    with pytest.raises(NotPlainError):
        plain_value("yes", Odd)
    Odd.type_descriptor.parameter_info.parser = int
    Odd.type_descriptor.annotation = str
    with pytest.raises(NotPlainError):
        plain_value("yes", Odd)


def test_the_list_of_all_verbs_says_what_each_says_of_itself():
    program = typer.main.get_command(cli.app)
    context = typer.Context(program)
    for name, sentence in (cli.VERBS | cli.BROUGHT).items():
        assert Group.first_sentence(program, context, name) == sentence


def test_a_verb_is_loaded_when_it_is_named_and_no_other():
    others = {f"regard.cli.{name}" for name in cli.VERBS}
    assert not loaded("--help") & others
    assert not loaded("--version") & others
    assert loaded("claims") & others == {"regard.cli.claims"}


def test_a_verb_that_is_not_there_is_suggested():
    said = CliRunner().invoke(cli.app, ["desing", "copy"])
    assert said.exit_code == 2
    assert "No such command 'desing'. Did you mean 'design'?" in said.output
    assert "Did you mean" not in CliRunner().invoke(cli.app, ["xyzzy"]).output


def test_the_quick_list_of_claims_is_the_claims():
    assert contents.format_contents(contents.read_entries()) == str(claims.listing())
    assert "numpy" not in loaded("claims")


def test_a_claim_without_words_in_toml_is_in_the_quick_list_too(tmp_path, monkeypatch):
    import regard.coursework.claims as folder

    (tmp_path / "one_is_odd.py").write_text("class CLAIM:\n    topic, statement = 'rank', '1 is odd.'\n")
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    assert contents.Entry("rank", "one-is-odd", "1 is odd.") in contents.read_entries()
