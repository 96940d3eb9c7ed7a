"""Every text model class of the installed transformers, built small from its configuration with random weights.

A configuration's sizes are known by their names (:data:`SMALL`), in its parts too (a text tower, an image tower); what
the names do not tell is said class by class (:data:`BESIDES`). A model is laid out on the meta device first, which
costs nothing, so that one that stays large is refused before it takes any memory.
"""

from __future__ import annotations

from typing import Any

LARGEST = 8_000_000  # weights

SMALL = {
    32: "hidden_size d_model n_embd dim emb_dim embedding_size d_embed model_dim word_embed_proj_dim projection_dim "
        "embed_dim encoder_hidden_size input_dim rnn_hidden_size attention_hidden_size lru_width text_hidden_size "
        "index_n_heads image_size width out_hidden_size output_proj_dims decoder_hidden_size encoder_embed_dim "
        "decoder_embed_dim text_embed_dim cross_attention_hidden_size vision_output_dim "
        "projector_input_dim projector_output_dim entity_emb_size shape_embed_dim pronunciation_embed_dim d_latents "
        "hidden_size_global",
    64: "intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim hidden_dim n_inner ffn_hidden_size "
        "max_position_embeddings n_positions max_seq_len max_sequence_length n_ctx dim_ff d_inner "
        "shared_expert_intermediate_size shared_intermediate_size mlp_dim dim_feedforward dense_ffn_hidden_size "
        "max_target_positions max_source_positions intermediate_size_mlp encoder_intermediate_dim "
        "decoder_intermediate_dim decoder_ffn_embed_dim encoder_ffn_embed_dim prefix_hidden_size",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers depth "
       "num_encoder_layers num_experts_per_tok num_key_value_heads num_kv_heads n_kv_heads moe_topk top_k moe_k "
       "num_selects num_block num_experts_per_token top_k_experts encoder_num_hidden_layers decoder_num_hidden_layers "
       "num_hash_layers",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_local_experts "
       "num_experts n_routed_experts moe_num_experts num_routed_experts mamba_num_heads "
       "linear_num_value_heads linear_num_key_heads encoder_num_attention_heads decoder_num_attention_heads "
       "index_topk zero_expert_num ffn_num_experts",
    8: "head_dim d_kv qk_nope_head_dim qk_rope_head_dim v_head_dim state_size d_state attention_head_dim mamba_d_head "
       "ssm_state_size mamba_head_dim mamba_d_state index_head_dim linear_key_head_dim linear_value_head_dim "
       "mamba_n_heads rotary_dim patch_size global_head_dim kv_channels block_size num_buckets",
    16: "q_lora_rank kv_lora_rank moe_intermediate_size expert_ffn_hidden_size chunk_size mamba_chunk_size "
        "moe_ffn_hidden_size time_step_rank attention_window o_lora_rank moe_shared_expert_intermediate_size",
    99: "vocab_size decoder_vocab_size src_vocab_size tgt_vocab_size entity_vocab_size pronunciation_vocab_size "
        "shape_vocab_size encoder_hash_byte_group_vocab vocab_size_per_layer_input",
    6: "sliding_window attention_chunk_size local_attention",
    1: "n_group topk_group first_k_dense_replace n_shared_experts moe_layer_start_index bos_token_id mamba_n_groups "
       "num_nextn_predict_layers n_groups",
    0: "pad_token_id hidden_size_per_layer_input num_kv_shared_layers moe_layer_freq_start",
    3: "eos_token_id",
}  # fmt: skip
SIZES = {name: size for size, names in SMALL.items() for name in names.split()}

# What the names of its sizes do not tell, by the beginning of a configuration's name.
BESIDES: dict[str, dict[str, Any]] = {
    "BailingHybrid": {"n_group": 1, "topk_group": 1, "layer_group_size": 2},
    "Bamba": {"attn_layer_indices": [1]},
    "CohereCompassText": {"layer_types": ["full_attention", "full_attention"]},
    "DeepseekV2": {"num_experts_per_tok": 2},
    "Dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "Esmc": {"num_key_value_heads": 4},
    "EsmConfig": {"vocab_size": 99, "mask_token_id": 4},
    "FalconH1": {"mamba_d_ssm": 64},
    "Gemma3nText": {
        "intermediate_size": 64,
        "activation_sparsity_pattern": [0.0, 0.0],
        "hidden_size_per_layer_input": 8,  # with 0 a cached step cannot be reshaped
    },
    "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]]},
    "GraniteMoeHybrid": {"layer_types": ["mamba", "attention"]},
    "HunYuan": {"head_dim": 8},
    "Jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2},
    "KimiLinear": {"linear_head_dim": 8, "linear_num_heads": 4},
    "Lfm2Config": {"layer_types": ["conv", "full_attention"]},
    "Lfm2Moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "Llama4Text": {"num_hidden_layers": 4, "layer_types": ...},  # the fourth is of another kind
    "Mamba2": {"num_heads": 8},
    "Ministral": {"head_dim": 8},
    "NemotronConfig": {"num_key_value_heads": 2},
    "NeoMME": {"head_dim": 16},
    "Perceiver": {"num_latents": 8, "num_self_attends_per_block": 2, "num_blocks": 1},
    "Reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 8), "attn_layers": ["local", "lsh"]},
    "Qwen4ExpText": {"linear_num_value_heads": 4, "linear_num_key_heads": 4},
    "Xmod": {"default_language": "en_XX"},
    "xLSTM": {"qk_dim_factor": 1.0},
    "Zamba2": {
        "layers_block_type": ["mamba", "hybrid"],
        "layer_types": ...,
        "num_hidden_layers": 2,
        "attention_hidden_size": 64,
    },
    "Zaya": {"num_experts_per_tok": 1},
}


def classes() -> list[tuple[str, str]]:
    """(class, configuration) of every text model that transformers' own tables name."""
    from transformers.models.auto import configuration_auto, modeling_auto

    configs = configuration_auto.CONFIG_MAPPING_NAMES
    heads = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    types = dict.fromkeys(kind for table in heads for kind in table)
    found: dict[tuple[str, str], None] = {}
    for table in (*heads, {k: v for k, v in modeling_auto.MODEL_MAPPING_NAMES.items() if k in types}):
        for kind, names in table.items():
            for name in names if isinstance(names, (tuple, list)) else (names,):
                if kind in configs:
                    found[name, configs[kind]] = None
    return list(found)


def build(name: str, config_name: str, attn: str, settings: dict[str, Any] | None = None) -> Any:
    """The model, small, in eval(); ``settings`` are added to its configuration."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    model_class = getattr(transformers, name)
    kind = getattr(model_class, "config_class", None) or getattr(transformers, config_name)
    writes = name.endswith(("ForCausalLM", "LMHeadModel", "WithLMHead", "Decoder"))
    chosen = sizes(kind, writes=writes) | (settings or {})
    with torch.device("meta"):
        planned = model_class._from_config(kind(**chosen), attn_implementation=attn)
    if (count := sum(p.numel() for p in planned.parameters())) > LARGEST:
        largest = max(planned.named_parameters(), key=lambda pair: pair[1].numel())
        raise ValueError(f"it stays large ({count:,} weights; {largest[0]} is {tuple(largest[1].shape)})")
    torch.manual_seed(0)
    model = model_class._from_config(kind(**chosen), attn_implementation=attn).eval().float()  # some come in bfloat16
    # A fresh model may have an output projection of 0, through which nothing is seen, and weights that nobody filled.
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and (not bool(weight.any()) or not float(weight.abs().max()) < 1e3):
                weight.normal_(std=0.02)
    return model


def sizes(kind: Any, *, writes: bool = False) -> dict[str, Any]:
    """Small sizes for a configuration class, its parts included; ``writes``: an encoder is told to be a decoder."""
    default = kind()
    known = default.to_dict()
    found = {k: v for k, v in SIZES.items() if (k in known and isinstance(known[k], int)) or k == "pad_token_id"}
    kinds = known.get("layer_types")
    if isinstance(kinds, list) and kinds:
        distinct = list(dict.fromkeys(kinds))
        found["layer_types"] = distinct if len(distinct) > 1 else distinct * 2
        found["num_hidden_layers"] = len(found["layer_types"])
    if "kv_lora_rank" in known and "num_key_value_heads" in found:
        found["num_key_value_heads"] = found["num_attention_heads"]  # its keys are made for every head
    if "causal" in known:
        found["causal"] = writes  # XLM's word for it
    if "is_decoder" in known:
        found["is_decoder"] = writes  # encoders write from left to right only if told so
    if "bidirectional" in known and "is_decoder" in known:
        found["bidirectional"] = not writes  # Mega asks for both
    # Older configurations do not list their parts.
    parts = getattr(kind, "sub_configs", None) or [k for k, v in vars(default).items() if hasattr(v, "to_dict")]
    for part in parts:
        if hasattr(value := getattr(default, part, None), "to_dict"):
            decodes = {"add_cross_attention": True} if part == "decoder" else {}
            found[part] = {**sizes(type(value), writes=part == "decoder"), **decodes, "model_type": value.model_type}
    for begin, more in BESIDES.items():
        if kind.__name__.startswith(begin):
            found |= more
    return {k: v for k, v in found.items() if v is not ...}
