import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Ck(nn.Module):
    def __init__(self, input_vocab_size, target_vocab_size, d_model=24, num_heads=4, dff=36, maximum_position_encoding=60, rate=0.1):
        super().__init__()
        self.num_heads, self.d_model, self.depth = num_heads, d_model, d_model // num_heads
        self.embedding = nn.Embedding(input_vocab_size, d_model)
        self.pos_embedding = nn.Embedding(maximum_position_encoding, d_model)
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)
        self.layernorm1 = nn.LayerNorm(d_model, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(d_model, eps=1e-6)
        self.fc1, self.fc2 = nn.Linear(d_model, dff), nn.Linear(dff, d_model)
        self.dropout1, self.dropout2 = nn.Dropout(rate), nn.Dropout(rate)
        self.final_layer = nn.Linear(d_model, target_vocab_size)

    def split_heads(self, x, batch_size):
        x = torch.reshape(x, (batch_size, -1, self.num_heads, self.depth))
        return torch.permute(x, (0, 2, 1, 3))

    def mha(self, v, k, q, mask):
        batch_size = q.shape[0]
        q, k, v = self.split_heads(self.wq(q), batch_size), self.split_heads(self.wk(k), batch_size), self.split_heads(self.wv(v), batch_size)
        matmul_qk = q @ torch.transpose(k, -1, -2)
        dk = torch.tensor(k.shape[-1], dtype=q.dtype)
        logits = matmul_qk / torch.sqrt(dk)
        logits += mask * -1e9
        w = torch.nn.functional.softmax(logits, dim=-1)
        o = torch.permute(w @ v, (0, 2, 1, 3))
        return self.dense(torch.reshape(o, (batch_size, -1, self.d_model)))

    def body(self, x, mask):
        out1 = self.layernorm1(x + self.dropout1(self.mha(x, x, x, mask)))
        return self.layernorm2(out1 + self.dropout2(self.fc2(torch.relu(self.fc1(out1)))))

    def forward(self, inp):
        mask = torch.eq(inp, 0).to(self.wq.weight.dtype)[:, None, None, :]
        x = self.embedding(inp)
        x = x + self.pos_embedding(torch.arange(inp.shape[1]))
        x = checkpoint(self.body, x, mask, use_reentrant=False)
        return self.final_layer(x)
