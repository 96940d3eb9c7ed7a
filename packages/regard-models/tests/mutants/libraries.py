"""Bugs, one each, around torch.nn's and Hugging Face's own code."""

from __future__ import annotations

import functools

import torch
from torch import nn

from healthy import families

WIDTH = 20


def encoder(**more):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 37, batch_first=more.pop("batch_first", True), **more)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class OnVectors(nn.Module):
    """An encoder of torch.nn behind a projection."""

    def __init__(self, **more):
        super().__init__()
        self.encoder, self.head = encoder(**more), nn.Linear(WIDTH, 7)


class MaskInverted(OnVectors):
    def forward(self, x, attention_mask=None):
        hidden = None if attention_mask is None else attention_mask.bool()
        if hidden is not None and bool(hidden.all()):
            hidden = None
        return self.head(self.encoder(x, src_key_padding_mask=hidden))


class BatchFirstForgotten(OnVectors):
    def __init__(self):
        super().__init__(batch_first=False)

    def forward(self, x):
        return self.head(self.encoder(x))


class MaskAllowsTheFuture(OnVectors):
    """True in a bool mask of torch.nn hides; here it was meant to allow."""

    def forward(self, x):
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(-1)
        return self.head(self.encoder(x, mask=allowed))


class MaskShifted(OnVectors):
    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        return self.head(self.encoder(x, mask=hidden))


class CausalInOneLayerOnly(OnVectors):
    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = self.encoder.layers[0](x, src_mask=hidden)
        return self.head(self.encoder.layers[1](x))


class NeverInEval(OnVectors):
    def forward(self, x):
        self.encoder.layers[1].train()
        return self.head(self.encoder(x))


class MemoryMaskForgotten(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 37, batch_first=True)
        self.transformer.encoder.enable_nested_tensor = False

    def forward(self, src, tgt, src_key_padding_mask=None):
        return self.transformer(src, tgt, src_key_padding_mask=src_key_padding_mask)


class WithoutFutureMask(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 37, batch_first=True)

    def forward(self, src, tgt):
        return self.transformer(src, tgt)


def vectors(length=17, seed=1):
    return torch.randn(3, length, WIDTH, generator=torch.Generator().manual_seed(seed))


# Hugging Face: a healthy model of which one method of one submodule is exchanged.


def _around(module, change):
    """Let ``change`` at the arguments of a module's forward."""
    plain = type(module)

    class Changed(plain):
        @functools.wraps(plain.forward)
        def forward(self, *args, **kwargs):
            args, kwargs = change(args, kwargs)
            return super().forward(*args, **kwargs)

    Changed.__name__ = plain.__name__
    module.__class__ = Changed
    return module


def bert_layer_without_mask():
    model = families.bert()

    def change(args, kwargs):  # the mask comes by its place
        return (args[0], None, *args[2:]), kwargs

    _around(model.encoder.layer[1].attention, change)
    return model


def gpt2_layer_reads_ahead():
    model = families.gpt2(attn="eager")

    def change(args, kwargs):
        mask = kwargs.get("attention_mask")
        return args, {**kwargs, "attention_mask": None if mask is None else torch.zeros_like(mask)}

    _around(model.transformer.h[1].attn, change)
    return model


def llama_positions_are_zero():
    model = families.llama()

    def change(args, kwargs):
        if "position_ids" in kwargs:
            return args, {**kwargs, "position_ids": torch.zeros_like(kwargs["position_ids"])}
        return (args[0], torch.zeros_like(args[1])), kwargs

    _around(model.model.rotary_emb, change)
    return model


def llama_positions_start_again():
    model = families.llama()

    def change(args, kwargs):
        ids = kwargs["input_ids"]
        return args, {**kwargs, "position_ids": torch.arange(ids.shape[1])[None]}

    _around(model, change)
    return model


def t5_cross_attention_without_mask():
    model = families.t5()

    def change(args, kwargs):
        name = next(n for n in ("mask", "attention_mask") if n in kwargs)
        return args, {**kwargs, name: None, "position_bias": None}

    _around(model.decoder.block[1].layer[1].EncDecAttention, change)
    return model


def bert_norm_over_the_batch():
    model = families.bert()

    class OverBatch(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x - x.mean(0, keepdim=True))

    model.encoder.layer[0].output.LayerNorm.__class__ = OverBatch
    return model


def bert_positions_never_added():
    model = families.bert()

    class Zero(nn.Embedding):
        def forward(self, ids):
            return super().forward(torch.zeros_like(ids))

    model.embeddings.position_embeddings.__class__ = Zero
    return model


def gpt2_dropout_stays_on():
    model = families.gpt2()

    class Always(nn.Dropout):
        def forward(self, x):
            return nn.functional.dropout(x, 0.1, True)

    model.transformer.h[1].mlp.dropout.__class__ = Always
    return model


def llama_norm_in_half():
    model = families.llama()
    plain = type(model.model.layers[1].input_layernorm)

    class Half(plain):
        def forward(self, x):
            return super().forward(x.to(torch.bfloat16)).to(x.dtype)

    model.model.layers[1].input_layernorm.__class__ = Half
    return model


def mistral_bfloat16_leak():
    model = families.mistral(dtype=torch.bfloat16)
    plain = type(model.model.layers[1].mlp)

    class Leaks(plain):
        def forward(self, x):
            return super().forward(x) + 1e-9 * x.mean(1, keepdim=True)

    model.model.layers[1].mlp.__class__ = Leaks
    return model


def gpt2_mlp_detached():
    model = families.gpt2()
    plain = type(model.transformer.h[0].mlp)

    class Detached(plain):
        def forward(self, x):
            return super().forward(x).detach()

    model.transformer.h[0].mlp.__class__ = Detached
    return model
