"""Usual mistakes of a port, each undone on the fly: is the model equal to its original if ...?

A mistake is a rule that rewrites single calls of torch functions while the model runs (:mod:`regard.mistakes.rewrites`)
or a switch of its submodules that is turned for one run; the model is not edited. If the answers agree under a rule
and not without it, the rule names the mistake. The table of them is in :mod:`regard.mistakes.catalogue`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from regard.mistakes.rewrites.calls import Make, Rewrite


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """words: "equal if ...". make: the rule. calls: the functions that it rewrites; without any of them there is
    nothing to try. switch: an attribute of submodules that is turned instead of a rule. undoes: what the library of
    the diagnosis calls the mistakes."""

    words: str
    make: Make | None = None
    calls: tuple[Any, ...] = field(default=())
    switch: str = ""
    undoes: tuple[str, ...] = ()


class RewriteMode(TorchFunctionMode):
    """Runs torch functions under a rule."""

    def __init__(self, rewrite: Rewrite) -> None:
        super().__init__()
        self.rewrite = rewrite

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        made = self.rewrite(func, tuple(args), kwargs)
        return func(*args, **kwargs) if made is NotImplemented else made


@contextlib.contextmanager
def undo(mistake: Mistake, module: nn.Module) -> Iterator[None]:
    """Run what is inside with the mistake undone."""
    turned = [m for m in module.modules() if isinstance(getattr(m, mistake.switch or " ", None), bool)]
    for m in turned:
        setattr(m, mistake.switch, not getattr(m, mistake.switch))
    try:
        with contextlib.nullcontext() if mistake.make is None else RewriteMode(mistake.make()):
            yield
    finally:
        for m in turned:
            setattr(m, mistake.switch, not getattr(m, mistake.switch))


@contextlib.contextmanager
def record_calls() -> Iterator[set[Any]]:
    """The torch functions that are called inside."""
    called: set[Any] = set()

    def note(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called.add(func)
        return NotImplemented

    with RewriteMode(note):
        yield called


def plausible_mistakes(kind: tuple[Mistake, ...], called: set[Any], module: nn.Module) -> Iterator[Mistake]:
    """The mistakes of a kind that a run with these calls could have made."""
    for mistake in kind:
        if mistake.switch:
            if any(isinstance(getattr(m, mistake.switch, None), bool) for m in module.modules()):
                yield mistake
        elif any(call in called for call in mistake.calls):
            yield mistake
