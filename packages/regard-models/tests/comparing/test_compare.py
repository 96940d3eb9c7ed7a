"""Two models that should be equal: equal ones pass, the first parting submodule is named, usual mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from typer.testing import CliRunner  # noqa: E402

from healthy import tiny  # noqa: E402
from mutants import tiny as bugs  # noqa: E402
from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import compare  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch.nn's own remark
IDS = (tiny.ids(),)
X = (torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(0)),)


class Port(nn.Module):
    """An encoder layer of torch.nn, written again with other names, and one detail that may be wrong."""

    def __init__(self, layer: nn.TransformerEncoderLayer, *, gelu: str = "none", eps: float = 1e-5) -> None:
        super().__init__()
        self.attention, self.up, self.down = layer.self_attn, layer.linear1, layer.linear2
        self.first, self.second, self.gelu, self.eps = layer.norm1, layer.norm2, gelu, eps

    def forward(self, x):
        x = self.first(x + self.attention(x, x, x, need_weights=False)[0])
        h = x + self.down(F.gelu(self.up(x), approximate=self.gelu))
        return F.layer_norm(h, (20,), self.second.weight, self.second.bias, self.eps)


NAMES = {"attention": "self_attn", "up": "linear1", "down": "linear2", "first": "norm1", "second": "norm2"}


def layer() -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(20, 4, 37, batch_first=True, activation="gelu").eval()


def test_eager_and_fused_are_equal() -> None:
    found = compare(tiny.Gpt(), tiny.Gpt(attention=tiny.FusedAttention), IDS)
    assert found.equal
    assert found.size < 1e-12
    assert "are equal on this input" in str(found)
    assert "One input is no proof" in str(found)


def test_a_port_with_other_names() -> None:
    assert compare(Port(layer()), layer(), X, names=NAMES).equal
    assert compare(Port(layer()), layer(), X).weights_paired == 0


@pytest.mark.parametrize("names", [NAMES, {}], ids=["named", "by what they return"])
def test_gelu_is_diagnosed(names: dict[str, str]) -> None:
    found = compare(Port(layer(), gelu="tanh"), layer(), X, names=names)
    assert not found.equal
    assert found.agreeing == "up"
    assert found.parting is not None
    assert found.parting.kind == "Port"  # the activation is a line of its own forward
    assert found.equal_if == ("GELU is computed exactly, not by its tanh approximation",)


def test_the_eps_of_a_norm_is_diagnosed() -> None:
    found = compare(Port(layer(), eps=1e-12), layer(), X, names=NAMES)
    assert found.equal_if == ("the eps of layer norm is 1e-5",)


def test_the_scale_is_diagnosed_and_located() -> None:
    found = compare(tiny.Gpt(attention=bugs.NoScale), tiny.Gpt(), IDS)
    assert found.parting is not None
    assert found.parting.module == "blocks.0.attention"
    assert found.equal_if == ("scores are scaled by 1/sqrt(width of a head)",)


class Grouped(nn.Module):
    """Two heads of keys for four of queries."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.right = nn.Linear(20, 20), nn.Linear(20, 10), nn.Linear(20, 10), right

    def forward(self, x):
        q, k, v = (p(x).view(*x.shape[:2], -1, 5).transpose(1, 2) for p in (self.q, self.k, self.v))
        spread = (lambda t: t.repeat_interleave(2, dim=1)) if self.right else (lambda t: t.repeat(1, 2, 1, 1))
        return F.scaled_dot_product_attention(q, spread(k), spread(v)).transpose(1, 2).flatten(2)


def test_repeated_keys_are_diagnosed_both_ways() -> None:
    wrong, right = Grouped(right=False), Grouped(right=True)
    assert compare(wrong, right, X).equal_if == (
        "keys and values are repeated with repeat_interleave, not with repeat",
    )
    assert compare(right, wrong, X).equal_if == (
        "keys and values are repeated with repeat, not with repeat_interleave",
    )


def test_one_layer_that_differs_is_named() -> None:
    found = compare(tiny.Gpt(attention=bugs.second(bugs.SoftmaxTwice, tiny.Attention)), tiny.Gpt(), IDS)
    assert found.parting is not None
    assert (found.parting.module, found.agreeing) == ("blocks.1.attention", "blocks.1.attention.v")


def test_weights_are_told_apart_and_copied() -> None:
    one, two = tiny.Gpt(), tiny.Gpt()
    with torch.no_grad():
        one.blocks[1].feed_forward.up.bias += 1e-9
    found = compare(one, two, IDS)
    assert not found.equal
    assert found.weights_different == ("blocks.1.feed_forward.up.bias",)
    assert compare(one, two, IDS, copy_weights=True).equal
    assert not torch.equal(one.blocks[1].feed_forward.up.bias, two.blocks[1].feed_forward.up.bias)  # not touched


@pytest.mark.slow
def test_hugging_face_kernels_are_equal() -> None:
    pytest.importorskip("transformers")
    from healthy import families

    for family in (families.bert, families.llama, families.t5):
        assert compare(family(attn="eager"), family(attn="sdpa")).equal


def test_refusals() -> None:
    with pytest.raises(InputError, match="takes 1 rows of tokens and Transformer 2"):
        compare(tiny.Gpt(), nn.Transformer(20, 4, 1, 1, 37))
    with pytest.raises(InputError, match="takes ids and TransformerEncoderLayer vectors"):
        compare(tiny.Encoder(), layer())
    with pytest.raises(InputError, match=r"return \[\(3, 13, 29\)\] and \[\(3, 29\)\], which cannot be compared"):
        compare(tiny.Encoder(), tiny.Pooled(), IDS)
    with pytest.raises(InputError, match="The map says nothing=there, and no weight of the first model begins so"):
        compare(tiny.Gpt(), tiny.Gpt(), IDS, names={"nothing": "there"})


FILE = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
def other():
    torch.manual_seed(1)
    return torch.nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(FILE)
    run = CliRunner().invoke(app, ["model", "compare", "a.py:build", "a.py:build", "--json"])
    assert (run.exit_code, json.loads(run.stdout)["equal"]) == (0, True)
    run = CliRunner().invoke(app, ["model", "compare", "a.py:build", "a.py:other"])
    assert run.exit_code == 1
    assert "a.py:build and a.py:other are not equal" in run.stdout
    run = CliRunner().invoke(app, ["model", "compare", "a.py:build", "a.py:other", "--copy-weights"])
    assert run.exit_code == 0
    run = CliRunner().invoke(app, ["model", "compare", "a.py:build", "a.py:other", "--map", "a b"])
    assert "--map 'a b' is not understood; write MINE=THEIRS" in str(run.exception)
