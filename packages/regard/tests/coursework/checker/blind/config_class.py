import torch
from torch import nn


class Config:
    source_vocab_size = 97
    target_vocab_size = 89
    hidden_size = 36
    num_heads = 3
    intermediate_size = 70
    max_len = 64
    layer_norm_eps = 1e-5


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.nh = cfg.num_heads
        self.hd = cfg.hidden_size // cfg.num_heads
        self.wq = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.wk = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.wv = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.wo = nn.Linear(cfg.hidden_size, cfg.hidden_size)

    def forward(self, x):
        b, t, c = x.shape
        q = self.wq(x).view(b, t, self.nh, self.hd)
        k = self.wk(x).view(b, t, self.nh, self.hd)
        v = self.wv(x).view(b, t, self.nh, self.hd)
        scores = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / self.hd**0.5  # b, i, j, h
        weights = torch.softmax(scores, dim=2)
        out = (weights.unsqueeze(-1) * v.unsqueeze(1)).sum(2)
        return self.wo(out.reshape(b, t, c))


class TransformerModel(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tok = nn.Embedding(config.source_vocab_size, config.hidden_size)
        self.pos = nn.Embedding(config.max_len, config.hidden_size)
        self.attn = Attention(config)
        self.ln_a = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)
        self.pr = nn.Linear(config.intermediate_size, config.hidden_size)
        self.ln_b = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.unembed = nn.Linear(config.hidden_size, config.target_vocab_size)

    def forward(self, ids):
        h = self.tok(ids)
        h += self.pos(torch.arange(ids.shape[-1], device=ids.device))
        h = self.ln_a(self.attn(h) + h)
        h = self.ln_b(self.pr(torch.relu(self.fc(h))) + h)
        return self.unembed(h)
