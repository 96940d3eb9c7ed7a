"""Tests of other people's tests: small projects in NumPy whose tests are strong, weak, broken, slow or untidy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from regard.errors import CouldNotFindOut, InputError
from regard.mistakes.catalogue import catalogue
from regard.mistakes.suite_check import _mutants, _probes, _result, _run_code, _suggest, check_suite
from regard.mistakes.suite_runner import right_code

ATTENTION = """
import numpy as np

def attend(q, k, v, hidden_mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if hidden_mask is not None:
        scores = np.where(hidden_mask, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v

def other(x):
    return x
"""
BEGIN = """
import numpy as np
from attention import attend
q, k, v = np.random.default_rng(0).normal(size=(3, 2, 5, 7))
"""
WEAK = BEGIN + "assert attend(q, k, v).shape == v.shape\nassert np.isfinite(attend(q, k, v)).all()\n"
STRONG = (
    BEGIN
    + """
scores = np.exp(q @ k.swapaxes(1, 2) / 7**0.5)
assert np.allclose(attend(q, k, v), scores / scores.sum(2, keepdims=True) @ v)
hidden = np.zeros((5, 5), bool)
hidden[:, 3:] = True
assert np.allclose(attend(q, k, v, hidden), attend(q, k[:, :3], v[:, :3]))
q, k, v = np.random.default_rng(0).normal(size=(3, 2, 3, 5, 7))
assert np.allclose(attend(q, k, v)[:, 1], attend(q[:, 1], k[:, 1], v[:, 1]))
"""
)
COMMAND = f"{sys.executable} check.py"
FORM = {"kind": "function", "library": "numpy", "causal": False, "mask": {"boolean": True}, "grouped": False,
        "pair": False, "weights": "", "mask_name": "mask", "layout": [], "states": 1, "linear": ["a"] * 4}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attention.py").write_text(ATTENTION)

    def tests(text: str) -> Path:
        (tmp_path / "check.py").write_text(text)
        return tmp_path

    return tests


def test_weak_tests_are_told_and_each_assertion_holds_for_the_persons_own_function(project):
    project(WEAK)
    names = ["scale-missing", "mask-fill-near-0", "input-returned", "softmax-log"]
    found = check_suite(COMMAND, "attention:attend", only=names)
    assert found.answer is False
    assert found.form == "attention of (q, k, v), with a mask (True is hidden)"
    assert [one.name for one in found.survivors] == names
    assert "The tests never pass a hidden_mask." in found.notes
    assert found.survivors[0].differs_on.startswith("normal numbers")
    assert sorted(name for one in found.suggestions for name in one.catches) == sorted(names)
    space: dict[str, object] = {}
    exec(ATTENTION, space)
    for one in found.suggestions:
        exec(one.code, {**space, "np": np})  # passes on what is right
    assert found.to_dict()["let_through"] == names


@pytest.mark.slow
@pytest.mark.table
def test_strong_tests_catch_every_mistake(project):
    project(STRONG)
    found = check_suite(COMMAND, "attention:attend")
    assert found.answer, found
    assert len(found.trials) > 30
    assert str(found).endswith(f"The tests catch all {len(found.trials)} mistakes.")


@pytest.mark.slow
def test_a_hang_is_stopped_and_a_changed_file_stays_in_the_copy(project):
    hang = "import time\nif abs(attend(q, k, v)).max() > 5: time.sleep(600)\n"
    folder = project(BEGIN + hang + "open('results.txt', 'w').write('x')\nopen('attention.py', 'a').write('#')\n")
    found = check_suite(COMMAND, "attention:attend", only=["softmax-not-divided", "scale-missing"])
    assert {one.name: one.how for one in found.trials} == {"softmax-not-divided": "hung", "scale-missing": ""}
    assert found.notes[0].startswith("The tests change files, each time in a copy of the folder: attention.py, results")
    assert "With 1 of the mistakes the tests hung; they were stopped after " in str(found)
    assert not (folder / "results.txt").exists()
    assert (folder / "attention.py").read_text() == ATTENTION


@pytest.mark.parametrize(
    ("tests", "function", "error", "said"),
    [
        (WEAK + "assert False, 'mine'\n", "attention:attend", InputError, "do not pass as they are"),
        ("import attention\n", "attention:attend", InputError, "never call"),
        ("x = 1\n", "attention:attend", InputError, "never import attention"),
        (WEAK, "attention:atend", InputError, "no such name; it has attend, other"),
        (WEAK, "attention:other", InputError, "--adapter"),
        (WEAK + "assert attend.__name__ == 'attend' and attend.__module__ == 'attention'\n", "attention:attend",
         CouldNotFindOut, "with our right attention"),
        (WEAK, "attention.py:attend", InputError, "as in mypkg.attention:attend"),
    ],
)  # fmt: skip
@pytest.mark.slow
@pytest.mark.table
def test_what_cannot_be_tried_is_said(project, tests, function, error, said):
    project(tests)
    with pytest.raises(error, match=said):
        check_suite(COMMAND, function)


def test_a_program_that_is_not_there_and_a_missing_adapter(project):
    project(WEAK)
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        check_suite("no-such-program x", "attention:attend")
    with pytest.raises(InputError, match=r"no file 'a.py'; it needs five lines"):
        check_suite(COMMAND, "attention:attend", adapter="a.py:adapt")


@pytest.mark.slow
@pytest.mark.table
def test_an_adapter_reaches_another_kind_of_function(project):
    folder = project("import attention\nassert attention.other([[1.0, 0.0]]).shape == (1, 2)\n")
    (folder / "attention.py").write_text(
        ATTENTION + "\ndef other(x):\n    x = np.asarray(x)\n    return attend(x, x, x)\n"
    )
    (folder / "adapter.py").write_text(
        "import numpy as np\ndef adapt(attend, original):\n"
        "    return lambda x: attend(np.asarray(x), np.asarray(x), np.asarray(x))\n"
    )
    found = check_suite(COMMAND, "attention:other", adapter="adapter.py:adapt", only=["scale-missing"])
    assert [one.name for one in found.survivors] == ["scale-missing"]


@pytest.mark.parametrize(
    "change",
    [{}, {"mask": {}}, {"causal": True, "mask": {}}, {"grouped": True}, {"mask": {"added": True}},
     {"kind": "module"}, {"kind": "module", "grouped": True, "causal": True, "mask": {"boolean": False}}],
    ids=str,
)  # fmt: skip
def test_no_mutant_is_equivalent_and_each_has_an_assertion(change):
    form = {**FORM, **change}
    mutants = list(_mutants(form, list(catalogue().values())))
    probes = dict(_probes(form))
    right = _run_code(right_code(form["causal"], "numpy"))
    for mistake, code, where, gap in mutants:
        wrong = _result(_run_code(code), form, probes[where])
        expected = _result(right, form, probes[where])
        equal = wrong is not None and wrong.shape == expected.shape and np.allclose(wrong, expected, atol=1e-7)
        assert not equal, mistake.name
        assert gap
    names = [mistake.name for mistake, *_ in mutants]
    assert len(names) == len(set(names)) > 20
    assert ("causal-missing" in names) == form["causal"]
    assert ("groups-in-turns" in names) == form["grouped"]
    assert sorted(name for one in _suggest(form, names, "attend") for name in one.catches) == sorted(names)


GQA = """
import torch
from torch import nn

class Grouped(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.kv = nn.Linear(width, width), None
        self.k, self.v = (nn.Linear(width, groups * self.size) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        q, k, v = (f(x).view(*x.shape[:2], -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))
"""


@pytest.mark.slow
@pytest.mark.table
def test_a_torch_module_is_recognised_by_what_it_computes(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.py").write_text(GQA)
    (tmp_path / "check.py").write_text(
        "import torch\nfrom layers import Grouped\nx = torch.randn(2, 6, 32, requires_grad=True)\n"
        "layer = Grouped(32, 8, 2)\nlayer(x).sum().backward()\nassert layer(x).shape == x.shape\n"
        "assert layer.q.weight.grad is not None\n"
    )
    names = ["input-returned", "groups-in-turns", "mask-inverted"]
    found = check_suite(COMMAND, "layers:Grouped", only=names)
    assert found.form == (
        "a module with attention between its own linear maps, with fewer heads of keys than of queries, with a mask "
        "(True may be read)"
    )
    assert [one.name for one in found.survivors] == names
    space: dict[str, object] = {}
    exec(GQA, space)
    for one in found.suggestions:
        exec(one.code.replace("Grouped(...)", "Grouped(12, 4, 2)"), space)


def test_results_are_of_the_function_that_was_put_in():
    put = SimpleNamespace(attend=lambda q, k, v, allowed: 0 * q)
    assert _result(put, FORM, _probes(FORM)[0][1]).max() == 0
