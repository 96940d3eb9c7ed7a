"""Usual mistakes of a port, each undone on the fly: is the model equal to its original if ...?

A repair is a rule that rewrites single calls of torch functions while the model runs, or a switch of its submodules
that is turned for one run; the model is not edited. If the answers agree under a rule and not without it, the rule
names the mistake. Composite functions of torch (multi_head_attention_forward) are one call: what happens inside them
is not seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from regard.mistakes.rewrites.calls import PRODUCTS, Call, Memory, Repair, Rule
from regard.mistakes.rewrites.feed_forward_and_norms import FEED_FORWARD, NORM_REPAIRS, SUM_REPAIRS
from regard.mistakes.rewrites.heads_and_positions import HEADS, POSITIONS
from regard.mistakes.rewrites.scores import MASKS, WEIGHTS

# Of each kind the first that fits is said: the more particular ones stand first.
KINDS = (HEADS, FEED_FORWARD, NORM_REPAIRS, WEIGHTS, MASKS, POSITIONS, SUM_REPAIRS)


class RewriteMode(TorchFunctionMode):
    """Runs torch functions under a rule, with a memory of this run."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule, self.seen = rule, Memory()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = Call(func, tuple(args), dict(kwargs or {}))
        made = self.rule(call, self.seen)
        if made is not NotImplemented:
            return made
        return self.seen.note_product(call) if func in PRODUCTS else call()


@contextlib.contextmanager
def apply_repair(repair: Repair, module: nn.Module) -> Iterator[None]:
    """Run what is inside with the mistake undone."""
    turned = [m for m in module.modules() if isinstance(getattr(m, repair.switch or " ", None), bool)]
    for m in turned:
        setattr(m, repair.switch, not getattr(m, repair.switch))
    try:
        with contextlib.nullcontext() if repair.rule is None else RewriteMode(repair.rule):
            yield
    finally:
        for m in turned:
            setattr(m, repair.switch, not getattr(m, repair.switch))


@contextlib.contextmanager
def record_calls() -> Iterator[set[Any]]:
    """The torch functions that are called inside."""
    called: set[Any] = set()

    def note(call: Call, seen: Memory) -> Any:
        called.add(call.func)
        return NotImplemented

    with RewriteMode(note):
        yield called


def plausible_repairs(kind: tuple[Repair, ...], called: set[Any], module: nn.Module) -> Iterator[Repair]:
    """The repairs of a kind that a run with these calls could need."""
    for repair in kind:
        if repair.switch:
            if any(isinstance(getattr(m, repair.switch, None), bool) for m in module.modules()):
                yield repair
        elif any(call in called for call in repair.calls):
            yield repair
