import math
import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, input_size, output_size, hidden_dim=128, num_heads=2, dim_feedforward=2048, dim_k=96, dim_v=96, dim_q=96, max_length=43):
        super().__init__()
        assert hidden_dim % num_heads == 0
        self.num_heads = num_heads
        self.word_embedding_dim = hidden_dim
        self.hidden_dim = hidden_dim
        self.dim_k = dim_k
        self.embeddingL = nn.Embedding(input_size, hidden_dim)
        self.posembeddingL = nn.Embedding(max_length, hidden_dim)
        self.k1 = nn.Linear(hidden_dim, dim_k)
        self.v1 = nn.Linear(hidden_dim, dim_v)
        self.q1 = nn.Linear(hidden_dim, dim_q)
        self.k2 = nn.Linear(hidden_dim, dim_k)
        self.v2 = nn.Linear(hidden_dim, dim_v)
        self.q2 = nn.Linear(hidden_dim, dim_q)
        self.softmax = nn.Softmax(dim=2)
        self.attention_head_projection = nn.Linear(dim_v * num_heads, hidden_dim)
        self.norm_mh = nn.LayerNorm(hidden_dim)
        self.linear1 = nn.Linear(hidden_dim, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, hidden_dim)
        self.norm_ff = nn.LayerNorm(hidden_dim)
        self.final = nn.Linear(hidden_dim, output_size)

    def embed(self, inputs):
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        return self.embeddingL(inputs) + self.posembeddingL(positions).unsqueeze(0)

    def multi_head_attention(self, inputs):
        a1 = self.softmax(torch.bmm(self.q1(inputs), self.k1(inputs).permute(0, 2, 1)) / math.sqrt(self.dim_k))
        h1 = torch.bmm(a1, self.v1(inputs))
        a2 = self.softmax(torch.bmm(self.q2(inputs), self.k2(inputs).permute(0, 2, 1)) / math.sqrt(self.dim_k))
        h2 = torch.bmm(a2, self.v2(inputs))
        both = self.attention_head_projection(torch.cat((h1, h2), dim=2))
        return self.norm_mh(both + inputs)

    def feedforward_layer(self, inputs):
        return self.norm_ff(self.linear2(torch.relu(self.linear1(inputs))) + inputs)

    def forward(self, inputs):
        return self.final(self.feedforward_layer(self.multi_head_attention(self.embed(inputs))))
