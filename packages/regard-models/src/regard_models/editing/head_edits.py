"""Change what a head does while the model runs, whatever kernel computes it.

    with edit(model, layer=3, head=5, pattern=uniform):   # other weights
    with edit(model, layer=3, head=5, output=0.0):        # another output: here the head is switched off
    with edit(model, layer=3, head=5, mean=True):         # its mean output at every place
        model(inputs)

The kernel runs as always; then the edited heads' outputs are exchanged in what it gave: W V with the new W, the new
output, or the mean. Heads are the queries' heads: where several share keys and values, editing one leaves the others
alone. torch.nn's fast paths give only what comes *after* their output projection (or a whole layer); there the rest of
the operator is rebuilt around the new heads. Gradients are those of the edited run; a tensor
given as the replacement gets its own in ``.grad``, where the model's inputs or weights want gradients too.

What backward() does at the kernels whose outputs were exchanged: heads are exchanged below autograd, which knows only
the kernel that ran. So two hooks sit at the kernel's node of the graph. With G the gradient that comes down, M the
places of the edited heads in the kernel's output, and E(q, k, v) what they give instead:

    before the node    G becomes G (1 - M): the kernel answers for the other heads alone
    after the node     what E sends down for G M is added to the gradients of q, k and v

Second derivatives (``create_graph``) are those of the kernel alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import DispatchKey
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves

from regard.errors import InputError
from regard_models.capturing.dispatch_watch import Watch, is_inside, operator_name
from regard_models.kernels.attention_call import AttentionCall, Part, Result, first_tensor
from regard_models.kernels.tensor_marks import remember_edit

Replacement = Any  # a number, an array, a tensor, or a function of the old tensor
Maker = Callable[[Tensor], Tensor]


@contextlib.contextmanager
def edit(
    model: nn.Module,
    *,
    layer: int | str,
    head: int | Sequence[int] | None = None,
    pattern: Replacement | None = None,
    output: Replacement | None = None,
    mean: Replacement | None = None,
    step: int | None = None,
) -> Iterator[None]:
    """While it lasts, one layer's heads (one, several, or all) give something else.

    ``layer`` is the number that :func:`regard_models.capture` gives it, or the name of its module. Exactly one of
    ``pattern`` (weights: batch x heads x queries x keys, or what broadcasts to it), ``output`` (batch x heads x queries
    x width) and ``mean`` (True for the heads' own mean over examples and places of this run, or a mean from elsewhere)
    says what; functions are called with the old tensor. ``step`` limits the edit to one run of the model, for instance
    to one step of ``generate``. Edits may be nested.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True, bias=False).eval()
    >>> words = torch.randn(1, 5, 8)
    >>> with edit(attention, layer=0, output=0.0):
    ...     attention(words, words, words)[0].abs().max().item()
    0.0
    """
    change = _change(layer, head, step, {"pattern": pattern, "output": output, "mean": mean})
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, but a {type(model).__name__} came.")
    active = _active_editors()
    editor = active.get(id(model))
    outermost = editor is None
    editor = active.setdefault(id(model), Editor(model)) if editor is None else editor
    editor.changes.append(change)
    try:
        with contextlib.ExitStack() as entered:
            if outermost:
                entered.enter_context(editor)
            yield
        editor.refuse_idle(change)
    finally:
        editor.changes.remove(change)
        if outermost:
            del active[id(model)]


@dataclass(frozen=True, eq=False)
class Change:
    """One edit: where, and how a new output is made from a call."""

    layer: int | str
    heads: tuple[int, ...] | None
    step: int | None
    kind: str
    value: Replacement

    def is_at(self, index: int, module: str, step: int) -> bool:
        here = index == self.layer if isinstance(self.layer, int) else is_inside(module, self.layer)
        return here and self.step in (None, step)

    @property
    def is_constant(self) -> bool:
        """Whether what it puts in hangs on nothing that the model computed."""
        return self.kind != "pattern" and self.value is not True and not callable(self.value)

    def heads_of(self, call: AttentionCall, index: int) -> list[int]:
        heads = range(call.heads) if self.heads is None else self.heads
        if wrong := [head for head in heads if not 0 <= head < call.heads]:
            raise InputError(f"Layer {index} has no head {wrong[0]}; it has {call.heads}, counted from 0.")
        return list(heads)

    def output(self, call: AttentionCall, part: Part, old: Tensor) -> Tensor:
        """The new outputs of the part's heads, given the old ones."""
        if self.kind == "pattern":
            weights = call.weights(part) if callable(self.value) else None
            shape = (call.batch, len(part.heads), call.queries, call.keys)
            return _replacement_tensor(self.value, weights, shape, like=old, what="pattern") @ call.values(part)
        if self.kind == "mean" and self.value is True:
            return old.mean(dim=(0, 2), keepdim=True).expand_as(old)
        return _replacement_tensor(self.value, old, tuple(old.shape), like=old, what=self.kind)


class Editor(Watch):
    """Exchanges the outputs of edited heads."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.changes: list[Change] = []
        self.done: list[Change] = []
        self.pending = PendingCalls()
        self._func: Any = None
        self._asked: tuple[str, tuple[Any, ...], dict[str, Any]] = ("", (), {})

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.pending.attach()

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        module = self.stack.name
        index, _ = self.sites.next(module)
        step = max(0, self.stack.runs - 1)
        changes = [change for change in self.changes if change.is_at(index, module, step)]
        if not changes:
            return result
        whole = call.output(call.whole).clone()
        for change in changes:
            part = Part(slice(0, call.batch), change.heads_of(call, index), slice(0, call.queries))
            whole[:, part.heads] = change.output(call, part, whole[:, part.heads])
        self.done += changes
        edited = call.put(result, whole)
        remember_edit(first_tensor(edited))
        if wanted := wants_gradients(self._asked[1:]):
            self.pending.note(first_tensor(edited), wanted, lambda: self._differentiable(call, result, changes, index))
        return edited

    def _differentiable(
        self, first: AttentionCall, result: Result, changes: list[Change], index: int
    ) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Where the edited heads stand in the kernel's output, what they give, and replacements that want gradients."""
        if first_tensor(result).is_nested:
            return first_tensor(result), None, []
        again = self._call(self._func, *self._asked, result)  # now autograd sees what it is made of
        call = first if again is None else again
        used = call.weights_after_dropout(call.whole)
        whole = (call.weights(call.whole) if used is None else used) @ call.values(call.whole)
        there = torch.zeros_like(whole)
        for change in changes:
            part = Part(slice(0, call.batch), change.heads_of(call, index), slice(0, call.queries))
            fresh = whole.clone()
            fresh[:, part.heads] = change.output(call, part, whole[:, part.heads])
            there[:, part.heads] = 1
            whole = fresh
        values = [one.value for one in changes if isinstance(one.value, Tensor) and one.value.requires_grad]
        place, made = (first_tensor(call.put(result, one)) for one in (there, whole))
        lost = again is None and not all(one.is_constant for one in changes)
        return place != 0, None if lost else made, values

    def _inspect(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        self.pending.attach()  # the operator before this one has returned
        self._func, self._asked = func, (operator_name(func), args, kwargs)
        answer = super()._inspect(func, args, kwargs, result)
        schema = getattr(func, "_schema", None)
        if answer is result or schema is None or not schema.is_mutable:
            return answer
        # Written into a tensor that the model holds (out=, or in place): what is returned is not looked at.
        first_tensor(result).copy_(first_tensor(answer))
        remember_edit(first_tensor(result))
        return result

    def refuse_idle(self, change: Change) -> None:
        """An edit that changed nothing is a mistake of whoever wrote it."""
        if any(done is change for done in self.done) or not self.sites.numbers:
            return
        there = f"{len(self.sites.numbers)} attention layers ran, counted from 0"
        what = f"layer {change.layer}" if isinstance(change.layer, int) else f"attention in {change.layer!r}"
        when = "" if change.step is None else f" in run {change.step}"
        raise InputError(f"The edit changed nothing: there is no {what}{when}; {there}.")


def uniform(weights: Tensor) -> Tensor:
    """Equal weights on the keys that a head reads at all: the pattern that knows nothing.

    >>> uniform(torch.tensor([[0.9, 0.1, 0.0]])).tolist()
    [[0.5, 0.5, 0.0]]
    """
    read = (weights > 0).to(weights.dtype)
    return read / read.sum(dim=-1, keepdim=True).clamp(min=1)


def _change(layer: int | str, head: Any, step: int | None, given: dict[str, Replacement | None]) -> Change:
    chosen = {kind: value for kind, value in given.items() if value is not None}
    if len(chosen) != 1:
        said = " and ".join(chosen) or "none"
        raise InputError(f"An edit needs exactly one of pattern, output and mean, but {said} came.")
    if isinstance(layer, bool) or not isinstance(layer, (int, str)):
        raise InputError(f"layer must be a number or the name of a module, not {layer!r}.")
    heads = None if head is None else (head,) if isinstance(head, int) else tuple(head)
    if heads is not None and (not heads or any(isinstance(h, bool) or not isinstance(h, int) for h in heads)):
        raise InputError(f"head must be a number or several numbers, counted from 0, not {head!r}.")
    ((kind, value),) = chosen.items()
    return Change(layer, heads, step, kind, value)


def _replacement_tensor(
    value: Replacement, old: Tensor | None, shape: tuple[int, ...], *, like: Tensor, what: str
) -> Tensor:
    """The replacement as a tensor of the given shape."""
    made = value(old) if callable(value) else value
    try:
        array = made if isinstance(made, Tensor) else torch.from_numpy(np.asarray(made, dtype=np.float64))
        whole = array.to(device=like.device, dtype=like.dtype).expand(shape)
    except (RuntimeError, TypeError, ValueError):
        came = tuple(made.shape) if hasattr(made, "shape") else type(made).__name__
        raise InputError(f"{what} must be a number or broadcast to {shape}, but it is {came}.") from None
    if not bool(torch.isfinite(whole).all()):
        raise InputError(f"{what} must hold finite numbers only.")
    return whole


_LOCAL = threading.local()


def _active_editors() -> dict[int, Editor]:
    if not hasattr(_LOCAL, "active"):
        _LOCAL.active = {}
    active: dict[int, Editor] = _LOCAL.active
    return active


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
