"""What a model's inputs mean, read off the names of forward's parameters and the shapes of an example.

A *stream* is a row of tokens for every example of the batch: ids, or vectors. An encoder or a decoder has one; an
encoder-decoder has two, and its output follows the last. A mask says which tokens of a stream are real. What True
means in a mask differs from library to library, so a name that is not known has to be declared.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn


class Polarity(enum.Enum):
    """What a mask's entries say of a token."""

    keep = "True = may be read"
    hide = "True = must not be read"
    add = "0 = may be read, minus infinity = must not"


@dataclass(frozen=True, kw_only=True)
class Mask:
    """A parameter that tells real tokens from padding, batch x length."""

    name: str
    polarity: Polarity
    dtype: torch.dtype = torch.bool

    def of(self, keep: Tensor, dtype: torch.dtype) -> Tensor:
        """The mask for ``keep`` (batch x length, True = real); ``dtype`` is the model's, for one that is added."""
        if self.polarity is Polarity.add:
            return torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill(~keep, -torch.inf)
        said = keep if self.polarity is Polarity.keep else ~keep
        return said.to(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A row of tokens for every example.

    name: forward's parameter; also: others that get the same tensor. vocabulary: ids are below it (None: vectors).
    avoid: ids with a meaning of their own. pad: the id of padding, ``padded_by_id`` where the model itself knows
    padding by it. positions: the parameter for position ids, if any. longest: the most tokens (None: not known).
    causal: claimed (True), denied (False), nothing said (None). extras: other parameters with an entry for every token.
    blank: the id that stands for a word to be filled in, in a model whose texts hold some.
    """

    name: str
    also: tuple[str, ...] = ()
    vocabulary: int | None = None
    avoid: frozenset[int] = frozenset()
    pad: int | None = None
    padded_by_id: bool = False
    masks: tuple[Mask, ...] = ()
    positions: str | None = None
    longest: int | None = None
    causal: bool | None = None
    extras: tuple[str, ...] = ()
    blank: int | None = None


# Known names: what True means, and whose tokens they are about (first or last stream).
_KNOWN_MASKS = {
    "attention_mask": (Polarity.keep, "first"),
    "encoder_attention_mask": (Polarity.keep, "first"),
    "decoder_attention_mask": (Polarity.keep, "last"),
    "src_key_padding_mask": (Polarity.hide, "first"),
    "memory_key_padding_mask": (Polarity.hide, "first"),
    "key_padding_mask": (Polarity.hide, "first"),
    "tgt_key_padding_mask": (Polarity.hide, "last"),
    "allowed": (Polarity.keep, "first"),
    "keep": (Polarity.keep, "first"),
    "valid": (Polarity.keep, "first"),
}
_SECOND = ("tgt", "target", "trg", "decoder_input_ids", "decoder_inputs_embeds", "decoder_input", "targets")
_OF_THE_SECOND = ("tgt", "target", "trg", "decoder", "dec_")  # how masks of the second stream begin
_SQUARE_CAUSAL = ("tgt_mask",)
_CAUSAL_CLASS = re.compile(r"gpt|causal|llama|decoder_?only", re.IGNORECASE)


def streams_of(
    module: nn.Module,
    inputs: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    declared: Mapping[str, Polarity],
    *,
    batch_first: bool,
) -> tuple[tuple[Stream, ...], list[str]]:
    """The streams of an example, and sentences on what was assumed about them."""
    rows = {name: value for name, value in inputs.items() if is_row(value)}
    if not rows:
        return (), []
    first = next(iter(rows))
    second = next((name for name in rows if _last_word(name) in _SECOND and name != first), None)
    if second is None and first not in _SECOND:
        second = _cross(inputs, rows, first)
    names = [first] if second is None else [first, second]
    if {"query", "key"} <= rows.keys() and second is not None:
        names = ["key", "query"]  # the output follows the queries
    notes: list[str] = []
    claim = _causal_claim(module, inputs, notes)
    streams = []
    for place, name in enumerate(names):
        masks = _masks(inputs, parameters, declared, [inputs[n] for n in names], place, notes)
        streams.append(
            Stream(
                name=name,
                also=_also(inputs, names, name),
                vocabulary=_vocabulary(module, inputs[name]),
                avoid=_padding_ids(module),
                pad=min(_padding_ids(module), default=None),
                masks=masks,
                positions=_positions(inputs, parameters, name) if place == len(names) - 1 else None,
                longest=inputs[name].shape[1 if batch_first else 0] if _needs_its_length(inputs, names) else None,
                causal=claim if place == len(names) - 1 else None,
            )
        )
    return with_extras(tuple(streams), inputs, batch_first=batch_first), notes


def with_extras(streams: tuple[Stream, ...], inputs: Mapping[str, Any], *, batch_first: bool) -> tuple[Stream, ...]:
    """The streams, each with the inputs of the example that have an entry for every token of it."""
    taken = {n for s in streams for n in (s.name, *s.also, s.positions, *(m.name for m in s.masks))} | {"labels"}
    extras: dict[str, list[str]] = {s.name: [] for s in streams}
    for name, value in inputs.items():
        if name in taken or not isinstance(value, Tensor) or value.ndim < 2:
            continue
        fitting = [s.name for s in streams if _is_like(value, inputs[s.name], batch_first)]
        if fitting:
            extras[fitting[-1 if _last_word(name).startswith(_OF_THE_SECOND) else 0]].append(name)
    return tuple(replace(s, extras=tuple(extras[s.name])) for s in streams)


def _is_like(value: Tensor, tokens: Tensor, batch_first: bool) -> bool:
    """Whether a tensor counts examples and places as the tokens do, and is surely no mask of places by places."""
    length = tokens.shape[1 if batch_first else 0]
    square = value.shape[0] == value.shape[1] or value.shape[-2:] == (length, length)
    return value.shape[:2] == tokens.shape[:2] and not square


def _positions(inputs: Mapping[str, Any], parameters: Mapping[str, Any], tokens: str) -> str | None:
    """The parameter for position ids: by its name, or because every row of it counts 0, 1, 2 and so on."""
    if "position_ids" in parameters:
        return "position_ids"
    shape = inputs[tokens].shape[:2]
    counted = torch.arange(shape[1], device=inputs[tokens].device).expand(shape)
    others = {name: value for name, value in inputs.items() if name != tokens and isinstance(value, Tensor)}
    return next(
        (n for n, v in others.items() if v.shape == shape and v.dtype is torch.int64 and v.equal(counted)), None
    )


def is_row(value: Any) -> bool:
    """Whether a value could be tokens: ids (batch x length), or vectors (batch x length x width)."""
    if not isinstance(value, Tensor) or value.dtype is torch.bool:
        return False
    return value.ndim == 3 if value.is_floating_point() else value.ndim == 2


def _cross(inputs: Mapping[str, Any], rows: Mapping[str, Tensor], first: str) -> str | None:
    """A second row of another length that is not the same tensor: what cross-attention reads."""
    for name, value in rows.items():
        if name != first and value.ndim == rows[first].ndim and value.shape[:2] != rows[first].shape[:2]:
            return name
    return None


def _also(inputs: Mapping[str, Any], names: list[str], name: str) -> tuple[str, ...]:
    """Other inputs that hold the very same numbers: query, key and value of self-attention."""
    mine = inputs[name]
    return tuple(
        other
        for other, value in inputs.items()
        if other not in names and is_row(value) and value.shape == mine.shape and torch.equal(value, mine)
    )


def _masks(
    inputs: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    declared: Mapping[str, Polarity],
    streams: list[Tensor],
    place: int,
    notes: list[str],
) -> tuple[Mask, ...]:
    """The masks of the stream at a place."""
    masks, tokens = [], streams[place]
    for name in dict.fromkeys([*parameters, *inputs]):
        value = inputs.get(name)
        polarity = declared.get(name, _KNOWN_MASKS.get(_last_word(name), (None, ""))[0])
        if polarity is None or _owner(name, value, streams) != place:
            continue
        if isinstance(value, Tensor) and value.shape[-2:] != tokens.shape[:2] and value.shape != tokens.shape[:2]:
            continue  # a mask of queries by keys: it is passed on as it is
        dtype = value.dtype if isinstance(value, Tensor) else torch.bool
        masks.append(Mask(name=name, polarity=polarity, dtype=dtype))
        if name not in declared:
            notes.append(f"in {name} {polarity.value} (known by its name)")
    return tuple(masks)


def _owner(name: str, value: Any, streams: list[Tensor]) -> int:
    """Whose tokens a mask is about: those of its size, where the example has it and one stream only has that size;
    else what its name says."""
    fitting = [i for i, tokens in enumerate(streams) if isinstance(value, Tensor) and value.shape == tokens.shape[:2]]
    if len(fitting) == 1:
        return fitting[0]
    word = _last_word(name)
    _, whose = _KNOWN_MASKS.get(word, (None, "last" if word.startswith(_OF_THE_SECOND) else "first"))
    return 0 if whose == "first" else len(streams) - 1


def _last_word(name: str) -> str:
    return name.rpartition(".")[2]


def _causal_claim(module: nn.Module, inputs: Mapping[str, Any], notes: list[str]) -> bool | None:
    if inputs.get("is_causal") is True or inputs.get("tgt_is_causal") is True:
        notes.append("it is causal (is_causal=True in the example)")
        return True
    if any(_is_causal_mask(inputs.get(name)) for name in _SQUARE_CAUSAL):
        notes.append("it is causal (the mask of the example is triangular)")
        return True
    if _CAUSAL_CLASS.search(type(module).__name__):
        notes.append(f"it is causal (its class is called {type(module).__name__})")
        return True
    return None


def _is_causal_mask(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.ndim != 2 or value.shape[0] != value.shape[1]:
        return False
    hidden = value if value.dtype is torch.bool else ~torch.isfinite(value)
    return bool(torch.equal(hidden, torch.ones_like(hidden).triu(1)))


def _vocabulary(module: nn.Module, tokens: Tensor) -> int | None:
    """How many ids there are: the smallest table of embeddings that the example fits into."""
    if tokens.is_floating_point():
        return None
    least = int(tokens.max()) + 1 if tokens.numel() else 1
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
    sizes = [n for n in tables if n >= least]
    return sizes[0] if sizes else least


def _padding_ids(module: nn.Module) -> frozenset[int]:
    tables = [m for m in module.modules() if isinstance(m, nn.Embedding)]
    return frozenset(m.padding_idx for m in tables[:1] if m.padding_idx is not None)


def _needs_its_length(inputs: Mapping[str, Any], names: list[str]) -> bool:
    """Whether inputs beside the tokens must be cut to their length, so that nothing longer can be made of them."""
    return True if any(isinstance(v, Tensor) and k not in names for k, v in inputs.items()) else len(inputs) > 0
