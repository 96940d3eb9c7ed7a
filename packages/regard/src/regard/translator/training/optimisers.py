"""What takes the steps: AdamW for every weight, or Muon for the matrices between states and AdamW for the rest.

Muon (jordan2024) steps along the orthogonal matrix nearest to the averaged gradient G = U S V':

    W <- W - rate * 0.2 sqrt(longer side) * U V'

Every direction in which a matrix acts is changed by as much; with G itself the few strong ones drown the others. The
scale gives the entries of a step the size that AdamW's have (liu2025), so that one rate serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.translator.runs.settings import Settings

MOMENTUM = 0.95
SIZE_OF_ADAMW = 0.2  # about the root mean square of the entries of AdamW's steps, over the rate
ROUNDS = 5
# x -> a x + b x^3 + c x^5, chosen to be steep at 0: five rounds bring singular values of 0.01 to 1 within 0.7 to 1.2
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315


def build_optimiser(settings: Settings, model: nn.Module, *, words: int) -> torch.optim.AdamW:
    """The optimiser that the settings name, on the trained weights of a model that scores so many target words."""
    s = settings.training
    trained = [p for p in model.parameters() if p.requires_grad]
    how: dict[str, Any] = {"lr": s.learning_rate, "betas": (0.9, s.beta2), "weight_decay": s.weight_decay}
    if s.optimiser == "adamw":
        # one pass over the weights, three times as fast as operation by operation
        return torch.optim.AdamW(trained, fused=True, **how)
    matrices = between_states(model, words=words)
    named = {id(p) for p in matrices}
    return Muon([p for p in trained if id(p) not in named], matrices, **how)


def between_states(model: nn.Module, *, words: int) -> list[Tensor]:
    """The trained matrices of linear layers, but for those that give a score to each of so many words.

    >>> between_states(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 6), nn.Linear(6, 9)), words=9)[0].shape
    torch.Size([6, 4])
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.out_features != words]
    tables = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Embedding)}
    chosen = {id(layer.weight) for layer in layers} - tables
    # by way of parameters: each once, and no weight that is itself computed from others
    return [p for p in model.parameters() if id(p) in chosen and p.requires_grad]


class Muon(torch.optim.AdamW):
    """Orthogonal steps for ``matrices``, AdamW for ``others``.

    >>> layer = nn.Linear(3, 2, bias=False)
    >>> before, optimiser = layer.weight.detach().clone(), Muon([], [layer.weight], lr=0.1)
    >>> layer(torch.eye(3)).square().sum().backward()
    >>> optimiser.step()
    >>> values = torch.linalg.svdvals(layer.weight.detach() - before) / (0.1 * 0.2 * 3**0.5)
    >>> bool((0.6 < values).all() and (values < 1.3).all())  # all directions by about as much
    True
    """

    def __init__(self, others: Sequence[Tensor], matrices: Sequence[Tensor], **how: Any) -> None:
        super().__init__([{"params": list(others)}, {"params": list(matrices)}], fused=True, **how)

    def step(self, closure: None = None) -> None:  # type: ignore[override]  # nobody gives one
        """One step for every weight that has a gradient."""
        group = self.param_groups[1]
        gradients = {p: p.grad for p in group["params"] if p.grad is not None}
        for p in gradients:
            p.grad = None  # what has none AdamW passes over
        super().step(closure)
        with torch.no_grad():
            self._matrix_steps(gradients, group["lr"], group["weight_decay"])
        for p, gradient in gradients.items():
            p.grad = gradient

    def _matrix_steps(self, gradients: dict[Tensor, Tensor], rate: float, decay: float) -> None:
        stacks: dict[tuple[int, ...], dict[Tensor, Tensor]] = {}  # those of one shape are done together
        for p, gradient in gradients.items():
            momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
            momentum.lerp_(gradient, 1 - MOMENTUM)
            # a look ahead, as of Nesterov: the momentum as it would be after this gradient once more
            stacks.setdefault(tuple(p.shape), {})[p] = gradient.lerp(momentum, MOMENTUM)
        for shape, stack in stacks.items():
            length = rate * SIZE_OF_ADAMW * max(shape) ** 0.5
            for p, step in zip(stack, orthogonal(torch.stack(list(stack.values()))), strict=True):
                p.mul_(1 - rate * decay).sub_(step, alpha=length)


def orthogonal(matrices: Tensor) -> Tensor:
    """Roughly U V' for each matrix U S V' of a stack, by matrix products alone; 0 for 0."""
    wide = matrices if matrices.shape[-2] <= matrices.shape[-1] else matrices.mT
    x = wide / wide.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-30)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=CUBIC, alpha=QUINTIC), x, beta=LINEAR)
    turned: Tensor = x.mT
    return x if wide is matrices else turned
