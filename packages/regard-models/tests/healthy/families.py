"""Hugging Face models of many families, built small from their configurations, with random weights."""

from __future__ import annotations

import contextlib
import io

import torch

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}


def made(kind, config, sizes, *, attn=None, dtype=None):
    """A model in eval() mode; the seed is its own, and transformers' own remarks are kept quiet."""
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    with contextlib.redirect_stderr(io.StringIO()):
        settings = getattr(transformers, config)(**sizes)
        if attn is not None:
            settings._attn_implementation = attn
        model = getattr(transformers, kind)(settings).eval()
    return model if dtype is None else model.to(dtype)


def bert(**more):
    return made("BertModel", "BertConfig", SMALL, **more)


def roberta(**more):
    return made("RobertaModel", "RobertaConfig", {**SMALL, "pad_token_id": 1, "bos_token_id": 0}, **more)


def distilbert(**more):
    sizes = {"vocab_size": 99, "dim": 32, "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
    return made("DistilBertModel", "DistilBertConfig", sizes, **more)


def albert(**more):
    """One layer, used twice."""
    return made("AlbertModel", "AlbertConfig", {**SMALL, "embedding_size": 16}, **more)


def deberta(**more):
    """Relative positions inside attention."""
    sizes = {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    return made("DebertaV2Model", "DebertaV2Config", sizes, **more)


def modernbert(**more):
    """Windows of 4 to each side in the second layer."""
    sizes = {**SMALL, "local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 3, "sep_token_id": 4}
    return made("ModernBertModel", "ModernBertConfig", sizes, **more)


def gpt2(**more):
    sizes = {"vocab_size": 99, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "bos_token_id": 1}
    return made("GPT2LMHeadModel", "GPT2Config", {**sizes, "eos_token_id": 2}, **more)


def gpt_neox(**more):
    return made("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL, **more)


def opt(**more):
    sizes = {**SMALL, "ffn_dim": 40, "word_embed_proj_dim": 32}
    del sizes["intermediate_size"]
    return made("OPTForCausalLM", "OPTConfig", sizes, **more)


def bloom(**more):
    """Linear biases instead of positions."""
    sizes = {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 0, "bos_token_id": 1}
    return made("BloomForCausalLM", "BloomConfig", {**sizes, "eos_token_id": 2}, **more)


def llama(**more):
    return made("LlamaForCausalLM", "LlamaConfig", GROUPED, **more)


def mistral(**more):
    """Grouped keys, and a window of 6."""
    return made("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 6}, **more)


def qwen2(**more):
    return made("Qwen2ForCausalLM", "Qwen2Config", GROUPED, **more)


def gemma2(**more):
    """Capped scores, windows in every other layer."""
    return made(
        "Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "sliding_window": 6, "query_pre_attn_scalar": 8}, **more
    )


def phi(**more):
    return made("PhiForCausalLM", "PhiConfig", SMALL, **more)


def mixtral(**more):
    """A mixture of experts without capacity."""
    return made("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 4}, **more)


def gpt_oss(**more):
    """Sinks: the weights of a row sum to less than 1."""
    sizes = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6}
    return made("GptOssForCausalLM", "GptOssConfig", sizes, **more)


def t5(**more):
    sizes = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    return made("T5Model", "T5Config", sizes, **more)


def bart(**more):
    sizes = {
        "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    }  # fmt: skip
    return made("BartForConditionalGeneration", "BartConfig", sizes, **more)


def vit(**more):
    sizes = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
    return made("ViTModel", "ViTConfig", {**sizes, "image_size": 16, "patch_size": 8}, **more)
