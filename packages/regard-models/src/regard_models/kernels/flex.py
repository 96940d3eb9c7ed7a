"""Flex attention: the user's score and mask functions are inside the operator, so the operator itself is asked.

Attention is linear in the values: with an identity for the values, the output *is* the weights. Run eagerly, as it is
under a capture, the operator takes values of any width, so one more call gives all columns.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._ops import HigherOrderOperator

from regard_models.kernels.attention_call import (
    AttentionCall,
    Part,
    Result,
    compact,
    first_tensor,
    identity,
    select_heads,
    shared_heads,
    with_first,
)


class FlexCall(AttentionCall):
    """One call of the flex operator with its arguments in order."""

    kernel = "flex"

    def __init__(self, func: Any, args: tuple[Any, ...], result: Result) -> None:
        super().__init__()
        self.func, self.args, self.out = func, args, first_tensor(result)
        self.q, self.k, self.v = args[:3]
        self.batch, self.heads, self.queries, _ = self.q.shape
        self.keys, self.dtype, self.scale = self.k.shape[2], self.q.dtype, float(args[5])
        self.all_weights = self.probe(slice(0, self.keys)).to(self.work)

    def weights(self, part: Part) -> Tensor:
        return select_heads(self.all_weights, part, part.heads)[:, :, part.rows]

    def values(self, part: Part) -> Tensor:
        return self._select_key_heads(self.v, part)

    def queries_of(self, part: Part) -> Tensor:
        return select_heads(self.q, part, part.heads)[:, :, part.rows].to(self.work)

    def keys_of(self, part: Part) -> Tensor:
        return self._select_key_heads(self.k, part)

    def _select_key_heads(self, tensor: Tensor, part: Part) -> Tensor:
        whole = tensor.expand(self.batch, *tensor.shape[1:])
        return select_heads(whole, part, shared_heads(part.heads, of=self.heads, kept=tensor.shape[1])).to(self.work)

    def output(self, part: Part) -> Tensor:
        return select_heads(self.out, part, part.heads)[:, :, part.rows].to(self.work)

    def put(self, result: Result, output: Tensor) -> Result:
        return with_first(result, output.to(self.out.dtype))

    def probe(self, columns: slice) -> Tensor:
        width = columns.stop - columns.start
        values = identity((*self.v.shape[:3], width), columns, self.v)
        return first_tensor(self.func(*self.args[:2], values, *self.args[3:]))

    def allowed_mask(self) -> Tensor | None:
        from torch.nn.attention.flex_attention import create_mask

        rule, extra = self.args[4][-1], self.args[8] if len(self.args) > 8 else ()
        if not callable(rule):
            return None
        mask = create_mask(
            lambda b, h, q, k: rule(b, h, q, k, *extra), self.batch, self.heads, self.queries, self.keys,
            device=str(self.q.device),
        )  # fmt: skip
        return None if bool(mask.all()) else compact(mask)


def flex_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> FlexCall | None:
    """The call, where the operator is flex attention."""
    if not isinstance(func, HigherOrderOperator) or str(func.__name__) != "flex_attention":
        return None
    return FlexCall(func, (*args, *kwargs.values()), result)
