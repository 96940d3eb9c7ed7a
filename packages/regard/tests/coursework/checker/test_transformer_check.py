"""The student's own file: the template, hints before answers, and one sentence for whatever goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.coursework.catalogue import claims
from regard.coursework.checker import check, recorded_run
from regard.coursework.checker.check import check_transformer
from regard.coursework.checker.template import NAME
from regard.errors import InputError
from regard.tracing.recording import read_recording

FILLED = {
    "# write your layers here": """self.E, self.P = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.Q, self.K, self.V = (nn.Linear(width, heads * head_width) for _ in range(3))
        self.O, self.N1, self.N2 = nn.Linear(heads * head_width, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.W1, self.W2, self.W = nn.Linear(width, inner), nn.Linear(inner, width), nn.Linear(width, target_words)""",
    'raise NotImplementedError("write the embedding")': "return self.E(ids) + self.P(torch.arange(ids.shape[1]))",
    'raise NotImplementedError("write the attention")': """n, t, _ = x.shape
        q, k, v = (m(x).view(n, t, self.heads, self.head_width).transpose(1, 2) for m in (self.Q, self.K, self.V))
        w = torch.softmax(q @ k.transpose(2, 3) / self.head_width**0.5, dim=-1)
        return self.N1(x + self.O((w @ v).transpose(1, 2).flatten(2)))""",
    'raise NotImplementedError("write the feed-forward part")': "return self.N2(y + self.W2(torch.relu(self.W1(y))))",
    'raise NotImplementedError("write the output")': "return self.W(z)",
}


def filled(path: Path, *, parts: int = 5, old: str = "", new: str = "") -> str:
    """The template with its first parts written, and text replaced."""
    claims["translator"].template(path)
    text = path.read_text(encoding="utf-8")
    for before, after in [*list(FILLED.items())[:parts], (old, new)]:
        assert before in text, before
        text = text.replace(before, after) if before else text
    path.write_text(text, encoding="utf-8")
    return f"{path}:{NAME}"


def test_the_template_says_how_to_check_it_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "my.py"
    made = claims["translator"].template(path)
    assert str(made) == (
        f"Wrote {path}: fill in TransformerTranslator(source_words, target_words, ...), then run\n"
        f"  regard claims translator --answer {path}:TransformerTranslator"
    )
    text = path.read_text(encoding="utf-8")
    assert made.check in text
    compile(text, "my.py", "exec")
    with pytest.raises(InputError, match=r"my\.py exists and is not overwritten; name another file"):
        claims["translator"].template(path)


def test_the_claim_says_that_it_asks_for_code() -> None:
    assert "a class TransformerTranslator, by --template and --answer FILE.py:NAME" in str(claims["translator"])


@pytest.mark.slow
def test_an_empty_template_is_told_where_to_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"failed: line \d+: NotImplementedError: write the embedding; fix it first"):
        check_transformer(filled(tmp_path / "my.py", parts=0))


@pytest.mark.slow
def test_a_filled_template_is_right_and_its_mistake_is_told_in_steps(tmp_path: Path) -> None:
    right = check_transformer(filled(tmp_path / "right.py"))
    assert right.answer
    assert "right.py:TransformerTranslator is right." in str(right)
    assert "in all of its 7 parts" in str(right)
    assert "Not observable: which of the two is called queries" in str(right)
    wrong = filled(tmp_path / "wrong.py", old="dim=-1", new="dim=-2")
    what = check_transformer(wrong, hints=2)
    much, where = (replace(what, hints=hints) for hints in range(2))
    assert not much.answer
    assert "6 of 7 parts equal the reference" in str(much)
    assert "softmax" not in str(much)
    assert "attention" not in str(much)
    assert "softmax-over-queries" not in much.to_json()
    assert "attention: mistake" in str(where)
    assert "in attend" in str(where)
    assert "softmax" not in str(where)
    assert "softmax" not in where.to_json()
    line = 1 + (tmp_path / "wrong.py").read_text(encoding="utf-8").splitlines().index(
        "        w = torch.softmax(q @ k.transpose(2, 3) / self.head_width**0.5, dim=-2)"
    )
    assert f"Look at attention: line {line}, in attend." in str(where)
    assert f"1. the softmax over the queries (dim=-2) instead of the keys (line {line}, in attend)" in str(what)
    assert json.loads(what.to_json())["diagnosis"]["mistakes"][0]["name"] == "softmax-over-queries"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "right", "next_one"),
    [(2, 1, "attention"), (3, 4, "feed-forward"), (4, 6, "output")],
)
def test_what_is_written_is_checked_before_the_rest_is(tmp_path: Path, parts: int, right: int, next_one: str) -> None:
    found = check_transformer(filled(tmp_path / "my.py", parts=parts), hints=1)
    assert not found.answer
    assert list(found.diagnosis.parts.values()).count("right") == right
    assert f"{next_one}: not finished" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", r"my\.py cannot be imported: line 1: SyntaxError: .*; fix it first"),
        ("import nothing_of_that_name\n", r"cannot be imported: line 1: ModuleNotFoundError: .*; fix it first"),
        ("class Other:\n    pass\n", r"my\.py has no 'TransformerTranslator'; it has Other"),
        ("x = 1\n", r"has no 'TransformerTranslator'; it has no class and no function"),
        ("import os\nos._exit(3)\n", r"left the process with code 3 in importing it"),
        ("TransformerTranslator = 3\n", r"3 is of type int; name a class, a module or a function"),
        ("REGARD = 3\nclass TransformerTranslator: ...\n", r"REGARD must be a dictionary; it is of type int"),
        (
            "from torch import nn\nclass TransformerTranslator(nn.Module):\n"
            "    def __init__(self, vocab_size): raise KeyError('a')\n",
            r"failed: line 3: KeyError: 'a'; if an argument means",
        ),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "my.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        check_transformer(f"{path}:{NAME}")


def test_a_missing_file_and_a_bad_limit() -> None:
    with pytest.raises(InputError, match="there is no such file"):
        check_transformer("nowhere.py:Model")
    with pytest.raises(InputError, match="limit is 0, but it counts seconds"):
        check_transformer("nowhere.py:Model", limit=0)


@pytest.mark.slow
def test_an_endless_loop_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_run, "RECORDING", 1.0)
    path = tmp_path / "my.py"
    path.write_text("while True: pass\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"was stopped: importing it took more than 1\.5 s"):
        check_transformer(f"{path}:{NAME}", limit=0.5)


def test_a_process_that_lies_about_its_recording_is_refused() -> None:
    with pytest.raises(InputError, match="damaged"):
        read_recording(b"not a recording")


@pytest.mark.slow
def test_prints_are_shown(tmp_path: Path) -> None:
    spec = filled(tmp_path / "my.py", old="import torch\n", new="import torch\nprint('hello')\n")
    assert "Your code printed: hello" in str(check_transformer(spec))


@pytest.mark.slow
def test_padding_can_be_declared(tmp_path: Path) -> None:
    spec = filled(tmp_path / "my.py", old="PAD = 0", new='REGARD = {"padding": "masked"}\nPAD = 0')
    found = check_transformer(spec, hints=2)
    assert "padding is read like words" in str(found)
    assert not found.answer
    assert check_transformer(spec, padding="read").answer
    with pytest.raises(InputError, match="padding is 'eaten'; it must be one of either, masked, read"):
        check_transformer(spec, padding="eaten")


def test_a_file_can_say_that_it_is_meant_to_hide_the_future(tmp_path: Path) -> None:
    softmax, hides = "w = torch.softmax(q", "w = torch.softmax(torch.full((t, t), -1e9).triu(1) + q"
    said = (
        'REGARD = {"future": "hidden", "arguments": {"source_words": "n_src"}}\n'  # a usual name of a size is one, too
    )
    spec = filled(tmp_path / "my.py", old=softmax, new=hides)
    ran = recorded_run.record_in_sandbox(spec, default=NAME, seed=0, limit=60)
    report = check.check_recording(ran, name=spec, seed=0, hints=2)
    assert [one.name for one in report.diagnosis.mistakes] == ["mask-hides-future"]
    assert 'if that is meant, say so in the file: REGARD = {"future": "hidden"}' in " ".join(str(report).split())
    filled(tmp_path / "meant.py", old=softmax, new=hides)
    (tmp_path / "meant.py").write_text((tmp_path / "meant.py").read_text() + said)
    ran = recorded_run.record_in_sandbox(f"{tmp_path / 'meant.py'}:{NAME}", default=NAME, seed=0, limit=60)
    assert check.check_recording(ran, name=spec, seed=0).answer
    assert not check.check_recording(ran, name=spec, seed=0, several_heads=True).answer  # as a class is marked
    unknown = replace(ran, recording=replace(ran.recording, future="unseen"))
    with pytest.raises(InputError, match="REGARD says that the future is 'unseen'; it must be read or hidden"):
        check.check_recording(unknown, name=spec, seed=0)


def test_a_class_of_this_session_is_checked_too() -> None:
    from torch import nn

    class Norm(nn.LayerNorm):
        def __init__(self, d_model):
            super().__init__(d_model)

    found = claims["translator"].check_answer(Norm)
    assert isinstance(found, check.TransformerReport)
    assert found.answer
    assert "it equals the reference exactly" in str(found)


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    spec = filled(tmp_path / "my.py", old=" / self.head_width**0.5", new="")
    words = [sys.executable, "-m", "regard", "claims", "translator", "--answer", spec, "--hint", "--hint"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no division by sqrt(d)" in done.stdout
    assert "in a process of its own" in done.stderr


def test_hints_are_for_models_only() -> None:
    words = [sys.executable, "-m", "regard", "claims", "average-of-two", "--answer", "my.py:query", "--hint"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--hint is for a model of your own (regard claims translator)" in done.stderr
