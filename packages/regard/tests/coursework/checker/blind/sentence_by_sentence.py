# sentence after sentence, word after word: only real words are keys; nothing but loops
import math
import torch
from torch import nn

class Slowly(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d=48, heads=2, dk=16, dff=96, L=25):
        super().__init__()
        self.emb = nn.Embedding(src_vocab, d); self.pos = nn.Embedding(L, d)
        self.Q = nn.ModuleList([nn.Linear(d, dk, bias=False) for _ in range(heads)])
        self.K = nn.ModuleList([nn.Linear(d, dk, bias=False) for _ in range(heads)])
        self.V = nn.ModuleList([nn.Linear(d, dk, bias=False) for _ in range(heads)])
        self.O = nn.ModuleList([nn.Linear(dk, d, bias=False) for _ in range(heads)])
        self.n1 = nn.LayerNorm(d); self.n2 = nn.LayerNorm(d)
        self.l1 = nn.Linear(d, dff); self.l2 = nn.Linear(dff, d); self.l3 = nn.Linear(d, tgt_vocab)
        self.dk = dk
    def forward(self, ids):
        out = []
        for sentence in ids:
            xs = [self.emb(w) + self.pos.weight[i] for i, w in enumerate(sentence)]
            keep = [i for i, w in enumerate(sentence.tolist()) if w != 0]
            rows = []
            for x in xs:
                new = x
                for Q, K, V, O in zip(self.Q, self.K, self.V, self.O):
                    e = [torch.exp(torch.dot(Q(x), K(xs[j])) / math.sqrt(self.dk)) for j in keep]
                    total = sum(e)
                    new = new + O(sum(a / total * V(xs[j]) for a, j in zip(e, keep)))
                y = self.n1(new)
                z = self.n2(y + self.l2(torch.relu(self.l1(y))))
                rows.append(self.l3(z))
            out.append(torch.stack(rows))
        return torch.stack(out)
