"""A question to a model: rows of tokens for every stream, what goes with each token, and the other inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """One stream of a question, batch first: ids (batch x length) or vectors (batch x length x width).

    extras: other inputs with an entry for every token (token_type_ids, say); they go wherever the tokens go.
    """

    values: Tensor
    keep: Tensor  # True = a real token
    positions: Tensor | None = None
    extras: dict[str, Tensor] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return int(self.values.shape[1])

    def at(self, index: Any) -> Rows:
        """The part of every tensor at an index into (example, place)."""
        return Rows(
            values=self.values[index],
            keep=self.keep[index],
            positions=None if self.positions is None else self.positions[index],
            extras={name: value[index] for name, value in self.extras.items()},
        )

    def cut(self, start: int, end: int) -> Rows:
        """Some places of every example; a model counts those of a part by itself."""
        return replace(self.at((slice(None), slice(start, end))), positions=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Rows for every stream; ``others`` are inputs that are no stream, and more that a check wants to pass."""

    rows: tuple[Rows, ...]
    others: dict[str, Any]

    @property
    def batch(self) -> int:
        if self.rows:
            return int(self.rows[0].values.shape[0])
        return next(int(v.shape[0]) for v in self.others.values() if isinstance(v, Tensor) and v.ndim)

    def with_rows(self, stream: int, rows: Rows) -> Question:
        return replace(self, rows=tuple(rows if i == stream else r for i, r in enumerate(self.rows)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Output:
    """One tensor of an answer, batch first. stream: whose tokens its second axis counts, None for none."""

    name: str
    values: Tensor
    stream: int | None


def rows_of(question: Question, chosen: list[int]) -> Question:
    """Some examples of a question."""
    index = torch.tensor(chosen)
    batch = question.batch

    def pick(value: Any) -> Any:
        return value[index] if isinstance(value, Tensor) and value.ndim and value.shape[0] == batch else value

    return Question(
        rows=tuple(r.at(index) for r in question.rows), others={k: pick(v) for k, v in question.others.items()}
    )


def repeat_along(value: Tensor, axis: int, size: int) -> Tensor:
    """So many entries along an axis: the first ones, and those again and again where there are too few."""
    return value.index_select(axis, torch.arange(size, device=value.device) % value.shape[axis])


def resize_square(value: Tensor, size: int) -> Tensor:
    """A tensor whose last axes are queries and keys, for another length: diagonals go on as they end.

    >>> resize_square(torch.ones(2, 2).triu(1), 3)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    last = value.shape[-1] - 1
    queries, keys = torch.meshgrid(*[torch.arange(size, device=value.device)] * 2, indexing="ij")
    beyond = (torch.maximum(queries, keys) - last).clamp(min=0)
    return value[..., (queries - beyond).clamp(min=0), (keys - beyond).clamp(min=0)]
