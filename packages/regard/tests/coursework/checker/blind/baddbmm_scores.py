import torch
import torch.nn as nn


class FastTranslator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, hidden=32, heads=4, ffn_hidden=64, max_length=64):
        super().__init__()
        self.heads = heads
        self.head_dim = hidden // heads
        self.embed_tokens = nn.Embedding(src_vocab_size, hidden)
        self.embed_positions = nn.Embedding(max_length, hidden)
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.out_proj = nn.Linear(hidden, hidden)
        self.self_attn_layer_norm = nn.LayerNorm(hidden)
        self.fc1 = nn.Linear(hidden, ffn_hidden)
        self.fc2 = nn.Linear(ffn_hidden, hidden)
        self.final_layer_norm = nn.LayerNorm(hidden)
        self.output_projection = nn.Linear(hidden, tgt_vocab_size)

    def shape(self, x, bsz, seq_len):
        return x.view(bsz, seq_len, self.heads, self.head_dim).transpose(1, 2).reshape(bsz * self.heads, seq_len, self.head_dim)

    def forward(self, src_tokens):
        bsz, seq_len = src_tokens.size()
        x = self.embed_tokens(src_tokens) + self.embed_positions(torch.arange(seq_len, device=src_tokens.device))
        q = self.shape(self.q_proj(x), bsz, seq_len)
        k = self.shape(self.k_proj(x), bsz, seq_len)
        v = self.shape(self.v_proj(x), bsz, seq_len)
        bias = torch.zeros(bsz, 1, seq_len, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill((src_tokens == 0).unsqueeze(1), float("-inf"))
        bias = bias.repeat_interleave(self.heads, dim=0)
        attn = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1.0, alpha=self.head_dim**-0.5).softmax(-1)
        ctx = torch.bmm(attn, v).view(bsz, self.heads, seq_len, self.head_dim).transpose(1, 2).reshape(bsz, seq_len, -1)
        x = self.self_attn_layer_norm(x + self.out_proj(ctx))
        x = self.final_layer_norm(x + self.fc2(torch.relu(self.fc1(x))))
        return self.output_projection(x)
