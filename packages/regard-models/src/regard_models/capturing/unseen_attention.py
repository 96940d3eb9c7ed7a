"""What could not be captured: modules that look like attention, ran, and left nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch import nn

from regard_models.capturing.records import UnseenModule

if TYPE_CHECKING:
    from regard_models.capturing.dispatch_watch import Watch

_WORDS = ("attention", "attn")
_PARTS = (nn.Linear, nn.Dropout, nn.LayerNorm, nn.Identity, nn.Softmax, nn.Embedding, nn.ModuleList, nn.Sequential)


def unseen_modules(watch: Watch, emitted: Iterable[str]) -> tuple[UnseenModule, ...]:
    """The innermost modules that are called attention, ran, and in which no attention was seen."""
    heard = {name for module in emitted for name in _with_ancestors(module)}
    silent = [
        name for name, module in watch.stack.ran.items() if name not in heard and _looks_like_attention(name, module)
    ]
    innermost = [name for name in silent if not any(other != name and _is_inside(other, name) for other in silent)]
    return tuple(UnseenModule(module=name, why=_reason(watch, name)) for name in innermost)


def _looks_like_attention(name: str, module: nn.Module) -> bool:
    kind = type(module).__name__.lower()
    own = kind if next(module.children(), None) is None else f"{name.rpartition('.')[2].lower()} {kind}"
    plain = isinstance(module, _PARTS) or any(part in own for part in ("norm", "dropout", "mask", "output", "proj"))
    return any(word in own for word in _WORDS) and not plain


def _reason(watch: Watch, name: str) -> str:
    foreign = sorted(op for module, ops in watch.foreign.items() if _is_inside(module, name) for op in ops)
    if foreign:
        return f"it ran {', '.join(foreign)}, an operator that is not known here"
    if any(_is_inside(module, name) for module in watch.unshaped):
        return (
            "what it multiplies the values by is no softmax's: as in linear attention, which has no weights, or where "
            "heads are mixed after their softmax"
        )
    return (
        "it ran, but no weights were seen: linear attention has none, and a kernel outside torch's operators hides them"
    )


def _is_inside(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".") or name == ""


def _with_ancestors(module: str) -> list[str]:
    parts = module.split(".")
    return ["", *(".".join(parts[: n + 1]) for n in range(len(parts)))]
