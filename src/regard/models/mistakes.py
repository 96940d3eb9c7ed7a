"""Usual mistakes of a port, each undone on the fly: is the model equal to its original if ...?

A mistake is a rule that rewrites single calls of torch functions while the model runs (:mod:`regard.models.rewrites`)
or a switch of its submodules that is turned for one run; the model is not edited. If the answers agree under a rule
and not without it, the rule names the mistake.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from regard.models import rewrites as rules
from regard.models.rewrites import Make, Rewrite


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """words: "equal if ...". make: the rule. calls: the functions that it rewrites; without any of them there is
    nothing to try. switch: an attribute of submodules that is turned instead of a rule."""

    words: str
    make: Make | None = None
    calls: tuple[Any, ...] = field(default=())
    switch: str = ""


class Rewritten(TorchFunctionMode):
    """Runs torch functions under a rule."""

    def __init__(self, rewrite: Rewrite) -> None:
        super().__init__()
        self.rewrite = rewrite

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        made = self.rewrite(func, tuple(args), kwargs)
        return func(*args, **kwargs) if made is NotImplemented else made


@contextlib.contextmanager
def undone(mistake: Mistake, module: nn.Module) -> Iterator[None]:
    """Run what is inside with the mistake undone."""
    turned = [m for m in module.modules() if isinstance(getattr(m, mistake.switch or " ", None), bool)]
    for m in turned:
        setattr(m, mistake.switch, not getattr(m, mistake.switch))
    try:
        with contextlib.nullcontext() if mistake.make is None else Rewritten(mistake.make()):
            yield
    finally:
        for m in turned:
            setattr(m, mistake.switch, not getattr(m, mistake.switch))


@contextlib.contextmanager
def noting_calls() -> Iterator[set[Any]]:
    """The torch functions that are called inside."""
    called: set[Any] = set()

    def note(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called.add(func)
        return NotImplemented

    with Rewritten(note):
        yield called


def worth_trying(called: set[Any], module: nn.Module) -> Iterator[Mistake]:
    """The mistakes that a run with these calls could have made."""
    for mistake in MISTAKES:
        if mistake.switch:
            if any(isinstance(getattr(m, mistake.switch, None), bool) for m in module.modules()):
                yield mistake
        elif any(call in called for call in mistake.calls):
            yield mistake


_SCALED = "scores are scaled by 1/sqrt(width of a head)"
_LESS = "scores are scaled by 1/sqrt(width of a head) once less (not at all, or not twice)"
_NOT_SCALED = "scores are not scaled"
_NORMS = (F.layer_norm, F.rms_norm)
_EMBEDDING = (F.embedding,)


def _quick(x: Any) -> Any:
    return x * (1.702 * x).sigmoid()


MISTAKES = (
    Mistake(
        words="keys and values are repeated with repeat_interleave, not with repeat",
        make=rules.interleaved,
        calls=rules.REPEATS,
    ),
    Mistake(
        words="keys and values are repeated with repeat, not with repeat_interleave",
        make=rules.repeated,
        calls=rules.REPEATS,
    ),
    Mistake(
        words="GELU is computed exactly, not by its tanh approximation", make=rules.gelu("none"), calls=(F.gelu,)
    ),
    Mistake(
        words="GELU is computed by its tanh approximation, not exactly", make=rules.gelu("tanh"), calls=(F.gelu,)
    ),
    Mistake(words="the activation is GELU", make=rules.activation(F.gelu, F.relu, F.silu), calls=(F.relu, F.silu)),
    Mistake(words="the activation is ReLU", make=rules.activation(F.relu, F.gelu, F.silu), calls=(F.gelu, F.silu)),
    Mistake(words="the activation is SiLU", make=rules.activation(F.silu, F.gelu, F.relu), calls=(F.gelu, F.relu)),
    Mistake(words="the activation is x sigmoid(1.702 x)", make=rules.activation(_quick, F.gelu), calls=(F.gelu,)),
    *(Mistake(words=f"the eps of layer norm is {s}", make=rules.eps(float(s)), calls=_NORMS)
      for s in ("1e-12", "1e-5", "1e-6", "1e-8")),
    Mistake(words="norm_first is turned: the norm stands on the other side of its part", switch="norm_first"),
    Mistake(words="attention is causal", make=rules.sdpa(is_causal=True), calls=rules.SDPA),
    Mistake(words="attention is causal", make=rules.scores(rules.causal), calls=rules.SOFTMAX),
    Mistake(words="attention is not causal", make=rules.sdpa(is_causal=False), calls=rules.SDPA),
    Mistake(words=_NOT_SCALED, make=rules.sdpa(scale=1.0), calls=rules.SDPA),
    Mistake(words=_SCALED, make=rules.sdpa(scale=None), calls=rules.SDPA),
    Mistake(words=_SCALED, make=rules.scores(lambda x, d: x / math.sqrt(d)), calls=rules.SOFTMAX),
    Mistake(words=_LESS, make=rules.scores(lambda x, d: x * math.sqrt(d)), calls=rules.SOFTMAX),
    Mistake(
        words=f"{_SCALED}, not of the whole model",
        make=rules.scores(lambda x, d: x * math.sqrt(x.shape[1]) if x.ndim == 4 else x),
        calls=rules.SOFTMAX,
    ),
    Mistake(words="softmax runs over the keys, the last axis", make=rules.softmax_over_keys, calls=rules.SOFTMAX),
    Mistake(words="keys and values are exchanged", make=rules.exchanged, calls=rules.SDPA),
    Mistake(
        words="the mask is turned round: what it hides is kept, and what it keeps is hidden",
        make=rules.inverted,
        calls=(*rules.FILLS, *rules.SDPA),
    ),
    Mistake(
        words="hidden keys get minus infinity, not a large negative number",
        make=rules.hidden_by_infinity,
        calls=rules.FILLS,
    ),
    Mistake(words="the triangle of the mask begins one higher", make=rules.diagonal(1), calls=rules.TRIANGLES),
    Mistake(words="the triangle of the mask begins one lower", make=rules.diagonal(-1), calls=rules.TRIANGLES),
    Mistake(
        words="heads are split by view(batch, length, heads, width) and transpose(1, 2)",
        make=rules.split_heads,
        calls=rules.VIEWS,
    ),
    Mistake(words="heads are merged by transpose(1, 2) and reshape", make=rules.merged_heads, calls=rules.VIEWS),
    *(Mistake(words=f"positions are counted from {n}", make=rules.counted_from(n), calls=_EMBEDDING)
      for n in (0, 1, 2)),
    Mistake(words="token vectors are multiplied by sqrt(width)", make=rules.token_vectors(math.sqrt), calls=_EMBEDDING),
    Mistake(
        words="token vectors are not multiplied by sqrt(width)",
        make=rules.token_vectors(lambda d: 1 / math.sqrt(d)),
        calls=_EMBEDDING,
    ),
)  # fmt: skip
