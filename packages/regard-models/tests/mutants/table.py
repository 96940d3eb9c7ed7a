"""The mutants, and what was decided about each before an audit was run on it.

property: the one whose failure shows the bug, None where nothing short of a reference can. culprits: the submodules
that would be a right answer ("" is the model itself); where a module is given a wrong mask, it and the giver both are.
quick: part of the quick tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from healthy import tiny
from mutants import fresh, libraries, unseen
from mutants import tiny as bugs

FIRST, SECOND = "blocks.0.attention", "blocks.1.attention"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    name: str
    build: Any
    property: str | None
    culprits: tuple[str, ...] = ()
    inputs: Any = None
    claims: dict[str, Any] = field(default_factory=dict)
    quick: bool = True


def _second(part, bad, whole=tiny.Gpt):
    """A model whose second block has the bad part."""
    good = {"attention": tiny.Attention, "feed_forward": tiny.FeedForward}[part]
    return lambda: whole(**{part: bugs.second(bad, good)}).eval()


def _all(part, bad, whole=tiny.Gpt):
    return lambda: whole(**{part: bad}).eval()


def _bfloat16(build):
    return lambda: build().to(torch.bfloat16)


CAUSAL = {"causal": True}
IDS = (tiny.ids(),)
FEED = "blocks.1.feed_forward"


def _in_tiny(name, build, property, *culprits, claims=CAUSAL):
    return Mutant(name=name, build=build, property=property, culprits=culprits, inputs=IDS, claims=claims)


ENCODER = {"causal": False}

BATCH = [
    _in_tiny("softmax over the batch", _second("attention", bugs.SoftmaxOverBatch), "batch", SECOND),
    _in_tiny("scaled by the batch's spread", _second("feed_forward", bugs.ScaledByTheBatch), "batch", FEED),
    _in_tiny("statistics of the batch", _all("norm", bugs.BatchStatistics), "batch", "blocks.0.before"),
    _in_tiny("mask of the first example", _second("attention", bugs.MaskOfTheFirst, tiny.Encoder), "batch", SECOND,
             claims=ENCODER),
    _in_tiny("experts with a capacity", _second("feed_forward", bugs.Capacity), "batch", FEED),
    _in_tiny("leak of 1e-9 over the batch", _second("feed_forward", bugs.LeaksTheBatch), "batch", FEED),
    _in_tiny("the same in bfloat16", _bfloat16(_second("feed_forward", bugs.LeaksTheBatch)), "batch", FEED),
]  # fmt: skip

PADDING = [
    _in_tiny("mask lost in the second block", bugs.MaskLost, "padding", SECOND, "blocks.1", "", claims=ENCODER),
    _in_tiny("no mask", _second("attention", bugs.NoMask, tiny.Encoder), "padding", SECOND, claims=ENCODER),
    _in_tiny("mask inverted", _all("attention", bugs.MaskInverted, tiny.Encoder), "padding", FIRST, claims=ENCODER),
    _in_tiny("queries masked, not keys", _second("attention", bugs.MaskQueries, tiny.Encoder), "padding", SECOND,
             claims=ENCODER),
    _in_tiny("mask after the softmax", _second("attention", bugs.MaskAfterSoftmax, tiny.Encoder), "padding", SECOND,
             claims=ENCODER),
    _in_tiny("mask of -5", _second("attention", bugs.MaskTooSmall, tiny.Encoder), "padding", SECOND, claims=ENCODER),
    _in_tiny("mean over padding", bugs.MeanOverPadding, "padding", "", claims=ENCODER),
    _in_tiny("places counted from the end", _all("positions", bugs.FromTheEnd, tiny.Encoder), "padding", "positions",
             claims=ENCODER),
    _in_tiny("norm over places", _all("norm", bugs.NormOverPlaces, tiny.Encoder), "padding", "blocks.0.before",
             claims=ENCODER),
    _in_tiny("convolution over padding", _all("feed_forward", bugs.LookingAhead, tiny.Encoder), "padding",
             "blocks.0.feed_forward", "blocks.0.feed_forward.mix", claims=ENCODER),
    _in_tiny("leak of 1e-9 from padding, bfloat16",
             _bfloat16(_second("feed_forward", bugs.LeaksTheSentence, tiny.Encoder)), "padding", FEED, claims=ENCODER),
]  # fmt: skip

CAUSALITY = [
    _in_tiny("no causal mask in one layer", _second("attention", bugs.NoMask), "causality", SECOND),
    _in_tiny("mask shifted by one", _all("attention", bugs.MaskShiftedByOne), "causality", FIRST),
    _in_tiny("mask transposed", _all("attention", bugs.MaskTransposed), "causality", FIRST),
    _in_tiny("causal mask after the softmax", _second("attention", bugs.MaskAfterSoftmax), "causality", SECOND),
    _in_tiny("causal mask of -5", _second("attention", bugs.MaskTooSmall), "causality", SECOND),
    _in_tiny("reads the next value", _second("attention", bugs.ReadsTheNextValue), "causality", SECOND),
    _in_tiny("softmax twice", _all("attention", bugs.SoftmaxTwice), "causality", FIRST),
    _in_tiny("view without transpose", _second("attention", bugs.ViewWithoutTranspose), "causality", SECOND),
    _in_tiny("fused kernel not causal", _second("attention", bugs.FusedNotCausal), "causality", SECOND),
    _in_tiny("convolution looks ahead", _all("feed_forward", bugs.LookingAhead), "causality",
             "blocks.0.feed_forward", "blocks.0.feed_forward.mix"),
    _in_tiny("causal model with a norm over places", _all("norm", bugs.NormOverPlaces), "causality", "blocks.0.before"),
    _in_tiny("leak of 1e-9", _second("feed_forward", bugs.LeaksTheSentence), "causality", FEED),
    _in_tiny("leak of 1e-9, bfloat16", _bfloat16(_second("feed_forward", bugs.LeaksTheSentence)), "causality", FEED),
    _in_tiny("detached leak", _second("feed_forward", bugs.LeaksDetached), "causality", FEED),
]  # fmt: skip

CACHE = [
    _in_tiny("positions start again", _all("positions", bugs.StartsAgain), "cache", "positions"),
    _in_tiny("causal mask at the top left", _all("attention", bugs.FusedTopLeft), "cache", FIRST),
    _in_tiny("rotation starts again", lambda: tiny.Gpt(attention=bugs.RotatesFromZero, positions=tiny.NoPositions),
             "cache", FIRST),
    _in_tiny("forgets the past", _second("attention", bugs.CacheForgetsThePast), "cache", SECOND),
    _in_tiny("overwrites the first", _second("attention", bugs.CacheOverwritesTheFirst), "cache", SECOND),
    _in_tiny("cache of the first layer in all", bugs.CacheOfTheFirstLayer, "cache", SECOND),
]  # fmt: skip

ORDER = [
    _in_tiny("positions never added", _all("positions", bugs.NeverAdded, tiny.Encoder), "order", "positions",
             "positions.table", claims=ENCODER),
    _in_tiny("positions all alike", _all("positions", bugs.AllAlike, tiny.Encoder), "order", "positions",
             "positions.table", claims=ENCODER),
    _in_tiny("positions clamped", _all("positions", bugs.Clamped, tiny.Encoder), "order", "positions",
             "positions.table", claims=ENCODER),
]  # fmt: skip

WEIGHTS = [
    _in_tiny("softmax over queries", _second("attention", bugs.SoftmaxOverQueries, tiny.Encoder), "weights", SECOND,
             claims=ENCODER),
    _in_tiny("not normalised", _second("attention", bugs.NotNormalised, tiny.Encoder), "weights", SECOND,
             claims=ENCODER),
    _in_tiny("NaN of padded queries spreads", bugs.NanForNobody, "weights", FIRST, "", claims=ENCODER),
]  # fmt: skip

OTHERS = [
    _in_tiny("dropout of weights in eval()", _second("attention", bugs.DropoutAlwaysOn), "determinism", SECOND),
    _in_tiny("dropout in eval()", _second("feed_forward", bugs.DropoutInFeedForward), "determinism", FEED),
    _in_tiny("noise in forward", _second("feed_forward", bugs.NoisyFeedForward), "determinism", FEED),
    _in_tiny("counts its calls", _second("feed_forward", bugs.Counts), "determinism", FEED),
    _in_tiny("softmax in bfloat16", _second("attention", bugs.HalfSoftmax), "precision", SECOND),
    _in_tiny("activation in bfloat16", _second("feed_forward", bugs.Narrow), "precision", FEED, f"{FEED}.down"),
    _in_tiny("no gradient", _second("feed_forward", bugs.WithoutGradient), "gradients", f"{FEED}.down", f"{FEED}.up"),
    _in_tiny("thrown away", _second("feed_forward", bugs.ThrownAway), "gradients", f"{FEED}.down", f"{FEED}.up"),
    _in_tiny("cut off between blocks", bugs.CutOff, "gradients", "blocks.0", "blocks.0.feed_forward.down"),
    _in_tiny("wrong backward", _second("feed_forward", bugs.WrongBackward), "gradients", FEED, f"{FEED}.up"),
]  # fmt: skip

TORCH_NN = [
    Mutant(name="torch.nn: mask inverted", build=libraries.MaskInverted, property="padding",
           culprits=("encoder.layers.0", "encoder.layers.0.self_attn", "encoder", ""), inputs=(libraries.vectors(),)),
    Mutant(name="torch.nn: batch_first forgotten", build=libraries.BatchFirstForgotten, property="batch",
           culprits=("encoder.layers.0", "encoder.layers.0.self_attn"), inputs=(libraries.vectors(),)),
    Mutant(name="torch.nn: bool mask meant to allow", build=libraries.MaskAllowsTheFuture, property="causality",
           culprits=("encoder.layers.0", "encoder.layers.0.self_attn", ""), inputs=(libraries.vectors(),),
           claims=CAUSAL),
    Mutant(name="torch.nn: mask shifted", build=libraries.MaskShifted, property="causality",
           culprits=("encoder.layers.0", "encoder.layers.0.self_attn", ""), inputs=(libraries.vectors(),),
           claims=CAUSAL),
    Mutant(name="torch.nn: causal in one layer only", build=libraries.CausalInOneLayerOnly, property="causality",
           culprits=("encoder.layers.1", "encoder.layers.1.self_attn", ""), inputs=(libraries.vectors(),),
           claims=CAUSAL),
    Mutant(name="torch.nn: never in eval()", build=libraries.NeverInEval, property="determinism",
           culprits=("encoder.layers.1", "encoder.layers.1.self_attn", "encoder.layers.1.dropout",
                     "encoder.layers.1.dropout1"), inputs=(libraries.vectors(),)),
    Mutant(name="torch.nn: memory's mask forgotten", build=libraries.MemoryMaskForgotten, property="padding",
           culprits=("transformer.decoder.layers.0.multihead_attn", "transformer.decoder.layers.0"),
           inputs=(libraries.vectors(), libraries.vectors(13, 2))),
    Mutant(name="torch.nn: no mask of the future", build=libraries.WithoutFutureMask, property="causality",
           culprits=("transformer.decoder.layers.0.self_attn", "transformer.decoder.layers.0"),
           inputs=(libraries.vectors(), libraries.vectors(13, 2)), claims=CAUSAL),
]  # fmt: skip


def _vectors(name, build, property, *culprits, **claims):
    made = (libraries.vectors(),)
    return Mutant(name=name, build=build, property=property, culprits=culprits, inputs=made, claims=claims)


LAYER = ("encoder.layers.0", "encoder.layers.0.self_attn", "")

FRESH = [
    _vectors("torch.nn: mask of numbers", fresh.MaskOfNumbers, "padding", *LAYER),
    _vectors("torch.nn: masks of heads before examples", fresh.MaskPerHeadMixed, "batch", "attention", ""),
    _vectors("torch.nn: norm of the sentence", fresh.NormOfTheSentence, "causality", "", causal=True),
    _vectors("torch.nn: reads backwards", fresh.ReadsBackwards, "causality", "recurrence", causal=True),
    _vectors("torch.nn: sums over examples", fresh.SumsOverExamples, "batch", ""),
    _in_tiny("rotation of the first call", lambda: tiny.Gpt(attention=fresh.StaleRotation,
             positions=tiny.NoPositions), "cache", FIRST),
    _in_tiny("places from the longest example", fresh.LongestOfTheBatch, "batch", "", "positions.table",
             claims=ENCODER),
    _in_tiny("one temperature for all", _second("attention", fresh.SharedTemperature), "batch", SECOND),
    _in_tiny("weights of the call before", _second("attention", fresh.CountsItself), "determinism", SECOND),
    _in_tiny("two places, one vector", _all("positions", fresh.OddPlacesOnly, tiny.Encoder), "order", "positions",
             "positions.table", claims=ENCODER),
    _in_tiny("values detached", _second("attention", fresh.ValuesDetached), "gradients", f"{SECOND}.v"),
    _in_tiny("scores in float16", _second("attention", fresh.RoundedScores), "precision", SECOND),
]  # fmt: skip


UNSEEN = [
    _in_tiny("mask lost in long texts", _second("attention", unseen.MaskLostInLongTexts), "causality", SECOND),
    _in_tiny("reads ahead at the end only", _second("feed_forward", unseen.ReadsAheadAtTheEnd), "causality", FEED),
    _in_tiny("examples meet in threes only", _second("feed_forward", unseen.CrowdsOnly), "batch", FEED),
    _in_tiny("places start again", _all("positions", unseen.StartsAgain, tiny.Encoder), "order", "positions",
             "positions.table", claims=ENCODER),
    _in_tiny("cached keys rotated again", lambda: unseen.CacheBeside(unseen.RotatedAgain), "cache",
             "inside.blocks.0.attention"),
    _in_tiny("the cache loses its oldest key", _all("attention", unseen.ForgetsWhatItWrote), "cache", FIRST),
    _in_tiny("a backward pass without a term", _second("feed_forward", unseen.ForgetsATerm), "gradients",
             f"{FEED}.up", "blocks.0.feed_forward.up"),
    _in_tiny("drops without asking", _second("feed_forward", unseen.DropsWithoutAsking), "determinism", FEED),
    _in_tiny("traced, reads ahead at the end", unseen.traced_leak, "causality", ""),
    _in_tiny("the largest score ever", _second("attention", unseen.LargestEver), "determinism", SECOND),
    _in_tiny("mask of the first call of a size", _second("attention", unseen.MaskOfTheFirstCall, tiny.Encoder),
             "determinism", SECOND, claims=ENCODER),
    _in_tiny("cache in float16", _second("attention", unseen.KeptInHalf), "cache", SECOND),
    _in_tiny("cut in train() only", _second("feed_forward", unseen.CutInTraining), "gradients", f"{FEED}.down", FEED),
    _in_tiny("every second example", _second("feed_forward", unseen.EvenPlaces), "batch", FEED),
    _in_tiny("scaled by the length", _second("feed_forward", unseen.ByTheLength, unseen.WithoutCache), "causality",
             FEED),
    Mutant(name="source hidden by the target's mask", build=unseen.CrossMaskOfTheTarget, property="padding",
           culprits=("cross",), **unseen.SOURCE_AND_TARGET),
    _in_tiny("eight bits by one scale", _second("feed_forward", unseen.EightBits), "batch", FEED),
    _in_tiny("a forward that was replaced", unseen.replaced_forward, "causality", FEED),
]  # fmt: skip


def _hf(name, build, property, *culprits):
    return Mutant(name=f"Hugging Face: {name}", build=build, property=property, culprits=culprits, quick=False)


HUGGING_FACE = [
    _hf("BERT, a layer without mask", libraries.bert_layer_without_mask, "padding", "encoder.layer.1.attention",
        "encoder.layer.1.attention.self"),
    _hf("GPT-2, a layer reads ahead", libraries.gpt2_layer_reads_ahead, "causality", "transformer.h.1.attn"),
    _hf("Llama, positions all 0", libraries.llama_positions_are_zero, "order", "model.rotary_emb"),
    _hf("Llama, positions start again", libraries.llama_positions_start_again, "cache", "", "model"),
    _hf("T5, cross-attention without mask", libraries.t5_cross_attention_without_mask, "padding",
        "decoder.block.1.layer.1.EncDecAttention"),
    _hf("BERT, norm over the batch", libraries.bert_norm_over_the_batch, "batch", "encoder.layer.0.output.LayerNorm"),
    _hf("BERT, positions all alike", libraries.bert_positions_never_added, "order",
        "embeddings.position_embeddings", "embeddings"),
    _hf("GPT-2, dropout in eval()", libraries.gpt2_dropout_stays_on, "determinism", "transformer.h.1.mlp.dropout"),
    _hf("Llama, a norm in bfloat16", libraries.llama_norm_in_half, "precision", "model.layers.1.input_layernorm"),
    _hf("Mistral in bfloat16, leak of 1e-9", libraries.mistral_bfloat16_leak, "causality", "model.layers.1.mlp"),
    _hf("GPT-2, detached", libraries.gpt2_mlp_detached, "gradients", "transformer.h.0.mlp",
        "transformer.h.0.mlp.c_proj"),
    _hf("GPT-2, untied", unseen.gpt2_untied, "gradients", "lm_head"),
]  # fmt: skip

# Decided beforehand: equal in every property that an audit tests, so only a reference tells.
NOT_OBSERVABLE = [
    _in_tiny("scores not scaled", _all("attention", bugs.NoScale), None),
    _in_tiny("keys and values exchanged", _all("attention", bugs.ValuesForKeys), None),
    _in_tiny("queries rotated, keys not", lambda: tiny.Gpt(attention=bugs.RotatesQueriesOnly).eval(), None),
    _in_tiny("a copy of a weight, multiplied with 0 times the weight", _second("feed_forward", bugs.StaleCopy), None),
]

OBSERVABLE = [
    *BATCH,
    *PADDING,
    *CAUSALITY,
    *CACHE,
    *ORDER,
    *WEIGHTS,
    *OTHERS,
    *TORCH_NN,
    *FRESH,
    *UNSEEN,
    *HUGGING_FACE,
]
