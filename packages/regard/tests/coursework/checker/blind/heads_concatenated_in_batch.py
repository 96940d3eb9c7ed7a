"""Heads in the batch axis: concat(split(Q, h, axis=2), axis=0), TensorFlow 1 style."""
import torch
from torch import nn


def ln(inputs, gamma, beta, epsilon=1e-8):
    mean = inputs.mean(-1, keepdim=True)
    variance = inputs.var(-1, keepdim=True, unbiased=False)
    normalized = (inputs - mean) / ((variance + epsilon) ** (0.5))
    return gamma * normalized + beta


class TransformerTranslator(nn.Module):
    def __init__(self, vocab_src, vocab_tgt, d_model=48, num_heads=4, d_ff=100, maxlen1=50):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.embeddings = nn.Parameter(torch.randn(vocab_src, d_model))
        self.positions = nn.Parameter(torch.randn(maxlen1, d_model))
        self.dense_q = nn.Linear(d_model, d_model)
        self.dense_k = nn.Linear(d_model, d_model)
        self.dense_v = nn.Linear(d_model, d_model)
        self.dense_o = nn.Linear(d_model, d_model)
        self.gamma1, self.beta1 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.gamma2, self.beta2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.logits = nn.Linear(d_model, vocab_tgt)

    def forward(self, x):
        src_masks = torch.eq(x, 0)
        enc = torch.nn.functional.embedding(x, self.embeddings)
        enc = enc + self.positions[torch.arange(x.size(1)).unsqueeze(0).expand(x.size(0), -1)]
        Q, K, V = self.dense_q(enc), self.dense_k(enc), self.dense_v(enc)
        Q_ = torch.cat(torch.split(Q, self.d_model // self.num_heads, dim=2), dim=0)
        K_ = torch.cat(torch.split(K, self.d_model // self.num_heads, dim=2), dim=0)
        V_ = torch.cat(torch.split(V, self.d_model // self.num_heads, dim=2), dim=0)
        outputs = torch.matmul(Q_, K_.permute(0, 2, 1))
        outputs = outputs / Q_.size(-1) ** 0.5
        key_masks = src_masks.to(outputs.dtype).repeat(self.num_heads, 1).unsqueeze(1)
        outputs = outputs + key_masks * (-(2**32) + 1)
        outputs = torch.softmax(outputs, dim=-1)
        outputs = torch.matmul(outputs, V_)
        outputs = torch.cat(torch.split(outputs, x.size(0), dim=0), dim=2)
        outputs = self.dense_o(outputs)
        enc = ln(outputs + enc, self.gamma1, self.beta1)
        enc = ln(self.outer(torch.relu(self.inner(enc))) + enc, self.gamma2, self.beta2)
        return self.logits(enc)
