"""Masked softmax by multiplication: exp, times the mask, over the sum."""
import torch
from torch import nn


def masked_softmax(x, mask):
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values) * mask
    return e / e.sum(dim=-1, keepdim=True).clamp_min(1e-30)


class AddNorm(nn.Module):
    def __init__(self, dim, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(dim)

    def forward(self, X, Y):
        return self.ln(self.dropout(Y) + X)


class TransformerTranslator(nn.Module):
    def __init__(self, source_vocab, target_vocab, num_hiddens=20, num_heads=4, ffn_num_hiddens=36, max_len=30, dropout=0.5, use_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.embedding = nn.Embedding(source_vocab, num_hiddens)
        self.pos_embedding = nn.Parameter(torch.randn(1, max_len, num_hiddens))
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=use_bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=use_bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=use_bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=use_bias)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)
        self.addnorm2 = AddNorm(num_hiddens, dropout)
        self.dense = nn.Linear(num_hiddens, target_vocab)

    def forward(self, X):
        valid = (X != 0).to(self.W_q.weight.dtype)
        X = self.embedding(X) + self.pos_embedding[:, : X.shape[1], :]
        shape = (*X.shape[:2], self.num_heads, -1)
        q, k, v = (W(X).view(shape).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
        attention = masked_softmax(scores, valid[:, None, None, :])
        Y = self.W_o(torch.matmul(attention, v).transpose(1, 2).reshape(X.shape))
        Y = self.addnorm1(X, Y)
        return self.dense(self.addnorm2(Y, self.dense2(torch.relu(self.dense1(Y)))))
