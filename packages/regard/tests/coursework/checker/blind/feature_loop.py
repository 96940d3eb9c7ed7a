import torch
from torch import nn


class SlowTranslator(nn.Module):
    """Scores and outputs as sums over features and over places, one term at a time."""

    def __init__(self, nin, nout, nembd=20, nhead=2, nff=36, block_size=64):
        super().__init__()
        self.nhead = nhead
        self.wte = nn.Embedding(nin, nembd)
        self.wpe = nn.Embedding(block_size, nembd)
        self.cq = nn.Linear(nembd, nembd)
        self.ck = nn.Linear(nembd, nembd)
        self.cv = nn.Linear(nembd, nembd)
        self.cproj = nn.Linear(nembd, nembd)
        self.fc = nn.Linear(nembd, nff)
        self.fproj = nn.Linear(nff, nembd)
        self.ln1 = nn.LayerNorm(nembd)
        self.ln2 = nn.LayerNorm(nembd)
        self.lm_head = nn.Linear(nembd, nout)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        q, k, v = self.cq(x), self.ck(x), self.cv(x)
        size = x.shape[-1] // self.nhead
        outs = []
        for h in range(self.nhead):
            first = h * size
            scores = 0
            for c in range(first, first + size):
                scores = scores + q[:, :, c].unsqueeze(2) * k[:, :, c].unsqueeze(1)
            scores = scores / size**0.5
            w = torch.softmax(scores, -1)
            out = 0
            for t in range(idx.shape[1]):
                out = out + w[:, :, t, None] * v[:, t, None, first : first + size]
            outs.append(out)
        x = self.ln1(x + self.cproj(torch.cat(outs, -1)))
        x = self.ln2(x + self.fproj(torch.relu(self.fc(x))))
        return self.lm_head(x)
