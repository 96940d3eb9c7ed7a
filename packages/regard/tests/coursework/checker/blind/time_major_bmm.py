import torch
import torch.nn.functional as F
from torch import nn


class SelfAttn(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key_padding_mask):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query)
        q *= self.scaling
        k, v = self.k_proj(query), self.v_proj(query)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        src_len = k.size(1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
        attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
        attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, src_len)
        attn_probs = F.softmax(attn_weights, dim=-1)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


class TimeMajor(nn.Module):
    def __init__(self, src_dict_size, tgt_dict_size, embed_dim=36, attention_heads=3, ffn_embed_dim=62, max_source_positions=70, padding_idx=0):
        super().__init__()
        self.padding_idx = padding_idx
        self.embed_tokens = nn.Embedding(src_dict_size, embed_dim, padding_idx)
        self.embed_positions = nn.Embedding(max_source_positions, embed_dim)
        self.self_attn = SelfAttn(embed_dim, attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_embed_dim)
        self.fc2 = nn.Linear(ffn_embed_dim, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)
        self.output_projection = nn.Linear(embed_dim, tgt_dict_size)

    def forward(self, src_tokens):
        x = self.embed_tokens(src_tokens) + self.embed_positions(torch.arange(src_tokens.size(1)))
        encoder_padding_mask = src_tokens.eq(self.padding_idx)
        x = x.transpose(0, 1)
        residual = x
        x = self.self_attn(x, encoder_padding_mask)
        x = residual + x
        x = self.self_attn_layer_norm(x)
        residual = x
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        x = residual + x
        x = self.final_layer_norm(x)
        return self.output_projection(x.transpose(0, 1))
