"""Which weights and submodules of two models belong together: by name, after a map of beginnings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard_models.auditing.subject import Subject
from regard_models.inputs.model_input import original


class Pairing:
    """Which weights and submodules of two models belong together: by name, after a map of beginnings."""

    def __init__(self, mine: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
        self.mine, self.theirs, self.names = mine, theirs, names
        state, other = dict(mine.named_parameters()), dict(theirs.named_parameters())
        self.modules = dict(theirs.named_modules())
        for begin, target in names.items():
            if not any(_is_inside(name, begin) for name in state):
                raise InputError(f"The map says {begin}={target}, and no weight of the first model begins so.")
        self.pairs = {n: self.partner_name(n) for n in state if self.partner_name(n) in other}
        self.shapes = {n: (state[n].shape, other[t].shape) for n, t in self.pairs.items()}
        self._alone = [n for n in state if n not in self.pairs]

    def partner_name(self, name: str) -> str:
        """The name in the second model."""
        for begin in sorted(self.names, key=len, reverse=True):
            if _is_inside(name, begin):
                return (self.names[begin] + name[len(begin) :]).strip(".")
        return name

    def different_weights(self) -> tuple[str, ...]:
        """Paired weights that are not the same numbers."""
        state, other = dict(self.mine.named_parameters()), dict(self.theirs.named_parameters())
        return tuple(
            n for n, t in self.pairs.items()
            if state[n].shape != other[t].shape or not torch.equal(state[n].double(), other[t].double())
        )  # fmt: skip

    def different_buffers(self) -> tuple[str, ...]:
        """Buffers of the same name (tables of rotations, masks) that are not the same numbers."""
        mine, theirs = dict(self.mine.named_buffers()), dict(self.theirs.named_buffers())
        pairs = {n: (value, theirs.get(self.partner_name(n))) for n, value in mine.items()}
        return tuple(n for n, (x, y) in pairs.items() if y is not None and not _is_same(x, y))

    def buffer(self, name: str) -> tuple[Tensor, Tensor]:
        """A buffer of the first model, and its partner."""
        return dict(self.mine.named_buffers())[name], dict(self.theirs.named_buffers())[self.partner_name(name)]

    @contextlib.contextmanager
    def borrow_buffers(self, source: Subject, target: Subject) -> Iterator[None]:
        """Run what is inside with the second model's buffers in the first, wherever they differ and have one shape."""
        into, other = dict(original(target.module).named_buffers()), dict(original(source.module).named_buffers())
        kept = {n: into[n].clone() for n in self.different_buffers()}
        try:
            for name in kept:
                into[name].copy_(other[self.partner_name(name)])
            yield
        finally:
            for name, values in kept.items():
                into[name].copy_(values)

    def unpaired_weights(self) -> tuple[str, ...]:
        return tuple(self._alone)

    def copy_weights(self, source: Subject, target: Subject) -> None:
        """Put the second model's weights into the copies of the first that the comparison works on."""
        for native in (True, False):
            into = dict(original(target.native if native else target.module).named_parameters())
            from_ = dict(original(source.native if native else source.module).named_parameters())
            with torch.no_grad():
                for name, partner in self.pairs.items():
                    if into[name].shape == from_[partner].shape:
                        into[name].copy_(from_[partner])


def _is_same(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.equal(x.double(), y.double())


def _is_inside(name: str, begin: str) -> bool:
    return not begin or name == begin or name.startswith(begin + ".")


def parsed_names(words: list[str] | None) -> dict[str, str]:
    """MINE=THEIRS and so on, as a dictionary.

    >>> parsed_names(["blocks=transformer.h"])
    {'blocks': 'transformer.h'}
    """
    pairs = {}
    for word in words or []:
        mine, equals, theirs = word.partition("=")
        if not equals or not re.fullmatch(r"[\w.]*", mine + theirs):
            raise InputError(f"--map {word!r} is not understood; write MINE=THEIRS, as in blocks=transformer.h.")
        pairs[mine] = theirs
    return pairs
