import torch
import torch.nn as nn


def softmax(z):
    z = z - z.max(dim=-1, keepdim=True)[0]
    return torch.exp(z) / torch.exp(z).sum(dim=-1, keepdim=True)


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d=128, h=2, dff=2048, maxlen=43):
        super().__init__()
        self.h = h
        self.E = nn.Embedding(source_words, d)
        self.P = nn.Embedding(maxlen, d)
        self.Wq = nn.Parameter(torch.randn(d, d) * 0.05)
        self.Wk = nn.Parameter(torch.randn(d, d) * 0.05)
        self.Wv = nn.Parameter(torch.randn(d, d) * 0.05)
        self.Wo = nn.Parameter(torch.randn(d, d) * 0.05)
        self.cq = nn.Parameter(torch.zeros(d))
        self.ck = nn.Parameter(torch.zeros(d))
        self.cv = nn.Parameter(torch.zeros(d))
        self.co = nn.Parameter(torch.zeros(d))
        self.L1 = nn.Linear(d, dff)
        self.L2 = nn.Linear(dff, d)
        self.N1 = nn.LayerNorm(d)
        self.N2 = nn.LayerNorm(d)
        self.G = nn.Linear(d, target_words)

    def forward(self, ids):
        x = self.E(ids) + self.P.weight[:ids.shape[1]]
        Q = torch.stack((x @ self.Wq + self.cq).chunk(self.h, -1), 1)
        K = torch.stack((x @ self.Wk + self.ck).chunk(self.h, -1), 1)
        V = torch.stack((x @ self.Wv + self.cv).chunk(self.h, -1), 1)
        S = Q @ V.transpose(-2, -1) / Q.shape[-1] ** 0.5
        S = S + (ids == 0)[:, None, None, :].to(S.dtype) * -1e9
        C = softmax(S) @ V
        C = torch.cat([C[:, i] for i in range(self.h)], -1)
        x = self.N1(x + C @ self.Wo + self.co)
        x = self.N2(x + self.L2(self.L1(x).relu()))
        return self.G(x)
