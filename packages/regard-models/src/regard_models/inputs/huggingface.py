"""Hugging Face models: loaded offline, and everything about their inputs derived from class and configuration."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regard.errors import InputError, describe_error
from regard_models.inputs.input_roles import Mask, Polarity, Stream

if TYPE_CHECKING:
    from regard_models.inputs.model_input import ModelInput

BATCH, LENGTH, TARGET = 3, 17, 13
_SPECIAL = ("pad", "bos", "eos", "mask", "cls", "sep", "unk", "decoder_start", "image", "video", "audio")
_LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_seq_length", "max_target_positions")
_BIDIRECTIONAL = ("MaskedLM", "ForPreTraining", "TextEncoding", "EncoderModel")


def is_huggingface(module: nn.Module) -> bool:
    """Whether the module is a transformers model; nothing is imported to find out."""
    from regard_models.inputs.model_input import original

    library = sys.modules.get("transformers")
    return library is not None and isinstance(original(module), library.PreTrainedModel)


def reads_signals(module: nn.Module) -> bool:
    """Whether the module is a transformers model that reads pixels or sound: of those nothing is derived."""
    from regard_models.inputs.model_input import original

    main = getattr(original(module), "main_input_name", "input_ids")
    return is_huggingface(module) and main not in ("input_ids", "inputs_embeds")


def load(spec: str, *, tokenizer_needed: bool) -> tuple[nn.Module, Any]:
    """The model NAME@REVISION from the local cache, and its tokenizer where there is one."""
    name, _, revision = spec.partition("@")
    if not name:
        raise InputError("huggingface: needs the name of a model, as in huggingface:bert-base-uncased@main.")
    return _load_pretrained(name, revision or "main", tokenizer_needed)


def load_folder(folder: Path, *, tokenizer_needed: bool) -> tuple[nn.Module, Any]:
    """The model of a folder with config.json and weights."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} is neither a run folder nor a Hugging Face folder: it has no config.json.")
    return _load_pretrained(str(folder), None, tokenizer_needed)


def derive(module: nn.Module, label: str, *, text: str | None = None, tokenizer: Any = None) -> ModelInput:
    """The streams of a Hugging Face model, and an example: the text, or ids that were drawn."""
    from regard_models.inputs.model_input import ModelInput, original, parameter_names

    model: Any = original(module)
    names, config = parameter_names(model), model.config
    main = str(getattr(model, "main_input_name", "input_ids"))
    generator = torch.Generator().manual_seed(0)
    if main not in ("input_ids", "inputs_embeds"):
        inputs = {main: _signal(model, main, generator)}
        return ModelInput(
            name=label, module=module, inputs=inputs, streams=(), assumed=(f"{main} were drawn at random",)
        )
    part = text_config(config)
    pads_by_id = "attention_mask" not in names
    stream = Stream(
        name="input_ids",
        vocabulary=_vocabulary(model, part),
        avoid=_special_ids(config, part),
        pad=_pad(part),
        padded_by_id=pads_by_id and _pad(part) is not None,
        masks=() if pads_by_id else (Mask(name="attention_mask", polarity=Polarity.keep, dtype=torch.int64),),
        positions="position_ids" if "position_ids" in names else None,
        longest=_longest(model),
        causal=False if getattr(config, "is_encoder_decoder", False) else is_causal(model),
        blank=_blank(model, part),
    )
    inputs = {"input_ids": draw_ids(stream, BATCH, LENGTH, generator)}
    streams: tuple[Stream, ...] = (stream,)
    tokens, assumed = None, []
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        second = _decoder(stream, names)
        streams = (stream, second)
        inputs["decoder_input_ids"] = draw_ids(second, BATCH, TARGET, generator)
    elif stream.causal:
        assumed.append(f"it is causal ({type(model).__name__} writes from left to right)")
    if text is not None:
        inputs, tokens = _tokenize_text(model, inputs, text, tokenizer, label)
    return ModelInput(
        name=label,
        module=module,
        inputs=inputs,
        streams=streams,
        tokenizer=tokenizer,
        tokens=tokens,
        assumed=tuple(assumed),
    )


def draw_ids(stream: Stream, batch: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Ids drawn at random from those without a meaning of their own."""
    size = stream.vocabulary or 2
    length = min(length, stream.longest or length)
    free = torch.tensor([i for i in range(min(size, 50_000)) if i not in stream.avoid] or [0])
    return free[torch.randint(0, len(free), (batch, length), generator=generator)]


def is_causal(model: Any) -> bool | None:
    """Whether the class claims to write from left to right: by its name, its config, or its attention modules."""
    name, config = type(model).__name__, text_config(model.config)
    if (own := _configured_causality(config)) is not None:
        return own
    if any(word in name for word in _BIDIRECTIONAL) and not getattr(config, "is_decoder", False):
        return False
    said_so = [bool(m.is_causal) for m in model.modules() if isinstance(getattr(m, "is_causal", None), bool)]
    if said_so:
        return any(said_so)
    decodes = getattr(config, "is_decoder", None)  # only configurations of encoders have a say in it
    return True if decodes or (decodes is None and name.endswith(("ForCausalLM", "LMHeadModel"))) else None


def _configured_causality(config: Any) -> bool | None:
    """What the configurations of XLM (causal) and of XLNet (attn_type) say of it."""
    if getattr(config, "model_type", "") in ("xlm", "flaubert"):
        return bool(config.causal)
    return config.attn_type == "uni" if getattr(config, "model_type", "") == "xlnet" else None


def text_config(config: Any) -> Any:
    """The part of a configuration that speaks of text."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _load_pretrained(name: str, revision: str | None, tokenizer_needed: bool) -> tuple[nn.Module, Any]:
    if find_spec("transformers") is None:
        raise InputError("Hugging Face models need transformers: pip install regard-models transformers.")
    try:
        import transformers
    except Exception as error:  # it is there, and what it needs is not
        raise InputError(
            f"transformers is installed and cannot be imported ({describe_error(error)}): "
            "pip install --upgrade transformers."
        ) from None

    transformers.logging.disable_progress_bar()  # standard error is for what is worth knowing
    where: dict[str, Any] = {"local_files_only": True, **({} if revision is None else {"revision": revision})}
    try:
        config = transformers.AutoConfig.from_pretrained(name, **where)
        kind = getattr(transformers, (getattr(config, "architectures", None) or ["AutoModel"])[0], None)
        # Safetensors only: a pickle would run whatever code is in it.
        module = (kind or transformers.AutoModel).from_pretrained(name, use_safetensors=True, **where)
    except Exception as error:
        raise InputError(
            f"{name} could not be opened offline as a Hugging Face model ({describe_error(error)}); give a folder with "
            "config.json and model.safetensors, or a name that is in the local cache."
        ) from None
    module.eval()
    return module, _load_tokenizer(transformers, name, where, needed=tokenizer_needed)


def _load_tokenizer(transformers: Any, name: str, where: dict[str, Any], *, needed: bool) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
        if len(tokenizer) <= len(tokenizer.all_special_ids) + 1:  # made up where the folder has none
            raise InputError("it knows no words")
        return tokenizer
    except Exception as error:
        if needed:
            raise InputError(
                f"{name} has no tokenizer that can be opened ({describe_error(error)}); leave --text out."
            ) from None
        return None


def _tokenize_text(
    model: Any, inputs: dict[str, Any], text: str, tokenizer: Any, label: str
) -> tuple[dict[str, Any], list[list[str]]]:
    if tokenizer is None:
        raise InputError(f"{label} came without a tokenizer; leave the text out, or give the tokenizer.")
    if not text.strip():
        raise InputError("The text is empty; give a few words.")
    coded = dict(tokenizer(text, return_tensors="pt", verbose=False))  # whether it is too long is said below
    length, longest = int(coded["input_ids"].shape[1]), _longest(model)
    if longest is not None and length > longest:
        raise InputError(f"The text has {length:,} tokens, and {label} takes at most {longest:,}; shorten it.")
    rest = {key: value[:1] for key, value in inputs.items() if key not in coded}
    tokens = [list(map(str, tokenizer.convert_ids_to_tokens(row))) for row in coded["input_ids"].tolist()]
    return {**coded, **rest}, tokens


def _decoder(first: Stream, names: Any) -> Stream:
    mask = Mask(name="decoder_attention_mask", polarity=Polarity.keep, dtype=torch.int64)
    return Stream(
        name="decoder_input_ids",
        vocabulary=first.vocabulary,
        avoid=first.avoid,
        pad=first.pad,
        masks=(mask,) if "decoder_attention_mask" in names else (),
        positions="decoder_position_ids" if "decoder_position_ids" in names else None,
        longest=first.longest,
        causal=True,
    )


def _vocabulary(model: Any, config: Any) -> int:
    size = getattr(config, "vocab_size", None)
    if isinstance(size, int) and size > 0:
        return size
    table = model.get_input_embeddings()
    return int(getattr(table, "num_embeddings", 100))


def _special_ids(*configs: Any) -> frozenset[int]:
    ids = set()
    for config in configs:
        for word in _SPECIAL:
            value = getattr(config, f"{word}_token_id", None)
            ids |= {v for v in (value if isinstance(value, list) else [value]) if isinstance(v, int)}
    return frozenset(ids)


def _pad(config: Any) -> int | None:
    value = getattr(config, "pad_token_id", None)
    return value if isinstance(value, int) and value >= 0 else None


def _blank(model: Any, config: Any) -> int | None:
    """The id of a word to be filled in, for classes that fill some in."""
    value = getattr(config, "mask_token_id", None)
    if not isinstance(value, int) or value == _pad(config) or "MaskedLM" not in type(model).__name__:
        return None
    return value if 0 <= value < _vocabulary(model, config) else None


def _longest(model: Any) -> int | None:
    config = text_config(model.config)
    sizes = (getattr(config, name, None) for name in _LONGEST)
    longest = next((value for value in sizes if isinstance(value, int) and value > 0), None)
    if longest is None:
        return None
    # RoBERTa and its kin count places from the padding's id on, and lose as many.
    tables = (m for m in model.modules() if isinstance(m, nn.Embedding) and m.num_embeddings == longest)
    lost = max((m.padding_idx + 1 for m in tables if m.padding_idx is not None), default=0)
    return longest - lost if longest > lost + 2 and longest != getattr(config, "vocab_size", 0) else longest


def _signal(model: Any, main: str, generator: torch.Generator) -> torch.Tensor:
    """Pixels or samples for models that read no text."""
    config = model.config
    if main == "pixel_values":
        size = getattr(config, "image_size", 32)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.randn((BATCH, int(getattr(config, "num_channels", 3)), height, width), generator=generator)
    raise InputError(f"{type(model).__name__} takes {main}, for which no example can be drawn here; give one.")
