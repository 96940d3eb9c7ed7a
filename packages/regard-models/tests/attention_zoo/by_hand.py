"""Hand-written attention, in the styles in which people write it; each one is the same function of the same weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from attention_zoo import BATCH, HEADS, LENGTH, WIDTH, Case, heads_of, softmax

D = WIDTH // HEADS


class Projections(nn.Module):
    """Queries, keys, values and the output projection; ``mix`` is what the styles differ in."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.mix(x))

    def mix(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def three(self, x: Tensor) -> list[Tensor]:
        return [f(x).view(x.shape[0], -1, HEADS, D).transpose(1, 2) for f in (self.q, self.k, self.v)]


def joined(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


class Plain(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        return joined(torch.softmax(q @ k.transpose(2, 3) / math.sqrt(D), -1) @ v)


class Causal(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return joined((q @ k.transpose(2, 3) / math.sqrt(D)).masked_fill(hidden, -1e9).softmax(-1) @ v)


class InPlace(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        scores = q @ k.transpose(2, 3)
        scores /= math.sqrt(D)
        scores += torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        return joined(scores.softmax(-1) @ v)


class Einsum(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).view(x.shape[0], -1, HEADS, D) for f in (self.q, self.k, self.v))
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).div(math.sqrt(D)).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)


class EinsumHeadsLate(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).view(x.shape[0], -1, HEADS, D) for f in (self.q, self.k, self.v))
        weights = torch.einsum("bqhd,bkhd->bqhk", q, k).div(math.sqrt(D)).softmax(-1)
        return torch.einsum("bqhk,bkhd->bqhd", weights, v).flatten(2)


class OneAxis(Projections):
    """Examples and heads in one axis, as old torch code has them; the module says how many heads there are."""

    num_heads = HEADS

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = (t.reshape(-1, x.shape[1], D) for t in self.three(x))
        weights = torch.bmm(q, k.transpose(1, 2)).div(math.sqrt(D)).softmax(-1)
        return joined(torch.bmm(weights, v).view(x.shape[0], HEADS, -1, D))


class OneAxisUnsaid(OneAxis):
    """The same without a word about heads: the batch decides."""

    num_heads = None  # type: ignore[assignment]


class HeadsFirst(Projections):
    """Heads behind one another with cat, as in early TensorFlow ports."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat(f(x).chunk(HEADS, -1), 0) for f in (self.q, self.k, self.v))
        weights = torch.bmm(q, k.transpose(1, 2)).div(math.sqrt(D)).softmax(-1)
        return torch.cat(torch.bmm(weights, v).chunk(HEADS, 0), -1)


class ExpAndSum(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        scores = q @ k.transpose(2, 3) / math.sqrt(D)
        grown = torch.exp(scores - scores.amax(-1, keepdim=True))
        return joined(grown / grown.sum(-1, keepdim=True) @ v)


class Sigmoid(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        return joined(torch.sigmoid(q @ k.transpose(2, 3) / math.sqrt(D) - math.log(x.shape[1])) @ v)


class KeysDown(Projections):
    """Scores with the keys down and the queries across: softmax over the first, values from the left."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        weights = torch.softmax(k @ q.transpose(2, 3) / math.sqrt(D), -2)
        return joined((v.transpose(2, 3) @ weights).transpose(2, 3))


class GroupedAxes(Projections):
    """Two groups of two heads share keys and values, all in five axes."""

    def __init__(self) -> None:
        super().__init__()
        self.k, self.v = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)

    def mix(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        q = self.q(x).view(batch, -1, 2, 2, D).permute(0, 2, 3, 1, 4)
        k, v = (f(x).view(batch, -1, 2, 1, D).permute(0, 2, 3, 1, 4) for f in (self.k, self.v))
        out = torch.softmax(q @ k.transpose(3, 4) / math.sqrt(D), -1) @ v
        return out.permute(0, 3, 1, 2, 4).flatten(2)


class Additive(Projections):
    """Bahdanau's: scores from a small network, no product of queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(WIDTH, 1)

    def mix(self, x: Tensor) -> Tensor:
        scores = self.score(torch.tanh(self.q(x)[:, :, None] + self.k(x)[:, None])).squeeze(-1)
        return torch.bmm(scores.softmax(-1), self.v(x))


class MultiplyAndSum(Projections):
    """Weights times values number by number, then a sum: no matrix product."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(D), -1)
        return joined((weights.unsqueeze(-1) * v.unsqueeze(2)).sum(3))


class NotBatched(Projections):
    def forward(self, x: Tensor) -> Tensor:
        words = x[0]
        return (self.q(words) @ self.k(words).T / math.sqrt(WIDTH)).softmax(-1) @ self.v(words)


class Dropout(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        return joined(F.dropout(torch.softmax(q @ k.transpose(2, 3) / math.sqrt(D), -1), 0.3, True) @ v)


class FusedInside(Projections):
    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        return joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class LinearAttention(Projections):
    """phi(q) (phi(k)^T v): there is no matrix of weights."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = q @ k.sum(2, keepdim=True).transpose(2, 3)
        return joined(q @ (k.transpose(2, 3) @ v) / total)


class OnlineSoftmax(Projections):
    """A softmax in pieces of four keys, as the fused kernels do it inside."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = self.three(x)
        top = torch.full((*q.shape[:3], 1), -1e9)
        total, mixed = torch.zeros_like(top), torch.zeros_like(q)
        for first in range(0, x.shape[1], 4):
            scores = q @ k[:, :, first : first + 4].transpose(2, 3) / math.sqrt(D)
            higher = torch.maximum(top, scores.amax(-1, keepdim=True))
            grown, shrink = torch.exp(scores - higher), torch.exp(top - higher)
            total, mixed = (
                total * shrink + grown.sum(-1, keepdim=True),
                mixed * shrink + grown @ v[:, :, first : first + 4],
            )
            top = higher
        return joined(mixed / total)


def scores_of(module: Any, x: Tensor, *, heads: int = HEADS, groups: int | None = None) -> np.ndarray:
    """q k^T / sqrt(d) by the module's own matrices, in float64."""
    q = heads_of(x, module.q.weight, module.q.bias, heads)
    k = heads_of(x, module.k.weight, module.k.bias, groups or heads)
    k = k if groups is None else k.repeat(heads // groups, axis=1)
    return q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])


def causal(scores: np.ndarray) -> np.ndarray:
    return np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)


def _case(name: str, kind: type[Projections], expected: Any) -> Case:
    return Case(name, lambda: (kind().eval(), torch.randn(BATCH, LENGTH, WIDTH)), expected)


def _usual(module: nn.Module, x: Tensor) -> np.ndarray:
    return softmax(scores_of(module, x))


def _causal(module: nn.Module, x: Tensor) -> np.ndarray:
    return softmax(causal(scores_of(module, x)))


def _sigmoid(module: nn.Module, x: Tensor) -> np.ndarray:
    return 1 / (1 + np.exp(math.log(LENGTH) - scores_of(module, x)))


def _additive(module: Any, x: Tensor) -> np.ndarray:
    q, k = (heads_of(x, f.weight, f.bias, 1)[:, 0] for f in (module.q, module.k))
    inner = np.tanh(q[:, :, None] + k[:, None])
    return softmax(inner @ module.score.weight.detach().double().numpy()[0])[:, None]


CASES = [
    _case("plain", Plain, _usual),
    _case("causal, masked_fill -1e9", Causal, _causal),
    _case("in place, -inf added", InPlace, _causal),
    _case("einsum bhqk", Einsum, _usual),
    _case("einsum bqhk", EinsumHeadsLate, _usual),
    _case("examples and heads in one axis", OneAxis, _usual),
    _case("the same, heads not named", OneAxisUnsaid, _usual),
    _case("heads first, by cat", HeadsFirst, _usual),
    _case("exp and sum by hand", ExpAndSum, _usual),
    _case("sigmoid", Sigmoid, _sigmoid),
    _case("keys down, queries across", KeysDown, _usual),
    _case("grouped keys in five axes", GroupedAxes, lambda m, x: softmax(scores_of(m, x, groups=2))),
    _case("additive (Bahdanau)", Additive, _additive),
    _case("multiply and sum", MultiplyAndSum, _usual),
    _case("one sequence, no batch", NotBatched, lambda m, x: softmax(scores_of(m, x[:1], heads=1))),
    _case("dropout on", Dropout, _usual),
    _case("fused inside", FusedInside, _causal),
]
