import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, hidden_dim=128, num_heads=2, dim_ff=2048, max_len=43):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.emb = nn.Embedding(source_words, hidden_dim)
        self.pemb = nn.Embedding(max_len, hidden_dim)
        self.qkv_layers = nn.ModuleDict({n: nn.Linear(hidden_dim, hidden_dim) for n in "qkv"})
        self.o = nn.Linear(hidden_dim, hidden_dim)
        self.norm_attention = nn.LayerNorm(hidden_dim)
        self.ffn_1 = nn.Linear(hidden_dim, dim_ff)
        self.relu = nn.ReLU()
        self.ffn_2 = nn.Linear(dim_ff, hidden_dim)
        self.norm_ffn = nn.LayerNorm(hidden_dim)
        self.out = nn.Linear(hidden_dim, target_words)

    def to_heads(self, y):
        b, t, _ = y.shape
        return y.view(b, self.num_heads, t, self.head_dim)

    def from_heads(self, y):
        b, _, t, _ = y.shape
        return y.reshape(b, t, -1)

    def forward(self, inputs):
        b, t = inputs.shape
        x = self.emb(inputs) + self.pemb(torch.arange(t, device=inputs.device).expand(b, t))
        q, k, v = (self.to_heads(self.qkv_layers[n](x)) for n in "qkv")
        att = torch.softmax((q @ k.transpose(-2, -1)) / self.head_dim ** 0.5, dim=-1)
        x = self.norm_attention(self.o(self.from_heads(att @ v)) + x)
        x = self.norm_ffn(self.ffn_2(self.relu(self.ffn_1(x))) + x)
        return self.out(x)
