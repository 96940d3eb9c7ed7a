"""From a model and a text to the capture that a page is made of: weights, what influence needs, queries and keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error
from regard_models.capturing.attention_capture import Run, capture
from regard_models.capturing.records import Capture
from regard_models.head_measures.value_influence import NEEDS
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
        keep = NEEDS if folder else (*NEEDS, "q", "k")  # of a long input the page shows no queries and keys
        recorded = capture(
            given.module, given.inputs, layers=layers, heads=heads, keep=keep, run=run, name=given.name,
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
