import math

import torch
import torch.nn.functional as F
from torch import nn

class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_position_embeddings):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(max_position_embeddings, hidden_size)
        self.register_buffer("position_ids", torch.arange(max_position_embeddings).expand((1, -1)))

    def forward(self, input_ids):
        position_ids = self.position_ids[:, : input_ids.size(1)]
        embeddings = self.word_embeddings(input_ids)
        embeddings += self.position_embeddings(position_ids)
        return embeddings


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = hidden_size // num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(hidden_size, self.all_head_size)
        self.key = nn.Linear(hidden_size, self.all_head_size)
        self.value = nn.Linear(hidden_size, self.all_head_size)

    def transpose_for_scores(self, x):
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        q = self.transpose_for_scores(self.query(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probs = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return context.view(context.size()[:-2] + (self.all_head_size,))


class BertOutput(nn.Module):
    def __init__(self, inner, hidden_size, dropout):
        super().__init__()
        self.dense = nn.Linear(inner, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + input_tensor)


class Model(nn.Module):
    def __init__(self, vocab_size, target_vocab_size, hidden_size=64, num_attention_heads=2, intermediate_size=128, max_position_embeddings=20, hidden_dropout_prob=0.1):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden_size, max_position_embeddings)
        self.attention = BertSelfAttention(hidden_size, num_attention_heads)
        self.attention_output = BertOutput(hidden_size, hidden_size, hidden_dropout_prob)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = BertOutput(intermediate_size, hidden_size, hidden_dropout_prob)
        self.cls = nn.Linear(hidden_size, target_vocab_size)

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = (input_ids != 0).long()
        extended = attention_mask[:, None, None, :].to(self.cls.weight.dtype)
        extended = (1.0 - extended) * torch.finfo(self.cls.weight.dtype).min
        h = self.embeddings(input_ids)
        h = self.attention_output(self.attention(h, extended), h)
        return self.cls(self.output(F.relu(self.intermediate(h)), h))
