import torch
import torch.nn as nn
import math


class TransformerTranslator(nn.Module):
    def __init__(self, input_size, output_size, hidden_dim=16, num_heads=2, dim_feedforward=32, dim_k=12, dim_v=12, max_length=43):
        super(TransformerTranslator, self).__init__()
        self.num_heads = num_heads
        self.dim_k = dim_k
        self.embeddingL = nn.Embedding(input_size, hidden_dim)
        self.posembeddingL = nn.Embedding(max_length, hidden_dim)
        self.k1 = nn.Linear(hidden_dim, dim_k)
        self.v1 = nn.Linear(hidden_dim, dim_v)
        self.q1 = nn.Linear(hidden_dim, dim_k)
        self.k2 = nn.Linear(hidden_dim, dim_k)
        self.v2 = nn.Linear(hidden_dim, dim_v)
        self.q2 = nn.Linear(hidden_dim, dim_k)
        self.softmax = nn.Softmax(dim=1)
        self.attention_head_projection = nn.Linear(dim_v * num_heads, hidden_dim)
        self.norm_mh = nn.LayerNorm(hidden_dim)
        self.linear1 = nn.Linear(hidden_dim, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, hidden_dim)
        self.norm_ff = nn.LayerNorm(hidden_dim)
        self.final = nn.Linear(hidden_dim, output_size)

    def forward(self, inputs):
        results = []
        for i in range(inputs.shape[0]):
            sent = inputs[i]
            e = self.embeddingL(sent) + self.posembeddingL(torch.arange(len(sent)))
            w1 = self.softmax(torch.mm(self.q1(e), self.k1(e).t()) / math.sqrt(self.dim_k))
            w2 = self.softmax(torch.mm(self.q2(e), self.k2(e).t()) / math.sqrt(self.dim_k))
            both = torch.hstack([torch.mm(w1, self.v1(e)), torch.mm(w2, self.v2(e))])
            h = self.norm_mh(self.attention_head_projection(both) + e)
            f = self.norm_ff(self.linear2(torch.relu(self.linear1(h))) + h)
            results.append(self.final(f))
        return torch.stack(results, 0)
