import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, input_dim, hid_dim, n_heads, pf_dim, max_length):
        super().__init__()
        self.n_heads = n_heads
        self.tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))
        self.attn_layer_norm = nn.LayerNorm(hid_dim)
        self.ff_layer_norm = nn.LayerNorm(hid_dim)
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)

    def forward(self, src):
        batch, length = src.shape
        pos = torch.arange(0, length, device=src.device).unsqueeze(0).repeat(batch, 1)
        x = self.tok_embedding(src) + self.pos_embedding(pos)
        penalty = (src == 0).to(x.dtype)[:, None, None, :] * 1e9
        q = self.fc_q(x).view(batch, length, self.n_heads, -1).permute(0, 2, 1, 3)
        k = self.fc_k(x).view(batch, length, self.n_heads, -1).permute(0, 2, 3, 1)
        v = self.fc_v(x).view(batch, length, self.n_heads, -1).permute(0, 2, 1, 3)
        energy = torch.matmul(q, k) / q.shape[-1] ** 0.5 + penalty
        y = torch.matmul(torch.softmax(energy, dim=-1), v).permute(0, 2, 1, 3).contiguous().view(batch, length, -1)
        x = self.attn_layer_norm(x + self.fc_o(y))
        return self.ff_layer_norm(x + self.fc_2(torch.relu(self.fc_1(x))))


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, hid_dim=128, n_heads=2, pf_dim=2048, max_length=43):
        super().__init__()
        self.encoder = Encoder(source_words, hid_dim, n_heads, pf_dim, max_length)
        self.fc_out = nn.Linear(hid_dim, target_words, bias=False)

    def forward(self, src):
        return self.fc_out(self.encoder(src))
