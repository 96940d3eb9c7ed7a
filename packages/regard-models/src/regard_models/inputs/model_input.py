"""How a model is given: a module and an example of its inputs, and what is known of them.

| given as | what happens |
|---|---|
| a module, with an example (a tensor, a tuple, a dict) | used as it is |
| ``FILE.py:build`` | the file is run; ``build`` returns the module, or (module, example) |
| a Hugging Face folder, or ``huggingface:NAME@REVISION`` | read offline from the folder or from the cache |
| a run folder of our translator, or ``example``, the one in the package | opened with its best weights |

What the inputs mean is read off the names of ``forward``'s parameters (:mod:`.input_roles`) and, for Hugging
Face models, off their configuration (:mod:`regard_models.inputs.huggingface`). Whatever had to be assumed is said, in
:attr:`ModelInput.assumed`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error
from regard.python_files import contain, load_named, neighbours_on_path
from regard.translator.runs.files import run_folder
from regard_models.inputs.devices import check_device, move_inputs, place_module
from regard_models.inputs.input_roles import Polarity, Stream, streams_of, with_extras

HUGGING_FACE = "huggingface:"
Advance = Callable[[nn.Module, dict[str, Any], Any, int], tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelInput:
    """A module, inputs that it runs on, and what they mean.

    ``inputs`` go by the names of forward's parameters ("0", "1", ... where forward takes ``*args``). ``streams`` are
    the rows of tokens among them: one for an encoder or a decoder, two for both. ``tokens`` are the words of a text,
    ``target_tokens`` those that a decoder has written. ``advance`` writes with a cache for which forward has no
    parameter: advance(module, inputs, past, start) runs the module on the next tokens, with ``start`` tokens behind
    them and ``past`` what its last call returned (None: begin anew), and returns (answer, past).
    """

    name: str
    module: nn.Module
    inputs: dict[str, Any]
    streams: tuple[Stream, ...]
    batch_first: bool = True
    tokenizer: Any = None
    tokens: list[list[str]] | None = None
    target_tokens: list[list[str]] | None = None
    assumed: tuple[str, ...] = ()
    advance: Advance | None = None

    def run(self) -> Any:
        """What the module returns for the example; an InputError where it cannot run on it."""
        return run_once(self.module, self.inputs, self.name)


def model_input(
    module: nn.Module,
    inputs: Any = None,
    *,
    causal: bool | None = None,
    masks: Mapping[str, str] | None = None,
    text: str | None = None,
    tokenizer: Any = None,
    name: str | None = None,
    pad: int | None = None,
) -> ModelInput:
    """A module from Python, with an example of its inputs: a tensor, a tuple or a dict.

    Hugging Face models, torch.nn's own and our translators need no example. ``causal`` claims that no place reads
    later ones; ``masks`` says of a mask's parameter what True means there: "keep" (may be read) or "hide", or "add"
    for one that is added to the scores. ``pad`` is the id by which a model without a mask knows padding.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"A model must be a torch module, not {_kind(module)}; build it first.")
    from regard_models.inputs import huggingface, translators

    label = name or type(original(module)).__name__
    polarity = _polarities(masks or {}, module)
    if inputs is not None and huggingface.reads_signals(module):
        given = ModelInput(name=label, module=module, inputs=bind(module, inputs, label), streams=())
    elif huggingface.is_huggingface(module):
        given = huggingface.derive(module, label, text=text, tokenizer=tokenizer)
        if inputs is not None:
            given = replace(given, inputs=bind(module, inputs, label))
    elif inputs is None and translators.is_translator(module):
        given = translators.derive(module, label, text=text, run=tokenizer)
    elif text is not None:
        raise InputError(f"{label} has no tokenizer that is known here: leave the text out and give an example of ids.")
    else:
        given = _from_example(module, inputs, label, polarity)
    _refuse_masks_of_tokens(given, masks or {})
    if huggingface.is_huggingface(module) and all(stream.name in given.inputs for stream in given.streams):
        given = replace(given, streams=with_extras(given.streams, given.inputs, batch_first=True))
    given = with_causality(replace(given, tokenizer=given.tokenizer or tokenizer), causal=causal)
    return given if pad is None else with_padding_id(given, pad)


def with_padding_id(given: ModelInput, pad: int) -> ModelInput:
    """The same, where every row of ids is padded by an id; a stream with a mask is told by that all the same."""
    known = [s for s in given.streams if s.vocabulary is not None]
    most = min((s.vocabulary or 0 for s in known), default=0)
    if not 0 <= pad < most:
        kind = f"an id from 0 to {most - 1:,}" if known else "an id, and this model takes none"
        raise InputError(f"{given.name}: the padding {pad} must be {kind}.")
    told = {s.name: replace(s, pad=pad, avoid=s.avoid | {pad}, padded_by_id=not s.masks) for s in known}
    return replace(given, streams=tuple(told.get(s.name, s) for s in given.streams))


def with_causality(given: ModelInput, *, causal: bool | None) -> ModelInput:
    """The same, with the claim about causality taken from the user, where there is one."""
    if causal is None:
        return given
    if not given.streams:
        raise InputError(f"{given.name}: no input is known to be a row of tokens, so nothing is later than another; "
                         "leave the claim about causality out.")  # fmt: skip
    last = replace(given.streams[-1], causal=causal)
    rest = tuple(a for a in given.assumed if "causal" not in a)  # the user has said it: nothing is assumed any more
    return replace(given, streams=(*given.streams[:-1], last), assumed=rest)


def load(
    spec: str,
    *,
    causal: bool | None = None,
    masks: Mapping[str, str] | None = None,
    text: str | None = None,
    device: str = "cpu",
    limit: float = 60.0,
    cache: str | None = None,
    pad: int | None = None,
) -> ModelInput:
    """The model that the command line names; ``limit`` is how many seconds the user's file may take to build it.

    ``cache`` names a function FILE.py:advance that writes with a cache (see :class:`ModelInput`).

    A ``FILE.py`` is run as your own code, with your rights: only name files that you trust.
    """
    from regard_models.inputs import huggingface, translators

    check_device(device)
    inputs: Any = None
    tokenizer = None
    advance = load_advance(cache, limit=limit) if cache is not None else None
    if spec.startswith(HUGGING_FACE):
        module, tokenizer = huggingface.load(spec.removeprefix(HUGGING_FACE), tokenizer_needed=text is not None)
    elif (folder := run_folder(spec)).is_dir():
        if translators.is_run(folder):
            module, tokenizer = translators.load(folder)
        else:
            module, tokenizer = huggingface.load_folder(folder, tokenizer_needed=text is not None)
    else:
        module, inputs, own = build_from_file(spec, limit=limit)
        advance = advance or own
    module, first, note = place_module(module, device)
    given = model_input(module, inputs, causal=causal, masks=masks, text=text, tokenizer=tokenizer, name=spec, pad=pad)
    given = replace(
        given,
        inputs=move_inputs(given.inputs, first),
        assumed=(*given.assumed, *([note] if note else [])),
        advance=advance,
    )
    refuse_nan(given)
    with contain(f"{spec}, run on its example,", limit=limit):
        given.run()
    return given


def refuse_nan(given: ModelInput) -> None:
    """Weights that are no numbers make every answer NaN: nothing can be learned from such a model."""
    for name, value in given.module.state_dict().items():
        if not isinstance(value, Tensor):  # what get_extra_state gives, or the packed weights of a quantized layer
            continue
        spoilt = value.is_floating_point() and not math.isfinite(float(value.sum(dtype=torch.float64)))
        if spoilt and not _is_mask(value):
            raise InputError(f"{given.name}: the weight {name} holds NaN or infinity; load or train it anew.")


def _is_mask(value: Tensor) -> bool:
    """A buffer of zeros and minus infinities is a mask."""
    return bool(((value == 0) | (value == -torch.inf)).all())


def load_advance(spec: str, *, limit: float) -> Advance:
    """The function that ``FILE.py:advance`` names."""
    path = spec.rpartition(":")[0]
    with contain(spec, limit=limit), neighbours_on_path(path):
        found: Advance = load_named(spec, template="an editor")[1]
    if not callable(found):
        raise InputError(f"{spec} is {_kind(found)}; it must be a function advance(module, inputs, past, start).")
    return found


def build_from_file(spec: str, *, limit: float) -> tuple[nn.Module, Any, Advance | None]:
    """What ``FILE.py:build`` returns: the module, and where it gives them the example and ``advance``."""
    path, colon, _ = spec.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise InputError(
            f"{spec!r} names no model: give FILE.py:build, a folder with config.json, a run folder, "
            f"example (our own small translator), or {HUGGING_FACE}NAME@REVISION."
        )
    with contain(spec, limit=limit), neighbours_on_path(path):
        build = load_named(spec, template="regard example model > {path}")[1]
        if isinstance(build, nn.Module):
            return build, None, None
        if not callable(build):
            raise InputError(f"{spec} is {_kind(build)}; it must be a function that returns a torch module.")
        try:
            made = build()
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"{spec} raised {describe_error(error)} while building the model; fix it first.") from None
    return model_parts(made, spec)


def model_parts(made: Any, spec: str) -> tuple[nn.Module, Any, Advance | None]:
    """What a builder returned: the module, and where it gives them the example and ``advance``."""
    parts = made if isinstance(made, tuple) and len(made) in (2, 3) else (made, None)
    module, example, advance = (*parts, None)[:3]
    if not isinstance(module, nn.Module) or not (advance is None or callable(advance)):
        raise InputError(
            f"{spec} returned {_kind(made)}; it must return a torch module, (module, example inputs), or "
            "(module, example inputs, advance)."
        )
    return module, example, advance


def run_once(module: nn.Module, inputs: Mapping[str, Any], name: str) -> Any:
    """The module's answer without gradients, or one sentence on why there is none."""
    try:
        with torch.no_grad():  # on copies: a model may write into what it is given
            return call(module, {k: v.clone() if isinstance(v, Tensor) else v for k, v in inputs.items()})
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        shapes = ", ".join(f"{key} {_shape(value)}" for key, value in inputs.items())
        raise InputError(
            f"{name} raised {describe_error(error)} when called with {shapes or 'nothing'}; "
            "give an example that it takes."
        ) from None


def call(module: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """The module called with inputs by name; names that are numbers go by place, names with a dot into a dict."""
    inputs = _nest_inputs(inputs)
    places = [value for key, value in inputs.items() if key.isdigit()]
    return module(*places, **{key: value for key, value in inputs.items() if not key.isdigit()})


def _nest_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """{"batch.ids": x} as {"batch": {"ids": x}}."""
    nested: dict[str, Any] = {}
    for key, value in inputs.items():
        outer, dot, inner = key.partition(".")
        if dot:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[key] = value
    return nested


def parameter_names(module: nn.Module) -> dict[str, inspect.Parameter]:
    """The parameters of forward, in order, without self; wrappers are looked through."""
    try:
        return dict(inspect.signature(original(module).forward).parameters)
    except (TypeError, ValueError):
        return {}


def original(module: nn.Module) -> nn.Module:
    """The module inside ``torch.compile``'s and DataParallel's wrappers."""
    while (inner := getattr(module, "_orig_mod", None)) is not None:
        module = inner
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return original(module.module)
    return module


def _from_example(module: nn.Module, inputs: Any, label: str, polarity: Mapping[str, Polarity]) -> ModelInput:
    from regard_models.inputs import torch_layers

    assumed: list[str] = []
    if inputs is None:
        inputs, why = torch_layers.example_for(module, label)
        assumed.append(why)
    named = bind(module, inputs, label)
    batch_first = torch_layers.is_batch_first(module)
    if not batch_first:
        assumed.append("the first axis of its inputs is the place and the second the batch (batch_first=False)")
    streams, notes = streams_of(module, named, parameter_names(module), polarity, batch_first=batch_first)
    if not any(isinstance(value, Tensor) for value in named.values()):
        raise InputError(f"{label}: the example has no tensor; give a tensor, a tuple or a dict of them.")
    if not streams:
        notes = ["no input looks like rows of tokens (ids, batch x length; or vectors, batch x length x width)"]
    return ModelInput(
        name=label, module=module, inputs=named, streams=streams, batch_first=batch_first, assumed=(*assumed, *notes)
    )


def bind(module: nn.Module, inputs: Any, label: str) -> dict[str, Any]:
    """The example by the names of forward's parameters."""
    if isinstance(inputs, Mapping):
        return _flatten_inputs(_wrap_single_parameter(module, inputs))
    values = [_tensor(value) for value in (inputs if isinstance(inputs, (tuple, list)) else (inputs,))]
    named = [n for n, p in parameter_names(module).items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(values) > len(named):  # forward(*inputs) takes them by place
        if any(p.kind is p.VAR_POSITIONAL for p in parameter_names(module).values()) or not named:
            return {str(i): value for i, value in enumerate(values)}
        raise InputError(f"{label}: the example has {len(values)} inputs, and forward takes {len(named)}; give fewer.")
    return _flatten_inputs(dict(zip(named, values, strict=False)))


def _wrap_single_parameter(module: nn.Module, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dict for a forward whose only parameter is one, as forward(batch) is."""
    names = [n for n, p in parameter_names(module).items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return {names[0]: inputs} if len(names) == 1 and names[0] not in inputs else inputs


def _flatten_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name; those in a dict that forward takes have a dot in theirs."""
    flat: dict[str, Any] = {}
    for key, value in inputs.items():
        if isinstance(value, Mapping):
            flat.update({f"{key}.{inner}": _tensor(v) for inner, v in value.items()})
        else:
            flat[str(key)] = _tensor(value)
    return flat


def _polarities(masks: Mapping[str, str], module: nn.Module) -> dict[str, Polarity]:
    known = parameter_names(module)
    for name, word in masks.items():
        if word not in Polarity.__members__:
            raise InputError(f"The mask {name} is said to {word!r}; say keep, hide or add, as in {name}=keep.")
        if known and name not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise InputError(f"forward has no parameter {name!r} that could be a mask; it has {', '.join(known)}.")
    return {name: Polarity[word] for name, word in masks.items()}


def _refuse_masks_of_tokens(given: ModelInput, masks: Mapping[str, Any]) -> None:
    if wrong := [stream.name for stream in given.streams if stream.name in masks]:
        raise InputError(f"{given.name}: {wrong[0]} is said to be a mask, and holds the tokens; name another input.")


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}"
    return repr(value)[:40]


def _kind(thing: Any) -> str:
    if isinstance(thing, type):
        return f"a class ({thing.__name__})"
    return "None" if thing is None else f"a {type(thing).__name__}"
