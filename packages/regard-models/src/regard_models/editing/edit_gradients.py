"""Gradients of an edited run: what backward() does at the kernels whose outputs were exchanged.

Heads are exchanged below autograd, which knows only the kernel that ran. So two hooks sit at the kernel's node of the
graph. With G the gradient that comes down, M the places of the edited heads in the kernel's output, and E(q, k, v) what
they give instead:

    before the node    G becomes G (1 - M): the kernel answers for the other heads alone
    after the node     what E sends down for G M is added to the gradients of q, k and v

Second derivatives (``create_graph``) are those of the kernel alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves

from regard.errors import InputError

_NOT_CARRIED = (
    "Gradients cannot be carried through this edit: the operator that ends the attention does not get the weights and "
    "the values it is made of; write it as a matrix product, or edit the output."
)
Gradients = tuple[Tensor | None, ...]
_KEYS = ("AutogradCPU", "AutogradCUDA", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")


def wants_gradients(args: Any) -> list[Tensor]:
    """The tensors of a call through which gradients go."""
    if not torch.is_grad_enabled():
        return []
    return [one for one in tree_leaves(args) if isinstance(one, Tensor) and one.requires_grad]


def with_autograd() -> contextlib.AbstractContextManager[None]:
    """Inside an operator, where autograd is over, let it work once more."""
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    for key in _KEYS:
        exclude = exclude.remove(getattr(DispatchKey, key))
    guard: Any = torch._C._ForceDispatchKeyGuard(include, exclude)
    return guard  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class EditedCall:
    """A kernel's output that was exchanged in part: ``there`` is M, ``made`` is E in the output's layout."""

    output: Tensor
    there: Tensor
    made: Tensor | None  # None: it cannot be told from what the operator got
    args: Sequence[Tensor]
    values: Sequence[Tensor]  # replacements that want gradients themselves

    def attach(self) -> None:
        """Hook the node of the graph, once autograd has made it: after the operator has returned."""
        node: Any = self.output.grad_fn
        if node is None:
            return
        place, stash = self.output.output_nr, []

        def before(gradients: Gradients) -> Gradients:
            if self.made is None:
                raise InputError(_NOT_CARRIED)
            whole = gradients[place]
            stash.append(whole)
            mine = None if whole is None else whole * (~self.there)
            return (*gradients[:place], mine, *gradients[place + 1 :])

        def after(inputs: Gradients, outputs: Gradients) -> Gradients | None:
            whole = stash.pop()
            return (
                None
                if whole is None or self.made is None or not self.made.requires_grad
                else self._add(self.made, node, inputs, whole)
            )

        node.register_prehook(before)
        node.register_hook(after)

    def _add(self, made: Tensor, node: Any, inputs: Gradients, whole: Tensor) -> Gradients:
        wanted = [*self.args, *self.values]
        more = torch.autograd.grad(made, wanted, whole * self.there, retain_graph=True, allow_unused=True)
        added = list(inputs)
        for one, gradient in zip(self.args, more, strict=False):
            edge = get_gradient_edge(one)
            ends = [
                i for i, (end, number) in enumerate(node.next_functions) if (end, number) == (edge.node, edge.output_nr)
            ]
            if gradient is not None and ends and (old := added[ends[0]]) is not None:  # None: nobody asks for it
                added[ends[0]] = old + gradient.to(old.dtype)
        for value, gradient in zip(self.values, more[len(self.args) :], strict=True):
            if gradient is not None:
                torch.autograd.backward(value, gradient)
        return tuple(added)


class PendingCalls:
    """Edited calls whose nodes do not exist before their operator has returned."""

    def __init__(self) -> None:
        self.waiting: list[EditedCall] = []

    def note(
        self, output: Tensor, args: Sequence[Tensor], build: Callable[[], tuple[Tensor, Tensor | None, list[Tensor]]]
    ) -> None:
        """``build`` gives M, E and the replacements that want gradients; autograd is at work in it."""
        with torch.enable_grad(), with_autograd():
            there, made, values = build()
        self.waiting.append(EditedCall(output, there, made, args, values))

    def attach(self) -> None:
        for one in self.waiting:
            one.attach()
        self.waiting.clear()
