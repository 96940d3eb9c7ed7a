"""Our own answer where a Transformer is asked for, and a model that is healthy; not for students."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TransformerTranslator(nn.Module):
    """One layer: attention over the words and their places, then the feed-forward part, norms after each."""

    def __init__(
        self,
        source_words: int,
        target_words: int,
        width: int = 128,
        heads: int = 2,
        head_width: int = 96,
        inner: int = 2048,
        longest: int = 20,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.query, self.key, self.value = (nn.Linear(width, heads * head_width) for _ in range(3))
        self.mixing, self.output = nn.Linear(heads * head_width, width), nn.Linear(width, target_words)
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1)
        y = self.first(x + self.mixing((weights @ v).transpose(1, 2).flatten(2)))
        scores: Tensor = self.output(self.second(y + self.outer(torch.relu(self.inner(y)))))
        return scores


class Leaks(nn.TransformerEncoderLayer):
    """A wrong answer: each example sees a little of its neighbours."""

    def forward(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: Any = False
    ) -> Tensor:
        seen = src + 0.1 * src.mean(0, keepdim=True)
        return super().forward(seen, src_mask, src_key_padding_mask, is_causal)


def healthy() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 4, batch_first=True)
