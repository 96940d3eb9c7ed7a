"""Averaged weights: a slow follower of the trained ones, less noisy and better than any of them.

    a <- d a + (1 - d) w        after every step = 0, 1, ...; d = average, but never above (1 + step) / (10 + step)

so that the first steps, which are far off, are soon forgotten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.errors import InputError

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
