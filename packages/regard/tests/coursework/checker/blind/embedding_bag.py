# one bag of two rows at every place
import torch
from torch import nn

class BagTranslator(nn.Module):
    def __init__(self, input_size, output_size, embed_dim=64, num_heads=4, hidden_dim=128, max_length=25):
        super().__init__()
        self.input_size = input_size
        self.bag = nn.EmbeddingBag(input_size + max_length, embed_dim, mode="sum")
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, dropout=0.1)
        self.norm1 = nn.LayerNorm(embed_dim)
        self.norm2 = nn.LayerNorm(embed_dim)
        self.lin1, self.lin2 = nn.Linear(embed_dim, hidden_dim), nn.Linear(hidden_dim, embed_dim)
        self.act = nn.ReLU(inplace=True)
        self.classify = nn.Linear(embed_dim, output_size)

    def forward(self, ids):
        n, t = ids.shape
        places = self.input_size + torch.arange(t).expand(n, t)
        x = self.bag(torch.stack([ids, places], -1).view(-1, 2)).view(n, t, -1).transpose(0, 1)
        a, weights = self.attn(x, x, x, need_weights=True)
        y = self.norm1(a + x)
        z = self.norm2(self.lin2(self.act(self.lin1(y))) + y)
        return self.classify(z.transpose(0, 1))
