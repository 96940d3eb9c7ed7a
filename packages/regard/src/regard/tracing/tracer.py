"""Every operation of a torch model, written down: what it read, what it gave, and the line it came from.

A ``TorchDispatchMode`` sees the operations below modules, functions and einsum alike, whatever the model is built of.
Two settings keep attention from arriving as one fused operation: the MATH kernel of scaled_dot_product_attention, and
the fast path of nn.MultiheadAttention switched off. Random draws are replaced by what leaves the numbers alone (a
dropout that keeps everything), so that a model that drops in eval() can still be read; they are noted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from regard.array_types import Array
from regard.errors import InputError
from regard.tracing.recording import Event, Failure, ForwardPass, Node

MOST_NUMBERS = 30_000_000  # kept in one run: 240 MB
COPIES = {
    "clone", "_unsafe_view", "_to_copy", "contiguous", "cat", "stack", "repeat", "index_select", "index", "gather",
    "copy_", "lift_fresh", "_reshape_copy", "refresh", "index_put_", "index_copy_", "repeat_interleave", "flip", "roll",
}  # fmt: skip
DRAWS = {
    "bernoulli_", "bernoulli", "native_dropout", "uniform_", "normal_", "rand", "randn", "rand_like", "randn_like",
    "randperm", "randint", "multinomial", "exponential_", "random_",
}  # fmt: skip
SHAPED = {"ones_like", "zeros_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty", "new_full"}


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps every tensor alive while it watches, so that Python's ``id`` names it."""

    def __init__(self, parameters: Mapping[str, Tensor], files: frozenset[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = {id(tensor): name for name, tensor in parameters.items()}
        self.files = files
        self.events: list[Event] = []
        self.nodes: list[Node] = []
        self.alive: list[Tensor] = []
        self.known: dict[int, int] = {}  # id of a tensor -> its node
        self.versions: dict[int, int] = {}  # storage -> how often it was written in place
        self.seen: dict[int, int] = {}  # id of a tensor -> the version at which its node was made
        self.written: dict[int, list[int]] = {}  # storage -> nodes that were written into it
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        tensors = [t for t in _flatten((*args, *kwargs.values())) if isinstance(t, Tensor)]
        row = name == "select" and self._has_just_read(args[-1])
        inputs = tuple(self.node(t, keep=row or not _is_view(func)) for t in tensors)
        if row:  # table[word]: the word was made a plain number first
            name, inputs = "index", inputs + self.events[-1].inputs
        plain = tuple(p for p in _flatten((*args, *kwargs.values())) if isinstance(p, (bool, int, float)))
        out = _run_without_dropout(name, func, args, kwargs)
        kind = "random" if name in DRAWS else "moves" if _is_view(func) or name in COPIES else ""
        made = [t for t in _flatten((out,)) if isinstance(t, Tensor)]
        sources = () if name in SHAPED else inputs  # these look at a shape, not at numbers
        outputs = tuple(self._add_result(t, sources, keep=not _is_view(func)) for t in made)
        self._note_writes(func, args, kwargs, outputs)
        line, method = self.current_line()
        self.events.append(
            Event(op=name, inputs=inputs, outputs=outputs, plain=plain, line=line, method=method, kind=kind)
        )
        return out

    def _has_just_read(self, number: Any) -> bool:
        """Whether the last operation made a plain number of a tensor, and it is this one."""
        last = self.events[-1] if self.events else None
        value = self.nodes[last.inputs[0]].value if last and last.op == "_local_scalar_dense" else None
        return value is not None and value.item() == number

    def enter(self, tensor: Tensor) -> None:
        """An input of the model: what depends on it is live."""
        self._add(tensor, live=True, parameters=(), keep=True)

    def node(self, tensor: Tensor, *, keep: bool = True) -> int:
        """The tensor's node; a new one where somebody has written into its memory since."""
        storage = storage_of(tensor)
        if id(tensor) not in self.known:
            name = self.names.get(id(tensor)) or ("unregistered" if tensor.requires_grad else None)
            return self._add(tensor, live=False, parameters=(name,) if name else (), keep=keep)
        old = self.known[id(tensor)]
        if self.seen[id(tensor)] == self.versions.get(storage, 0):
            if keep and self.nodes[old].value is None:
                self.nodes[old] = self._node(tensor, live=self.nodes[old].live, parameters=self.nodes[old].parameters)
            return old
        inputs = (old, *self.written[storage])
        new = self._add_result(tensor, inputs, keep=True)
        self.events.append(Event(op="refresh", inputs=inputs, outputs=(new,), kind="moves"))
        return new

    def current_line(self) -> tuple[int | None, str]:
        """The line of the person's file that is being run, and the method it is in."""
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                return frame.f_lineno, frame.f_code.co_name
            frame = frame.f_back  # type: ignore[assignment]
        return None, ""

    def _add_result(self, tensor: Tensor, inputs: tuple[int, ...], *, keep: bool) -> int:
        nodes = [self.nodes[i] for i in inputs]
        parameters = tuple(sorted({name for node in nodes for name in node.parameters}))
        return self._add(tensor, live=any(node.live for node in nodes), parameters=parameters, keep=keep)

    def _add(self, tensor: Tensor, *, live: bool, parameters: tuple[str, ...], keep: bool) -> int:
        self.alive.append(tensor)
        self.nodes.append(
            self._node(tensor, live=live, parameters=parameters)
            if keep
            else Node(live=live, parameters=parameters, shape=tuple(tensor.shape))
        )
        self.known[id(tensor)] = len(self.nodes) - 1
        self.seen[id(tensor)] = self.versions.get(storage_of(tensor), 0)
        return len(self.nodes) - 1

    def _node(self, tensor: Tensor, *, live: bool, parameters: tuple[str, ...]) -> Node:
        self.numbers += tensor.numel()
        if self.numbers > MOST_NUMBERS:
            raise InputError(
                f"The model makes more than {MOST_NUMBERS:,} numbers for one small input; give it smaller sizes "
                "in its constructor so that it can be looked into."
            )
        return Node(live=live, parameters=parameters, shape=tuple(tensor.shape), value=array(tensor))

    def _note_writes(self, func: Any, args: Any, kwargs: Any, outputs: tuple[int, ...]) -> None:
        """An operation in place changes what every view of that memory holds."""
        schema = func._schema
        if not schema.is_mutable:
            return
        given = dict(zip([a.name for a in schema.arguments], args, strict=False)) | kwargs
        for argument in schema.arguments:
            target = given.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(target, Tensor):
                storage = storage_of(target)
                self.versions[storage] = self.versions.get(storage, 0) + 1
                self.written.setdefault(storage, []).extend(outputs)
                self.seen[id(target)] = self.versions[storage]


def _flatten(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flatten(value)
        else:
            yield value


def storage_of(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _is_view(func: Any) -> bool:
    """Whether its result shares memory with an argument, unchanged."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def _run_without_dropout(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """The operation, or for a draw of dropout one that keeps everything."""
    if name == "native_dropout":
        return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
    out = func(*args, **kwargs)
    if name in ("bernoulli_", "bernoulli") and isinstance(out, Tensor):
        share = [p for p in (*args[1:], *kwargs.values()) if isinstance(p, float)]
        out.fill_(share[0] if share else 1.0)  # dropout divides by the share it keeps: 1 comes out
    return out


def array(tensor: Tensor) -> Array:
    """A tensor as an array of its own."""
    plain = tensor.detach()
    plain = plain.double() if plain.is_floating_point() else plain
    return np.array(plain.cpu().resolve_conj().resolve_neg().numpy())


@contextlib.contextmanager
def tracing_settings() -> Iterator[None]:
    """float64 by default, attention in pieces, no gradients: how a model is traced."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def files_of(model: Any) -> frozenset[str]:
    """The files the person's own classes and functions are written in: not torch's."""
    home = os.path.dirname(torch.__file__)
    files = set()
    for one in [model, *(model.modules() if isinstance(model, nn.Module) else [])]:
        kinds = type(one).__mro__ if isinstance(one, nn.Module) else (one,)
        for kind in kinds:
            method = kind.__dict__.get("forward") if isinstance(kind, type) else kind
            code = getattr(method, "__code__", None)
            if code is not None and not code.co_filename.startswith(home):
                files.add(code.co_filename)
    return frozenset(files)


def trace(
    model: Callable[..., Any], inputs: Mapping[str, Tensor], call: Callable[[], Any], *, files: frozenset[str]
) -> ForwardPass:
    """Run ``call`` (the model on ``inputs``) under the tracer; an exception ends the run and is part of it."""
    parameters = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    tracer, raised, out = Tracer(parameters, files), None, None
    for tensor in inputs.values():
        tracer.enter(tensor)
    with tracing_settings(), tracer:
        try:
            out = call()
        except InputError:
            raise
        except Exception as error:
            raised = failure_from(error, files)
    node = None if out is None else tracer.node(out)
    return ForwardPass(
        inputs={name: array(tensor) for name, tensor in inputs.items()},
        output=None if out is None else array(out),
        events=tuple(tracer.events),
        nodes=tuple(tracer.nodes),
        result=node,
        raised=raised,
    )


def failure_from(error: BaseException, files: frozenset[str]) -> Failure:
    """The error's type, first line, and the last line of the person's file that it came through."""
    line, method = None, ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename in files:
            line, method = frame.lineno, frame.name
    return Failure(type=type(error).__name__, message=str(error).partition("\n")[0][:200], line=line, method=method)
