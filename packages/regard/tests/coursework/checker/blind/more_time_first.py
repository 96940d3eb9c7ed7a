import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, input_size, output_size, hidden_dim=128, num_heads=2, dim_feedforward=256, max_length=43):
        super().__init__()
        self.embeddingL = nn.Embedding(input_size, hidden_dim)
        self.posembeddingL = nn.Embedding(max_length, hidden_dim)
        self.mha = nn.MultiheadAttention(hidden_dim, num_heads)
        self.norm_mh = nn.LayerNorm(hidden_dim)
        self.fc1 = nn.Linear(hidden_dim, dim_feedforward)
        self.fc2 = nn.Linear(dim_feedforward, hidden_dim)
        self.norm_ff = nn.LayerNorm(hidden_dim)
        self.out = nn.Linear(hidden_dim, output_size)

    def forward(self, inputs):
        steps = inputs.t()
        T, N = steps.shape
        x = self.embeddingL(steps) + self.posembeddingL(torch.arange(T, device=inputs.device)).unsqueeze(1)
        a, _ = self.mha(x, x, x, need_weights=False)
        x = self.norm_mh(x + a)
        x = self.norm_ff(x + self.fc2(torch.relu(self.fc1(x))))
        return self.out(x).transpose(0, 1)
