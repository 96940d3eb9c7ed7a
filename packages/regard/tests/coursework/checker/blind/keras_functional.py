import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self, units_in, units, activation=None, use_bias=True):
        super().__init__()
        self.kernel = nn.Parameter(nn.init.xavier_uniform_(torch.empty(units_in, units)))
        self.bias = nn.Parameter(torch.zeros(units)) if use_bias else None
        self.activation = activation

    def forward(self, inputs):
        outputs = torch.tensordot(inputs, self.kernel, dims=([-1], [0]))
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs if self.activation is None else self.activation(outputs)


class LayerNormalization(nn.Module):
    def __init__(self, dim, epsilon=1e-3):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.epsilon = epsilon

    def forward(self, inputs):
        variance, mean = torch.var_mean(inputs, dim=-1, correction=0, keepdim=True)
        inv = torch.rsqrt(variance + self.epsilon) * self.gamma
        return inputs * inv + (self.beta - mean * inv)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, key_dim, d_model):
        super().__init__()
        self.query_dense = Dense(d_model, num_heads * key_dim)
        self.key_dense = Dense(d_model, num_heads * key_dim)
        self.value_dense = Dense(d_model, num_heads * key_dim)
        self.output_dense = Dense(num_heads * key_dim, d_model)
        self.num_heads, self.key_dim = num_heads, key_dim

    def separate(self, t):
        return t.view(t.shape[0], t.shape[1], self.num_heads, self.key_dim)

    def forward(self, query, value, attention_mask=None):
        q = self.separate(self.query_dense(query)) * (self.key_dim**-0.5)
        k = self.separate(self.key_dense(value))
        v = self.separate(self.value_dense(value))
        scores = torch.einsum("aecd,abcd->acbe", k, q)
        if attention_mask is not None:
            scores = scores + (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * -1e9
        weights = nn.functional.softmax(scores, -1)
        out = torch.einsum("acbe,aecd->abcd", weights, v)
        return self.output_dense(out.reshape(out.shape[0], out.shape[1], -1))


class TokenAndPositionEmbedding(nn.Module):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = nn.Embedding(vocab_size, embed_dim)
        self.pos_emb = nn.Embedding(maxlen, embed_dim)

    def forward(self, x):
        maxlen = x.shape[-1]
        positions = torch.arange(start=0, end=maxlen, step=1)
        return self.token_emb(x) + self.pos_emb(positions)


class TransformerTranslator(nn.Module):
    def __init__(self, input_vocab, output_vocab, maxlen=40, embed_dim=36, num_heads=4, key_dim=8, ff_dim=70):
        super().__init__()
        self.embedding = TokenAndPositionEmbedding(maxlen, input_vocab, embed_dim)
        self.att = MultiHeadAttention(num_heads, key_dim, embed_dim)
        self.ffn = nn.Sequential(Dense(embed_dim, ff_dim, activation=torch.relu), Dense(ff_dim, embed_dim))
        self.layernorm1 = LayerNormalization(embed_dim, epsilon=1e-6)
        self.layernorm2 = LayerNormalization(embed_dim, epsilon=1e-6)
        self.classifier = Dense(embed_dim, output_vocab)

    def forward(self, inputs):
        mask = inputs.ne(0)
        x = self.embedding(inputs)
        attn_output = self.att(x, x, attention_mask=mask)
        out1 = self.layernorm1(x + attn_output)
        ffn_output = self.ffn(out1)
        return self.classifier(self.layernorm2(out1 + ffn_output))
