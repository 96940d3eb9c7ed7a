import torch
from torch import nn, einsum


class Encoder(nn.Module):
    """Everything is a parameter, everything is an einsum."""

    def __init__(self, n_src_vocab, n_tgt_vocab, d_model=32, n_heads=4, d_head=8, d_mlp=64, n_ctx=64):
        super().__init__()
        p = lambda *shape: nn.Parameter(torch.randn(*shape) * 0.1)
        self.W_E = p(n_src_vocab, d_model)
        self.W_pos = p(n_ctx, d_model)
        self.W_Q, self.W_K, self.W_V = p(n_heads, d_model, d_head), p(n_heads, d_model, d_head), p(n_heads, d_model, d_head)
        self.b_Q, self.b_K, self.b_V = p(n_heads, d_head), p(n_heads, d_head), p(n_heads, d_head)
        self.W_O = p(n_heads, d_head, d_model)
        self.b_O = p(d_model)
        self.g1, self.c1, self.g2, self.c2 = p(d_model), p(d_model), p(d_model), p(d_model)
        self.W_in, self.b_in = p(d_model, d_mlp), p(d_mlp)
        self.W_out, self.b_out = p(d_mlp, d_model), p(d_model)
        self.W_U, self.b_U = p(d_model, n_tgt_vocab), p(n_tgt_vocab)
        self.d_head = d_head

    def ln(self, x, g, c):
        x = x - x.mean(-1, keepdim=True)
        scale = (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return x / scale * g + c

    def forward(self, tokens):
        resid = self.W_E[tokens] + self.W_pos[: tokens.size(1)]
        q = einsum("bsd,hde->bshe", resid, self.W_Q) + self.b_Q
        k = einsum("bsd,hde->bshe", resid, self.W_K) + self.b_K
        v = einsum("bsd,hde->bshe", resid, self.W_V) + self.b_V
        pattern = (einsum("bqhe,bkhe->bhqk", q, k) / self.d_head**0.5).softmax(-1)
        z = einsum("bkhe,bhqk->bqhe", v, pattern)
        attn_out = einsum("bqhe,hed->bqd", z, self.W_O) + self.b_O
        resid = self.ln(resid + attn_out, self.g1, self.c1)
        hidden = torch.relu(einsum("bsd,dm->bsm", resid, self.W_in) + self.b_in)
        resid = self.ln(resid + einsum("bsm,md->bsd", hidden, self.W_out) + self.b_out, self.g2, self.c2)
        return einsum("bsd,dv->bsv", resid, self.W_U) + self.b_U
