"""The feed-forward part, norms and sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import (
    DIFFERENCES,
    MEANS,
    MINUS,
    NORMS,
    RELU,
    SIGMOID,
    SPREADS,
    SUMS,
    TIMES,
    Call,
    Memory,
    Repair,
)

Activation = Callable[[Tensor], Tensor]


def replace_activation(wanted: Activation, instead: tuple[Any, ...], call: Call, seen: Memory) -> Any:
    """Another function between the two layers of a feed-forward part."""
    return wanted(call.args[0]) if call.func in instead and call.args else NotImplemented


def insert_activation(wanted: Activation, call: Call, seen: Memory) -> Any:
    """An activation where a linear layer reads what another one gave."""
    if call.func is not F.linear:
        return NotImplemented
    return seen.keep(call(wanted(call.args[0]) if seen.recall(call.args[0]) else call.args[0]))


def remove_outer_activation(call: Call, seen: Memory) -> Any:
    """No ReLU on what goes into a sum: numbers of the width that the norms have."""
    if call.func is F.embedding:
        out = call()
        seen.first.setdefault("width", int(out.shape[-1]))
        return out
    return call.args[0] if call.func in RELU and call.args[0].shape[-1] == seen.first.get("width") else NotImplemented


def remove_minus_sign(call: Call, seen: Memory) -> Any:
    """No minus sign before the activation."""
    return call.args[0] if call.func in MINUS and call.args[0].ndim == 3 else NotImplemented


def set_gelu(approximate: str, call: Call, seen: Memory) -> Any:
    """GELU exactly, or by its tanh."""
    if call.func is not F.gelu or call.kwargs.get("approximate", "none") == approximate:
        return NotImplemented
    return F.gelu(call.args[0], approximate=approximate)


def _quick(x: Tensor) -> Tensor:
    return x * (1.702 * x).sigmoid()


_OTHERS = (torch.tanh, Tensor.tanh, F.tanh, *SIGMOID, torch.abs, Tensor.abs, F.leaky_relu, F.elu, F.softmax)


def _set_activation(name: str, wanted: Activation, of: tuple[Any, ...], undoes: tuple[str, ...] = ()) -> Repair:
    return Repair(f"the activation is {name}", partial(replace_activation, wanted, of), of, undoes)


FEED_FORWARD = (
    Repair("GELU is computed exactly, not by its tanh approximation", partial(set_gelu, "none"), (F.gelu,)),
    Repair("GELU is computed by its tanh approximation, not exactly", partial(set_gelu, "tanh"), (F.gelu,)),
    _set_activation("GELU", F.gelu, (*RELU, F.silu, *_OTHERS)),
    _set_activation("ReLU", F.relu, (F.gelu, F.silu, *_OTHERS),
                    ("gelu", "gelu-tanh", "silu", "leaky-relu", "relu-sigmoid", "relu-tanh", "relu-softmax",
                     "relu-absolute")),
    _set_activation("SiLU", F.silu, (F.gelu, *RELU, *_OTHERS)),
    _set_activation("x sigmoid(1.702 x)", _quick, (F.gelu,)),
    *(Repair(f"a {name} stands between the two layers of the feed-forward part", partial(insert_activation, function),
             (F.linear,), ("relu-missing",)) for name, function in (("ReLU", F.relu), ("GELU", F.gelu))),
    Repair("no ReLU stands behind the mixing matrix or the second layer of the feed-forward part",
           remove_outer_activation, RELU, ("relu-after-mixing", "relu-after-second")),
    Repair("no minus sign stands before the activation", remove_minus_sign, MINUS, ("relu-negative",)),
)  # fmt: skip


# norms


def set_eps(size: float, call: Call, seen: Memory) -> Any:
    """Another eps in every norm."""
    return call.change(eps=size) if call.func in NORMS else NotImplemented


def divide_by_n(call: Call, seen: Memory) -> Any:
    """The variance of a norm written by hand divides by n; torch's std and var divide by n - 1 unless told."""
    if call.func not in SPREADS or call.args[0].ndim < 3:
        return NotImplemented
    rest = {k: v for k, v in call.kwargs.items() if k not in ("unbiased", "correction")}
    return call.func(*call.args, **rest, correction=0)


def use_torch_layer_norm(size: float, call: Call, seen: Memory) -> Any:
    """A deviation to whose (n - 1) root eps is added: sqrt(variance + eps), the variance by n, as layer_norm has it.

    What is added outside is taken off here, so that it must be the same eps.
    """
    if call.func not in SPREADS or call.args[0].ndim < 3:
        return NotImplemented
    return (call.args[0].var(-1, correction=0, keepdim=True) + size).sqrt() - size


def norm_over_width(call: Call, seen: Memory) -> Any:
    """Mean and variance over the last axis, whichever they were taken over."""
    if call.func not in SPREADS + MEANS or call.args[0].ndim != 3:
        return NotImplemented
    rest = {k: v for k, v in call.kwargs.items() if k in ("unbiased", "correction")}
    if call.func in SPREADS and len(call.args) > 2 and isinstance(call.args[2], bool):
        rest["unbiased"] = call.args[2]
    return call.func(call.args[0], -1, keepdim=True, **rest)


def replace_batch_norm(call: Call, seen: Memory) -> Any:
    """The norm of (batch, width, length) over the width instead of the batch."""
    if call.func is not F.batch_norm:
        return NotImplemented
    given = call.by_name
    x = given["input"].movedim(1, -1)
    made = F.layer_norm(x, x.shape[-1:], given.get("weight"), given.get("bias"), given.get("eps", 1e-5))
    return made.movedim(-1, 1)


def subtract_mean(call: Call, seen: Memory) -> Any:
    """Layer norm where RMS norm was, with the same gain."""
    return _exchange_norms(call, F.layer_norm) if call.func is F.rms_norm else NotImplemented


def keep_mean(call: Call, seen: Memory) -> Any:
    """RMS norm where layer norm was; a shift is added behind it."""
    if call.func is not F.layer_norm:
        return NotImplemented
    made, shift = _exchange_norms(call, F.rms_norm), call.by_name.get("bias")
    return made if shift is None else made + shift


def _exchange_norms(call: Call, norm: Callable[..., Tensor]) -> Tensor:
    given = call.by_name
    eps = 1e-5 if given.get("eps") is None else given["eps"]
    return norm(given["input"], given["normalized_shape"], weight=given.get("weight"), eps=eps)


# sums


def add_instead(instead: tuple[Any, ...], call: Call, seen: Memory) -> Any:
    """A sum of two tensors of one shape where something else was made of them."""
    if call.func in instead and call.is_pair and call.args[0].ndim == 3:
        return call.args[0] + call.args[1]
    return NotImplemented


def norm_once(call: Call, seen: Memory) -> Any:
    """A norm of what the same norm gave is left out."""
    if call.func not in NORMS:
        return NotImplemented
    gain = call.by_name.get("weight")
    owner = None if gain is None else gain.data_ptr()
    return call.args[0] if owner is not None and seen.recall(call.args[0]) == owner else seen.keep(call(), owner)


def add_input_once(call: Call, seen: Memory) -> Any:
    """What is in a sum already is not added to it again, before its norm or after it."""
    if call.func in NORMS:
        return seen.keep(call(), seen.recall(call.args[0]))
    if call.func not in SUMS or not call.is_pair:
        return NotImplemented
    for one, other in (call.args, call.args[::-1]):
        if id(other) in (seen.recall(one) or ()):
            return one
    for one in call.args:  # keep the tensors, so that their ids stay theirs
        seen.keep(one, seen.recall(one))
    return seen.keep(call(), (id(call.args[0]), id(call.args[1])))


def norm_of_sum(norms_first: bool, call: Call, seen: Memory) -> Any:
    """Each norm waits for the next sum that what it was given goes into: norm(x + part), not x + norm(part).

    A norm of a sum with what a layer gave is right, and does not wait, unless all norms stand first.
    """
    if call.func is F.linear:
        return seen.keep(call(), True, "layer")
    if call.func in NORMS and (norms_first or not seen.recall(call.args[0], "right")):
        return seen.keep(call.args[0], call, "waiting")
    if call.func not in SUMS or not call.is_pair:
        return NotImplemented
    out = call()
    for one in call.args:
        if (norm := seen.recall(one, "waiting")) is not None:
            seen.keep(one, None, "waiting")
            return norm(out)
    return seen.keep(out, True, "right") if any(seen.recall(one, "layer") for one in call.args) else out


def add_input(call: Call, seen: Memory) -> Any:
    """norm(input + part) where the input was forgotten: the vectors of the tokens, then what the last norm gave."""
    last = seen.first
    if call.func is F.embedding:
        last["x"] = seen.keep(call(), True, "stream")
        return last["x"]
    if call.func in SUMS:
        out = seen.keep(call(), True, "sum")
        if "x" in last and any(seen.recall(a, "stream") for a in call.args) and not seen.recall(call.args[0], "sum"):
            last["x"] = seen.keep(out, True, "stream")
        return out
    if call.func in NORMS and "x" in last and call.args[0].shape == last["x"].shape:
        x = call.args[0] if seen.recall(call.args[0], "sum") else call.args[0] + last["x"]
        last["x"] = call(x)
        return last["x"]
    return NotImplemented


def add_stream(call: Call, seen: Memory) -> Any:
    """x + part(norm(x)) where norm(x) + part(norm(x)) was taken: the sum is made with what the norm was given."""
    if call.func in NORMS:
        return seen.keep(call(), call.args[0])
    if call.func in SUMS and call.is_pair:
        first, second = (a if seen.recall(a) is None else seen.recall(a) for a in call.args)
        return first + second
    return NotImplemented


def _both_sums(*ways: str) -> tuple[str, ...]:
    return tuple(f"{one}-sum-{way}" for way in ways for one in ("first", "second"))


NORM_REPAIRS = (
    *(Repair(f"the eps of layer norm is {s}", partial(set_eps, float(s)), NORMS)
      for s in ("1e-12", "1e-5", "1e-6", "1e-8")),
    Repair("the variance of the norm divides by n, not by n - 1", divide_by_n, SPREADS, ("norm-n-1",)),
    *(Repair(f"the norm divides by sqrt(variance + {s}), the variance by n", partial(use_torch_layer_norm, float(s)),
             SPREADS, ("norm-n-1", "norm-by-variance")) for s in ("1e-5", "1e-6", "1e-12")),
    Repair("the norm runs over the width of each place", norm_over_width, MEANS,
           ("norm-over-places", "norm-over-batch", "norm-over-sentence", "norm-over-batch-and-places",
            "norm-over-everything")),
    Repair("a layer norm stands where it has a batch norm", replace_batch_norm, (F.batch_norm,), ("batch-norm",)),
    Repair("the norm subtracts the mean (layer norm, not RMS norm)", subtract_mean, (F.rms_norm,),
           ("norm-without-mean",)),
    Repair("the norm does not subtract the mean (RMS norm, not layer norm)", keep_mean, (F.layer_norm,)),
    Repair("norm_first is turned: the norm stands on the other side of its part", switch="norm_first",
           undoes=("norm-first",)),
    Repair("the norm is taken of the sum: norm(x + part)", partial(norm_of_sum, False), NORMS,
           _both_sums("norm-then-sum", "norm-of-the-input-only")),
    Repair("the norm is taken of the sum: norm(x + part)", partial(norm_of_sum, True), NORMS, ("norm-first",)),
)  # fmt: skip

SUM_REPAIRS = (
    Repair("the input of a part is added to what it gives, before the norm", add_input, NORMS,
           _both_sums("no-residual")),
    Repair("the input is added once, and not again", add_input_once, SUMS,
           _both_sums("residual-twice", "residual-again-after-the-norm")),
    Repair("each norm is taken once", norm_once, NORMS, _both_sums("norm-twice")),
    Repair("the input itself is added, not what its norm gave", add_stream, NORMS,
           _both_sums("adds-what-was-normalised")),
    Repair("input and part are added, not subtracted", partial(add_instead, DIFFERENCES), DIFFERENCES,
           _both_sums("subtracted")),
    Repair("input and part are added, not multiplied", partial(add_instead, TIMES), TIMES, _both_sums("multiplied")),
)  # fmt: skip
