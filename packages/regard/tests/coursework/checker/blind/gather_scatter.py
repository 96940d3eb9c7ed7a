import torch
from torch import nn


class IndexSelect(nn.Module):
    """index_select for tables, scatter_reduce style denominators, cumsum for places, unfold for heads"""
    def __init__(self, n_words, n_target_words, hidden_size, n_heads, ffn_size, max_position):
        super().__init__()
        self.nh = n_heads
        self.words = nn.Parameter(torch.randn(n_words, hidden_size) * .3)
        self.places = nn.Parameter(torch.randn(max_position, hidden_size) * .3)
        self.lin = nn.ModuleDict({k: nn.Linear(hidden_size, hidden_size) for k in "qkvo"})
        self.norm = nn.ModuleDict({"attention": nn.LayerNorm(hidden_size), "ffn": nn.LayerNorm(hidden_size)})
        self.up, self.down = nn.Linear(hidden_size, ffn_size), nn.Linear(ffn_size, hidden_size)
        self.to_words = nn.Linear(hidden_size, n_target_words)

    def forward(self, ids):
        b, t = ids.shape
        x = torch.index_select(self.words, 0, ids.flatten()).view(b, t, -1)
        place = torch.ones_like(ids).cumsum(1) - 1
        x = x.add(torch.index_select(self.places, 0, place.flatten()).view_as(x))
        d = x.shape[-1] // self.nh
        q, k, v = (self.lin[n](x).unfold(-1, d, d) for n in "qkv")         # b t h d
        score = torch.tensordot(q.div(d ** .5), k, dims=0) if False else torch.einsum("bihd,bjhd->bijh", q, k).div(d ** .5)
        score = score - score.detach().amax(2, keepdim=True)
        num = score.exp()
        den = num.sum(2, keepdim=True)
        ctx = torch.einsum("bijh,bjhd->bihd", num, v) / den.squeeze(2).unsqueeze(-1)
        x = self.norm["attention"](x.add(self.lin["o"](ctx.reshape(b, t, -1))))
        x = self.norm["ffn"](x.add(self.down(self.up(x).clamp_min(0))))
        return self.to_words(x)
