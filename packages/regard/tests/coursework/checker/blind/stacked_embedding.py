import torch
import torch.nn as nn


class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_position_embeddings):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_position_embeddings, hidden_size)

    def forward(self, input_ids):
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device).repeat(input_ids.size(0), 1)
        token = self.word_embeddings(input_ids)
        position = self.position_embeddings(position_ids)
        return torch.stack([token, position]).sum(0)


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def transpose_for_scores(self, x):
        x = x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states):
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / torch.sqrt(torch.tensor(self.attention_head_size, dtype=scores.dtype))
        probs = nn.Softmax(dim=-1)(scores)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(*context.size()[:-2], -1))


class BertTranslator(nn.Module):
    def __init__(self, vocab_size, target_vocab_size, hidden_size=32, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden_size, max_position_embeddings)
        self.attention = BertSelfAttention(hidden_size, num_attention_heads)
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.output_norm = nn.LayerNorm(hidden_size)
        self.cls = nn.Linear(hidden_size, target_vocab_size)

    def forward(self, input_ids):
        x = self.embeddings(input_ids)
        x = self.attention_norm(self.attention(x) + x)
        x = self.output_norm(self.output(torch.relu(self.intermediate(x))) + x)
        return self.cls(x)
