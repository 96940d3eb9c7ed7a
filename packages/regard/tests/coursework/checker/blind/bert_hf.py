import math
import torch
from torch import nn
from dataclasses import dataclass


@dataclass
class BertishConfig:
    vocab_size: int = 30
    target_vocab_size: int = 31
    hidden_size: int = 24
    num_attention_heads: int = 3
    intermediate_size: int = 64
    max_position_embeddings: int = 64
    layer_norm_eps: float = 1e-5
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def forward(self, input_ids):
        seq_length = input_ids.size(1)
        position_ids = self.position_ids[:, :seq_length]
        return self.dropout(self.word_embeddings(input_ids) + self.position_embeddings(position_ids))


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(*new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probs = self.dropout(nn.functional.softmax(scores, dim=-1))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return ctx.view(*(ctx.size()[:-2] + (self.all_head_size,)))


class SelfOutput(nn.Module):
    def __init__(self, fan_in, config):
        super().__init__()
        self.dense = nn.Linear(fan_in, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, input_tensor):
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + input_tensor)


class BertTranslator(nn.Module):
    def __init__(self, config: BertishConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.self_attn = SelfAttention(config)
        self.attn_out = SelfOutput(config.hidden_size, config)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.out = SelfOutput(config.intermediate_size, config)
        self.cls = nn.Linear(config.hidden_size, config.target_vocab_size)

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = (input_ids != 0)
        ext = (1.0 - attention_mask[:, None, None, :].to(self.cls.weight.dtype)) * torch.finfo(self.cls.weight.dtype).min
        h = self.embeddings(input_ids)
        h = self.attn_out(self.self_attn(h, ext), h)
        h = self.out(torch.relu(self.intermediate(h)), h)
        return self.cls(h)
