import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self, inputs, units, activation=None):
        super().__init__()
        self.kernel = nn.Parameter(torch.nn.init.xavier_uniform_(torch.empty(inputs, units)))
        self.bias = nn.Parameter(torch.zeros(units))
        self.activation = activation

    def forward(self, x):
        y = torch.tensordot(x, self.kernel, dims=1) + self.bias
        return self.activation(y) if self.activation else y


class EinsumDense(nn.Module):
    def __init__(self, equation, shape, bias_shape):
        super().__init__()
        self.equation = equation
        self.kernel = nn.Parameter(torch.randn(*shape) * 0.2)
        self.bias = nn.Parameter(torch.zeros(*bias_shape))

    def forward(self, x):
        return torch.einsum(self.equation, x, self.kernel) + self.bias


class LayerNormalization(nn.Module):
    def __init__(self, units, epsilon=1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(units))
        self.beta = nn.Parameter(torch.zeros(units))
        self.epsilon = epsilon

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = torch.square(x - mean).mean(-1, keepdim=True)
        scale = torch.rsqrt(variance + self.epsilon) * self.gamma
        return x * scale + (self.beta - mean * scale)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, key_dim, units):
        super().__init__()
        self.scale = key_dim**-0.5
        self.query_dense = EinsumDense("abc,cde->abde", (units, num_heads, key_dim), (num_heads, key_dim))
        self.key_dense = EinsumDense("abc,cde->abde", (units, num_heads, key_dim), (num_heads, key_dim))
        self.value_dense = EinsumDense("abc,cde->abde", (units, num_heads, key_dim), (num_heads, key_dim))
        self.output_dense = EinsumDense("abcd,cde->abe", (num_heads, key_dim, units), (units,))

    def forward(self, query, value):
        query = self.query_dense(query) * self.scale
        key, val = self.key_dense(value), self.value_dense(value)
        scores = torch.einsum("aecd,abcd->acbe", key, query)
        probs = nn.functional.softmax(scores, dim=-1)
        return self.output_dense(torch.einsum("acbe,aecd->abcd", probs, val))


class KerasLike(nn.Module):
    def __init__(self, input_vocab_size, output_vocab_size, embed_dim=22, num_heads=3, key_dim=10, dense_dim=38, sequence_length=64):
        super().__init__()
        self.token_embeddings = nn.Embedding(input_vocab_size, embed_dim)
        self.position_embeddings = nn.Embedding(sequence_length, embed_dim)
        self.attention = MultiHeadAttention(num_heads, key_dim, embed_dim)
        self.dense_proj = nn.Sequential(Dense(embed_dim, dense_dim, torch.relu), Dense(dense_dim, embed_dim))
        self.layernorm_1 = LayerNormalization(embed_dim)
        self.layernorm_2 = LayerNormalization(embed_dim)
        self.logits = Dense(embed_dim, output_vocab_size)

    def forward(self, inputs):
        length = inputs.shape[-1]
        x = self.token_embeddings(inputs) + self.position_embeddings(torch.arange(length))
        attention_output = self.attention(x, x)
        proj_input = self.layernorm_1(x + attention_output)
        proj_output = self.dense_proj(proj_input)
        return self.logits(self.layernorm_2(proj_input + proj_output))
