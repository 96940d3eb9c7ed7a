"""JSON that knows itself: every flipped bit, lost line and moved line is noticed; a line cut short is left out."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from safetensors.numpy import save

from regard.errors import InputError
from regard.translator.runs.files import SealedLines, lines_of, metadata, seal, seal_checkpoint, unseal
from regard.translator.runs.records import LOG, append_log, finite_number, log_entries, read_log

ENTRIES = [{"event": "step", "step": n, "epoch": 1, "loss": 1 / n, "name": "Jürgen * \n J"} for n in (3, 5, 7, 11)]


def test_every_flipped_bit_of_a_file_is_noticed():
    """All of them, one after another, in what people read and in the digest itself."""
    good = seal(json.dumps({"a": [1, 2.5, "ö*J"], "b": {"c": None}}, ensure_ascii=False, indent=1))
    assert unseal(good) == {"a": [1, 2.5, "ö*J"], "b": {"c": None}}
    for bit in range(8 * len(good)):
        bent = bytearray(good)
        bent[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):  # noqa: PT011 - the reasons differ, that there is one matters
            unseal(bytes(bent))


@pytest.mark.slow
def test_every_flipped_bit_of_a_file_of_lines_is_noticed(tmp_path):
    path, good = tmp_path / "x", lines_of(ENTRIES)
    path.write_bytes(good)
    assert SealedLines(path).read() == ENTRIES
    for bit in range(8 * len(good)):
        bent = bytearray(good)
        bent[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(bent))
        with pytest.raises(InputError, match="x is damaged"):
            SealedLines(path).read()


def test_lines_that_are_lost_moved_or_doubled_are_noticed(tmp_path):
    path, lines = tmp_path / "x", lines_of(ENTRIES).splitlines(keepends=True)
    for order in ([1, 2, 3], [0, 2, 3], [0, 1, 3], [1, 0, 2, 3], [0, 0, 1], [0, 1, 2, 3, 3]):
        path.write_bytes(b"".join(lines[i] for i in order))
        with pytest.raises(InputError, match=r"is damaged \(line \d: its SHA-256 is not the one"):
            SealedLines(path).read()


def test_a_line_cut_short_anywhere_is_left_out_and_replaced(tmp_path):
    path, good = tmp_path / "x", lines_of(ENTRIES)
    start = len(lines_of(ENTRIES[:3]))
    for end in range(start, len(good)):
        path.write_bytes(good[:end])
        assert SealedLines(path).read() == ENTRIES[:3]
    SealedLines(path).append([ENTRIES[3]])
    assert path.read_bytes() == good


def test_it_is_read_as_it_grows_by_others(tmp_path):
    mine, theirs = SealedLines(tmp_path / "x"), SealedLines(tmp_path / "x")
    assert mine.read() == []
    for i in range(0, 4, 2):
        theirs.append([ENTRIES[i]])
        mine.append([ENTRIES[i + 1]])
    assert mine.read() == theirs.read() == ENTRIES
    assert mine.has_all_seals


def test_lines_of_an_earlier_version_are_read_and_then_covered(tmp_path):
    path = tmp_path / "x"
    old = "".join(json.dumps(entry) + "\n" for entry in ENTRIES[:3])
    path.write_text(old)
    lines = SealedLines(path)
    assert lines.read() == ENTRIES[:3]
    assert not lines.has_all_seals
    lines.append([ENTRIES[3]])
    assert SealedLines(path).read() == ENTRIES
    path.write_bytes(path.read_bytes().replace(b'"step": 3', b'"step": 4'))
    with pytest.raises(InputError, match="line 4: its SHA-256 is not the one it was written with"):
        SealedLines(path).read()
    path.write_text(lines_of(ENTRIES[:1]).decode() + json.dumps(ENTRIES[1]) + "\n")
    with pytest.raises(InputError, match="line 2 has lost its SHA-256"):
        SealedLines(path).read()


WHOLE = {"event": "epoch", "epoch": 1, "step": 9, "training_loss": 3.0, "perplexity": 8.5} | {
    "perplexity_without_sos": 9.5, "cpu_seconds": 1.0, "wall_seconds": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": 0}, "epoch must be a whole number of 1 or more, not '0'"),
        ({"epoch": True}, "epoch must be a whole number of 1 or more, not 'True'"),
        ({"epoch": 10**30}, "epoch must be a whole number"),
        ({"step": 1.5}, "step must be a whole number of 0 or more, not '1.5'"),
        ({"perplexity": "8.5"}, "perplexity must be a finite number, not '8.5'"),
        ({"perplexity": float("nan")}, "perplexity must be a finite number, not 'nan'"),
        ({"perplexity": 0.5}, "perplexity must be a finite number, not '0.5'"),
        ({"training_loss": float("inf")}, "training_loss must be a finite number, not 'inf'"),
        ({"wall_seconds": -1}, "wall_seconds must be a finite number, not '-1'"),
        ({"cpu_seconds": None}, "cpu_seconds must be a finite number, not 'None'"),
        ({"more": 1}, "an epoch lacks or does not know more"),
    ],
)
def test_a_log_that_cannot_be_right(tmp_path, change, message):
    (tmp_path / LOG).write_text(json.dumps(WHOLE) + "\n" + json.dumps(WHOLE | change) + "\n")
    with pytest.raises(InputError, match=rf"log\.jsonl is damaged \(line 2: {message}"):
        read_log(tmp_path)


def test_a_log_of_wrong_types_is_one_sentence(tmp_path):
    for text in ('{"event": "step", "step": "x", "loss": 1}\n', "[]\n", "[" * 9999 + "\n", "{]\n", '"x"\n', "\n\n"):
        (tmp_path / LOG).write_text(text)
        with pytest.raises(InputError, match=r"log\.jsonl is damaged \(line 1"):
            read_log(tmp_path)


def test_a_perplexity_beyond_all_floats_is_one(tmp_path):
    append_log(tmp_path / LOG, WHOLE | {"perplexity": float("inf")})
    assert read_log(tmp_path).epochs[0].perplexity == float("inf")
    assert log_entries(tmp_path / "nowhere") == []


def checkpoint(path, **facts):
    path.write_bytes(seal_checkpoint(save({"x": np.zeros(1)}, metadata=metadata(facts))))


STEPS = [{"event": "step", "step": n, "epoch": 1 + (n > 100), "loss": 1.0} for n in (50, 100, 150)]
EPOCHS = [WHOLE | {"epoch": 1, "step": 100}, WHOLE | {"epoch": 2, "step": 160}]
ALL = [*STEPS[:2], EPOCHS[0], STEPS[2], EPOCHS[1]]


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("last.safetensors", {"epoch": 3, "step": 160, "finished": True}),
        ("best.safetensors", {"epoch": 2, "step": 160}),
    ],
)
def test_a_log_that_was_cut_anywhere_is_noticed(tmp_path, sealed, name, facts):
    """The checkpoint says what was done, so every line that is lost at the end, or a part of one, is missed."""
    checkpoint(tmp_path / name, **facts)
    good = lines_of(ALL) if sealed else "".join(json.dumps(entry) + "\n" for entry in ALL).encode()
    (tmp_path / LOG).write_bytes(good)
    assert len(read_log(tmp_path).epochs) == 2
    for end in range(len(good)):
        (tmp_path / LOG).write_bytes(good[:end])
        with pytest.raises(InputError, match=r"log\.jsonl is damaged \((epoch \d|the loss of step 150) is missing"):
            read_log(tmp_path)
    (tmp_path / LOG).unlink()
    with pytest.raises(InputError, match="epoch 1 is missing, though the checkpoint was written after it"):
        read_log(tmp_path)


def test_a_step_or_an_epoch_that_is_missing_in_between_is_noticed(tmp_path):
    checkpoint(tmp_path / "last.safetensors", epoch=3, step=160, finished=False)
    for lost, what in ((1, "the loss of step 100"), (2, "epoch 1"), (3, "the loss of step 150")):
        (tmp_path / LOG).write_text("".join(json.dumps(e) + "\n" for i, e in enumerate(ALL) if i != lost))
        with pytest.raises(InputError, match=f"{what} is missing"):
            read_log(tmp_path)


def test_half_a_line_is_told_of_a_run_that_was_stopped_and_refused_of_one_that_ended(tmp_path):
    (tmp_path / LOG).write_bytes(lines_of(ALL) + b'{"event": "st')
    for finished in (False, True):
        checkpoint(tmp_path / "last.safetensors", epoch=3, step=160, finished=finished)
        if not finished:
            assert read_log(tmp_path).cut
    with pytest.raises(InputError, match="it ends in the middle of a line, though the run has ended"):
        read_log(tmp_path)


@pytest.mark.slow
def test_random_bytes_are_never_a_traceback(tmp_path):
    """Bytes overwritten anywhere in a log, sealed or of an earlier version: read as it was, or one sentence."""
    draw, path = random.Random(3), tmp_path / LOG
    old = (json.dumps(WHOLE) + "\n" + json.dumps({"event": "step", "step": 3, "epoch": 1, "loss": 2.0}) + "\n").encode()
    for good in (old, lines_of([WHOLE])):
        for _ in range(200):
            bent = bytearray(good)
            for _ in range(draw.randrange(1, 4)):
                bent[draw.randrange(len(bent))] = draw.randrange(256)
            path.write_bytes(bytes(bent))
            try:
                read_log(tmp_path)
            except InputError as error:
                assert str(error).count("\n") == 0  # noqa: PT017
            else:
                assert good is old or bytes(bent) == good


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), True, "1"])
def test_a_number_that_no_float_holds_is_no_number_of_a_log(value) -> None:
    with pytest.raises(ValueError, match="loss must be a finite number"):
        finite_number("loss", value)
