"""Where two models part: submodules compared in the order in which they end, and the order of their calls.

Which weights and submodules of two models belong together: by name, after a map of beginnings.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.torch_arithmetic import FACTOR
from regard_models.auditing.experiment import View
from regard_models.auditing.finding import Culprit
from regard_models.auditing.question import Question
from regard_models.auditing.subject import JITTERS, Subject
from regard_models.auditing.trace import Record, culprit, record_calls
from regard_models.inputs.model_input import original


class FirstDifference:
    """The last submodule that agrees, and the first that is given what its partner is given and returns something else.

    torch's fused encoder layers run none of their submodules; for the trace they are switched off.
    """

    def __init__(
        self, a: Subject, b: Subject, questions: tuple[Question, Question], pairing: Pairing, seen: View
    ) -> None:
        inputs = a.inputs(questions[0])
        with _without_fast_path():
            mine = record_calls(a, inputs, seen)
            self.noise = [_by_name(record_calls(a, inputs, seen, jitter=j)) for j in range(JITTERS)]
            theirs = record_calls(b, b.inputs(questions[1]), seen)
        self.agreeing: str | None = None
        self.culprit: Culprit | None = None
        self.partner: str | None = None
        self.order = describe_order([pairing.partner_name(r.name) for r in mine if r.name], [r.name for r in theirs])
        self.calls = describe_calls([pairing.partner_name(r.name) for r in mine], [r.name for r in theirs], pairing)
        partners = _by_name(theirs)
        for record in mine:
            partner = partners.get((pairing.partner_name(record.name), record.call)) if record.name else None
            # without a partner by name, whatever returns the same will do
            beside = [partner] if partner is not None else theirs
            if self._matches_any(record, record.outputs, [r.outputs for r in beside], "outputs"):
                self.agreeing = record.name or self.agreeing
            # what was given something else already is not to blame
            elif self._has_same_inputs(record, partner, theirs):
                self.culprit = culprit(record.module, a, call=record.call)
                self.partner = None if partner is None else partner.name
                break

    def _has_same_inputs(self, record: Record, partner: Record | None, theirs: list[Record]) -> bool:
        """Whether what comes in is what the partner gets; without one, whether it is found anywhere in the other."""
        if partner is not None:
            return self._matches_any(record, record.inputs, [partner.inputs], "inputs")
        everything = [[t] for r in theirs for t in (*r.inputs, *r.outputs)]
        return all(self._matches_any(record, [x], everything, "inputs", place=i) for i, x in enumerate(record.inputs))

    def _matches_any(
        self, record: Record, mine: list[Tensor], others: list[list[Tensor]], part: str, *, place: int = 0
    ) -> bool:
        """Whether sketches agree with one of the others, beyond what rounding does to them."""
        runs = [run[record.name, record.call] for run in self.noise if (record.name, record.call) in run]
        for theirs in others:
            if mine and theirs and all(
                _is_close(x, y, [getattr(r, part)[place + i] for r in runs])
                for i, (x, y) in enumerate(zip(mine, theirs, strict=False))
            ):  # fmt: skip
                return True
        return not mine


def describe_order(mine: list[str], theirs: list[str]) -> str:
    """A sentence on the first two submodules that end in another order in the two models, "" for none.

    >>> describe_order(["norm", "attention", "mlp"], ["attention", "norm", "mlp"])
    'In the first model norm runs before attention, in the second after it.'
    """
    common = set(mine) & set(theirs)
    first, second = ([n for n in dict.fromkeys(names) if n in common] for names in (mine, theirs))
    for here, there in zip(first, second, strict=True):
        if here != there:
            return f"In the first model {here} runs before {there}, in the second after it."
    return ""


def describe_calls(mine: list[str], theirs: list[str], pairing: Pairing) -> str:
    """A sentence on submodules that both models have and one of them calls more often, "" for none."""
    both = {pairing.partner_name(n) for n, _ in pairing.mine.named_modules() if n} & set(pairing.modules)
    first, second = Counter(mine), Counter(theirs)
    odd = [n for n in sorted(both) if first[n] != second[n]]
    # what is inside of it runs as often as it does, and need not be named
    odd = [n for n in odd if not any(n.startswith(f"{other}.") for other in odd)]
    if not odd:
        return ""
    said = [f"{n} {_times(first[n])} in the first model and {_times(second[n])} in the second" for n in odd[:3]]
    return f"Submodules that do not run equally often: {'; '.join(said)}."


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _by_name(records: list[Record]) -> dict[tuple[str, int], Record]:
    return {(r.name, r.call): r for r in records}


def _is_close(a: Tensor, b: Tensor, shaken: list[Tensor]) -> bool:
    if a[-1] != b[-1]:
        return False
    moved = max((float((s - a)[:-1].abs().max()) for s in shaken if s.shape == a.shape), default=0.0)
    return float((a - b)[:-1].abs().max()) <= FACTOR * moved + 1e-13 * float(a[-2])


@contextlib.contextmanager
def _without_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class Pairing:
    """Which weights and submodules of two models belong together: by name, after a map of beginnings."""

    def __init__(self, mine: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
        self.mine, self.theirs, self.names = mine, theirs, names
        state, other = dict(mine.named_parameters()), dict(theirs.named_parameters())
        self.modules = dict(theirs.named_modules())
        for begin, target in names.items():
            if not any(_is_inside(name, begin) for name in state):  # a misspelt map would pair nothing, in silence
                raise InputError(f"The map says {begin}={target}, and no weight of the first model begins so.")
        self.pairs = {n: self.partner_name(n) for n in state if self.partner_name(n) in other}
        self.shapes = {n: (state[n].shape, other[t].shape) for n, t in self.pairs.items()}
        self._alone = [n for n in state if n not in self.pairs]

    def partner_name(self, name: str) -> str:
        """The name in the second model."""
        for begin in sorted(self.names, key=len, reverse=True):  # blocks.0 says more than blocks
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
            for name, values in kept.items():  # also after an error: the model is asked again
                into[name].copy_(values)

    def unpaired_weights(self) -> tuple[str, ...]:
        return tuple(self._alone)

    def copy_weights(self, source: Subject, target: Subject) -> None:
        """Put the second model's weights into the copies of the first that the comparison works on."""
        for native in (True, False):  # the copies in the model's own type, then those that are compared
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
