"""Devices: which one is chosen, that a run may move, and that nothing is made elsewhere than where the model is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from processes import PATIENCE
from regard.errors import InputError
from regard.translator.models.weights import choose_device
from regard.translator.training.loop import train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

HERE = Path(__file__).parents[2]


def cards(monkeypatch, count, **environment):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_a_card_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    cards(monkeypatch, 0)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")
    cards(monkeypatch, 2)
    assert choose_device() == choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")


def test_each_process_of_torchrun_has_a_card_of_its_own(monkeypatch):
    cards(monkeypatch, 2, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
    assert choose_device() == torch.device("cuda", 1)
    cards(monkeypatch, 1)
    with pytest.raises(InputError, match="2 processes on cuda, and this machine has 1 card: start one process for"):
        choose_device()


@pytest.mark.parametrize(
    ("wanted", "message"), [("cuda", "has no cuda device that torch"), ("tpu9", "no device 'tpu9'")]
)
def test_a_device_that_is_not_there_is_refused(monkeypatch, wanted, message):
    cards(monkeypatch, 0)
    with pytest.raises(InputError, match=message):
        choose_device(wanted)


def test_a_run_goes_on_on_another_device(tmp_path):
    data = write_corpus(tmp_path / "toy")
    with pytest.raises(StopError):
        train(tiny(data, "device=cpu"), tmp_path / "moved", watch=stop_at(5))
    auto = tiny(data)  # auto, which is the processor here
    train(auto, tmp_path / "moved")
    train(auto, tmp_path / "stayed")
    assert same(weights(tmp_path / "moved"), weights(tmp_path / "stayed"))


@pytest.mark.slow
@pytest.mark.nightly
def test_every_tensor_is_made_on_the_models_device(tmp_path):
    """Six sorts of models train, go on, score and translate on a pretended card, which refuses all other tensors."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, HERE / "pretended_card.py", tmp_path],
        capture_output=True, text=True, timeout=PATIENCE, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["encoder", "frozen", "padding", "deep", "own", "own-vectors"]
    assert "(line 16)" in lines[-1]
    assert lines[-1].endswith("make every tensor on ids.device, or give --device cpu.")
