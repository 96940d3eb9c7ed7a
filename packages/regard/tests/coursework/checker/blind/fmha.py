import torch
from torch import nn
import torch.nn.functional as F


class FunctionalMHA(nn.Module):
    def __init__(self, ntoken_src, ntoken_tgt, ninp=20, nhead=2, nhid=44, max_len=64):
        super().__init__()
        self.nhead, self.ninp = nhead, ninp
        self.encoder = nn.Embedding(ntoken_src, ninp)
        self.pos_encoder = nn.Parameter(torch.zeros(max_len, 1, ninp).uniform_(-0.1, 0.1))
        self.q_w = nn.Parameter(torch.randn(ninp, ninp) * .2)
        self.k_w = nn.Parameter(torch.randn(ninp, ninp) * .2)
        self.v_w = nn.Parameter(torch.randn(ninp, ninp) * .2)
        self.in_b = nn.Parameter(torch.zeros(3 * ninp))
        self.o_w = nn.Parameter(torch.randn(ninp, ninp) * .2)
        self.o_b = nn.Parameter(torch.zeros(ninp))
        self.n1 = nn.LayerNorm(ninp)
        self.n2 = nn.LayerNorm(ninp)
        self.l1 = nn.Linear(ninp, nhid)
        self.l2 = nn.Linear(nhid, ninp)
        self.decoder = nn.Linear(ninp, ntoken_tgt)

    def forward(self, src):
        src = src.t()                                  # T N
        pad = src.t() == 0
        x = self.encoder(src) + self.pos_encoder[: src.size(0)]
        a, _ = F.multi_head_attention_forward(
            x, x, x, self.ninp, self.nhead, None, self.in_b, None, None, False, 0.0, self.o_w, self.o_b,
            training=self.training, key_padding_mask=pad, need_weights=True, use_separate_proj_weight=True,
            q_proj_weight=self.q_w, k_proj_weight=self.k_w, v_proj_weight=self.v_w)
        x = self.n1(x + a)
        x = self.n2(x + self.l2(self.l1(x).relu()))
        return self.decoder(x).transpose(0, 1)
