import torch
from torch import nn


class RaggedEncoder(nn.Module):
    """Padding is really removed: each sentence is cut to its own length, computed alone, and padded back with zeros before the output."""

    def __init__(self, src_vocab, trg_vocab, hid_dim=32, n_heads=4, pf_dim=64, max_length=100, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.tok_embedding = nn.Embedding(src_vocab, hid_dim)
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.mha = nn.MultiheadAttention(hid_dim, n_heads, batch_first=True)
        self.ln1 = nn.LayerNorm(hid_dim)
        self.ln2 = nn.LayerNorm(hid_dim)
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)
        self.fc_out = nn.Linear(hid_dim, trg_vocab)

    def encode(self, ids, kv_ids):
        x = self.tok_embedding(ids) + self.pos_embedding.weight[: ids.numel()]
        kv = x[kv_ids]
        x = x.unsqueeze(0)
        kv = kv.unsqueeze(0)
        a, _ = self.mha(x, kv, kv, need_weights=False)
        x = self.ln1(x + a)
        x = self.ln2(x + self.fc_2(torch.relu(self.fc_1(x))))
        return self.fc_out(x)[0]

    def forward(self, src):
        return torch.stack([self.encode(s, s != self.pad_id) for s in src])
