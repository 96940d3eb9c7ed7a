"""Twelve wrong models and six healthy odd ones, each in the style of another author, written before the audit saw them.

What should show each fault, and who would be a right culprit, was written down with it.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

V, D, H = 41, 20, 4
IDS = torch.randint(1, V, (3, 17), generator=torch.Generator().manual_seed(14))
TARGET = torch.randint(1, V, (3, 13), generator=torch.Generator().manual_seed(15))
DOCS = (torch.arange(17) // 6).expand(3, -1).clone()
CAUSAL = {"causal": True}


def split(x):
    return x.unflatten(-1, (H, D // H)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


class Attn(nn.Module):
    """Self or cross attention; ``allowed`` (True = may read) comes from outside."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, memory, allowed):
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        return self.o(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)))


class Block(nn.Module):
    def __init__(self, attn=Attn):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), attn()
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x, allowed):
        h = self.norm1(x)
        x = x + self.attn(h, h, allowed)
        return x + self.mlp(self.norm2(x))


def lower(t, s=None):
    s = t if s is None else s
    return torch.ones(t, s, dtype=torch.bool).tril(s - t)


# 1: a translator, whose second decoder layer forgets the source's mask


class DecoderLayer(nn.Module):
    def __init__(self, *, forgets=False):
        super().__init__()
        self.self_attn, self.cross, self.forgets = Attn(), Attn(), forgets
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))

    def forward(self, y, memory, allowed):
        h = self.norms[0](y)
        y = y + self.self_attn(h, h, lower(y.shape[1]))
        return y + self.cross(self.norms[1](y), memory, None if self.forgets else allowed)


class Seq2Seq(nn.Module):
    def __init__(self, *, forgets):
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.pos, self.encoder = nn.Embedding(V, D), nn.Embedding(64, D), Block()
        self.decoder = nn.ModuleList([DecoderLayer(), DecoderLayer(forgets=forgets)])
        self.out = nn.Linear(D, V)

    def forward(self, src, tgt, src_mask=None):
        allowed = None if src_mask is None else src_mask[:, None, None, :].bool()
        memory = self.encoder(self.embed(src) + self.pos.weight[: src.shape[1]], allowed)
        y = self.embed(tgt) + self.pos.weight[: tgt.shape[1]]
        for layer in self.decoder:
            y = layer(y, memory, allowed)
        return self.out(y)


# 2: a window whose mask is one diagonal too generous in the last layer


class WindowLM(nn.Module):
    def __init__(self, slack=(0, 0, 1)):
        super().__init__()
        torch.manual_seed(2)
        self.tok, self.slack = nn.Embedding(V, D), slack
        self.wpe = nn.Parameter(0.1 * torch.randn(64, D))
        self.h = nn.ModuleList(Block() for _ in slack)
        self.head = nn.Linear(D, V, bias=False)

    def forward(self, idx):
        t = idx.shape[1]
        x = self.tok(idx) + self.wpe[:t]
        for block, slack in zip(self.h, self.slack, strict=True):
            band = torch.ones(t, t, dtype=torch.bool).tril(slack).triu(-5)
            x = block(x, band)
        return self.head(x)


# 3: the number of cached tokens read off the wrong axis


class CachedAttn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, past=None):
        q, k, v = map(split, self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.allowed(q, k))
        return self.proj(merge(y)), (k, v)

    def allowed(self, q, k):
        return lower(q.shape[2], k.shape[2])


class CachedGPT(nn.Module):
    axis = 2

    def __init__(self, attn=CachedAttn):
        super().__init__()
        torch.manual_seed(3)
        self.wte, self.where = nn.Embedding(V, D), nn.Embedding(128, D)
        self.attns = nn.ModuleList([CachedAttn(), attn()])
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.head = nn.Linear(D, V)

    def forward(self, ids, past_key_values=None):
        seen = 0 if past_key_values is None else past_key_values[0][0].shape[self.axis]
        x = self.wte(ids) + self.where(torch.arange(seen, seen + ids.shape[1]))
        kept = []
        for i, (attn, norm) in enumerate(zip(self.attns, self.norms, strict=True)):
            y, kv = attn(norm(x), None if past_key_values is None else past_key_values[i])
            x = x + y
            kept.append(kv)
        return self.head(x), kept


class CountsHeads(CachedGPT):
    axis = 1  # the number of heads


# 4: a static cache in buffers; a chunk reads only up to its own first token


class StaticAttn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.register_buffer("cache_k", torch.zeros(8, 64, D), persistent=False)
        self.register_buffer("cache_v", torch.zeros(8, 64, D), persistent=False)

    def end(self, start, t):
        return start + t

    def forward(self, x, start_pos):
        b, t, _ = x.shape
        with torch.no_grad():
            self.cache_k[:b, start_pos : start_pos + t] = self.wk(x)
            self.cache_v[:b, start_pos : start_pos + t] = self.wv(x)
        end = self.end(start_pos, t)
        k, v = self.cache_k[:b, :end].clone(), self.cache_v[:b, :end].clone()
        k[:, start_pos:], v[:, start_pos:] = self.wk(x)[:, : end - start_pos], self.wv(x)[:, : end - start_pos]
        places = torch.arange(start_pos, start_pos + t)
        allowed = torch.arange(end) <= places[:, None]
        return self.wo(merge(F.scaled_dot_product_attention(split(self.wq(x)), split(k), split(v), attn_mask=allowed)))


class ChunkTooShort(StaticAttn):
    def end(self, start, t):
        return start + t if start == 0 else start + 1


class StaticLM(nn.Module):
    def __init__(self, attn=StaticAttn):
        super().__init__()
        torch.manual_seed(4)
        self.tok, self.place, self.out = nn.Embedding(V, D), nn.Embedding(64, D), nn.Linear(D, V)
        self.layers = nn.ModuleList([StaticAttn(), attn()])

    def forward(self, tokens, start_pos=0):
        x = self.tok(tokens) + self.place(torch.arange(start_pos, start_pos + tokens.shape[1]))
        for layer in self.layers:
            x = x + layer(F.layer_norm(x, (D,)), start_pos)
        return self.out(x)


def advance(module, inputs, past, start):
    inputs.pop("start_pos", None)
    return module(**inputs, start_pos=start), past


# 5: a classifier whose mean divides by the padded length


class MeanPool(nn.Module):
    def forward(self, x, keep):
        return (x * keep[..., None]).mean(1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.emb, self.places = nn.Embedding(V, D), nn.Parameter(0.1 * torch.randn(64, D))
        self.block, self.pool, self.out = Block(), MeanPool(), nn.Linear(D, 3)

    def forward(self, input_ids, attention_mask=None):
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        x = self.emb(input_ids) + self.places[: input_ids.shape[1]]
        x = self.block(x, keep[:, None, None, :].bool())
        return self.out(self.pool(x, keep))


# 6: documents in one row; attention keeps them apart, the convolution does not


class ShortConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, D))

    def forward(self, x):
        return sum(w * F.pad(x, (0, 0, i, 0))[:, : x.shape[1]] for i, w in enumerate(self.weight))


class PackedLM(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.embed, self.conv, self.block = nn.Embedding(V, D), ShortConv(), Block()
        self.place, self.out = nn.Embedding(64, D), nn.Linear(D, V)

    def forward(self, ids, document_ids):
        same = document_ids[:, :, None] == document_ids[:, None, :]
        starts = same.int().argmax(-1)  # the first place of one's own document
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]) - starts)
        return self.out(self.block(x + self.conv(x), (same & lower(ids.shape[1]))[:, None]))


# 7: the tokens are embedded, and the blocks are given the positions only


class Forgetful(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.tok_emb, self.pos_emb = nn.Embedding(V, D), nn.Embedding(64, D)
        self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(2)), nn.LayerNorm(D)
        self.lm_head = nn.Linear(D, V)

    def forward(self, ids):
        tokens = self.tok_emb(ids)
        x = self.pos_emb(torch.arange(ids.shape[1])).expand_as(tokens)
        for block in self.blocks:
            x = block(x, lower(ids.shape[1]))
        return self.lm_head(self.ln_f(x))


# 8: a norm over the batch as well


class RMS(nn.Module):
    axes = (-1,)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(D))

    def forward(self, x):
        return self.scale * x / x.square().mean(self.axes, keepdim=True).add(1e-6).sqrt()


class RMSOfAll(RMS):
    axes = (0, -1)


class NormedLM(nn.Module):
    def __init__(self, last=RMSOfAll):
        super().__init__()
        torch.manual_seed(8)
        self.inp, self.place = nn.Embedding(V, D), nn.Parameter(0.1 * torch.randn(64, D))
        self.body, self.final = Block(), last()
        self.body.norm1 = RMS()

    def forward(self, ids):
        x = self.inp(ids) + self.place[: ids.shape[1]]
        return self.final(self.body(x, lower(ids.shape[1]))) @ self.inp.weight.T


# 9: heads cut without a transpose, so that places are mixed


class ViewedHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, memory, allowed):
        b, t, _ = x.shape
        q, k, v = (y.reshape(b * H, t, D // H) for y in self.c_attn(x).split(D, -1))
        scores = (q @ k.mT / math.sqrt(D // H)).masked_fill(~allowed, -torch.inf)
        return self.c_proj((scores.softmax(-1) @ v).reshape(b, t, D))


class ViewedLM(WindowLM):
    def __init__(self):
        super().__init__((0, 0))
        self.h[1].attn = ViewedHeads()


# 10: experts choose their tokens among all that are there


class ExpertChoice(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, 4)
        self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        flat = x.reshape(-1, D)
        shares = self.router(flat).softmax(-1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            share, chosen = shares[:, e].topk(len(flat) // 4)
            out = out.index_add(0, chosen, share[:, None] * expert(flat[chosen]))
        return out.view_as(x)


class ChosenLM(WindowLM):
    def __init__(self):
        super().__init__((0, 0))
        self.h[1].mlp = ExpertChoice()


# 11: a relative bias that is cut to its last row in every cached step, however many tokens that has


class BiasedAttn(CachedAttn):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(64, H)

    def rows(self, bias, q):
        return bias[:, -q.shape[2] :]

    def allowed(self, q, k):
        places = torch.arange(k.shape[2])
        bias = self.bias((places[:, None] - places).clamp(0, 63)).permute(2, 0, 1)
        added = self.rows(bias, q) if q.shape[2] < k.shape[2] else bias
        return added.masked_fill(~super().allowed(q, k), -torch.inf)


class LastRowOnly(BiasedAttn):
    def rows(self, bias, q):
        return bias[:, -1:]


# 12: padding is taken out and all texts are laid in one row, whose places are counted through


class Unpadded(nn.Module):
    """Real tokens of all examples in one row, with a mask of blocks; put back afterwards."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(12)
        self.words, self.place_table = nn.Embedding(V, D), nn.Embedding(512, D)
        self.layers, self.out = nn.ModuleList(Block() for _ in range(2)), nn.Linear(D, V)

    def count(self, keep):
        return (keep.cumsum(1) - 1)[keep]

    def forward(self, input_ids, attention_mask=None):
        keep = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        owner = keep.nonzero()[:, 0]
        x = (self.words(input_ids[keep]) + self.place_table(self.count(keep)))[None]
        for layer in self.layers:
            x = layer(x, owner[:, None] == owner)
        made = x.new_zeros(*keep.shape, D)
        made[keep] = x[0]
        return self.out(made)


class CountedThrough(Unpadded):
    def count(self, keep):
        return torch.arange(int(keep.sum()))


# healthy and odd


class Decay(nn.Module):
    """A recurrence with a decay for each channel, its state handed on; no attention at all."""

    def __init__(self):
        super().__init__()
        self.key, self.value, self.gate = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.speed = nn.Parameter(torch.linspace(-2, 2, D))

    def forward(self, x, state):
        total, made = x.new_zeros(len(x), D) if state is None else state, []
        k, v, decay = self.key(x).sigmoid(), self.value(x), self.speed.sigmoid()
        for t in range(x.shape[1]):
            total = decay * total + k[:, t] * v[:, t]
            made.append(total)
        return self.gate(x).sigmoid() * torch.stack(made, 1), total


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(20)
        self.emb, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.cells = nn.ModuleList(Decay() for _ in range(2))

    def forward(self, ids, state=None):
        x, kept = self.emb(ids), []
        for i, cell in enumerate(self.cells):
            y, held = cell(F.layer_norm(x, (D,)), None if state is None else state[i])
            x = x + y
            kept.append(held)
        return self.head(x), kept


class Registers(nn.Module):
    """Four learned tokens stand before the text inside, and are cut off at the end."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(21)
        self.emb, self.spots = nn.Embedding(V, D), nn.Embedding(64, D)
        self.registers = nn.Parameter(torch.randn(4, D))
        self.blocks, self.out = nn.ModuleList(Block() for _ in range(2)), nn.Linear(D, V)

    def forward(self, input_ids, attention_mask=None):
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        keep = F.pad(keep.bool(), (4, 0), value=True)[:, None, None, :]
        x = self.emb(input_ids) + self.spots(torch.arange(input_ids.shape[1]))
        x = torch.cat([self.registers.expand(len(x), -1, -1), x], 1)
        for block in self.blocks:
            x = block(x, keep)
        return self.out(x[:, 4:])


class Bottleneck(nn.Module):
    """Five learned queries read the text; the answer is one row of scores for each text."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(22)
        self.emb, self.spots, self.queries = nn.Embedding(V, D), nn.Embedding(64, D), nn.Parameter(torch.randn(5, D))
        self.read, self.think, self.out = Attn(), Block(), nn.Linear(5 * D, 3)

    def forward(self, input_ids, attention_mask=None):
        keep = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        x = self.emb(input_ids) + self.spots(torch.arange(input_ids.shape[1]))
        latents = self.queries.expand(len(x), -1, -1)
        latents = latents + self.read(latents, x, keep)
        return {"scores": self.out(self.think(latents, None).flatten(1))}


class Chunked(nn.Module):
    """Texts are filled up to a multiple of 4; each chunk reads itself, causally, and the whole chunk before."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(23)
        self.emb, self.p = nn.Embedding(V, D), nn.Parameter(0.1 * torch.randn(4, D))
        self.qkv, self.o, self.head = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, V)

    def forward(self, ids):
        t = ids.shape[1]
        x = F.pad(self.emb(ids), (0, 0, 0, -t % 4)).unflatten(1, (-1, 4)) + self.p
        q, k, v = self.qkv(x).chunk(3, -1)
        k, v = (torch.cat([F.pad(y, (0, 0, 0, 0, 1, 0))[:, :-1], y], 2) for y in (k, v))
        allowed = torch.cat([torch.ones(4, 4, dtype=torch.bool), lower(4)], 1).repeat(x.shape[1], 1, 1)
        allowed[0, :, :4] = False
        y = self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed))
        return self.head((x + y).flatten(1, 2)[:, :t])


STATIC = {**CAUSAL, "advance": advance}
PAIR = {"src": IDS, "tgt": TARGET, "src_mask": torch.ones(3, 17, dtype=torch.bool)}
WRONG = [
    ("the second layer forgets the source's mask", lambda: Seq2Seq(forgets=True), PAIR, {"masks": {"src_mask": "keep"}},
     "padding", ("decoder.1.cross", "decoder.1")),
    ("a window one ahead in the last layer", WindowLM, (IDS,), CAUSAL, "causality", ("h.2.attn", "h.2")),
    ("heads counted for cached tokens", CountsHeads, (IDS,), CAUSAL, "cache", ("where", "")),
    ("a chunk reads up to its first token", lambda: StaticLM(ChunkTooShort), (IDS,), STATIC, "cache", ("layers.1",)),
    ("a mean by the padded length", Classifier, (IDS,), {}, "padding", ("pool",)),
    ("a convolution across documents", PackedLM, {"ids": IDS, "document_ids": DOCS}, CAUSAL, "packing", ("conv",)),
    ("positions only", Forgetful, (IDS,), CAUSAL, "input", ("",)),
    ("a norm over the batch", NormedLM, (IDS,), CAUSAL, "batch", ("final",)),
    ("heads cut by a view", ViewedLM, (IDS,), CAUSAL, "causality", ("h.1.attn",)),
    ("experts choose tokens", ChosenLM, (IDS,), CAUSAL, "batch", ("h.1.mlp",)),
    ("the last row of a bias for a chunk", lambda: CachedGPT(LastRowOnly), (IDS,), CAUSAL, "cache", ("attns.1",)),
    ("places counted through all texts", CountedThrough, (IDS,), {}, "batch", ("place_table", "")),
]  # fmt: skip
HEALTHY = [
    ("padding taken out", Unpadded, (IDS,), {}),
    ("a cache in buffers", StaticLM, (IDS,), STATIC),
    ("a decay with a state", Recurrent, (IDS,), CAUSAL),
    ("registers before the text", Registers, (IDS,), {}),
    ("five queries read a text", Bottleneck, (IDS,), {}),
    ("chunks of four", Chunked, (IDS,), CAUSAL),
]
