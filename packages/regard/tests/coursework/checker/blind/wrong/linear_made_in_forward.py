import torch
import torch.nn as nn


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = self.d_v = d_model // n_heads
        self.W_Q = nn.Linear(d_model, self.d_k * n_heads)
        self.W_K = nn.Linear(d_model, self.d_k * n_heads)
        self.W_V = nn.Linear(d_model, self.d_v * n_heads)

    def forward(self, X, attn_mask):
        batch_size, d_model = X.size(0), X.size(2)
        q_s = self.W_Q(X).view(batch_size, -1, self.n_heads, self.d_k).transpose(1, 2)
        k_s = self.W_K(X).view(batch_size, -1, self.n_heads, self.d_k).transpose(1, 2)
        v_s = self.W_V(X).view(batch_size, -1, self.n_heads, self.d_v).transpose(1, 2)
        attn_mask = attn_mask.unsqueeze(1).repeat(1, self.n_heads, 1, 1)
        scores = torch.matmul(q_s, k_s.transpose(-1, -2)) / (self.d_k ** 0.5)
        scores.masked_fill_(attn_mask, -1e9)
        context = torch.matmul(nn.Softmax(dim=-1)(scores), v_s)
        context = context.transpose(1, 2).contiguous().view(batch_size, -1, self.n_heads * self.d_v)
        return nn.Linear(self.n_heads * self.d_v, d_model).to(X)(context)


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model=128, n_heads=2, d_ff=2048, max_len=64):
        super().__init__()
        self.src_emb = nn.Embedding(src_vocab_size, d_model)
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.enc_self_attn = MultiHead(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.conv1 = nn.Conv1d(in_channels=d_model, out_channels=d_ff, kernel_size=1)
        self.conv2 = nn.Conv1d(in_channels=d_ff, out_channels=d_model, kernel_size=1)
        self.norm2 = nn.LayerNorm(d_model)
        self.projection = nn.Linear(d_model, tgt_vocab_size)

    def get_attn_pad_mask(self, seq):
        batch_size, length = seq.size()
        return seq.data.eq(0).unsqueeze(1).expand(batch_size, length, length)

    def forward(self, enc_inputs):
        pos = torch.arange(enc_inputs.size(1), device=enc_inputs.device)
        x = self.src_emb(enc_inputs) + self.pos_emb(pos)
        x = self.norm1(x + self.enc_self_attn(x, self.get_attn_pad_mask(enc_inputs)))
        y = nn.ReLU()(self.conv1(x.transpose(1, 2)))
        y = self.conv2(y).transpose(1, 2)
        x = self.norm2(x + y)
        return self.projection(x)
