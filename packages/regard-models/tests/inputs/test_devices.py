"""Models that are spread over devices stay where they are; their inputs go where they begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models.inputs.devices import check_device, first_device, is_spread, place_module  # noqa: E402

FILE = """
import torch
from torch import nn

class Spread(nn.Module):
    '''As accelerate leaves a model: with a map, and refusing to be moved.'''
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer = nn.Embedding(23, 12), nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
        self.hf_device_map = {"table": "cpu", "layer": "disk"}
    def forward(self, ids):
        return self.layer(self.table(ids))
    def to(self, *args, **kwargs):
        if args and not isinstance(args[0], torch.dtype):
            raise RuntimeError("You can't move a model that has some modules offloaded to cpu or disk.")
        return super().to(*args, **kwargs)

def build():
    return Spread().eval(), torch.randint(0, 23, (3, 17))
"""


class Hooked(nn.Module):
    def __init__(self, device: object) -> None:
        super().__init__()
        self.hf_device_map = {"": device}
        self._hf_hook = type("Hook", (), {"execution_device": device})()


def test_a_spread_model_is_audited_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(FILE)
    command = ["model", "audit", f"{tmp_path}/model.py:build", "--property", "batch", "--json"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)["assumed"]
    assert "it is spread over 2 devices and left there; inputs go to cpu" in said


def test_where_inputs_belong() -> None:
    assert first_device(Hooked("cpu")) == torch.device("cpu")
    assert first_device(Hooked(1)).index == 1
    assert first_device(nn.Linear(2, 2)) == torch.device("cpu")
    stored = nn.Sequential(nn.Embedding(3, 2, device="meta"), nn.Linear(2, 2))
    assert first_device(stored) == torch.device("cpu")
    stored.hf_device_map = {"0": "disk", "1": "cpu"}
    assert first_device(nn.Sequential()) == torch.device("cpu")


def test_only_a_map_makes_it_spread() -> None:
    module, first, note = place_module(nn.Linear(2, 2), "cpu")
    assert (first, note, is_spread(module)) == (torch.device("cpu"), "", False)
    assert is_spread(Hooked("cpu"))
    assert place_module(Hooked("cpu"), "meta")[2] == "it is spread over 1 device and left there; inputs go to cpu"


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"The device 'nowhere' cannot be used here .*; try --device cpu\."):
        check_device("nowhere")
