import torch
import torch.nn as nn


class Feedforward(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.lin_1 = nn.Linear(d, hidden, bias=False)
        self.lin_2 = nn.Linear(hidden, d)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.lin_2(self.lin_1(self.act(x)))


class SelfAttn(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.k_lin = nn.Linear(d, d)
        self.q_lin = nn.Linear(d, d)
        self.v_lin = nn.Linear(d, d)
        self.o_lin = nn.Linear(d, d)

    def forward(self, x, pad):
        hd = x.size(-1) // self.heads
        k = self.k_lin(x).unflatten(-1, (-1, hd)).swapaxes(1, 2)
        q = self.q_lin(x).unflatten(-1, (-1, hd)).swapaxes(1, 2)
        v = self.v_lin(x).unflatten(-1, (-1, hd)).swapaxes(1, 2)
        s = (q @ k.swapaxes(-1, -2)).div(hd ** 0.5).masked_fill(pad[:, None, None], float("-inf"))
        return self.o_lin((s.softmax(-1) @ v).swapaxes(1, 2).flatten(2))


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d=128, heads=2, hidden=2048, max_len=43):
        super().__init__()
        self.e_tok = nn.Embedding(source_words, d)
        self.e_pos = nn.Embedding(max_len, d)
        self.att, self.ffw = SelfAttn(d, heads), Feedforward(d, hidden)
        self.nrm1, self.nrm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.voc = nn.Linear(d, target_words)

    def forward(self, ids):
        x = self.e_tok(ids) + self.e_pos(torch.arange(ids.size(1)).to(ids.device))
        x = self.nrm1(x + self.att(x, ids == 0))
        y = self.ffw(x)
        x = self.nrm2(x + y)
        return self.voc(x)
