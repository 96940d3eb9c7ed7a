import torch
from torch import nn


class ChannelNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = ((x - mean) ** 2).mean(1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.gamma + self.beta


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, channels=128, n_heads=2, filter_channels=2048, max_len=64, p_dropout=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.k_channels = channels // n_heads
        self.emb = nn.Embedding(source_words, channels)
        self.emb_pos = nn.Embedding(max_len, channels)
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, channels, 1)
        self.norm_1 = ChannelNorm(channels)
        self.norm_2 = ChannelNorm(channels)
        self.conv_1 = nn.Conv1d(channels, filter_channels, 1)
        self.conv_2 = nn.Conv1d(filter_channels, channels, 1)
        self.proj = nn.Conv1d(channels, target_words, 1)
        self.drop = nn.Dropout(p_dropout)

    def attention(self, x, x_mask):
        b, d, t = x.shape
        query = self.conv_q(x).view(b, self.n_heads, self.k_channels, t).transpose(2, 3)
        key = self.conv_k(x).view(b, self.n_heads, self.k_channels, t)
        value = self.conv_v(x).view(b, self.n_heads, self.k_channels, t).transpose(2, 3)
        scores = torch.matmul(query / self.k_channels ** 0.5, key)
        scores = scores.masked_fill(x_mask[:, None, None, :] == 0, -1e9)
        output = torch.matmul(self.drop(scores.softmax(-1)), value)
        return self.conv_o(output.transpose(2, 3).contiguous().view(b, d, t))

    def forward(self, ids):
        x = self.emb(ids) + self.emb_pos(torch.arange(ids.size(1), device=ids.device))
        x = x.transpose(1, 2)
        x = self.norm_1(x + self.attention(x, ids > 0))
        x = self.norm_2(x + self.conv_2(self.drop(torch.relu(self.conv_1(x)))))
        return self.proj(x).transpose(1, 2)
