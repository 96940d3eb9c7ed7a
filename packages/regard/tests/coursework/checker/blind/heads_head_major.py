import torch
import torch.nn as nn
from collections import OrderedDict


class Head(nn.Module):
    def __init__(self, emb_size, head_size):
        super().__init__()
        self.key = nn.Linear(emb_size, head_size, bias=False)
        self.query = nn.Linear(emb_size, head_size, bias=False)
        self.value = nn.Linear(emb_size, head_size, bias=False)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.softmax(-1)
        wei = self.dropout(wei)
        return wei @ self.value(x)


class Block(nn.Module):
    def __init__(self, emb_size, n_head):
        super().__init__()
        hs = emb_size // n_head
        self.sa = nn.ModuleList([Head(emb_size, hs) for _ in range(n_head)])
        self.proj = nn.Linear(emb_size, emb_size)
        self.ffwd = nn.Sequential(OrderedDict(a=nn.Linear(emb_size, 4 * emb_size), b=nn.ReLU(), c=nn.Linear(4 * emb_size, emb_size), d=nn.Dropout(0.2)))
        self.ln1 = nn.LayerNorm(emb_size)
        self.ln2 = nn.LayerNorm(emb_size)

    def forward(self, x):
        x = self.ln1(x + self.proj(torch.cat([h(x) for h in self.sa], dim=-1)))
        return self.ln2(x + self.ffwd(x))


class BigramLanguageModel(nn.Module):
    def __init__(self, vocab_size=65, out_size=70, n_embd=32, n_head=4, n_layer=1, block_size=32):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block(n_embd, n_head=n_head) for _ in range(n_layer)])
        self.lm_head = nn.Linear(n_embd, out_size)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        x = self.token_embedding_table(idx) + self.position_embedding_table(torch.arange(T, device=idx.device))
        x = self.blocks(x)
        return self.lm_head(x)
