"""Where a model is computed: a graphics card where there is one, else the processor.

Weights are drawn on the processor and moved, so a run starts from the same numbers everywhere. Checkpoints say nothing
of a device: what was trained on one goes on, scores and translates on another. Written for, not yet run on, a graphics
card; the tests run everything on a pretended one, which refuses any tensor that was made elsewhere.

How much memory a model takes, known before any of it is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from regard.errors import InputError
from regard.translator.decoding.translation import TranslationModel
from regard.translator.models.encoder import Dropout
from regard.translator.runs.settings import Settings

if TYPE_CHECKING:
    from torch import nn


def choose_device(wanted: str = "auto") -> torch.device:
    """The device that a setting means: auto is CUDA, else MPS, else cpu; of several processes each has its own card."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise InputError(f"There is no device {wanted!r}; give auto, cpu, cuda, cuda:1 or mps.") from None
    missing = {"cuda": not torch.cuda.is_available(), "mps": not torch.backends.mps.is_available()}
    if missing.get(device.type):
        raise InputError(f"This machine has no {device.type} device that torch {torch.__version__} can use; give cpu.")
    return _own_card(device) if device.type == "cuda" else device


def _own_card(device: torch.device) -> torch.device:
    """The card of this process, which torchrun numbers on its machine."""
    # cuBLAS repeats its sums in the same order only with a workspace of its own, asked for before its first use
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    cards, processes = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    number = device.index if device.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
    if number >= cards or (processes > 1 and (processes > cards or device.index is not None)):
        raise InputError(
            f"{processes} process{'es' * (processes > 1)} on {device}, and this machine has {cards} "
            f"card{'s' * (cards != 1)}: start one process for each card with --device cuda, or give --device cpu."
        )
    return torch.device("cuda", number)


def put_on_device(model: TranslationModel, device: torch.device) -> TranslationModel:
    """The model with its weights on ``device``, and one source of noise there for all its dropout."""
    model.to(device)
    drops = [module for module in model.modules() if isinstance(module, Dropout)]
    if drops and drops[0].noise.device != device:
        noise = new_noise(device)
        for module in drops:
            module.noise = noise
    return model


def new_noise(device: torch.device) -> torch.Generator:
    """A source of random numbers on a device; the loop seeds it before every step."""
    return torch.Generator(device)


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
