"""The weights of a model: where they are, how many fit, their averages, and checkpoints of it all.

A checkpoint has a model, its optimiser and its averages as tensors under names; the file itself, and how it knows that
nothing in it has changed, is in :mod:`regard.translator.runs.files`.

Averaged weights: a slow follower of the trained ones, less noisy and better than any of them.

    a <- d a + (1 - d) w        after every step = 0, 1, ...; d = average, but never above (1 + step) / (10 + step)

so that the first steps, which are far off, are soon forgotten.

A model is computed on a graphics card where there is one, else on the processor. Weights are drawn on the processor and
moved, so a run starts from the same numbers everywhere. Checkpoints say nothing of a device: what was trained on one
goes on, scores and translates on another. Written for, not yet run on, a graphics card; the tests run everything on a
pretended one, which refuses any tensor that was made elsewhere. How much memory a model takes is known before any of it
is asked for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.errors import InputError
from regard.files import write_file
from regard.translator.models.encoder import Dropout
from regard.translator.models.translation import TranslationModel
from regard.translator.runs.files import Header, checkpoint_error, metadata, read_checkpoint, seal_checkpoint
from regard.translator.runs.settings import Settings


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and the facts that belong to them, in one file."""
    whole: dict[str, Tensor] = {}
    held: set[int] = set()  # the format refuses tensors that share memory, as a buffer and a slice of it do
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()  # a file knows no device
        whole[name] = own.clone() if own.untyped_storage().data_ptr() in held else own
        held.add(whole[name].untyped_storage().data_ptr())
    write_file(path, seal_checkpoint(save(whole, metadata=metadata(facts))))


def read_weights(path: Path) -> tuple[dict[str, Tensor], Header]:
    """What :func:`write_weights` wrote, if nothing in it has changed since."""
    data, header = read_checkpoint(path)
    try:
        return load(data), header
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:  # a file without a digest
        raise checkpoint_error(path, error) from None


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """The weights under their names; weights that are shared once, under their first name."""
    seen: dict[int, str] = {}
    named = model.state_dict(keep_vars=True)  # shared weights are the same object there
    for name, tensor in named.items():
        seen.setdefault(id(tensor), name)
    return {f"model.{name}": named[name] for name in seen.values()}


def optimiser_tensors(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state under the names of the weights."""
    return {
        f"optimiser.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, average: Average | None = None
) -> Header:
    """Load weights, the optimiser's state and the averaged weights from ``path``; returns what the file says."""
    tensors, header = read_weights(path)
    put_weights(path, model, tensors)
    _restore_optimiser(path, model, optimiser, tensors)
    if average is not None:
        average.restore(path, tensors)
    return header


def put_weights(path: Path, model: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights among ``tensors`` (read from ``path``) into the model, if they fit."""
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    expected = {name.removeprefix("model."): _kind(t) for name, t in model_tensors(model).items()}
    there = {name: _kind(t) for name, t in weights.items()}
    if wrong := [n for n in sorted(expected.keys() | there.keys()) if expected.get(n) != there.get(n)]:
        raise InputError(
            f"{path} does not fit this run's settings and vocabulary: {wrong[0]} has shape {there.get(wrong[0])}, "
            f"not {expected.get(wrong[0])}; the folder mixes files of different runs."
        )
    model.load_state_dict(weights, strict=False)  # the other names of shared weights are left out


def _kind(tensor: Tensor) -> str:
    """Shape and type, as a person reads them: load_state_dict would convert another type without a word."""
    usual = tensor.dtype in (torch.float32, torch.int64, torch.bool)
    return f"{tuple(tensor.shape)}" + ("" if usual else f" of {tensor.dtype}")


def _restore_optimiser(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimiser."):
            _, what, name = key.split(".", 2)
            states.setdefault(name, {})[what] = tensor
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in states:
            raise InputError(f"{path} has no optimiser state for {name}; the folder mixes files of different runs.")
        if name in states:
            if any(t.numel() != 1 and t.shape != parameter.shape for t in states[name].values()):
                raise InputError(f"{path} has optimiser state of another shape than {name}; restore it from a copy.")
            # the count of steps stays where torch wants it: with the weights on a card, since the optimiser is fused
            optimiser.state[parameter] = {what: t.to(parameter.device) for what, t in states[name].items()}


AVERAGE = "average."


class Average:
    """The averages of a model's trained weights.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = layer.weight.data.fill_(0.0)
    >>> average = Average(layer, decay=0.9)
    >>> _ = layer.weight.data.fill_(1.0)
    >>> average.follow(step=1000)
    >>> with average.swap_in():
    ...     print(round(float(layer.weight.detach()), 6))
    0.1
    >>> float(layer.weight.detach())
    1.0
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.weights = {name: p.detach().clone() for name, p in self.trained.items()}

    def follow(self, *, step: int) -> None:
        """Take in the weights that ``step`` (counted from 0) left."""
        decay = min(self.decay, (1 + step) / (10 + step))
        with torch.no_grad():
            towards = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]  # torch's, all weights in one call
            towards(list(self.weights.values()), list(self.trained.values()), step)

    @contextlib.contextmanager
    def swap_in(self) -> Iterator[None]:
        """The model has its averaged weights inside, and its trained ones again afterwards."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """The averages under their names, for a checkpoint."""
        return {AVERAGE + name: tensor for name, tensor in self.weights.items()}

    def restore(self, path: object, tensors: Mapping[str, Tensor]) -> None:
        """The averages that a checkpoint (read from ``path``) holds."""
        for name, weights in self.weights.items():
            if (saved := tensors.get(AVERAGE + name)) is None or saved.shape != weights.shape:
                raise InputError(f"{path} has no average of {name}; the folder mixes files of different runs.")
            weights.copy_(saved)

    def _swap(self) -> None:
        for name, p in self.trained.items():
            # the tensors change places, and nothing is copied
            p.data, self.weights[name] = self.weights[name], p.data


def use_averages(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint with the averages, where there are any, in place of the trained weights."""
    averages = {f"model.{name.removeprefix(AVERAGE)}": t for name, t in tensors.items() if name.startswith(AVERAGE)}
    return {**tensors, **averages}


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
