"""Which module is running: global hooks, because hooks on the modules themselves switch torch.nn's fast paths off.

A hook on a module makes ``nn.TransformerEncoderLayer`` take its slow path, and another kernel would run than without
us. Global hooks do not. Names are dotted paths from the model down; what ``torch.compile`` wraps (``_orig_mod``) is
left out of them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModuleStack:
    """The modules of one model that are running now, outermost first; a context manager."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(module): clean_name(name) for name, module in reversed([*model.named_modules()])}
        self.roots = {id(module) for module in (model, getattr(model, "_orig_mod", model))}
        self.running: list[nn.Module] = []
        self.ran: dict[str, nn.Module] = {}  # every module that ran, by name
        self.runs = 0  # how often the model itself was called
        self.batch: int | None = None
        self.on_run: Callable[[], None] = lambda: None
        self._entered = ExitStack()

    def __enter__(self) -> ModuleStack:
        self._entered.enter_context(warnings.catch_warnings())
        # torch warns that a compiled module fires global hooks once more than its original: ours take that well
        warnings.filterwarnings("ignore", message="Using `torch.compile", category=UserWarning)
        self._entered.callback(register_module_forward_pre_hook(self._enter).remove)
        self._entered.callback(register_module_forward_hook(self._leave, always_call=True).remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()
        self.running.clear()

    @property
    def name(self) -> str:
        """The innermost running module; empty for the model itself and where names are lost (traces, exports)."""
        return self.names[id(self.running[-1])] if self.running else ""

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if id(module) not in self.names:
            return
        if id(module) in self.roots and not any(id(m) in self.roots for m in self.running):
            self.runs += 1
            self.on_run()
        if self.batch is None:
            self.batch = next((a.shape[0] for a in args if isinstance(a, Tensor) and not a.is_nested and a.dim()), None)
        self.running.append(module)
        self.ran[self.names[id(module)]] = module

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.running and self.running[-1] is module:
            self.running.pop()


class Sites:
    """Numbers for attention calls: the n-th call of a module within one run of the model is one site, for ever."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self.here: Counter[str] = Counter()  # calls in this run
        self.calls: Counter[str] = Counter()  # calls in all

    def new_run(self) -> None:
        self.here.clear()

    def next(self, module: str) -> tuple[int, int]:
        """The site's number and how often its module was called before."""
        key = (module, self.here[module])
        self.here[module] += 1
        self.calls[module] += 1
        return self.numbers.setdefault(key, len(self.numbers)), self.calls[module] - 1


def clean_name(name: str) -> str:
    """A dotted path without what wrappers put into it.

    >>> clean_name("_orig_mod.layers.0._orig_mod.attention")
    'layers.0.attention'
    """
    return ".".join(part for part in name.split(".") if part not in ("_orig_mod", "_checkpoint_wrapped_module"))
