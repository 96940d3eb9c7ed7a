import torch
import torch.nn as nn
import torch.nn.functional as F
import random
import numpy as np

SEED = 1234


def set_seed(s):
    random.seed(s); np.random.seed(s); torch.manual_seed(s)


def count_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


class MHA(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        assert hid_dim % n_heads == 0
        self.hid_dim = hid_dim
        self.n_heads = n_heads
        self.head_dim = hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = float(np.sqrt(self.head_dim))

    def forward(self, query, key, value, mask=None):
        batch_size = query.shape[0]
        #query = [batch size, query len, hid dim]
        Q = self.fc_q(query)
        K = self.fc_k(key)
        V = self.fc_v(value)
        Q = Q.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = K.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = V.view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        # print(Q.shape, K.shape)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.dropout(attention), V)
        x = x.permute(0, 2, 1, 3).contiguous()
        x = x.view(batch_size, -1, self.hid_dim)
        x = self.fc_o(x)
        return x, attention


class TransformerTranslator(nn.Module):
    def __init__(self, input_dim, output_dim, hid_dim=128, n_heads=4, pf_dim=512, dropout=0.1, max_length=100):
        super().__init__()
        self.tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.self_attn_layer_norm = nn.LayerNorm(hid_dim)
        self.ff_layer_norm = nn.LayerNorm(hid_dim)
        self.self_attention = MHA(hid_dim, n_heads, dropout)
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.fc_out = nn.Linear(hid_dim, output_dim)

    def make_src_mask(self, src):
        return (src != 0).unsqueeze(1).unsqueeze(2)

    def forward(self, src, return_attention=False):
        src_mask = self.make_src_mask(src)
        batch_size, src_len = src.shape
        pos = torch.arange(0, src_len).unsqueeze(0).repeat(batch_size, 1).to(src.device)
        src = self.dropout(self.tok_embedding(src) + self.pos_embedding(pos))
        _src, attn = self.self_attention(src, src, src, src_mask)
        src = self.self_attn_layer_norm(src + self.dropout(_src))
        _src = self.fc_2(self.dropout(torch.relu(self.fc_1(src))))
        src = self.ff_layer_norm(src + self.dropout(_src))
        # TODO beam search?
        if return_attention:
            return self.fc_out(src), attn
        return self.fc_out(src)


if __name__ == "__main__":
    set_seed(SEED)
    model = TransformerTranslator(1000, 900)
    print(count_parameters(model))
