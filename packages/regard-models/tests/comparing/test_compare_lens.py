"""Three issues of TransformerLens, "its output does not match Hugging Face's", rebuilt as a port and its original.

#385: hidden keys get -1e5, and Pythia has scores below that: forbidden keys win. #615: products by einsum of transposed
weights, where the original calls nn.Linear: only rounding differs, and no submodule is to blame. #693: the
unembedding is centred, which a softmax does not notice; Gemma 2 caps its logits by a tanh before, which does.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from regard_models import compare  # noqa: E402

WIDTH, HEADS, VOCABULARY = 20, 4, 29
IDS = (torch.randint(0, VOCABULARY, (3, 13), generator=torch.Generator().manual_seed(1)),)


class Attention(nn.Module):
    """Causal; ``hidden`` is what the scores of later keys become."""

    def __init__(self, hidden: float, bias: float) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.hidden = hidden
        with torch.no_grad():  # Pythia has biases that make all scores of a head large and negative
            self.q.bias += bias
            self.k.bias -= bias

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / 5**0.5
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(ahead, self.hidden), -1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, *, hidden: float = -torch.inf, bias: float = 0.0, cap: float | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.attention = nn.Embedding(VOCABULARY, WIDTH), Attention(hidden, bias)
        self.up, self.down = nn.Linear(WIDTH, 37), nn.Linear(37, WIDTH)
        self.unembed, self.cap = nn.Linear(WIDTH, VOCABULARY, bias=False), cap

    def mlp(self, x):
        return self.down(torch.relu(self.up(x)))

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.attention(x)
        logits = self.unembed(x + self.mlp(x))
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


def test_385_a_mask_that_scores_fall_below() -> None:
    mine, theirs = Model(hidden=-1e5, bias=1e3), Model(bias=1e3)
    found = compare(mine, theirs, IDS)
    assert not found.equal
    assert found.parting is not None
    assert (found.parting.module, found.agreeing) == ("attention", "attention.v")
    assert "hidden keys get minus infinity, not a large negative number" in found.equal_if
    assert compare(Model(hidden=-1e5), Model(), IDS).equal  # with usual scores nothing shows


class Einsum(Model):
    """The same products in the layout of the port: weights transposed, summed by einsum."""

    def mlp(self, x):
        inner = torch.relu(torch.einsum("btd,dm->btm", x, self.up.weight.T.contiguous()) + self.up.bias)
        return torch.einsum("btm,md->btd", inner, self.down.weight.T.contiguous()) + self.down.bias


def test_615_only_rounding_differs() -> None:
    found = compare(Einsum(), Model(), IDS)
    assert found.equal
    mine, theirs = Einsum().to(torch.bfloat16), Model().to(torch.bfloat16)
    with torch.no_grad():
        apart = (mine(*IDS) - theirs(*IDS)).abs().max()
    assert compare(mine, theirs, IDS).equal, apart  # whatever bfloat16 makes of it


def centred(model: Model) -> Model:
    """What the port does to every model it loads."""
    with torch.no_grad():
        model.unembed.weight -= model.unembed.weight.mean(0, keepdim=True)
    return model


def test_693_centred_under_a_cap() -> None:
    found = compare(centred(Model(cap=0.5)), Model(cap=0.5), IDS)
    assert not found.equal
    assert found.weights_different == ("unembed.weight",)
    assert found.parting is not None
    assert (found.parting.module, found.agreeing) == ("unembed", "down")

    class Probabilities(Model):
        def forward(self, ids):
            return torch.softmax(super().forward(ids), -1)

    assert compare(
        centred(Probabilities().double()), Probabilities().double(), IDS
    ).equal  # without the cap a softmax takes it out
    assert not compare(centred(Probabilities(cap=0.5)), Probabilities(cap=0.5), IDS).equal
