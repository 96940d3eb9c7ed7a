"""Gradients: every weight that is used gets one, and the loss falls as fast as they say.

A submodule that ran and whose weights get no gradient has its output thrown away or cut off (detach, no_grad, argmax).
A small step along the gradient must lower the loss by what the gradient promises: a stale copy of a weight, or a
backward pass written wrongly, breaks that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from regard.models.auditing.finding import Finding, Status
from regard.models.auditing.subject import Question, Subject, tensors_of
from regard.models.auditing.trace import culprit
from regard.models.containment import said
from regard.models.given import call, original

NAME = "gradients"
_STEP = 1e-6
_PROMISE = 1e-3  # how far the step's effect may be from what the gradient promises


def check(subject: Subject) -> Iterator[Finding]:
    """One backward pass, then a step in both directions."""
    base = subject.make(lengths=subject.short())
    wanted = {n: p for n, p in original(subject.module).named_parameters() if p.requires_grad}
    if not wanted:
        yield _finding("reach", Status.NOT_APPLICABLE, "No parameter asks for a gradient.")
        return
    ran: dict[int, int] = {}  # the modules that ran, in the order of ending
    try:
        grads = _backward(subject, base, list(wanted.values()), ran)
    except Exception as error:
        yield _finding("reach", Status.FAILED, f"Backward failed: {said(error)}.", cause=_REACH_CAUSE, cure=_REACH_CURE)
        return
    yield from _reach(subject, dict(zip(wanted, grads, strict=True)), ran)
    if subject.wide:
        yield _promise(subject, base, list(wanted.values()), grads)


_REACH_CAUSE = "an output that is computed and not used, .detach(), torch.no_grad(), .data or argmax on the way."
_REACH_CURE = "Use the output, or freeze the weights with requires_grad=False so that it is seen to be meant."


def _backward(subject: Subject, base: Question, wanted: list[nn.Parameter], ran: dict[int, int]) -> list[Tensor | None]:
    def ended(module: nn.Module, args: Any, output: Any) -> None:
        ran.setdefault(id(module), len(ran))

    handle = register_module_forward_hook(ended)
    try:
        with torch.enable_grad(), subject.running():
            loss = _loss(subject, base)
            return list(torch.autograd.grad(loss, wanted, allow_unused=True))
    finally:
        handle.remove()


def _loss(subject: Subject, base: Question) -> Tensor:
    """A random sum of everything that comes out."""
    made = call(subject.module, subject.inputs(base))
    generator = torch.Generator().manual_seed(9)
    parts = [
        (v * torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v)).sum()
        for _, v in tensors_of(made)
        if v.is_floating_point() and v.numel() and v.ndim
    ]
    return torch.stack([p.to(torch.float64) for p in parts]).sum()


def _reach(subject: Subject, grads: dict[str, Tensor | None], ran: dict[int, int]) -> Iterator[Finding]:
    root = original(subject.module)
    missing = [name for name, grad in grads.items() if grad is None]
    owners: dict[str, list[str]] = {}
    for name in missing:
        owners.setdefault(name.rpartition(".")[0], []).append(name)
    own_all = {o: [n for n in grads if n.rpartition(".")[0] == o] for o in owners}
    guilty = [
        o for o, names in owners.items()
        if id(root.get_submodule(o)) in ran and len(names) == len(own_all[o])
        and not list(root.get_submodule(o).children())
    ]  # fmt: skip
    if guilty:
        guilty.sort(key=lambda o: ran[id(root.get_submodule(o))], reverse=True)  # the last is next to the cut
        module = root.get_submodule(guilty[0])
        more = f" (and {len(guilty) - 1} more submodules)" if len(guilty) > 1 else ""
        yield _finding(
            "reach",
            Status.FAILED,
            f"{guilty[0]} runs, and its weights never get a gradient{more}.",
            example={"parameters": missing, "words": ", ".join(missing[:3])},
            culprit=culprit(module, subject),
            cause=_REACH_CAUSE,
            cure=_REACH_CURE,
        )
        return
    unused = [o for o in owners if o not in guilty]
    if unused:
        some = ", ".join(name for o in unused for name in owners[o])[:120]
        sentence = f"{len(missing)} of {len(grads)} weights were not used and get no gradient: {some}."
        yield _finding("reach", Status.NOTE, sentence)
        return
    zero = [n for n, g in grads.items() if g is not None and not bool(g.any())]
    words = f", {len(zero)} of them all 0 here ({zero[0]})" if zero else ""
    yield _finding("reach", Status.PASSED, f"All {len(grads)} weights get a gradient{words}.")


def _promise(subject: Subject, base: Question, wanted: list[nn.Parameter], grads: list[Tensor | None]) -> Finding:
    """(loss(w + h d) - loss(w - h d)) / 2h against <gradient, d>, with d along the gradient of each weight."""
    pairs = [(p, g) for p, g in zip(wanted, grads, strict=True) if g is not None]
    size = sum(float((g.double() ** 2).sum()) for _, g in pairs) ** 0.5
    if not size or not torch.isfinite(torch.tensor(size)):
        return _finding("step", Status.NOT_APPLICABLE, "All gradients are 0 or not finite.")
    promised = size
    measured = min(
        (_slope(subject, base, pairs, size, h) for h in (_STEP, 10 * _STEP)), key=lambda s: abs(s - promised)
    )
    off = abs(measured - promised) / promised
    numbers: dict[str, Any] = {"size": off, "rounding": _PROMISE}
    if off <= _PROMISE:
        sentence = f"A small step changes the loss by what the gradient promises (ratio {measured / promised:.6f})."
        return _finding("step", Status.PASSED, sentence, **numbers)
    sentence = f"A small step changes the loss by {measured / promised:.3g} times what the gradient promises."
    if subject.hangs_on_ties():
        return _finding("step", Status.NOTE, f"{sentence} Its choices hang on ties, which a step decides.", **numbers)
    guilty = _most_wrong(subject, base, pairs)
    return _finding(
        "step",
        Status.FAILED,
        sentence,
        culprit=None if guilty is None else culprit(guilty, subject),
        cause="a backward pass written by hand, a straight-through estimate, or a copy of a weight made too early.",
        cure="Compare the backward pass with torch.autograd.gradcheck, and read weights anew in every forward.",
        **numbers,
    )


def _slope(subject: Subject, base: Question, pairs: list[tuple[nn.Parameter, Tensor]], size: float, h: float) -> float:
    losses = []
    for sign in (1.0, -2.0):
        _move(pairs, sign * h / size)
        with torch.no_grad(), subject.running():
            losses.append(float(_loss(subject, base)))
    _move(pairs, h / size)
    return (losses[0] - losses[1]) / (2 * h)


def _move(pairs: list[tuple[nn.Parameter, Tensor]], amount: float) -> None:
    with torch.no_grad():
        for parameter, grad in pairs:
            parameter.add_(grad, alpha=amount)


def _most_wrong(subject: Subject, base: Question, pairs: list[tuple[nn.Parameter, Tensor]]) -> nn.Module | None:
    """The module whose own weights keep their promise least."""
    root = original(subject.module)
    worst: tuple[float, nn.Module | None] = (0.0, None)
    for _, module in root.named_modules():
        own = {id(p) for p in module.parameters(recurse=False)}
        mine = [(p, g) for p, g in pairs if id(p) in own]
        size = sum(float((g.double() ** 2).sum()) for _, g in mine) ** 0.5
        if size:
            off = abs(_slope(subject, base, mine, size, _STEP) - size) / size
            worst = max(worst, (off, module), key=lambda pair: pair[0])
    return worst[1]


def _finding(check: str, status: Status, sentence: str, **more: Any) -> Finding:
    return Finding(property=NAME, check=check, status=status, sentence=sentence, **more)
