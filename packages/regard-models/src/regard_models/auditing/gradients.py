"""Gradients: every weight that is used gets one, and the loss falls as fast as they say.

A submodule that ran and whose weights get no gradient has its output thrown away or cut off (detach, no_grad, argmax).
A small step along the gradient must lower the loss by what the gradient promises: a stale copy of a weight, or a
backward pass written wrongly, breaks that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from regard.errors import describe_error
from regard_models.auditing.experiment import View, view
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.padding import padded_question, real_length
from regard_models.auditing.question import Question
from regard_models.auditing.subject import PAD, Subject, takes, tensors_of
from regard_models.auditing.trace import culprit
from regard_models.inputs.copies import copy_module
from regard_models.inputs.model_input import call, original

NAME = "gradients"
_STEP = 1e-6
_TRIES = 8  # forwards in train(): a layer that is dropped half of the time is seen in one of them
_STEPS = (_STEP, 10 * _STEP, _STEP / 100)  # a choice that a long step changes, a short one leaves
_SHARE = 1e-2  # of the largest gradient: smaller ones count for less, lest their step be too long
_PROMISE = 1e-3  # how far the step's effect may be from what the gradient promises


def check(subject: Subject) -> Iterator[Finding]:
    """One backward pass, then a step in both directions; and what is said to be tied is."""
    yield from _check_tied_weights(subject)
    base = subject.make(lengths=subject.short_lengths())
    ran: dict[int, int] = {}  # the modules that ran, in the order of ending
    # Traced code may run in float64 and not know how to go back; gradients of a large model take its own type's room.
    for wide in dict.fromkeys((subject.wide and not subject.is_large, False)):
        root = original(subject.module if wide else subject.native)
        wanted = {n: p for n, p in root.named_parameters() if p.requires_grad}
        if not wanted:
            yield _finding("reach", Status.NOT_APPLICABLE, "No parameter asks for a gradient.")
            return
        if subject.is_large and subject.wide:
            yield from _check_step_of_vectors(subject, base)
            subject.drop_float64_copy()
        try:
            grads = _backward(subject, base, list(wanted.values()), ran, wide=wide)
        except Exception as error:
            failed = f"Backward failed: {describe_error(error)}."
            continue
        yield from _check_reach(subject, root, dict(zip(wanted, grads, strict=True)), ran)
        reached = {n for n, g in zip(wanted, grads, strict=True) if g is not None}
        if wide:
            yield _check_step(subject, base, list(wanted.values()), grads, ran)
        del grads  # as large as the model
        yield from _check_training(subject, base, reached)
        yield from _check_padding(subject, wanted, wide=wide)
        return
    if "train()" in failed or "training" in failed:
        yield _finding("reach", Status.NOTE, f"It has gradients in train() only. {failed}")
    else:
        yield _finding("reach", Status.FAILED, failed, cause=_REACH_CAUSE, cure=_REACH_CURE)


def _check_tied_weights(subject: Subject) -> Iterator[Finding]:
    """Weights that the model or its configuration says are one: a step must change both."""
    root = original(subject.native)
    weights = dict(root.named_parameters(remove_duplicate=False))
    known = {a: b for a, b in _declared_ties(root).items() if a in weights and b in weights}
    if not known:
        return
    untied = [(a, b) for a, b in known.items() if weights[a].data_ptr() != weights[b].data_ptr()]
    if not untied:
        yield _finding("tied", Status.PASSED, f"{len(known)} weights that are said to be tied are.")
        return
    one, other = untied[0]
    yield _finding(
        "tied",
        Status.FAILED,
        f"{one} is said to be {other}, and is a weight of its own: training moves them apart.",
        example={"weights": [one, other], "words": f"{one} and {other}"},
        culprit=culprit(root.get_submodule(one.rpartition(".")[0]), subject),
        cause="a weight that was replaced by a copy, or loaded, after the model had been tied.",
        cure="Call tie_weights() afterwards, or set tie_word_embeddings=False if it is meant.",
    )


def _declared_ties(root: nn.Module) -> dict[str, str]:
    """By names: what a Hugging Face model lists; of others the head and the table, if the configuration ties them."""
    listed = getattr(root, "all_tied_weights_keys", None)
    if isinstance(listed, dict):
        return listed
    if getattr(getattr(root, "config", None), "tie_word_embeddings", None) is not True:
        return {}
    names = {id(module): f"{name}.weight" for name, module in root.named_modules()}
    ends = [getattr(root, f"get_{side}_embeddings", lambda: None)() for side in ("output", "input")]
    head, table = (names.get(id(end), "") for end in ends)
    weights = dict(root.named_parameters(remove_duplicate=False))
    if head not in weights or table not in weights or weights[head].shape != weights[table].shape:
        return {}
    # of two tables a translator's head may be tied to the target's
    same = [name for name, one in weights.items() if name != head and one.data_ptr() == weights[head].data_ptr()]
    return {head: same[0] if same else table}


_REACH_CAUSE = "an output that is computed and not used, .detach(), torch.no_grad(), .data or argmax on the way."
_REACH_CURE = "Use the output, or freeze the weights with requires_grad=False so that it is seen to be meant."


def _backward(
    subject: Subject,
    base: Question,
    wanted: list[nn.Parameter],
    ran: dict[int, int],
    *,
    wide: bool,
    seen: View | None = None,
    module: nn.Module | None = None,
) -> list[Tensor | None]:
    def record_end(module: nn.Module, args: Any, output: Any) -> None:
        ran.setdefault(id(module), len(ran))

    handle = register_module_forward_hook(record_end)
    try:
        with torch.enable_grad(), subject.running(wide=wide):
            loss = _loss(subject, base, wide=wide, seen=seen, module=module)
            return list(torch.autograd.grad(loss, wanted, allow_unused=True))
    finally:
        handle.remove()


def _loss(
    subject: Subject,
    base: Question,
    *,
    wide: bool = True,
    seen: View | None = None,
    module: nn.Module | None = None,
) -> Tensor:
    """A random sum of everything that comes out, or of the part of it that is protected."""
    module = module or (subject.module if wide else subject.native)
    without = {"use_cache": False} if takes(module, "use_cache") else {}  # some write their state in place
    made = call(module, {**subject.inputs(base, wide=wide), **without})
    generator = torch.Generator().manual_seed(9)
    parts = [
        (v * torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v)).sum()
        for v in (w if seen is None else seen.of(w) for _, w in tensors_of(made) if w.is_floating_point() and w.ndim)
        if v.numel()
    ]
    return torch.stack([p.to(torch.float64) for p in parts]).sum()


def _check_reach(
    subject: Subject, root: nn.Module, grads: dict[str, Tensor | None], ran: dict[int, int]
) -> Iterator[Finding]:
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


def _check_training(subject: Subject, base: Question, reached: set[str]) -> Iterator[Finding]:
    """In train() too: a gradient may be cut there only. Layers may be dropped at random, so several tries."""
    module = copy_module(subject.native).train()
    root = original(module)
    wanted = {n: p for n, p in root.named_parameters() if n in reached}
    missing, ran = set(reached), dict[int, int]()
    with torch.random.fork_rng(devices=[]):
        for seed in range(_TRIES):
            torch.manual_seed(seed)
            try:
                grads = _backward(subject, base, list(wanted.values()), ran, wide=False, module=module)
            except Exception:  # it wants targets in train(), or more examples
                return
            missing &= {n for n, g in zip(wanted, grads, strict=True) if g is None}
            if not missing:
                return
    owners = [o for o in {n.rpartition(".")[0] for n in missing} if id(root.get_submodule(o)) in ran]
    last = max(owners, key=lambda o: ran[id(root.get_submodule(o))], default="")
    names = sorted(missing)
    yield _finding(
        "train",
        Status.FAILED,
        f"In train() {len(names)} weights never get a gradient, though they do in eval(): {', '.join(names)[:120]}.",
        example={"parameters": names, "words": ", ".join(names[:3])},
        culprit=culprit(original(subject.native).get_submodule(last), subject),
        cause="a .detach() or torch.no_grad() that only training goes through, or a layer that is always dropped.",
        cure="Let training and evaluation compute the same, but for dropout.",
    )


def _check_padding(subject: Subject, wanted: dict[str, nn.Parameter], *, wide: bool) -> Iterator[Finding]:
    """Padded on the left, a causal model's first queries may read nothing: what real tokens get must still have
    gradients that are numbers, though NaN was made 0 on the way."""
    places = [i for i, stream in enumerate(subject.streams) if stream.masks and real_length(subject, i) >= 2]
    if not places:
        return
    i = places[-1]
    real = min(real_length(subject, i), subject.short_lengths()[i])
    question = padded_question(subject, i, "left", real, fill=0, told=True)
    seen = view(question, places={i: torch.arange(PAD, PAD + real)})
    ran: dict[int, int] = {}
    try:
        grads = _backward(subject, question, list(wanted.values()), ran, wide=wide, seen=seen)
    except Exception as error:
        yield _finding("padding", Status.NOTE, f"Backward failed beside padding: {describe_error(error)}.")
        return
    sums = {n: float(g.sum(dtype=torch.float64)) for n, g in zip(wanted, grads, strict=True) if g is not None}
    bad = [n for n, total in sums.items() if not math.isfinite(total)]  # one NaN or infinity is enough to spoil a sum
    if not bad:
        yield _finding("padding", Status.PASSED, "Beside padding on the left all gradients are numbers.")
        return
    root = original(subject.module if wide else subject.native)
    last = max((n.rpartition(".")[0] for n in bad), key=lambda o: ran.get(id(root.get_submodule(o)), -1))
    owner = root.get_submodule(last.rpartition(".")[0])
    yield _finding(
        "padding",
        Status.FAILED,
        f"Beside {PAD} tokens of padding on the left, {len(bad)} of {len(grads)} weights get a gradient of NaN or "
        f"infinity, {bad[-1]} among them.",
        example={"parameters": bad, "words": f"{PAD} tokens of padding on the left"},
        culprit=culprit(owner, subject),
        cause="a softmax over minus infinities only whose NaN is made 0 afterwards: its backward is NaN all the same.",
        cure="Do not let such rows arise: hide with the most negative float, or let a query always read itself.",
    )


def _check_step(
    subject: Subject, base: Question, wanted: list[nn.Parameter], grads: list[Tensor | None], ran: dict[int, int]
) -> Finding:
    """(loss(w + h d) - loss(w - h d)) / 2h against <gradient, d>, with d along the gradient of each weight."""
    pairs = [(p, g) for p, g in zip(wanted, grads, strict=True) if g is not None]
    sizes = [float(g.norm()) for _, g in pairs]
    if not any(sizes) or not all(map(math.isfinite, sizes)):
        return _finding("step", Status.NOT_APPLICABLE, "All gradients are 0 or not finite.")
    ratio = _step_ratio(subject, base, pairs)
    numbers: dict[str, Any] = {"size": abs(ratio - 1), "rounding": _PROMISE}
    if abs(ratio - 1) <= _PROMISE:
        sentence = f"A small step changes the loss by what the gradient promises (ratio {ratio:.6f})."
        return _finding("step", Status.PASSED, sentence, **numbers)
    sentence = f"A small step changes the loss by {ratio:.3g} times what the gradient promises."
    if subject.hangs_on_ties():
        return _finding("step", Status.NOTE, f"{sentence} Its choices hang on ties, which a step decides.", **numbers)
    return _finding(
        "step",
        Status.FAILED,
        sentence,
        culprit=culprit(_last_wrong_module(subject, base, pairs, ran), subject, doubt=", or what reads its output"),
        cause="a backward pass written by hand, a straight-through estimate, or a copy of a weight made too early.",
        cure="Compare the backward pass with torch.autograd.gradcheck, and read weights anew in every forward.",
        **numbers,
    )


def _check_step_of_vectors(subject: Subject, base: Question) -> Iterator[Finding]:
    """The same along biases and gains only, which take little room: what flows back to them passes all the others."""
    wanted = [p for p in original(subject.module).parameters() if p.requires_grad and p.ndim < 2]
    if not wanted:
        yield _finding("step", Status.NOT_APPLICABLE, "It is too large to hold its gradients in float64.")
        return
    ran: dict[int, int] = {}
    try:
        grads = _backward(subject, base, wanted, ran, wide=True)
    except Exception:  # what follows, in the model's own type, says why
        return
    kept = [p.detach().clone() for p in wanted]
    try:
        finding = _check_step(subject, base, wanted, grads, ran)
    finally:  # a large float64 model is tested itself, and must be what it was, whatever ends the test
        with torch.no_grad():
            for p, value in zip(wanted, kept, strict=True):
                p.copy_(value)
    yield finding


def _step_ratio(subject: Subject, base: Question, pairs: list[tuple[nn.Parameter, Tensor]]) -> float:
    """What a small step changes the loss by, in units of what the gradients promise: of several steps, the best."""
    shares, promised = _step_shares([float(g.norm()) for _, g in pairs])
    best = math.inf
    for h in _STEPS:
        best = min(best, _slope(subject, base, pairs, shares, h) / promised, key=lambda ratio: abs(ratio - 1))
        if abs(best - 1) <= _PROMISE:
            break
    return best


def _step_shares(sizes: list[float]) -> tuple[list[float], float]:
    """By what to multiply each weight's gradient for a step of length 1 to which each promises about the same share,
    and what all promise together.

    Along the gradient itself the largest ones, mostly those of the last layer, would drown what is wrong before them.
    """
    least = _SHARE * max(sizes)
    shares = [1 / (n * max(n, least)) if n else 0.0 for n in sizes]
    long = math.hypot(*(n * share for n, share in zip(sizes, shares, strict=True)))
    promised = sum(n * n * share for n, share in zip(sizes, shares, strict=True)) / long
    return [share / long for share in shares], promised


def _slope(
    subject: Subject, base: Question, pairs: list[tuple[nn.Parameter, Tensor]], shares: list[float], h: float
) -> float:
    """How fast the loss rises along the gradients, each times its share. No step is ever stored: it would be as large
    as the model."""
    losses = []
    for sign in (1.0, -2.0):
        _move(pairs, shares, sign * h)
        with torch.no_grad(), subject.running():
            losses.append(float(_loss(subject, base)))
    _move(pairs, shares, h)
    return (losses[0] - losses[1]) / (2 * h)


def _move(pairs: list[tuple[nn.Parameter, Tensor]], shares: list[float], amount: float) -> None:
    with torch.no_grad():
        for (parameter, grad), share in zip(pairs, shares, strict=True):
            parameter.add_(grad, alpha=amount * share)


def _last_wrong_module(
    subject: Subject, base: Question, pairs: list[tuple[nn.Parameter, Tensor]], ran: dict[int, int]
) -> nn.Module:
    """The last module to end whose own weights break their promise, by halving.

    A wrong backward pass spoils the gradients of all that ran before it, so the last is the next to it.
    """
    parts = sorted(original(subject.module).modules(), key=lambda module: ran.get(id(module), -1))
    owned: list[tuple[nn.Module, list[tuple[nn.Parameter, Tensor]]]] = []
    for module in parts:
        own = {id(p) for p in module.parameters(recurse=False)}
        mine = [(p, g) for p, g in pairs if id(p) in own and bool(g.any())]
        owned += [(module, mine)] if mine else []
    wrong, right = 0, len(owned)  # from the first of them on something is wrong, from the second on nothing
    while right - wrong > 1:
        middle = (wrong + right) // 2
        off = abs(_step_ratio(subject, base, [pair for _, mine in owned[middle:] for pair in mine]) - 1)
        wrong, right = (wrong, middle) if off <= _PROMISE else (middle, right)
    return owned[wrong][0]


def _finding(check: str, status: Status, sentence: str, **more: Any) -> Finding:
    return Finding(property=NAME, check=check, status=status, sentence=sentence, **more)
