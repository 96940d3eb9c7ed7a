"""What an audit says and writes: words, JSON, JUnit, SARIF, a baseline, a page; and what it refuses."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from healthy import tiny  # noqa: E402
from mutants import table  # noqa: E402
from mutants import tiny as bugs  # noqa: E402
from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import assert_healthy, audit  # noqa: E402
from regard_models.auditing.reports import (  # noqa: E402
    audit_page,
    junit,
    read_baseline,
    sarif,
)

FILE = """
import torch
from torch import nn

class Leaking(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(23, 12), nn.Linear(12, 5)
    def forward(self, ids):
        x = self.table(ids)
        return self.out(x + x.mean(1, keepdim=True))

def build():
    return Leaking(), torch.zeros(3, 9, dtype=torch.long)
"""


@pytest.fixture(scope="module")
def leaking():
    return audit(bugs_second(), (tiny.ids(),), causal=True, properties=["causality", "padding", "order"])


def bugs_second():
    return table._second("feed_forward", bugs.LeaksTheSentence)()


def test_the_words(leaking) -> None:
    said = f"{leaking}\n{leaking.details()}"
    assert not leaking.answer
    assert "Tested in a float64 copy of the float32 model, 3 examples of 13 tokens" in said
    assert "causality, intervention: FAIL. Tokens before a change get something else: output[0] moved by" in said
    assert "Where: blocks.1.feed_forward, a LeaksTheSentence (" in said
    assert "mutants/tiny.py:" in said
    assert "Not applicable: padding, mask. No input is known to be a mask" in said
    assert "Usual cause: a causal mask that is missing" in said


def test_the_witness_is_rechecked_by_other_code(leaking) -> None:
    """The smallest example, run in float64 without the audit, moves by what the audit says."""
    example = next(f for f in leaking.failures if f.check == "intervention").example
    model = bugs_second().double()
    with torch.no_grad():
        before, after = (model(torch.tensor([row]))[0] for row in example["tokens"])
    place = example["moved"]
    assert place < example["changed"]
    moved = float((before - after)[0, place].abs().max())
    assert moved == pytest.approx(example["size"], rel=1e-3)
    assert moved > 1e-12
    assert [a == b for a, b in zip(*example["tokens"], strict=True)].count(False) == 1


def test_json(leaking) -> None:
    data = json.loads(leaking.to_json())
    first = next(f for f in data["findings"] if f["status"] == "fail")
    assert first["culprit"]["module"] == "blocks.1.feed_forward"
    assert first["culprit"]["line"] > 0
    assert {f["property"] for f in data["findings"]} == {"causality", "padding", "order"}


def test_junit(leaking) -> None:
    suite = ElementTree.fromstring(junit(leaking).partition("\n")[2])
    assert int(suite.get("tests")) == len(leaking.findings)
    assert int(suite.get("failures")) == len(leaking.failures) == len(suite.findall("testcase/failure"))
    assert suite.find("testcase/skipped") is not None


def test_sarif(leaking) -> None:
    data = json.loads(sarif(leaking))
    run = data["runs"][0]
    assert data["version"] == "2.1.0"
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in run["results"]} <= rules
    result = next(r for r in run["results"] if r["ruleId"] == "causality/intervention")
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"].endswith("mutants/tiny.py")
    assert (result["level"], result["baselineState"]) == ("error", "new")


def test_the_page_is_one_file(leaking) -> None:
    text = audit_page(leaking)
    assert "<script" not in text
    assert "http" not in text.replace("https://www.w3.org", "")
    assert "blocks.1.feed_forward" in text
    assert text.count('<section class="card') == len(leaking.failures)
    hostile = audit_page(copy.copy(leaking).__class__(**{**vars(leaking), "name": "<script>alert(1)</script>"}))
    assert "<script" not in hostile


def test_the_model_is_left_as_it_was() -> None:
    model = tiny.Gpt().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random, default = torch.get_rng_state(), torch.get_default_dtype()
    found = audit(model, (tiny.ids(),), causal=True)
    assert found.answer
    assert model.training
    assert any("train() mode" in words for words in found.assumed)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(random, torch.get_rng_state())
    assert torch.get_default_dtype() is default


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    runs = [audit(bugs_second(), (tiny.ids(),), causal=True, properties=["causality"], seed=3) for _ in range(2)]
    assert [f.size for f in runs[0].findings] == [f.size for f in runs[1].findings]


@pytest.mark.slow
def test_in_a_test_of_ones_own() -> None:
    assert assert_healthy(tiny.Gpt(), (tiny.ids(),), causal=True, properties=["causality"]).answer
    said = r"is not healthy:\nOne module, blocks\.1.*, explains 2 of 3 failures(.|\n)*FAIL(.|\n)*Where: blocks\.1"
    with pytest.raises(AssertionError, match=said):
        assert_healthy(bugs_second(), (tiny.ids(),), causal=True, properties=["causality"])


@pytest.mark.slow
def test_causality_is_not_demanded_of_those_who_do_not_claim_it() -> None:
    class Unclaimed(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = tiny.Encoder()

        def forward(self, ids):
            return self.model(ids)

    found = audit(Unclaimed(), (tiny.ids(),), properties=["causality"])
    assert found.answer
    assert "it is not declared causal" in found.findings[0].sentence
    assert not audit(Unclaimed(), (tiny.ids(),), properties=["causality"], causal=True).answer


def test_a_model_that_is_not_steady_is_judged_for_that_only() -> None:
    mutant = next(m for m in table.OBSERVABLE if m.name == "dropout in eval()")
    found = audit(mutant.build(), mutant.inputs, causal=True)
    assert {f.property for f in found.failures} == {"determinism"}
    assert "mend that first" in found.of("batch")[0].sentence


def test_a_float64_copy_that_does_not_run_is_said() -> None:
    class Picky(nn.Linear):
        def forward(self, x):
            if x.dtype is not torch.float32:
                raise TypeError("float32 only")
            return super().forward(x)

    found = audit(Picky(12, 12), (torch.randn(3, 9, 12),), properties=["batch", "precision"])
    assert found.answer
    assert found.arithmetic == "float32 (a float64 copy does not run: TypeError: float32 only)"
    assert "nothing to compare with" in found.of("precision")[0].sentence


def test_refusals() -> None:
    with pytest.raises(InputError, match="There is no property 'speed'; choose from input, batch, padding"):
        audit(tiny.Gpt(), (tiny.ids(),), properties=["speed"])
    with pytest.raises(InputError, match="the example has 3 tokens in ids; an audit needs 5 or more"):
        audit(tiny.Gpt(), (tiny.ids()[:, :3],))
    with pytest.raises(InputError, match="Gpt runs on its example and not on 99 tokens"):
        audit(tiny.Gpt(), (tiny.ids(),), length=99)

    class Words(nn.Linear):
        def forward(self, x):
            return "words"

    with pytest.raises(InputError, match="returned no tensor of numbers whose first axis is the batch"):
        audit(Words(3, 3), (torch.zeros(3, 9, 3),))

    class Locked(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    with pytest.raises(InputError, match=r"cannot be copied .RuntimeError: no copies., and an audit works on a copy"):
        audit(Locked(3, 3), (torch.zeros(3, 9, 3),))


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(8, 8)

    def forward(self, x):
        return self.map(x)


X = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0))


def test_nan_is_said_and_nothing_else_is_judged() -> None:
    broken = Affine()
    broken.map.weight.data[2, 3] = torch.nan
    with pytest.raises(
        InputError, match=r"Affine: the weight map\.weight holds NaN or infinity; load or train it anew"
    ):
        audit(broken, X)

    class Nan(Affine):
        def forward(self, x):
            return super().forward(x) * torch.nan

    found = audit(Nan(), X)
    assert {f.property for f in found.failures} == {"precision"}
    assert "see precision" in found.of("batch")[0].sentence


def test_a_model_that_runs_at_one_length_only() -> None:
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(9, 9)

        def forward(self, x):
            return self.mix(x.transpose(1, 2)).transpose(1, 2)

    found = audit(Fixed(), X)
    assert found.answer
    assert found.lengths == (9,)
    assert "Order matters" in found.of("order")[0].sentence


def test_statistics_of_a_model_in_training_stay() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(9)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    audit(model, X)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_writes_into_its_input() -> None:
    class Writes(Affine):
        def forward(self, x):
            x += 1
            return super().forward(x)

    given = X.clone()
    found = audit(Writes(), given, properties=["batch", "determinism"])
    assert [f.key() for f in found.failures] == ["determinism/inputs@"]
    assert found.failures[0].sentence == "It writes into its input x: the caller's tensor is changed."
    assert torch.equal(given, X)


class Interrupted(Affine):
    """Ctrl-C at a call; a bias and a gain, and a weight that is all 0, as a fresh one is."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.norm, self.fresh, self.calls, self.at = nn.LayerNorm(8), nn.Parameter(torch.zeros(8)), 0, at

    def forward(self, x):
        Interrupted.counted += 1
        if Interrupted.counted == self.at:
            raise KeyboardInterrupt
        return super().forward(self.norm(x)) * self.fresh


def test_a_large_model_in_float64_is_what_it_was_also_after_an_interruption(monkeypatch) -> None:
    for module in ("inputs.copies", "auditing.subject"):
        monkeypatch.setattr(f"regard_models.{module}.LARGE", 0)
    for name in ("input", "gradients"):
        at, whole = 0, False
        while not whole:
            at += 1
            model, Interrupted.counted = Interrupted(at).double(), 0
            before = {key: value.clone() for key, value in model.state_dict().items()}
            with contextlib.suppress(KeyboardInterrupt):
                audit(model, X.double(), properties=[name])
                whole = True
            assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items()), (name, at)
        assert at > 5


@pytest.mark.parametrize("wrap", ["trace", "script", "compile"])
@pytest.mark.filterwarnings("ignore")
def test_wrapped_models(wrap: str) -> None:
    made = {
        "trace": lambda m: torch.jit.trace(m, X),
        "script": torch.jit.script,
        "compile": lambda m: torch.compile(m, backend="eager"),
    }[wrap](Affine())
    found = audit(made, X)
    assert found.answer, str(found)
    assert any(f.status == "pass" for f in found.of("batch"))


def test_the_text_is_the_first_example() -> None:
    from dataclasses import replace

    from regard_models.auditing.subject import Subject
    from regard_models.inputs.model_input import model_input

    given = replace(model_input(tiny.Encoder(), (tiny.ids(1, 7),)), tokens=[["a", "b", "c", "d", "e", "f", "g"]])
    own = given.inputs["ids"][0].tolist()
    assert Subject(given, length=5).make().rows[0].values[0].tolist() == own[:5]
    assert Subject(given).make(lengths=(11,)).rows[0].values[0].tolist() == (own * 2)[:11]


def test_the_giver_of_a_mask_is_named_as_a_possibility() -> None:
    mutant = next(m for m in table.OBSERVABLE if m.name == "mask lost in the second block")
    found = audit(mutant.build(), mutant.inputs, properties=["padding"], causal=False)
    assert "blocks.1.attention, a Attention" in str(found)
    assert ", or the mask that it is given." in str(found)


def test_without_a_batch_nothing_is_said_of_it() -> None:
    found = audit(nn.MultiheadAttention(8, 2), (X[0], X[0], X[0]), properties=["batch", "determinism"])
    assert found.answer
    assert "No axis of its inputs is known to be the batch" in found.of("batch")[0].sentence


# the command line


def test_the_command_line_and_a_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("leaking.py").write_text(FILE)
    words = ["model", "audit", "leaking.py:build", "--causal", "--property", "causality"]
    files = ["--junit", "a.xml", "--sarif", "a.sarif", "--page", "a.html", "--write-baseline", "known.json"]
    run = CliRunner().invoke(app, [*words, *files])
    assert run.exit_code == 1
    assert "Where: the model itself, a Leaking (leaking.py:10)" in run.stdout
    assert all(Path(name).stat().st_size > 100 for name in ("a.xml", "a.sarif", "a.html"))
    assert read_baseline("known.json") == ("causality/gradient", "causality/intervention@")
    again = CliRunner().invoke(app, [*words, "--baseline", "known.json", "--json"])
    assert again.exit_code == 0
    assert json.loads(again.stdout)["known"] == list(read_baseline("known.json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "none.json"], "There is no baseline none.json; write one with --write-baseline"),
        (["--baseline", "leaking.py"], "leaking.py is no baseline"),
        (["--baseline", "odd.json"], 'odd.json is no baseline: it needs {"known": \\[...\\]}'),
        (["--junit", "a.txt"], "a.txt must end in .xml"),
        (["--page", "no/where.html"], "no/where.html cannot be written: give a file in a folder that exists"),
    ],
)
def test_files_are_refused_before_the_work(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("leaking.py").write_text("raise RuntimeError('this must not be run')")
    Path("odd.json").write_text('{"known": 5}')
    run = CliRunner().invoke(app, ["model", "audit", "leaking.py:build", *words])
    with pytest.raises(InputError, match=message):
        raise run.exception
    assert sorted(p.name for p in tmp_path.iterdir()) == ["leaking.py", "odd.json"]


def test_an_audit_leaves_no_hook_behind() -> None:
    audit(nn.TransformerEncoderLayer(12, 3, 17, batch_first=True), properties=["order"])
    assert not torch.nn.modules.module._has_any_global_hook()


def test_large_answers_are_asked_for_a_few_at_a_time(monkeypatch) -> None:
    """The same is found; no call but the crowd of determinism's holds more than three examples and the one beside."""

    def look() -> tuple[list[str], set[int]]:
        model, sizes = tiny.Gpt(), set()
        given = lambda _, args, named: sizes.add(len([*args, *named.values()][0]))  # noqa: E731
        model.register_forward_pre_hook(given, with_kwargs=True)
        found = audit(model.eval(), (tiny.ids(),), causal=True, properties=["input", "order"])
        return [f"{f.check} {f.status} {f.sentence}" for f in found.findings], sizes

    said, sizes = look()
    monkeypatch.setattr("regard_models.auditing.subject._REMEMBERED", 1)
    said_in_parts, sizes_of_parts = look()
    assert said_in_parts == said
    assert max(sizes - {15}) > 4 >= max(sizes_of_parts - {15})
