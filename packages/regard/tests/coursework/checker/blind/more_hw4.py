import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

class TransformerTranslator(nn.Module):
    def __init__(self, input_size, output_size, device="cpu", hidden_dim=128, num_heads=2, dim_feedforward=2048, dim_k=96, dim_v=96, dim_q=96, max_length=43):
        super().__init__()
        self.num_heads, self.word_embedding_dim, self.hidden_dim = num_heads, hidden_dim, hidden_dim
        self.max_length, self.device = max_length, device
        self.dim_k, self.dim_v, self.dim_q = dim_k, dim_v, dim_q
        self.embeddingL = nn.Embedding(input_size, hidden_dim)
        self.posembeddingL = nn.Embedding(max_length, hidden_dim)
        self.k1, self.v1, self.q1 = nn.Linear(hidden_dim, dim_k), nn.Linear(hidden_dim, dim_v), nn.Linear(hidden_dim, dim_q)
        self.k2, self.v2, self.q2 = nn.Linear(hidden_dim, dim_k), nn.Linear(hidden_dim, dim_v), nn.Linear(hidden_dim, dim_q)
        self.softmax = nn.Softmax(dim=2)
        self.attention_head_projection = nn.Linear(dim_v * num_heads, hidden_dim)
        self.norm_mh = nn.LayerNorm(hidden_dim)
        self.linear1, self.linear2 = nn.Linear(hidden_dim, dim_feedforward), nn.Linear(dim_feedforward, hidden_dim)
        self.norm_ff = nn.LayerNorm(hidden_dim)
        self.final = nn.Linear(hidden_dim, output_size)

    def forward(self, inputs):
        embeddings = self.embed(inputs)
        hidden = self.multi_head_attention(embeddings)
        return self.final_layer(self.feedforward_layer(hidden))

    def embed(self, inputs):
        return self.embeddingL(inputs) + self.posembeddingL(torch.LongTensor(range(inputs.shape[1])).to(self.device))

    def multi_head_attention(self, inputs):
        heads = []
        for q, k, v in ((self.q1, self.k1, self.v1), (self.q2, self.k2, self.v2)):
            scores = torch.matmul(q(inputs), k(inputs).permute(0, 2, 1)) / np.sqrt(self.dim_k)
            heads.append(torch.matmul(self.softmax(scores), v(inputs)))
        return self.norm_mh(inputs + self.attention_head_projection(torch.cat(heads, dim=2)))

    def feedforward_layer(self, inputs):
        return self.norm_ff(inputs + self.linear2(F.relu(self.linear1(inputs))))

    def final_layer(self, inputs):
        return self.final(inputs)
