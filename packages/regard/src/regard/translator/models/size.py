"""How much memory a model takes, known before any of it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from regard.errors import InputError
from regard.translator.runs.settings import Settings

if TYPE_CHECKING:
    from torch import nn


def fewest_weights(settings: Settings, source_words: int, target_words: int) -> int:
    """At least so many weights: the matrices of every layer and every table, without biases and norms.

    >>> fewest_weights(Settings(), 1000, 800)
    855296
    """
    model = settings.model
    attention, forward = 4 * model.heads * model.head_width, 2 * model.feed_forward
    layers = model.layers * (attention + forward) + model.decoder_layers * (2 * attention + forward)
    words = source_words if model.tied else source_words + target_words
    places = 0 if settings.embedding.positions in ("none", "rotary") else settings.data.longest
    return model.width * (layers + words + places)


def check_size(settings: Settings, source_words: int, target_words: int, *, copies: int = 1) -> None:
    """Raise InputError where so many ``copies`` of the weights, in float32, do not fit into this machine's memory."""
    weights = fewest_weights(settings, source_words, target_words)
    if (needed := 4 * copies * weights) > (there := machine_memory()):
        raise InputError(
            f"The model of these settings has {weights:,} weights or more, which take {needed / 1e9:,.0f} GB here, and "
            f"this machine has {there / 1e9:,.0f} GB; make model.width, model.feed_forward or the layers smaller."
        )


def machine_memory() -> int:
    """The bytes of memory of this machine; where the system does not say, as many as no machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**44


def count_parameters(model: nn.Module) -> int:
    """Trained weights."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
