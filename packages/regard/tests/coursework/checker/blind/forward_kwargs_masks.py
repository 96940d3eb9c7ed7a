import torch
from torch import nn
import numpy as np

class MultiHeadAttention(nn.Module):
    ''' jadore801120-like, residual and layer norm inside '''
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.temperature = d_k ** 0.5
        self.attn_dropout = nn.Dropout(0.1)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        d_k, d_v, n_head = self.d_k, self.d_v, self.n_head
        sz_b, len_q, len_k, len_v = q.size(0), q.size(1), k.size(1), v.size(1)
        residual = q
        q = self.w_qs(q).view(sz_b, len_q, n_head, d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, d_k)
        v = self.w_vs(v).view(sz_b, len_v, n_head, d_v)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if mask is not None:
            mask = mask.unsqueeze(1)
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.attn_dropout(torch.softmax(attn, dim=-1))
        q = torch.matmul(attn, v)
        q = q.transpose(1, 2).contiguous().view(sz_b, len_q, -1)
        q = self.dropout(self.fc(q))
        q += residual
        q = self.layer_norm(q)
        return q, attn

class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_in, d_hid, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_in, d_hid)
        self.w_2 = nn.Linear(d_hid, d_in)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        residual = x
        x = self.w_2(torch.relu(self.w_1(x)))
        x = self.dropout(x)
        x += residual
        x = self.layer_norm(x)
        return x

def get_pad_mask(seq, pad_idx):
    return (seq != pad_idx).unsqueeze(-2)

class Transformer(nn.Module):
    def __init__(self, n_src_vocab, n_trg_vocab, src_pad_idx=0, d_word_vec=32, d_model=32, d_inner=64, n_head=4, d_k=7, d_v=9, dropout=0.1, n_position=200):
        super().__init__()
        assert d_model == d_word_vec
        self.src_pad_idx = src_pad_idx
        self.src_word_emb = nn.Embedding(n_src_vocab, d_word_vec, padding_idx=src_pad_idx)
        self.position_enc = nn.Embedding(n_position, d_word_vec)
        self.dropout = nn.Dropout(p=dropout)
        self.slf_attn = MultiHeadAttention(n_head, d_model, d_k, d_v, dropout=dropout)
        self.pos_ffn = PositionwiseFeedForward(d_model, d_inner, dropout=dropout)
        self.trg_word_prj = nn.Linear(d_model, n_trg_vocab)

    def forward(self, src_seq):
        src_mask = get_pad_mask(src_seq, self.src_pad_idx)
        pos = torch.arange(src_seq.size(1)).unsqueeze(0).to(src_seq.device)
        enc = self.dropout(self.src_word_emb(src_seq) + self.position_enc(pos))
        enc, attn = self.slf_attn(enc, enc, enc, mask=src_mask)
        enc = self.pos_ffn(enc)
        return self.trg_word_prj(enc)
