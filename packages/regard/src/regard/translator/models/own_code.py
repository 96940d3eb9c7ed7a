"""Somebody's own translator from a file: ``my.py:NAME`` becomes something that the translator can train and score.

``NAME`` may be a class, a function that returns a module (or a class), or a module. A class is given every size whose
meaning its constructor's names tell (:mod:`regard.tracing.constructor_arguments`); a function only those that it has no
default for, since it may belong to weights of one size. What cannot be guessed is declared in the file, by
``REGARD = {"arguments": {"my_size": "width"}, "embedding": "words.weight"}``.

The file is run as your own code, with your rights: only name files that you trust.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.python_files import contain, load_named, neighbours_on_path
from regard.tracing.constructor_arguments import chosen_arguments, role_of
from regard.translator.models.own_translator import OwnCode, describe_error
from regard.translator.runs.settings import ARGUMENTS

LIMIT = 600.0  # seconds that making a model may take, loading its weights included


def load_code(spec: str) -> OwnCode:
    """The model that ``my.py:NAME`` names; its file is run once, now."""
    path = spec.rpartition(":")[0]
    with contain(spec, limit=LIMIT):
        module, thing = load_named(
            spec, template="regard claims translator --template {path}", like="my.py:TransformerTranslator"
        )
    declared = _declared_arguments(getattr(module, "REGARD", {}), spec)
    table = getattr(module, "REGARD", {}).get("embedding", "")
    asked_for: set[str] = set()
    if not (isinstance(thing, nn.Module) or callable(thing)):
        raise InputError(f"{spec} is a {type(thing).__name__}; name a class, a function that returns a module, or one.")

    def make(sizes: Mapping[str, Any]) -> nn.Module:
        with contain(spec, limit=LIMIT), neighbours_on_path(path):
            return _make_module(thing, declared, sizes, spec, asked_for)

    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    fresh = not isinstance(thing, nn.Module)
    return OwnCode(name=spec, path=path, digest=digest, make=make, fresh=fresh, table=str(table), asked_for=asked_for)


def own_from_class(thing: type[nn.Module], *, table: str = "") -> OwnCode:
    """A class that was written in a notebook or a session; ``table`` names its input embedding, as REGARD would."""
    if not (isinstance(thing, type) and issubclass(thing, nn.Module)):
        raise InputError(f"{thing!r:.60} is no class of torch modules; hand over the class, not a model made from it.")
    asked_for: set[str] = set()
    # of its methods, since a notebook's class has no file to read
    parts = [inspect.getsource(part) for part in vars(thing).values() if inspect.isfunction(part)]
    return OwnCode(
        name=thing.__name__,
        path="",
        digest=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        make=lambda sizes: _make_module(thing, {}, sizes, thing.__name__, asked_for),
        table=table,
        asked_for=asked_for,
    )


def _declared_arguments(declared: Any, spec: str) -> dict[str, Any]:
    arguments = declared.get("arguments", {}) if isinstance(declared, dict) else None
    if not isinstance(arguments, dict):
        raise InputError(
            f'{spec}: REGARD must look like {{"arguments": {{"my_size": "width"}}}}, not {declared!r:.60}.'
        )
    return arguments


def _make_module(
    thing: Any, declared: Mapping[str, Any], sizes: Mapping[str, Any], spec: str, asked_for: set[str]
) -> nn.Module:
    made = thing
    asked_for.clear()
    for _ in range(2):  # a function may return a class
        if not isinstance(made, nn.Module):
            made = _call_with_sizes(made, declared, sizes, spec, asked_for)
    if not isinstance(made, nn.Module):
        kind = "a class" if isinstance(made, type) else f"a {type(made).__name__}"
        raise InputError(f"{spec} gave {kind}; it must give a torch module that maps ids (N, T) to scores.")
    return made


def _call_with_sizes(
    thing: Any, declared: Mapping[str, Any], sizes: Mapping[str, Any], spec: str, asked_for: set[str]
) -> Any:
    if not callable(thing):
        return thing
    try:
        if isinstance(thing, type):
            chosen, used = chosen_arguments(thing, declared, sizes)
        else:
            taken = inspect.signature(thing).parameters
            chosen, _ = chosen_arguments(thing, {n: role for n, role in declared.items() if n in taken}, sizes)
            chosen = {n: value for n, value in chosen.items() if n in declared or taken[n].default is taken[n].empty}
            used = {declared.get(n) or role_of(n) or "": n for n in chosen}
    except (InputError, ValueError) as error:
        raise InputError(f"{spec}: {error}") from None
    given = sizes.get("arguments", {})
    if strange := [name for name in given if name not in inspect.signature(thing).parameters]:
        raise InputError(f"{spec} takes no argument {strange[0]!r}, which model.arguments gives; leave it out.")
    chosen |= given
    try:
        made = thing(**chosen)
        asked_for.update(used)  # a configuration object knows only now what was read from it
        asked_for.update(f"{ARGUMENTS}{name}" for name in inspect.signature(thing).parameters if not role_of(name))
        return made
    except (Exception, SystemExit) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in chosen.items()) or "nothing"
        raise InputError(
            f"{spec} raised {describe_error(error, spec.rpartition(':')[0])} when called with {given}; fix it first."
        ) from None
