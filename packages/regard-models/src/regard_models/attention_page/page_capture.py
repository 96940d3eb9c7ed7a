"""From a model and a text to the capture that a page is made of: weights, and what influence needs.

What a page draws, before it is stored: one layer for every record, its heads, its words, and what kind it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.array_types import Single
from regard.errors import InputError, describe_error
from regard_models.capturing.attention_capture import Run, capture
from regard_models.capturing.records import AttentionRecord, Capture, format_ranges, is_cross
from regard_models.head_measures.value_influence import NEEDS, has_influence, value_lengths
from regard_models.inputs.model_input import ModelInput, model_input, original

LONG = 1024  # tokens from which on weights go to the disk while the model runs: they may be gigabytes
WRITTEN = 24  # tokens that a decoder writes where nobody says what it wrote


def capture_module(
    module: nn.Module,
    inputs: Any,
    *,
    text: str | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    name: str = "",
) -> Capture:
    """The attention of a module on a text or on inputs, in eval mode."""
    given = model_input(module, inputs, text=text, tokenizer=tokenizer, name=name or None)
    return capture_for_page(given, target=target, layers=layers, heads=heads)


def capture_for_page(
    given: ModelInput,
    *,
    target: str | None = None,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    run: Run | None = None,
) -> Capture:
    """The attention of a given model, with everything that a page shows of it."""
    given, notes = with_target(given, target)
    with in_eval_mode(given.module), torch.no_grad(), folder_for(given) as folder:
        recorded = capture(
            given.module, given.inputs, layers=layers, heads=heads, keep=NEEDS, run=run, name=given.name,
            stream=None if folder is None else folder / "weights.safetensors",
            tokens=given.tokens, target_tokens=given.target_tokens,
        )  # fmt: skip
    return replace(recorded, notes=(*recorded.notes, *notes))


def with_target(given: ModelInput, target: str | None) -> tuple[ModelInput, tuple[str, ...]]:
    """What the decoder of a Hugging Face model has written: the words given, or else its own; with a note on it."""
    model: Any = original(given.module)
    decodes = "decoder_input_ids" in given.inputs and given.tokenizer is not None and given.tokens is not None
    if not decodes:
        if target is not None:
            raise InputError(f"A target is for a model with a decoder, a tokenizer and a text; {given.name} has not.")
        return given, ()
    note: tuple[str, ...] = ()
    if target is not None:
        ids = _shift_target(model, given.tokenizer, target, given.name)
    else:
        ids = _generate_target(model, given.inputs, given.name)
        note = ("the decoder reads what the model itself writes for this text; a target gives it other words",)
    words = [list(map(str, given.tokenizer.convert_ids_to_tokens(row))) for row in ids.tolist()]
    return replace(given, inputs={**given.inputs, "decoder_input_ids": ids}, target_tokens=words), note


def _shift_target(model: Any, tokenizer: Any, target: str, name: str) -> Tensor:
    if not target.strip():
        raise InputError("The target is empty; give a few words, or leave it out.")
    ids = tokenizer(target, return_tensors="pt")["input_ids"]
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        raise InputError(f"{name} does not say with which token its decoder starts; leave the target out.")
    device = next(model.parameters()).device
    return torch.cat([torch.tensor([[start]]), ids[:, :-1]], dim=1).to(device)


def _generate_target(model: Any, inputs: dict[str, Any], name: str) -> Tensor:
    """What the model writes, or what was drawn where it cannot write."""
    drawn: Tensor = inputs["decoder_input_ids"]
    if not hasattr(model, "generate"):
        return drawn
    source = {key: inputs[key] for key in ("input_ids", "attention_mask") if key in inputs}
    try:
        with in_eval_mode(model), torch.no_grad():
            written: Tensor = model.generate(**source, max_new_tokens=WRITTEN, do_sample=False, num_beams=1)
    except Exception as error:  # somebody's code: whatever it raises is about their model
        raise InputError(
            f"{name} cannot write by itself ({describe_error(error)}); give the target that it has written."
        ) from None
    return written[:, :-1] if written.shape[1] > 2 else written


@contextmanager
def in_eval_mode(module: nn.Module) -> Iterator[None]:
    """Without dropout, and afterwards as it was."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def folder_for(given: ModelInput) -> Iterator[Path | None]:
    """A folder for the weights of a long input, None for a short one; they are mapped before it goes."""
    lengths = [size for value in given.inputs.values() if isinstance(value, Tensor) for size in value.shape[1:2]]
    if max(lengths, default=0) < LONG:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


_SLACK = 1e-6  # rounding may leave a weight this far below zero


class Kind(StrEnum):
    """Who reads whom."""

    SELF = "self"
    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """One attention call in one example: the heads that are drawn, their words, and what makes influence of weights.

    ``norms`` are |v_j W_O| for every head and key, None where they are not known: a weight times its norm is how long
    a vector the query got from that key.
    """

    record: AttentionRecord
    example: int
    places: tuple[int, ...]
    kind: Kind
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    norms: Single | None = None

    @property
    def label(self) -> str:
        """What stands beside its row of heads."""
        return f"{self.record.index}" + (f" · {self.record.step}" if self.record.step else "")

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads' numbers in the model."""
        return tuple(self.record.heads[place] for place in self.places)

    def weights(self, number: int) -> Single:
        """Queries x keys of the head in this place; read when asked for, because all of them may be gigabytes."""
        weights = np.asarray(self.record.weights[self.example, self.places[number]], dtype=np.float32)
        _refuse_numbers(self.record.index, self.heads[number], weights)
        return np.maximum(weights, 0)

    def influence(self, number: int) -> Single | None:
        """|alpha_ij v_j W_O| of that head."""
        return None if self.norms is None else self.weights(number) * self.norms[number]


def layers_of(
    recorded: Capture,
    *,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    example: int = 0,
) -> tuple[Layer, ...]:
    """The layers of a capture that were asked for."""
    _refuse(recorded, layers, example)
    several = any(_side(record) is not Kind.SELF for record in recorded.records)
    chosen = [record for record in recorded.records if _is_selected(record, layers)]
    return tuple(_layer(recorded, record, heads, example, several) for record in chosen)


def _layer(
    recorded: Capture, record: AttentionRecord, heads: Sequence[int] | None, example: int, several: bool
) -> Layer:
    if 0 in record.shape:
        raise InputError(f"Layer {record.index} has no weights: its shape is {record.shape}.")
    places = tuple(range(len(record.heads)) if heads is None else (_place(record, head) for head in heads))
    queries, keys = recorded.labels(record, example=example)
    return Layer(
        record=record,
        example=example,
        places=places,
        kind=_kind(record, several),
        queries=tuple(map(printable_token, queries)),
        keys=tuple(map(printable_token, keys)),
        norms=_norms(record, places, example),
    )


def _norms(record: AttentionRecord, places: Sequence[int], example: int) -> Single | None:
    if not has_influence(record) or record.v is None or record.w_o is None:
        return None
    lengths = value_lengths(record.v[example], record.w_o)[list(places)]
    return lengths.astype(np.float32) if np.isfinite(lengths).all() else None


def _place(record: AttentionRecord, head: int) -> int:
    if head not in record.heads:
        raise InputError(f"Layer {record.index} has no head {head}; it has {format_ranges(record.heads)}.")
    return record.heads.index(head)


def _is_selected(record: AttentionRecord, layers: Sequence[int | str] | None) -> bool:
    if layers is None:
        return True
    return any(record.index == one if isinstance(one, int) else record.module.startswith(one) for one in layers)


def _refuse(recorded: Capture, layers: Sequence[int | str] | None, example: int) -> None:
    if not recorded.records:
        raise InputError(f"{recorded.name} holds no attention: there is nothing to look at.")
    for one in layers or ():
        if not any(_is_selected(record, [one]) for record in recorded.records):
            raise InputError(
                f"There is no layer {one!r} in {recorded.name}; it has layers {format_ranges(recorded.layers)}."
            )
    batch = min(record.shape[0] for record in recorded.records)
    if not 0 <= example < batch:
        raise InputError(f"There is no example {example}; the batch has {batch}, counted from 0.")


def _refuse_numbers(layer: int, head: int, weights: Single) -> None:
    bad = weights < -_SLACK if np.isfinite(weights.sum()) else ~np.isfinite(weights)
    if bad.any():
        query, key = (int(n) for n in np.argwhere(bad)[0])
        raise InputError(
            f"Layer {layer}, head {head} holds {weights[query, key]:g} at query {query}, key {key}; a page can only "
            "show weights that are finite and not negative."
        )


def _side(record: AttentionRecord) -> Kind:
    if is_cross(record.module):
        return Kind.CROSS
    return Kind.DECODER if "decoder" in record.module.lower() else Kind.SELF


def _kind(record: AttentionRecord, several: bool) -> Kind:
    side = _side(record)
    return Kind.ENCODER if several and side is Kind.SELF else side


_MARKS = {"Ġ": "·", "▁": "·", "Ċ": "↵", "\n": "↵", "\t": "→", "\r": "↵", "ĉ": "→"}
_LONGEST = 40


def printable_token(word: str) -> str:
    """A token as it is drawn: blanks and line ends visible, control characters gone, nothing endless.

    >>> printable_token("Ġdog"), printable_token("a\\x00b"), printable_token("")
    ('·dog', 'a\\ufffdb', '∅')
    """
    for mark, sign in _MARKS.items():
        word = word.replace(mark, sign)
    if word.isspace():
        word = "·" * len(word)
    word = "".join(sign if sign.isprintable() else "\ufffd" for sign in word)
    return (word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…") or "∅"
