import torch
import torch.nn as nn


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)
        self.ffn = nn.Sequential(
            nn.Linear(d_model, d_ff),
            nn.Linear(d_ff, d_model),
            nn.ReLU(),
        )
        self.layernorm1 = nn.LayerNorm(d_model, eps=1e-5)
        self.layernorm2 = nn.LayerNorm(d_model, eps=1e-5)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)

    def split_heads(self, x, batch_size):
        """Split the last dimension into (num_heads, depth), transposed to (batch, heads, seq, depth)"""
        x = x.reshape(batch_size, -1, self.num_heads, self.depth)
        return x.permute(0, 2, 1, 3)

    def forward(self, x, mask):
        batch_size = x.shape[0]
        q = self.split_heads(self.wq(x), batch_size)
        k = self.split_heads(self.wk(x), batch_size)
        v = self.split_heads(self.wv(x), batch_size)
        matmul_qk = torch.matmul(q, k.transpose(-1, -2))
        dk = torch.tensor(k.shape[-1], dtype=x.dtype)
        scaled_attention_logits = matmul_qk / torch.sqrt(dk)
        scaled_attention_logits += mask * -1e9
        attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
        scaled_attention = torch.matmul(attention_weights, v).permute(0, 2, 1, 3)
        attn_output = self.dense(scaled_attention.reshape(batch_size, -1, self.num_heads * self.depth))
        out1 = self.layernorm1(x + self.dropout1(attn_output))
        return self.layernorm2(out1 + self.dropout2(self.ffn(out1)))


class TransformerTranslator(nn.Module):
    def __init__(self, input_vocab_size, target_vocab_size, d_model=128, num_heads=2, dff=2048, maximum_position_encoding=64):
        super().__init__()
        self.embedding = nn.Embedding(input_vocab_size, d_model)
        self.pos_encoding = nn.Embedding(maximum_position_encoding, d_model)
        self.enc_layer = EncoderLayer(d_model, num_heads, dff)
        self.final_layer = nn.Linear(d_model, target_vocab_size)

    def create_padding_mask(self, seq):
        return (seq == 0).double()[:, None, None, :].to(self.embedding.weight.dtype)

    def forward(self, inp):
        x = self.embedding(inp) + self.pos_encoding(torch.arange(inp.shape[1]))
        return self.final_layer(self.enc_layer(x, self.create_padding_mask(inp)))
