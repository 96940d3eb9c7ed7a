import torch
from torch import nn


class Everything(nn.Module):
    """All weights in one flat vector, cut by offsets (as in old MATLAB homework)."""
    def __init__(self, source_words=40, target_words=41, width=12, heads=2, inner=20, longest=30):
        super().__init__()
        self.sizes = dict(E=(source_words, width), P=(longest, width), Wq=(width, width), bq=(width,), Wk=(width, width), bk=(width,),
                          Wv=(width, width), bv=(width,), Wo=(width, width), bo=(width,), g1=(width,), c1=(width,),
                          W1=(width, inner), b1=(inner,), W2=(inner, width), b2=(width,), g2=(width,), c2=(width,),
                          W=(width, target_words), b=(target_words,))
        total = sum(torch.Size(s).numel() for s in self.sizes.values())
        self.theta = nn.Parameter(torch.randn(total) * 0.3)
        self.heads = heads

    def unpack(self):
        at, out = 0, {}
        for name, size in self.sizes.items():
            n = torch.Size(size).numel()
            out[name] = self.theta[at:at + n].view(size)
            at += n
        return out

    def forward(self, ids):
        p = self.unpack()
        x = p["E"][ids] + p["P"][: ids.shape[1]]
        n, t, w = x.shape
        cut = lambda a: a.view(n, t, self.heads, -1).transpose(1, 2)
        q, k, v = cut(x @ p["Wq"] + p["bq"]), cut(x @ p["Wk"] + p["bk"]), cut(x @ p["Wv"] + p["bv"])
        a = torch.softmax(q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5, -1) @ v
        y = x + a.transpose(1, 2).reshape(n, t, w) @ p["Wo"] + p["bo"]
        y = self.norm(y) * p["g1"] + p["c1"]
        z = y + torch.relu(y @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
        z = self.norm(z) * p["g2"] + p["c2"]
        return z @ p["W"] + p["b"]

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
