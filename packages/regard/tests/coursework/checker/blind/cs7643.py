import torch
import torch.nn as nn
import numpy as np

class TransformerTranslator(nn.Module):
    def __init__(self, input_size, output_size, device='cpu', hidden_dim=128, num_heads=2, dim_feedforward=2048, dim_k=96, dim_v=96, dim_q=96, max_length=43):
        super(TransformerTranslator, self).__init__()
        assert hidden_dim % num_heads == 0
        self.num_heads = num_heads
        self.word_embedding_dim = hidden_dim
        self.hidden_dim = hidden_dim
        self.dim_feedforward = dim_feedforward
        self.max_length = max_length
        self.input_size = input_size
        self.output_size = output_size
        self.device = device
        self.dim_k = dim_k
        self.dim_v = dim_v
        self.dim_q = dim_q
        self.embeddingL = nn.Embedding(input_size, hidden_dim)
        self.posembeddingL = nn.Embedding(max_length, hidden_dim)
        # Head #1
        self.k1 = nn.Linear(self.hidden_dim, self.dim_k)
        self.v1 = nn.Linear(self.hidden_dim, self.dim_v)
        self.q1 = nn.Linear(self.hidden_dim, self.dim_q)
        # Head #2
        self.k2 = nn.Linear(self.hidden_dim, self.dim_k)
        self.v2 = nn.Linear(self.hidden_dim, self.dim_v)
        self.q2 = nn.Linear(self.hidden_dim, self.dim_q)
        self.softmax = nn.Softmax(dim=2)
        self.attention_head_projection = nn.Linear(self.dim_v * self.num_heads, self.hidden_dim)
        self.norm_mh = nn.LayerNorm(self.hidden_dim)
        self.ff1 = nn.Linear(self.hidden_dim, self.dim_feedforward)
        self.ff2 = nn.Linear(self.dim_feedforward, self.hidden_dim)
        self.norm_ff = nn.LayerNorm(self.hidden_dim)
        self.final = nn.Linear(self.hidden_dim, self.output_size)

    def forward(self, inputs):
        outputs = self.final_layer(self.feedforward_layer(self.multi_head_attention(self.embed(inputs))))
        return outputs

    def embed(self, inputs):
        N, T = inputs.shape
        positions = torch.LongTensor(np.arange(T)).to(self.device)
        tok = self.embeddingL(inputs)
        pos = self.posembeddingL(positions)
        return tok + pos.unsqueeze(0).expand(N, T, -1)

    def multi_head_attention(self, inputs):
        q1, k1, v1 = self.q1(inputs), self.k1(inputs), self.v1(inputs)
        q2, k2, v2 = self.q2(inputs), self.k2(inputs), self.v2(inputs)
        a1 = torch.matmul(self.softmax(torch.matmul(q1, k1.transpose(1, 2)) / np.sqrt(self.dim_k)), v1)
        a2 = torch.matmul(self.softmax(torch.matmul(q2, k2.transpose(1, 2)) / np.sqrt(self.dim_k)), v2)
        out = self.attention_head_projection(torch.cat((a1, a2), dim=2))
        return self.norm_mh(out + inputs)

    def feedforward_layer(self, inputs):
        return self.norm_ff(self.ff2(nn.functional.relu(self.ff1(inputs))) + inputs)

    def final_layer(self, inputs):
        return self.final(inputs)
