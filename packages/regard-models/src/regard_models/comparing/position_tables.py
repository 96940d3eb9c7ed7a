"""Tables of sinusoidal positions: which formula made one, right or with a known slip."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from regard.mistakes.embedding import FORMULAS

_ROWS = 40
_FAR = 1e-4  # tables are made in float32: the sine of an angle of some tens is known to 1e-5


def formula_of(table: Tensor) -> str | None:
    """The words of the catalogue of mistakes for the formula that made a table, None where it is none of them.

    >>> import torch
    >>> place, column = torch.arange(30.0)[:, None], torch.arange(0, 8, 2)
    >>> angles = place / 10_000 ** (column / 8)
    >>> formula_of(torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
    'sinusoidal positions'
    """
    values = table.detach().double().cpu().numpy().squeeze()
    if values.ndim != 2 or values.shape[1] < 4 or values.shape[0] < 2:
        return None
    for one in FORMULAS:
        made = one.function(min(_ROWS, len(values)), values.shape[1])
        if made.shape[1] == values.shape[1] and np.abs(made - values[:_ROWS]).max() <= _FAR:
            return one.said
    return None
