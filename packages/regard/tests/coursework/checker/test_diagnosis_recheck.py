"""What a recording says of itself is not believed: its inputs are drawn again, its roles must be made of what was."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path

import numpy as np
import pytest

from regard.coursework.checker.part_diagnosis import judge
from regard.coursework.checker.provenance import (
    OTHER_INPUTS,
    drawn_parameters,
    is_made_of,
    restore_inputs,
    uncounted_heads,
)
from regard.coursework.checker.search import TRIES, affordable_tries
from regard.errors import InputError
from regard.tracing import seeded_draws
from regard.tracing.model_recorder import record_model
from regard.tracing.part_recorder import record
from regard.tracing.recording import ForwardPass, Recording, read_recording

STYLES = sorted((Path(__file__).parent / "styles").glob("*.py"))
SEED = 11


def recorded(text: str) -> Recording:
    module = types.ModuleType("student")
    exec(compile(text, "student.py", "exec"), module.__dict__)
    return record_model(module.Translator, declared=getattr(module, "REGARD", None), seed=SEED)


@pytest.fixture(scope="module")
def plain() -> Recording:
    return recorded((Path(__file__).parent / "styles" / "plain.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_honest_models_raise_no_doubt(path: Path) -> None:
    found, doubts = restore_inputs(read_recording(recorded(path.read_text(encoding="utf-8")).to_bytes()), SEED)
    assert doubts == ()
    assert uncounted_heads(found) == ""
    assert judge(found).answer


def test_one_head_is_a_doubt_only_where_nobody_says_that_several_were_asked_for(plain: Recording) -> None:
    assert uncounted_heads(dataclasses.replace(plain, sizes={})) == ""  # two heads that compute as two
    text = (Path(__file__).parent / "styles" / "plain.py").read_text(encoding="utf-8")
    one = recorded(text.replace("        super().__init__()", "        super().__init__()\n        num_heads = 1"))
    assert uncounted_heads(one) == ""  # it says that two were asked for, and the judge calls that a mistake
    assert [found.name for found in judge(one).mistakes] == ["one-wide-head"]
    for said in ({}, {"heads": 1}):
        assert "one head over the whole width" in uncounted_heads(dataclasses.replace(one, sizes=said))


def test_another_seed_gives_other_numbers(plain: Recording) -> None:
    assert len(drawn_parameters(plain, SEED)) == len(plain.parameters)
    assert drawn_parameters(plain, SEED + 1) == {}
    found, doubts = restore_inputs(plain, SEED + 1)
    assert any("not made of the numbers that were put into its parameters" in doubt for doubt in doubts)
    assert not judge(found).answer  # and its outputs belong to other inputs


def test_inputs_of_its_own_are_thrown_away(plain: Recording) -> None:
    def one_word(run: ForwardPass) -> ForwardPass:
        return dataclasses.replace(run, inputs={"ids": np.full_like(run.inputs["ids"], 5)})

    forged = dataclasses.replace(plain, runs=tuple(map(one_word, plain.runs)), fresh=tuple(map(one_word, plain.fresh)))
    found, _ = restore_inputs(forged, SEED)
    for run, true in zip(found.runs, plain.runs, strict=True):
        np.testing.assert_array_equal(run.inputs["ids"], true.inputs["ids"])


def test_inputs_of_another_shape_are_doubted(plain: Recording) -> None:
    small = dataclasses.replace(plain.runs[0], inputs={"ids": plain.runs[0].inputs["ids"][:1]})
    _, doubts = restore_inputs(dataclasses.replace(plain, runs=(small, plain.runs[1])), SEED)
    assert OTHER_INPUTS in doubts


@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_parameters_of_its_own_are_doubted(plain: Recording, factor: float) -> None:
    changed = {name: value * factor for name, value in plain.parameters.items()}
    known = {value.tobytes() for value in plain.parameters.values()} | {
        value.T.copy().tobytes() for value in plain.parameters.values()
    }

    def scaled(run: ForwardPass) -> ForwardPass:
        nodes = (
            dataclasses.replace(node, value=node.value * factor)
            if node.value is not None and node.value.tobytes() in known
            else node
            for node in run.nodes
        )
        return dataclasses.replace(run, nodes=tuple(nodes))

    forged = dataclasses.replace(plain, parameters=changed, runs=tuple(map(scaled, plain.runs)))
    _, doubts = restore_inputs(forged, SEED)
    assert any("not made of the numbers" in doubt for doubt in doubts)


def test_a_matrix_of_one_number_is_not_made_of_what_was_drawn() -> None:
    drawn = np.sort(np.random.default_rng(0).standard_normal(50))
    assert is_made_of(drawn[:12].reshape(3, 4), drawn)
    assert not is_made_of(np.full((3, 4), drawn[3]), drawn)
    assert not is_made_of(np.zeros((3, 4)), drawn)
    assert is_made_of(np.zeros(4), drawn)  # no bias
    assert is_made_of(np.tile(drawn[:4], (2, 1)), drawn, times=2)  # one head, used twice


@pytest.mark.slow
def test_parts_are_judged_on_what_was_drawn_too() -> None:
    import torch

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1) @ v

    found, doubts = restore_inputs(read_recording(record(attention, seed=SEED).to_bytes()), SEED)
    assert doubts == ()
    assert judge(found).answer
    other, _ = restore_inputs(record(attention, seed=SEED + 1), SEED)
    assert not judge(other).answer


def test_work_is_bounded_whatever_is_sent(plain: Recording) -> None:
    assert affordable_tries(plain) == TRIES
    run = plain.runs[0]
    huge = dataclasses.replace(run.nodes[0], value=np.zeros((3000, 7000)), shape=(3000, 7000))
    assert 50 <= affordable_tries(dataclasses.replace(plain, runs=(dataclasses.replace(run, nodes=(huge,)),))) < TRIES


def changed_text(data: bytes, old: str, new: str) -> bytes:
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].decode()
    assert old in text, old
    made = text.replace(old, new, 1).encode()
    return len(made).to_bytes(8, "little") + made + data[8 + length :]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["inputs", [', '["inputs", [9999999, '),
        ('["kind", "translator"]', '["kind", "whatever"]'),
        ('["pad", 0]', '["pad", 1e99]'),
        ('["unsteady", false]', '["unsteady", {"array": 0, "x": [1]}], ["more", {"array": 99999}]'),
        ('["live", true]', '["live", {"entries": 3}]'),
        ('["op", "', '["op", 7], ["x", "'),
        ('{"array": 0}', '{"array": -1}'),
        ('"arrays": [["', '"arrays": [["|O8", [1]], ["'),
        ('"arrays": [["', '"arrays": [["<f8", [1000000000000]], ["'),
        ('"arrays": [["', '"arrays": [["<f8", [0, 9000000, 9000000]], ["'),
    ],
)
def test_every_field_has_its_form(plain: Recording, old: str, new: str) -> None:
    with pytest.raises(InputError, match=r"The recording of the model is damaged \(\w+\); run the check again"):
        read_recording(changed_text(plain.to_bytes(), old, new))


def test_words_are_fit_for_a_terminal(plain: Recording) -> None:
    named = dataclasses.replace(plain, name="a\x1b[31mb\n\u202ec" + "d" * 10_000)
    assert read_recording(named.to_bytes()).name.startswith("a[31mbcddd")
    assert len(read_recording(named.to_bytes()).name) <= 300
    assert json.dumps(read_recording(named.to_bytes()).sizes) == json.dumps(plain.sizes)


def test_draws_hang_on_the_seed_and_on_nothing_else() -> None:
    first = seeded_draws.parameter(3, "a.weight", (4, 5), ones=False, table=False)
    np.testing.assert_array_equal(first, seeded_draws.parameter(3, "a.weight", (4, 5), ones=False, table=False))
    assert not np.array_equal(first, seeded_draws.parameter(4, "a.weight", (4, 5), ones=False, table=False))
    assert not np.array_equal(first, seeded_draws.parameter(3, "b.weight", (4, 5), ones=False, table=False))
    assert not np.array_equal(seeded_draws.sentences((3, 7), 0, 1), seeded_draws.sentences((3, 7), 0, 2))
