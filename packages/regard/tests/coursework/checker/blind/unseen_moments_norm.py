import torch
import torch.nn as nn


class Norm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale_gamma = nn.Parameter(torch.ones(size))
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        m = x.mean(-1, keepdim=True)
        s = x.pow(2).mean(-1, keepdim=True) - m.pow(2)
        return torch.addcmul(self.shift, (x - m) / (s + self.eps).sqrt(), self.scale_gamma)


class MHA(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.softmax = nn.Softmax(dim=1)
        self.scale = 1 / (d_model // heads) ** 0.5

    def prepare(self, f, x):
        return f(x).view(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)

    def forward(self, x, mask):
        # x: [seq, batch, d]; scores: [query, key, batch, head], as in labml
        q, k, v = self.prepare(self.query, x), self.prepare(self.key, x), self.prepare(self.value, x)
        scores = torch.einsum('ibhd,jbhd->ijbh', q, k)
        scores *= self.scale
        scores = scores.masked_fill(mask == 0, float('-inf'))
        attn = self.softmax(scores)
        y = torch.einsum("ijbh,jbhd->ibhd", attn, v)
        return self.output(y.reshape(*x.shape[:2], -1))


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=128, heads=2, d_ff=2048, max_len=64):
        super().__init__()
        self.linear = nn.Embedding(n_src, d_model)
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model), requires_grad=True)
        self.attn = MHA(d_model, heads)
        self.layer1 = nn.Linear(d_model, d_ff)
        self.layer2 = nn.Linear(d_ff, d_model)
        self.norm_self_attn = Norm(d_model)
        self.norm_ff = Norm(d_model)
        self.generator = nn.Linear(d_model, n_tgt)

    def forward(self, src):
        src = src.t()
        pe = self.positional_encodings[:src.shape[0]]
        x = self.linear(src) + pe
        mask = (src != 0)[None, :, :, None]
        x = self.norm_self_attn(x + self.attn(x, mask))
        x = self.norm_ff(x + self.layer2(self.layer1(x).relu()))
        return self.generator(x).transpose(0, 1)
