"""Captures on disk, and weights from elsewhere: what is written is read, and whatever is damaged is refused."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from regard import files
from regard.errors import InputError
from regard_models.capturing.capture_file import CaptureFile
from regard_models.capturing.records import AttentionRecord, Capture, UnseenModule, format_ranges


def raises(message):
    return pytest.raises(InputError, match=re.escape(message))


@pytest.fixture
def weights():
    drawn = np.random.default_rng(3).random((3, 2, 5, 7)).astype(np.float32)
    return drawn / drawn.sum(-1, keepdims=True)


@pytest.fixture
def captured(weights):
    """Two records with everything in them that a record can have."""
    first = AttentionRecord(
        index=0, module="layers.0.attn", kernel="sdpa", weights=weights, heads=(4, 1), allowed=weights[:, :1] > 0.1,
        residual=2e-7, tolerance=1e-5, verified=True, notes=("a note, with \u00fc",), scale=0.25,
        q=weights[..., :3], k=weights[..., 1:4], v=weights[..., 2:5], used=weights * 2,
    )  # fmt: skip
    second = AttentionRecord(
        index=3, step=2, call=5, module="", kernel="flex", weights=weights[:1], heads=(0, 1), residual=float("nan"),
        tolerance=1e-5,
    )  # fmt: skip
    return Capture(
        records=(first, second), tokens=[["a", "b"]], target_tokens=[["\u4e2d"]], notes=("n",), name="toy",
        missed=(UnseenModule(module="attn", why="linear"),),
    )  # fmt: skip


def test_written_and_read(captured, tmp_path):
    file = tmp_path / "c.safetensors"
    captured.to_safetensors(file)
    back = Capture.read(file)
    for one, other in zip(captured.records, back.records, strict=True):
        for array in ("weights", "used", "allowed", "q", "k", "v"):
            before, after = getattr(one, array), getattr(other, array)
            assert (before is None) == (after is None)
            assert before is None or (before.dtype == after.dtype and np.array_equal(before, after))
        assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    assert (back.tokens, back.target_tokens, back.name) == (captured.tokens, captured.target_tokens, "toy")
    assert (back.missed, back.notes, back.file) == (captured.missed, captured.notes, str(file))
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors"]


def test_other_readers_can_open_it(captured, tmp_path):
    from safetensors import safe_open

    captured.to_safetensors(tmp_path / "c.safetensors")
    with safe_open(tmp_path / "c.safetensors", framework="numpy") as file:
        assert np.array_equal(file.get_tensor("0.weights"), captured.records[0].weights)
        assert file.get_tensor("0.allowed").dtype == bool


def test_reading_leaves_the_numbers_on_the_disk(captured, tmp_path):
    captured.to_safetensors(tmp_path / "c.safetensors")
    array = Capture.read(tmp_path / "c.safetensors").records[0].weights
    while array.base is not None and not isinstance(array, np.memmap):
        array = array.base
    assert isinstance(array, np.memmap)


def test_a_header_that_outgrows_its_room_moves_the_data(weights, tmp_path):
    with CaptureFile(tmp_path / "c.safetensors", room=64) as file:
        file.begin("0.weights", weights.shape)
        for block in weights:
            file.append(block)
        record = AttentionRecord(index=0, module="m", kernel="sdpa", weights=weights, heads=(0, 1))
        facts = Capture(records=(record,), notes=("long " * 5000,)).to_dict()
        facts["records"] = [{k: v for k, v in facts["records"][0].items() if k not in ("shape", "sound")}]
        file.finish(facts)
    assert np.array_equal(Capture.read(tmp_path / "c.safetensors").records[0].weights, weights)


def test_a_writer_that_stops_leaves_nothing(weights, tmp_path):
    with contextlib.suppress(KeyboardInterrupt), CaptureFile(tmp_path / "c.safetensors") as file:
        file.begin("0.weights", weights.shape)
        file.append(weights[0])
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with raises("a tensor was cut short"), CaptureFile(tmp_path / "c.safetensors") as file:
        file.begin("0.weights", weights.shape)
        file.append(weights[0])
        file.finish({})
    assert not list(tmp_path.iterdir())


def test_two_writers_do_not_mix_and_links_are_not_followed(tmp_path, monkeypatch):
    """Each has a file of its own beside the place; one that waits there, if its name could be guessed, is refused."""
    path, victim = tmp_path / "c.safetensors", tmp_path / "victim"
    with CaptureFile(path) as one, CaptureFile(path) as other:
        assert one.partial != other.partial
    assert list(tmp_path.iterdir()) == []
    victim.write_text("precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    files.partial_path(path).symlink_to(victim)
    with pytest.raises(InputError, match="File exists"):
        CaptureFile(path)
    assert victim.read_text() == "precious"


def deep(data):
    """The same file with facts that are nothing but brackets, and no checksum of them."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header["__metadata__"] = {"format": header["__metadata__"]["format"], "facts": "[" * 100_000}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :]


def test_damaged_files(captured, tmp_path):
    file = tmp_path / "c.safetensors"
    captured.to_safetensors(file)
    whole = file.read_bytes()
    older = whole.replace(b'"facts_crc32"', b'"facts_crc00"')  # without a checksum of the facts
    for bad, message in (
        (whole[:-1] + bytes([whole[-1] ^ 1]), "its numbers are not those that were written; capture it again."),
        (whole.replace(b'\\"index\\": 0', b'\\"index\\": 1'), "its facts are not those that were written"),
        (whole[:-9], "is not a readable .safetensors file"),
        (b"", "is not a readable .safetensors file"),
        (whole.replace(b"regard capture 1", b"another kind of 1"[:16]), "not a capture of ours"),
        (older.replace(b'\\"index\\": 0', b'\\"indox\\": 0'), "its facts do not fit together"),
        (deep(whole), "its facts cannot be read; capture it again."),
        (older.replace(b'\\"heads\\": [4, 1]', b'\\"heads\\": [4,11]'), ""),
        (whole.replace(b'"0.weights"', b'"9.weights"'), "record 0 has no weights of its shape"),
    ):
        file.write_bytes(bad)
        if message:
            with raises(message):
                Capture.read(file)
        else:
            assert Capture.read(file).records[0].heads == (4, 11)
    with raises("there is no such file; give a .safetensors file that a capture wrote."):
        Capture.read(tmp_path / "none.safetensors")


def test_neither_records_nor_files_need_torch(captured, tmp_path):
    captured.to_safetensors(tmp_path / "c.safetensors")
    code = (
        "import sys\nfrom regard_models import Capture\n"
        f"print(Capture.read({str(tmp_path / 'c.safetensors')!r}))\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


# what results say


def test_soundness_and_the_paragraph(captured):
    assert captured.records[0].sound
    assert not captured.records[1].sound  # a residual that is not a number fits nothing
    assert not captured.answer
    said = str(captured)
    assert said.startswith("toy: 2 attention layers in 3 runs, 2 records. The checks FAILED in layers 3:")
    assert said.index("layer 3, run 2: (unnamed), flex") < said.index("layer 0: layers.0.attn, sdpa")
    assert "identity probe passed" in said
    assert "Not captured: attn: linear." in said
    json.loads(captured.to_json())


def test_lookups(captured):
    assert captured.record(3, step=2) is captured.records[1]
    assert np.array_equal(captured.records[0].head(1, example=2), captured.records[0].weights[2, 1])
    with raises("There is no layer 1 in this capture; it has layers 0 and 3."):
        captured.record(1)
    with raises("Layer 0 has no head 0 here; it has 4 and 1."):
        captured.records[0].head(0)
    with raises("There is no example 3; the batch has 3, counted from 0."):
        captured.records[0].head(1, example=3)


def test_labels_fit_lengths_and_sides(weights):
    def labels(module, source, target):
        record = AttentionRecord(index=0, module=module, kernel="sdpa", weights=weights, heads=(0, 1))
        return Capture(records=(record,), tokens=[source], target_tokens=None if target is None else [target]).labels(
            record
        )

    five, seven = list("abcde"), list("1234567")
    assert labels("decoder.cross_attn", seven, five) == (five, seven)
    assert labels("encoder.attn", seven, None) == (["0", "1", "2", "3", "4"], seven)


def test_span():
    assert format_ranges([]) == "none"
    assert format_ranges([3]) == "3"
    assert format_ranges([0, 1, 2, 5, 7, 8]) == "0 to 2, 5 and 7 to 8"


# arrays from elsewhere


def test_arrays_in_every_shape(weights):
    layers = weights.reshape(1, 3, 2, 5, 7).repeat(2, axis=0)
    tuples = tuple(layers)
    cache = {f"blocks.{n}.attn.hook_pattern": layer for n, layer in reversed(list(enumerate(layers)))}
    cache["blocks.0.hook_resid_pre"] = np.zeros(3)
    for given in (layers, tuples, list(tuples), cache):
        found = Capture.from_arrays(given)
        assert found.layers == (0, 1)
        assert all(np.array_equal(record.weights, weights) for record in found.records)
    assert Capture.from_arrays(layers[:, 0]).records[1].shape == (1, 2, 5, 7)
    steps = Capture.from_arrays((tuples, tuples))
    assert [(record.step, record.index) for record in steps.records] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_tensors_are_taken_by_what_they_can_do(weights):
    tensor = SimpleNamespace(shape=weights.shape, dtype="bfloat16")
    tensor.detach = lambda: tensor
    tensor.float = lambda: tensor
    tensor.cpu = lambda: tensor
    tensor.numpy = lambda: weights
    assert np.array_equal(Capture.from_arrays((tensor,)).records[0].weights, weights)


def test_what_is_odd_about_arrays_is_said(weights):
    assert Capture.from_arrays((weights,)).records[0].notes == ()
    assert Capture.from_arrays((weights / 2,)).records[0].notes == ("rows do not sum to 1: 0.5 to 0.5",)
    signed = weights.copy()
    signed[..., 0] -= 0.5
    assert Capture.from_arrays((signed,)).records[0].notes[0] == "some weights are negative"


def test_arrays_that_are_refused(weights):
    holes = weights.copy()
    holes[1, 0, 2, 3] = np.nan
    for given, message in (
        ((None, None), "Layer 0 is None: a fused kernel ran and gave no weights"),
        ((holes,), "Layer 0 holds nan at (1, 0, 2, 3)"),
        (weights[0, 0], "weights must have the axes (layers, heads, queries, keys)"),
        ((weights[0, 0],), "Layer 0 must have the axes (batch, heads, queries, keys)"),
        ((weights[:0],), "none of them empty"),
        ((), "weights must have the axes"),
        ({"blocks.0.hook_resid_pre": weights}, "The cache has no entry blocks.N.attn.hook_pattern"),
        ("weights", "weights must hold real numbers"),
    ):
        with raises(message):
            Capture.from_arrays(given)
    for tokens, message in (
        ([list("1234567")], "tokens must be one list for each of the 3 examples, but 1 came."),
        ([list("123")] * 3, "tokens must be one word for each of the 7 keys, but a list of 3 came."),
    ):
        with raises(message):
            Capture.from_arrays((weights,), tokens=tokens)
