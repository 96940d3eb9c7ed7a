"""Every operator that a model runs passes here: attention calls are recognised, named and handed on.

A ``TorchDispatchMode`` sits below autograd and above the kernels. It changes neither which kernel runs nor what it
gets, so what comes out is bit for bit the same. Two things hide kernels from it, and both are lifted:

* Under ``inference_mode`` composite operators arrive whole. Those that may hold attention are taken apart by their
  own C++ definition. The others are run whole; ``linear`` needs the views that torch would make without us, because
  its choice between two matrix products hangs on whether the weight's transpose counts as trainable.
* Compiled code and flex attention are run eagerly (``set_stance("force_eager")``) while the watch lasts.

Which module is running: global hooks, because hooks on the modules themselves switch torch.nn's fast paths off.

A hook on a module makes ``nn.TransformerEncoderLayer`` take its slow path, and another kernel would run than without
us. Global hooks do not. Names are dotted paths from the model down; what ``torch.compile`` wraps (``_orig_mod``) is
left out of them.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import DispatchKey
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from regard.errors import RegardError
from regard_models.kernels.attention_call import AttentionCall, Result
from regard_models.kernels.fused_kernels import bind, flex_call, fused_call
from regard_models.kernels.native import native_call
from regard_models.kernels.product import Surroundings, product_call, summed_call
from regard_models.kernels.tensor_marks import PRODUCTS, Marks

_COMPOSITE = DispatchKey.CompositeImplicitAutograd
_OUR_DOING = ("Using `torch.compile", "flex_attention called without torch.compile")  # hooks, and eager runs
_EAGER = ("torch._dynamo", "torch.nn.attention.flex_attention")  # where these are not loaded nothing is compiled


class WatchError(RuntimeError):
    """Something went wrong in the watching, not in the model that is watched."""


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches one model; derived classes say what to do with a call in :meth:`handle_attention`."""

    supports_higher_order_operators = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper against compilation, which would import two seconds of compiler: nothing is compiled here."""
        return False

    def __init__(self, model: nn.Module, *, keep_pairs: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stack, self.sites = ModuleStack(model), Sites()
        self.marks = Marks(model, keep_pairs=keep_pairs)
        self.foreign: dict[str, set[str]] = {}  # operators that are not torch's own, by the module that ran them
        self.unshaped: set[str] = set()  # modules that multiply scores with values without a softmax or a mask
        self._around: contextlib.ExitStack | None = None
        self._depth = 0

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        """Take note of a call, or return another result for it."""
        raise NotImplementedError

    def new_run(self) -> None:
        """The model begins to run, perhaps again: calls are counted from the start."""
        self.sites.new_run()

    def handle_operator(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        """Take note of an operator that is no attention call, or return another result for it."""
        return result

    def __enter__(self) -> Watch:
        if self._depth == 0:
            self._around = contextlib.ExitStack()
            self._around.enter_context(self.stack)
            self.stack.on_run = self.new_run
            if any(name in sys.modules for name in _EAGER):
                self._around.enter_context(torch.compiler.set_stance("force_eager"))
                self._around.enter_context(warnings.catch_warnings())
                for ours in _OUR_DOING:
                    warnings.filterwarnings("ignore", message=ours)
        self._depth += 1
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._depth -= 1
        if self._depth == 0 and self._around is not None:
            self._around.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled() and operator_name(func) in _TAKEN_APART:
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        with _remember_views(func):
            result = func(*args, **kwargs)
        if any(t.__name__ in ("FakeTensor", "FunctionalTensor") for t in types):
            return result
        with _pause_watching():
            return self._inspect(func, args, kwargs, result)

    def _inspect(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> Result:
        if _is_empty(result):  # no examples or no tokens: nothing reads anything
            return result
        name = operator_name(func)
        try:
            call = self._call(func, name, args, kwargs, result)
            if call is not None:
                return self.handle_attention(call, result)
            self.marks.follow(name, args, kwargs, result)
            return self.handle_operator(name, args, kwargs, result)
        except RegardError:
            raise
        except Exception as error:  # ours, in the middle of somebody's model: it must not look like theirs
            raise WatchError(f"{name} in {self.stack.name or 'the model'} was not understood: {error}") from error

    def _call(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result
    ) -> AttentionCall | None:
        around = Surroundings(self.stack.running[::-1], self.stack.batch)
        if name == "sum":
            return summed_call(args, result, self.marks, around)
        if name in PRODUCTS:
            call = product_call(name, args, result, self.marks, around)
            if call is None and any(mark and not mark.is_weight_candidate for mark in map(self.marks.get, args[:2])):
                self.unshaped.add(self.stack.name)
            return call
        if not hasattr(func, "_schema"):
            return flex_call(func, args, kwargs, result)
        if name in _PLAIN or len(func._schema.arguments) < 5:
            return None
        bound = bind(func, args, kwargs)
        found_call = native_call(func, bound, result) or fused_call(func, bound, result)
        if found_call is None and func.namespace not in ("aten", "prim", "prims"):
            self.foreign.setdefault(self.stack.name, set()).add(str(func))
        return found_call


_TAKEN_APART = {"matmul", "einsum", "tensordot", "scaled_dot_product_attention", "_scaled_dot_product_attention_math"}
_PROJECTIONS = {"linear", "lstm", "gru", "rnn_tanh", "rnn_relu"}
_PLAIN = {"addmm", "convolution", "native_layer_norm", "clone", "_to_copy", "empty_like"}


def _is_empty(result: Result) -> bool:
    out = result[0] if isinstance(result, (tuple, list)) and result else result
    return isinstance(out, Tensor) and not out.is_nested and out.numel() == 0


def _pause_watching() -> contextlib.AbstractContextManager[Any]:
    """Nobody sees what we compute for ourselves: not another watch around this one."""
    around: int = torch._C._len_torch_dispatch_stack()
    return _disable_current_modes() if around else contextlib.nullcontext()


def _remember_views(func: Any) -> contextlib.AbstractContextManager[None]:
    """Lets an operator's own transposes remember what they are views of; for results that are no views themselves."""
    if not torch.is_inference_mode_enabled() or operator_name(func) not in _PROJECTIONS:
        return contextlib.nullcontext()
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    guard: Any = torch._C._ForceDispatchKeyGuard(include, exclude.remove(DispatchKey.ADInplaceOrView))
    return guard  # type: ignore[no-any-return]


def operator_name(func: Any) -> str:
    """``aten::softmax.int`` is called softmax."""
    packet = getattr(func, "overloadpacket", None)
    return str(getattr(packet, "__name__", None) or getattr(func, "__name__", func))


def is_inside(module: str, name: str) -> bool:
    """Whether a module's name is the given one or lies below it."""
    return module == name or module.startswith(name + ".")


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
