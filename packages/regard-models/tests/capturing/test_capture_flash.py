"""flash-attention's operators, through stand-ins of the same schema on the CPU: the real ones need an accelerator.

The stand-ins are written from the operators' documentation, slowly and row by row; so they also are the oracle.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402

from regard_models.capturing.attention_capture import capture  # noqa: E402
from regard_models.editing.head_edits import edit  # noqa: E402

SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, int window_size_left, "
    "int window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
PACKED = (
    "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, "
    "SymInt max_seqlen_k, float dropout_p, float softmax_scale, bool causal, int window_size_left=-1, "
    "int window_size_right=-1, float softcap=0.0, Tensor? alibi_slopes=None, bool return_softmax=False) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)


def slow_weights(q, k, *, scale, causal, left, right, softcap, slopes):
    """(length, heads, width) each; row by row, the corner at the bottom right."""
    queries, heads, _ = q.shape
    keys, groups = k.shape[0], heads // k.shape[1]
    weights = torch.zeros(heads, queries, keys, dtype=torch.float64)
    for head in range(heads):
        for i in range(queries):
            place = i + keys - queries
            low = 0 if left < 0 else place - left
            high = place if causal else keys - 1 if right < 0 else place + right
            scores = {}
            for j in range(max(0, low), min(keys - 1, high) + 1):
                score = scale * float(q[i, head].double() @ k[j, head // groups].double())
                score = softcap * math.tanh(score / softcap) if softcap else score
                scores[j] = score - (float(slopes[head]) * abs(place - j) if slopes is not None else 0.0)
            total = sum(math.exp(s) for s in scores.values())
            for j, score in scores.items():
                weights[head, i, j] = math.exp(score) / total
    return weights


def slow_output(weights, v):
    groups = weights.shape[0] // v.shape[1]
    values = v.double().repeat_interleave(groups, dim=1)
    return torch.einsum("hqk,khd->qhd", weights, values).to(v.dtype)


def one(q, k, v, scale, causal, left, right, softcap, slopes):
    weights = slow_weights(q, k, scale=scale, causal=causal, left=left, right=right, softcap=softcap, slopes=slopes)
    return slow_output(weights, v)


def forward(q, k, v, dropout_p, scale, causal, left, right, softcap, slopes, return_softmax):  # noqa: PLR0913 - theirs
    rows = [one(*t, scale, causal, left, right, softcap, slopes) for t in zip(q, k, v, strict=True)]
    return torch.stack(rows), *(torch.zeros(1) for _ in range(3))


def packed(q, k, v, cu_q, cu_k, max_q, max_k, dropout_p, scale, causal, *rest):
    left, right, softcap, slopes = (*rest, *(-1, -1, 0.0, None)[len(rest) :])[:4]  # torch leaves defaults out
    spans = zip(cu_q.tolist(), cu_q.tolist()[1:], cu_k.tolist(), cu_k.tolist()[1:], strict=False)
    rows = [one(q[a:b], k[c:d], v[c:d], scale, causal, left, right, softcap, slopes) for a, b, c, d in spans]
    return torch.cat(rows), *(torch.zeros(1) for _ in range(3))


@pytest.fixture(scope="module", autouse=True)
def operators():
    library = torch.library.Library("regard_test_flash", "FRAGMENT")
    library.define("_flash_attn_forward" + SCHEMA)
    library.define("_flash_attn_varlen_forward" + PACKED)
    library.impl("_flash_attn_forward", forward, "CPU")
    library.impl("_flash_attn_varlen_forward", packed, "CPU")
    yield
    library._destroy()


class Flash(nn.Module):
    def __init__(self, **rule):
        super().__init__()
        self.rule = {"causal": False, "left": -1, "right": -1, "softcap": 0.0, "slopes": None, **rule}

    def forward(self, q, k, v):
        r = self.rule
        return torch.ops.regard_test_flash._flash_attn_forward(
            q, k, v, 0.0, 0.37, r["causal"], r["left"], r["right"], r["softcap"], r["slopes"], False
        )[0]


class Packed(nn.Module):
    def forward(self, q, k, v, starts_q, starts_k):
        return torch.ops.regard_test_flash._flash_attn_varlen_forward(
            q, k, v, starts_q, starts_k, 5, 7, 0.0, 0.37, True
        )[0]


SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
RULES = [
    {},
    {"causal": True},
    {"left": 2, "right": 1},
    {"causal": True, "left": 2},
    {"softcap": 1.5},
    {"slopes": SLOPES},
    {"slopes": SLOPES, "causal": True, "softcap": 0.7},
]


@pytest.fixture
def qkv():
    """2 examples, 5 queries, 7 keys, 4 heads of which pairs share keys, width 3; flash-attention's layout."""
    drawn = torch.Generator().manual_seed(11)
    shapes = ((2, 5, 4, 3), (2, 7, 2, 3), (2, 7, 2, 3))
    return tuple(torch.randn(*shape, generator=drawn) for shape in shapes)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_weights(rule, qkv):
    module = Flash(**rule)
    found = capture(module, qkv, verify=True)
    record = found.records[0]
    expected = [slow_weights(q, k, scale=0.37, **module.rule).numpy() for q, k in zip(*qkv[:2], strict=True)]
    assert record.kernel == "flash-attention"
    assert record.shape == (2, 4, 5, 7)
    assert np.abs(record.weights - np.stack(expected)).max() < 1e-6
    assert record.verified
    assert record.sound
    assert torch.equal(found.output, module(*qkv))


def test_packed_sequences():
    drawn = torch.Generator().manual_seed(12)
    q, k, v = (torch.randn(n, heads, 3, generator=drawn) for n, heads in ((8, 4), (11, 2), (11, 2)))
    starts_q, starts_k = torch.tensor([0, 3, 8], dtype=torch.int32), torch.tensor([0, 4, 11], dtype=torch.int32)
    record = capture(Packed(), (q, k, v, starts_q, starts_k), verify=True).records[0]
    assert record.shape == (2, 4, 5, 7)
    rule = {"scale": 0.37, "causal": True, "left": -1, "right": -1, "softcap": 0.0, "slopes": None}
    for i, (a, b, c, d) in enumerate([(0, 3, 0, 4), (3, 8, 4, 11)]):
        expected = slow_weights(q[a:b], k[c:d], **rule).numpy()
        assert np.abs(record.weights[i, :, : b - a, : d - c] - expected).max() < 1e-6
        assert not record.allowed[i, :, :, d - c :].any()
    assert record.verified
    assert record.sound
    assert "2 packed sequences" in record.notes[0]


def test_an_edit_of_one_head(qkv):
    module = Flash(causal=True)
    usual = module(*qkv)
    with edit(module, layer=0, head=2, output=0.0):
        changed = module(*qkv)
    assert changed[:, :, 2].abs().max() == 0
    assert torch.equal(changed[:, :, [0, 1, 3]], usual[:, :, [0, 1, 3]])


def test_an_edit_of_packed_sequences():
    drawn = torch.Generator().manual_seed(12)
    q, k, v = (torch.randn(n, heads, 3, generator=drawn) for n, heads in ((8, 4), (11, 2), (11, 2)))
    starts = torch.tensor([0, 3, 8], dtype=torch.int32), torch.tensor([0, 4, 11], dtype=torch.int32)
    usual = Packed()(q, k, v, *starts)
    module = Packed()
    with edit(module, layer=0, head=1, output=0.0):
        changed = module(q, k, v, *starts)
    assert changed[:, 1].abs().max() == 0
    assert torch.equal(changed[:, [0, 2, 3]], usual[:, [0, 2, 3]])


def test_dropout_inside_the_kernel_is_said(qkv):
    class Dropping(Flash):
        def forward(self, q, k, v):
            return torch.ops.regard_test_flash._flash_attn_forward(q, k, v, 0.2, 0.37, False, -1, -1, 0.0, None, False)[
                0
            ]

    record = capture(Dropping(), qkv).records[0]
    assert record.residual is None
    assert "these are the weights before dropout" in record.notes[0]
