"""Hugging Face families, small, from their configuration classes with random weights; eager, sdpa and flex."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from attention_zoo import Case

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SMALL, **MARKS, "num_key_value_heads": 2}
TWO_SIDED = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 99, "decoder_start_token_id": 1, **MARKS,
}  # fmt: skip
IMPLEMENTATIONS = ("eager", "sdpa", "flex_attention")


@dataclass(frozen=True)
class Family:
    """A model class, its configuration and what it reads."""

    name: str
    model: str
    config: str
    options: dict[str, Any]
    reads: str = "text"  # or pixels, both, or sound


FAMILIES = [
    Family("BERT", "BertModel", "BertConfig", {**SMALL, **MARKS}),
    Family("RoBERTa", "RobertaModel", "RobertaConfig", {**SMALL, **MARKS}),
    Family("ALBERT (shared layers)", "AlbertModel", "AlbertConfig", {**SMALL, **MARKS, "embedding_size": 16}),
    Family("DeBERTa-v2", "DebertaV2Model", "DebertaV2Config", {
        **SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_position_embeddings": 64,
        "position_buckets": 8}),
    Family("ModernBERT", "ModernBertModel", "ModernBertConfig", {
        **SMALL, **MARKS, "global_attn_every_n_layers": 2, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}),
    Family("GPT-2", "GPT2LMHeadModel", "GPT2Config", {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, **MARKS}),
    Family("GPT-NeoX", "GPTNeoXForCausalLM", "GPTNeoXConfig", {**SMALL, **MARKS}),
    Family("OPT", "OPTForCausalLM", "OPTConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "vocab_size": 99,
        "word_embed_proj_dim": 32, **MARKS}),
    Family("BLOOM (ALiBi)", "BloomForCausalLM", "BloomConfig", {
        "hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, **MARKS}),
    Family("Llama", "LlamaForCausalLM", "LlamaConfig", {**SMALL, **MARKS}),
    Family("Mistral (grouped, window)", "MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    Family("Mixtral (experts)", "MixtralForCausalLM", "MixtralConfig", {
        **GROUPED, "num_local_experts": 3, "num_experts_per_tok": 2}),
    Family("Gemma-2 (softcap)", "Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    Family("Qwen-3", "Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}),
    Family("Phi-3", "Phi3ForCausalLM", "Phi3Config", GROUPED),
    Family("GPT-OSS (sinks)", "GptOssForCausalLM", "GptOssConfig", {
        **GROUPED, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 4}),
    Family("T5", "T5ForConditionalGeneration", "T5Config", {
        "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4, "vocab_size": 99,
        "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}, reads="both"),
    Family("BART", "BartForConditionalGeneration", "BartConfig", {**TWO_SIDED, "forced_eos_token_id": None}, "both"),
    Family("Whisper", "WhisperModel", "WhisperConfig", {
        **TWO_SIDED, "num_mel_bins": 8, "max_source_positions": 10}, "sound"),
    Family("ViT", "ViTModel", "ViTConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
        "patch_size": 4}, "pixels"),
    Family("Swin (windows)", "SwinModel", "SwinConfig", {
        "image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 2},
        "pixels"),
]  # fmt: skip


class NotOffered(Exception):  # noqa: N818 - it is an answer
    """The library has no such implementation for this family, or not on a CPU."""


def make(family: Family, implementation: str) -> nn.Module:
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    config = getattr(transformers, family.config)(**family.options)
    torch.manual_seed(0)
    try:
        return getattr(transformers, family.model)._from_config(config, attn_implementation=implementation).eval()
    except (ValueError, ImportError) as error:
        raise NotOffered(str(error).partition(".")[0]) from None


def example(family: Family) -> dict[str, Any]:
    drawn = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 99, (2, 11), generator=drawn)
    if family.reads == "pixels":
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=drawn)}
    if family.reads == "sound":
        return {"input_features": torch.randn(2, 8, 20, generator=drawn), "decoder_input_ids": ids[:, :5]}
    mask = torch.ones(2, 11, dtype=torch.int64)
    mask[1, 8:] = 0
    both = {"decoder_input_ids": ids[:, :5]} if family.reads == "both" else {}
    return {"input_ids": ids, "attention_mask": mask, **both}


def eager_weights(family: Family) -> list[np.ndarray]:
    """What the library itself says its eager version used: encoder, then decoder and cross attention in turn."""
    model = make(family, "eager")
    with torch.no_grad():
        out = model(**example(family), output_attentions=True, return_dict=True)
    if out.get("decoder_attentions") is None:
        return [layer.numpy() for layer in out["attentions"]]
    turns = zip(out["decoder_attentions"], out["cross_attentions"], strict=True)
    return [layer.numpy() for layer in (*out["encoder_attentions"], *(w for pair in turns for w in pair))]


def case(family: Family, implementation: str) -> Case:
    def build() -> tuple[nn.Module, Any]:
        return make(family, implementation), example(family)

    if implementation != "flex_attention":
        return Case(f"{family.name}, {implementation}", build)
    # torch refuses flex attention with gradients on a CPU
    return Case(f"{family.name}, {implementation}", build, modes=("no_grad", "inference"), eager_twin=True)


def generate(**options: Any) -> Callable[[nn.Module, Any], Any]:
    """What writes four more tokens, with a cache."""

    def run(model: Any, inputs: Any) -> Any:
        return model.generate(**inputs, max_new_tokens=4, do_sample=False, **options)

    return run
