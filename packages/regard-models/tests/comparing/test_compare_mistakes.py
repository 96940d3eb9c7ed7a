"""Known mistakes of a port: each planted in a small model beside the right one, and named by compare."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from regard_models import compare  # noqa: E402
from regard_models.comparing.first_difference import describe_order  # noqa: E402

WIDTH, HEADS, GROUPS, VOCABULARY = 20, 4, 2, 29
IDS = torch.randint(1, VOCABULARY, (3, 13), generator=torch.Generator().manual_seed(0))


class Port(nn.Module):
    """A causal Transformer block with grouped keys, written out; ``slip`` is the one thing done wrong."""

    def __init__(self, slip: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.slip, self.inner = slip, WIDTH // HEADS
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(40, WIDTH)
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH // GROUPS)
        self.v, self.out = nn.Linear(WIDTH, WIDTH // GROUPS), nn.Linear(WIDTH, WIDTH)
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 37), nn.Linear(37, WIDTH)
        self.register_buffer("window", torch.full((1,), 3.0 if slip == "buffer" else 2.0), persistent=False)
        with torch.no_grad():  # scores that matter
            self.q.weight.mul_(4), self.k.weight.mul_(4)

    def forward(self, ids, attention_mask=None):
        slip = self.slip
        tokens = self.tokens(ids) * (math.sqrt(WIDTH) if slip == "token scale" else 1.0)
        first = {"from 1": 1, "from 2": 2}.get(slip, 0)
        x = tokens + self.places(torch.arange(first, first + ids.shape[1]))
        if slip == "norm before":
            x = x + self.attended(self.norm(x), attention_mask)
        else:
            x = self.norm(x + self.attended(x, attention_mask))
        act = {"relu": F.relu, "tanh": lambda h: F.gelu(h, approximate="tanh")}.get(slip, F.gelu)
        return x + self.down(act(self.up(x))) * self.window

    def split(self, x, heads):
        batch, length, _ = x.shape
        if self.slip == "split":
            return x.view(batch, heads, length, self.inner)
        return x.view(batch, length, heads, self.inner).transpose(1, 2)

    def spread(self, x):
        if self.slip == "repeat":
            return x.repeat(1, GROUPS, 1, 1)
        if self.slip == "expand":
            return x[:, None].expand(x.shape[0], GROUPS, *x.shape[1:]).reshape(x.shape[0], HEADS, -1, self.inner)
        return x[:, :, None].expand(*x.shape[:2], GROUPS, *x.shape[2:]).reshape(x.shape[0], HEADS, -1, self.inner)

    def attended(self, x, mask):
        q = self.split(self.q(x), HEADS)
        k, v = (self.spread(self.split(part(x), HEADS // GROUPS)) for part in (self.k, self.v))
        scale = {"no scale": 1.0, "twice": 1 / self.inner, "model scale": 1 / math.sqrt(WIDTH)}
        scores = q @ k.transpose(-2, -1) * scale.get(self.slip, 1 / math.sqrt(self.inner))
        ones = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        hidden = torch.triu(ones, {"itself hidden": 0, "one ahead": 2}.get(self.slip, 1))
        hidden = torch.zeros_like(hidden) if self.slip == "not causal" else hidden
        if mask is not None:
            hidden = hidden | ~mask.bool()[:, None, None, :]
        if self.slip == "polarity":
            hidden = ~hidden
        scores = scores.masked_fill(hidden, -1e4 if self.slip == "polarity" else -torch.inf)
        weights = torch.softmax(scores, 1 if self.slip == "axis" else -1).nan_to_num(0.0)
        read = weights @ v
        if self.slip == "merge":
            return self.out(read.reshape(x.shape))
        return self.out(read.transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ("repeat", "keys and values are repeated with repeat_interleave, not with repeat"),
        ("expand", "keys and values are repeated with repeat_interleave, not with repeat"),
        ("no scale", "scores are scaled by 1/sqrt(width of a head)"),
        ("twice", "scores are scaled by 1/sqrt(width of a head) once less (not at all, or not twice)"),
        ("model scale", "scores are scaled by 1/sqrt(width of a head), not of the whole model"),
        ("axis", "softmax runs over the keys, the last axis"),
        ("polarity", "the mask is turned round: what it hides is kept, and what it keeps is hidden"),
        ("split", "heads are split by view(batch, length, heads, width) and transpose(1, 2)"),
        ("merge", "heads are merged by transpose(1, 2) and reshape"),
        ("from 1", "positions are counted from 0"),
        ("from 2", "positions are counted from 0"),
        ("token scale", "token vectors are not multiplied by sqrt(width)"),
        ("itself hidden", "the triangle of the mask begins one higher"),
        ("one ahead", "the triangle of the mask begins one lower"),
        ("not causal", "attention is causal"),
        ("relu", "the activation is GELU"),
        ("tanh", "GELU is computed exactly, not by its tanh approximation"),
    ],
)
def test_a_planted_slip_is_named(slip: str, words: str) -> None:
    found = compare(Port(slip), Port(), (IDS,))
    assert not found.equal
    assert words in found.equal_if
    assert f"Equal if {words}." in str(found)
    # A mask that lets one key too many through is undone by hiding all later keys as well.
    assert set(found.equal_if) <= {words, "attention is causal"}, found.equal_if


@pytest.mark.slow
def test_the_other_way_round_the_other_is_named() -> None:
    assert compare(Port(), Port("from 1"), (IDS,)).equal_if == ("positions are counted from 1",)
    assert compare(Port(), Port("from 2"), (IDS,)).equal_if == ("positions are counted from 2",)
    assert compare(Port(), Port("repeat"), (IDS,)).equal_if == (
        "keys and values are repeated with repeat, not with repeat_interleave",
    )
    assert compare(Port(), Port("token scale"), (IDS,)).equal_if == ("token vectors are multiplied by sqrt(width)",)
    assert compare(Port(), Port("relu"), (IDS,)).equal_if == ("the activation is ReLU",)


def test_two_slips_at_once_are_not_explained_by_one() -> None:
    class Both(Port):
        def split(self, x, heads):
            return x.view(x.shape[0], heads, x.shape[1], self.inner)

    assert compare(Both("no scale"), Port(), (IDS,)).equal_if == ()


def test_a_norm_on_the_other_side_shows_in_the_order_of_calls() -> None:
    found = compare(Port("norm before"), Port(), (IDS,))
    assert found.order == "In the first model norm runs before q, in the second after it."
    assert found.order in str(found)


def test_norm_first_is_named() -> None:
    torch.manual_seed(0)
    mine, theirs = (
        nn.TransformerEncoderLayer(20, 4, 37, norm_first=first, batch_first=True) for first in (True, False)
    )
    found = compare(mine.eval(), theirs.eval(), copy_weights=True)
    assert found.equal_if == ("norm_first is turned: the norm stands on the other side of its part",)
    assert mine.norm_first  # left as it was


def test_a_buffer_that_differs_is_named() -> None:
    found = compare(Port("buffer"), Port(), (IDS,))
    assert found.buffers_different == ("window",)
    assert "Buffers that differ: window" in str(found)


def test_padding_is_asked_where_both_take_a_mask() -> None:
    class Deaf(Port):
        def attended(self, x, mask):
            return super().attended(x, None)

    deaf, right = Deaf("not causal"), Port("not causal")
    example = {"ids": IDS, "attention_mask": torch.ones_like(IDS)}
    found = compare(deaf, right, example)
    assert not found.equal
    assert found.padded
    assert "at real tokens beside 3 tokens of padding" in str(found)


def test_the_order_of_calls() -> None:
    assert describe_order(["a", "b", "x"], ["y", "a", "b"]) == ""
    assert (
        describe_order(["a", "b", "c"], ["a", "c", "b"])
        == "In the first model b runs before c, in the second after it."
    )
