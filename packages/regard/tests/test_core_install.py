"""Regard with its core dependencies alone: every command answers or says which extra it needs, never a traceback.

The environment is built once, from the package as it stands; that needs a package index, and some minutes where
packages must be fetched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from places import ROOT
from regard.cli import app
from regard.extras import EXTRAS

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

# One way, or several, to call each command; with extras' features among them.
EXAMPLES = {
    "assignment cells": ["hw.toml"],
    "assignment check": ["hw.toml"],
    "assignment example": ["week"],
    "assignment hand-in": ["hw.toml"],
    "assignment new": ["cse151b-hw4"],
    "assignment overrule": ["week/grades ben 1 --points 2 --reason fair"],
    "assignment pack": ["hw.toml --gradescope"],
    "assignment secret": ["secret.txt"],
    "assignment template": ["hw.toml"],
    "claims": ["", "average-of-two", "--check translator", "average-of-two --plot a.svg"],
    "demo": ["--out tour"],
    "design ceiling": ["example:square 0", "example:square --all"],
    "design copy": ["example:square 0 --eps 0.1", "example:square 0 --plot a.svg"],
    "design match": ['example:square "0.4,0.3,0.2,0.1" --kl 0.1'],
    "design share": ["example:square 0 1 --eps 0.1"],
    "design verify": ["nothing.json --keys example:square"],
    "design winnable": ["example:square"],
    "example": ["keys", "model", "noise my.toml"],
    "grade": ["week --assignment hw.toml --secret secret.txt"],
    "lab": ["", "--runs ."],
    "lab export": ["files"],
    "lowrank": ["example:gaussian --rank 2", "example:gaussian --rank 2 --plot a.svg"],
    "mistakes": [""],
    "mistakes show": ["positions-missing --numpy", "positions-missing"],
    "mistakes test": ['"pytest test_layer.py" --function layer:layer'],
    "model audit": ["with_torch.py:layer", "run"],
    "model capture": ["with_torch.py:layer", "with_torch.py:layer --out a.safetensors"],
    "model compare": ["with_torch.py:layer with_torch.py:layer"],
    "model heads": ["with_torch.py:layer", "weights.npy"],
    "model look": ["with_torch.py:layer", "example:textbook --out look.html"],
    "model patch": ["with_torch.py:layer --ablate zero", "with_torch.py:layer --ablate zero --plot a.svg"],
    "noise compare": ["--keys 10 --spread 0.5 --iso 0.01 --scale 20 --plot a.svg"],
    "noise example": [""],
    "noise optimise": ["model.toml"],
    "noise study": ["model.toml --queries 1,0"],
    "positions": ["--dim 8 --length 9", "--dim 8 --length 9 --plot a.svg", "--dim 8 --length 9 --library torch"],
    "subspace extract": ['"1,0" "0,1"', '"1,0,0" "0,1,0" --plot a.svg'],
    "symmetry": ["layer.py:layer --length 5", "with_torch.py:layer --length 5"],
    "translator compare": ["builtin --with learned,word2vec:train", "run run"],
    "translator export": ["run"],
    "translator report": ["run"],
    "translator score": ["run", "run --engine ctranslate2"],
    "translator train": ["", "good", "--data hf:some/thing", "--set embedding.target=glove:vectors.txt"],
    "translator translate": ['run "ein hund"'],
    "translator tune": ["builtin --trials 1", "builtin --storage postgresql://ann@localhost/base"],
}
# Runs every command of the list in one process, as `regard` would, and says how each ended.
WALK = """
import contextlib, io, json, shlex, sys, traceback
from regard.cli import main
ended = []
for line in json.loads(sys.stdin.read()):
    sys.argv, said, code = ["regard", *shlex.split(line)], io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        except BaseException:
            traceback.print_exc(file=said)
    ended.append([line, code, said.getvalue()])
print(json.dumps(ended))
"""


def subcommands(command):
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def leaves(command, path=()):
    """The words of every command."""
    if isinstance(command, typer.core.TyperGroup):
        own = [" ".join(path)] if path and command.invoke_without_command else []
        return own + [leaf for name, below in subcommands(command).items() for leaf in leaves(below, (*path, name))]
    return [" ".join(path)]


@pytest.fixture(scope="session")
def core(tmp_path_factory):
    """The interpreter of an environment that has `pip install .` and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "-q", str(ROOT / "packages" / "regard")]
    for words in ([sys.executable, "-m", "venv", str(folder)], install):
        done = subprocess.run(words, capture_output=True, text=True, env=outside, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    return python


def run(core, folder, *words, given=""):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(core), *words], cwd=folder, input=given, capture_output=True, text=True, env=clean, check=False
    )


def test_every_command_has_an_example():
    assert set(leaves(typer.main.get_command(app))) == set(EXAMPLES)


def test_the_environment_has_the_core_only(core, tmp_path):
    program = (
        "import importlib.util as u, regard, sys; print(regard.__file__, *[n for n in sys.argv[1:] if u.find_spec(n)])"
    )
    done = run(core, tmp_path, "-c", program, *EXTRAS)
    where, *extras = done.stdout.split()
    assert Path(where).is_relative_to(core.parent.parent)
    assert extras == []


def test_no_command_ends_in_a_traceback(core, tmp_path):
    (tmp_path / "layer.py").write_text("def layer(x):\n    return x\n", encoding="utf-8")
    (tmp_path / "with_torch.py").write_text("import torch\n\n\ndef layer(x):\n    return x\n", encoding="utf-8")
    (tmp_path / "run").mkdir()
    lines = [f"{name} {words}".strip() for name, examples in EXAMPLES.items() for words in ["", "--help", *examples]]
    done = run(core, tmp_path, "-c", WALK, given=json.dumps(lines))
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert len(ended) == len(lines)
    for line, code, said in ended:
        assert "Traceback" not in said, f"regard {line}\n{said}"
        assert code in (0, 1, 2, 3), f"regard {line}: {code}\n{said}"
        another = line.startswith("model ") and "needs regard-models, which is not installed" in said
        assert code == 0 or not line.endswith("--help") or another, said
    for line, _, said in ended:
        if line.startswith(("translator", "lab")) and line.split() != line.split()[:2]:
            assert "--help" in line or "pip install 'regard[" in said, f"regard {line}\n{said}"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            ["translator", "train"],
            "This command needs torch, which is not installed: pip install 'regard[translator]'.",
        ),
        (["model", "audit"], "regard model needs regard-models, which is not installed: pip install regard-models."),
        (["lab"], "The lab needs uplot and latex2mathml, which are not installed: pip install 'regard[lab]'."),
        (["demo"], "The tour needs matplotlib, which is not installed: pip install 'regard[plots]'."),
    ],
)
def test_a_command_that_needs_more_says_what(core, tmp_path, line, sentence):
    done = run(core, tmp_path, "-m", "regard", *line)
    assert (done.returncode, done.stderr) == (2, f"regard: {sentence}\n")
    assert list(tmp_path.iterdir()) == []
