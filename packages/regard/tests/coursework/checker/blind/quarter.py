import torch
import torch.nn as nn


class Attention(nn.Module):
    # from a GPT-2 / diffusion style code base: scale both q and k by d^-1/4
    def __init__(self, channels, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(channels, channels, bias=False)
        self.k_proj = nn.Linear(channels, channels, bias=False)
        self.v_proj = nn.Linear(channels, channels, bias=False)
        self.c_proj = nn.Linear(channels, channels)

    def forward(self, x, mask=None):
        b, t, c = x.shape
        ch = c // self.num_heads
        scale = ch ** -0.25
        q = (self.q_proj(x) * scale).reshape(b, t, self.num_heads, ch).permute(0, 2, 1, 3).reshape(b * self.num_heads, t, ch)
        k = (self.k_proj(x) * scale).reshape(b, t, self.num_heads, ch).permute(0, 2, 1, 3).reshape(b * self.num_heads, t, ch)
        v = self.v_proj(x).reshape(b, t, self.num_heads, ch).permute(0, 2, 1, 3).reshape(b * self.num_heads, t, ch)
        w = torch.einsum("btc,bsc->bts", q, k)
        if mask is not None:
            w = torch.where(mask.repeat_interleave(self.num_heads, 0)[:, None, :], w, torch.full_like(w, -1e30))
        w = w.softmax(dim=-1).type(w.dtype)
        a = torch.einsum("bts,bsc->btc", w, v)
        a = a.reshape(b, self.num_heads, t, ch).permute(0, 2, 1, 3).reshape(b, t, c)
        return self.c_proj(a)


class Model(nn.Module):
    def __init__(self, vocab, target_vocab, channels=32, num_heads=4, mlp_ratio=2, context_length=64):
        super().__init__()
        self.wte = nn.Embedding(vocab, channels)
        self.wpe = nn.Embedding(context_length, channels)
        self.attn = Attention(channels, num_heads)
        self.ln_1 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, mlp_ratio * channels), nn.ReLU(), nn.Linear(mlp_ratio * channels, channels))
        self.ln_2 = nn.LayerNorm(channels)
        self.lm_head = nn.Linear(channels, target_vocab)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[-1], device=idx.device))
        x = self.ln_1(x + self.attn(x, idx != 0))
        x = self.ln_2(x + self.mlp(x))
        return self.lm_head(x)
