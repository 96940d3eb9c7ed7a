"""A tool of ours that goes into the jail with a person's model: it runs the model, and hands back bytes.

A function is called with arrays and returns one; a model has to be built, watched and asked many things. The tool does
that inside. Its modules are sent as text, so that nothing else of regard is there to be read, and the same way in every
tier. The person's code runs in the same process and can change the tool: what comes back is a claim, judged outside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import Any

from regard.errors import InputError
from regard.sandbox.interpreter import PACKAGES

OURS = ("regard", "regard_models")
ALSO = ("einops", "safetensors")  # what many a Transformer is written with, and its weights
NO_TORCH = "needs torch: pip install 'regard[torch]'."


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Modules of regard; the one called ``module`` has answered(thing, file, asked), which returns bytes."""

    module: str
    doing: str  # in words, for whoever has no torch
    beside: tuple[str, ...] = ()  # what it imports of regard only when it needs it
    imports: tuple[str, ...] = ("torch", "torch._dynamo")  # before the jail is closed; torch would, later, by itself
    addresses: int = 4 * 2**30  # of one process; torch itself takes one
    memory: int = 3 * 2**30  # of everything that it starts, where the system bounds that
    starts_within: int = 180  # seconds more than without

    def packages(self) -> tuple[str, ...]:
        """What can be imported beside it."""
        return (*PACKAGES, *with_requirements("torch"), *ALSO)

    def payload(self) -> dict[str, Any]:
        """What the inside needs of it."""
        if not with_requirements("torch"):
            raise InputError(f"{self.doing} {NO_TORCH}")
        texts = {name: text for root in (*self.beside, self.module) for name, text in required_sources(root).items()}
        return {"module": self.module, "texts": texts, "imports": [*self.imports]}


@cache
def required_sources(module: str) -> dict[str, str]:
    """The sources of a module of regard and of what it imports from regard, which are not imported for that."""
    sources: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = _source_file(name).read_text(encoding="utf-8")
            waiting += _regard_imports(sources[name])
    return sources


def _regard_imports(text: str) -> Iterator[str]:
    """The modules of regard that a source imports as soon as it is imported itself."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if _source_file(below).is_file() else str(node.module)


def _source_file(module: str) -> Traversable:
    top, *below = module.split(".")
    folder = resources.files(top)
    for part in below[:-1]:
        folder = folder / part
    last = f"{below[-1]}.py" if below else "__init__.py"
    own = folder / last
    return own if own.is_file() or not below else folder / below[-1] / "__init__.py"


@cache
def with_requirements(name: str) -> tuple[str, ...]:
    """An installed distribution and those that it requires, as far as they are installed; () without it.

    >>> with_requirements("no-such-thing")
    ()
    """
    ordered: dict[str, None] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        try:
            needs = metadata.requires(one) or []
        except metadata.PackageNotFoundError:
            continue
        if one not in ordered:
            ordered[one] = None
            waiting += [re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0] for need in needs if "extra ==" not in need]
    return tuple(ordered)
