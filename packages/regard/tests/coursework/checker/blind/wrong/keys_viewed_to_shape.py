import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.token_embed = nn.Embedding(source_words, d_model)
        self.pos_embed = nn.Embedding(max_len, d_model)
        self.query_map = nn.Linear(d_model, d_model)
        self.key_map = nn.Linear(d_model, d_model)
        self.value_map = nn.Linear(d_model, d_model)
        self.out_map = nn.Linear(d_model, d_model)
        self.layer_norm_attn = nn.LayerNorm(d_model)
        self.ffn_in = nn.Linear(d_model, d_ff)
        self.ffn_out = nn.Linear(d_ff, d_model)
        self.layer_norm_ffn = nn.LayerNorm(d_model)
        self.vocab_map = nn.Linear(d_model, target_words)

    def self_attention(self, x: torch.Tensor, pad_mask: torch.Tensor) -> torch.Tensor:
        batch, time, d_model = x.shape
        query = self.query_map(x).view(batch, time, self.n_heads, self.d_k).permute(0, 2, 1, 3)
        key = self.key_map(x).view(batch, self.n_heads, self.d_k, time)
        value = self.value_map(x).view(batch, time, self.n_heads, self.d_k).permute(0, 2, 1, 3)
        logits = (query @ key) / self.d_k ** 0.5
        logits = logits.masked_fill(pad_mask.view(batch, 1, 1, time), float("-inf"))
        context = logits.softmax(dim=-1) @ value
        return self.out_map(context.permute(0, 2, 1, 3).reshape(batch, time, d_model))

    def forward(self, tokens):
        x = self.token_embed(tokens) + self.pos_embed(torch.arange(tokens.size(1), device=tokens.device))
        x = self.layer_norm_attn(x + self.self_attention(x, tokens == 0))
        x = self.layer_norm_ffn(x + self.ffn_out(torch.relu(self.ffn_in(x))))
        return self.vocab_map(x)
