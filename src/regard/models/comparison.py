"""Two models that should be equal: are they, and if not, where do they part?

A port and its original, eager and fused, before and after a change. Both run on the same input in float64 copies, and
their answers are compared against the rounding of the first. Where they differ, submodules are compared in the order in
which they end: those that a map of names pairs, and where names do not pair, by what they return. Usual mistakes are
tried (:mod:`regard.models.mistakes`): "equal if ...".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.auditing.experiment import difference, largest, view
from regard.models.auditing.finding import Culprit
from regard.models.auditing.subject import JITTERS, Question, Subject
from regard.models.auditing.trace import Record, culprit, recorded
from regard.models.given import Given, call, give, original
from regard.models.mistakes import MISTAKES, undone
from regard.results import Result
from regard.torch_arithmetic import FACTOR


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """What was found. ``agreeing`` is the last submodule of the first model that still agrees, ``parting`` the first
    that does not; ``equal_if`` the mistakes whose undoing makes them equal."""

    mine: str
    theirs: str
    equal: bool
    size: float
    rounding: float
    scale: float
    arithmetic: str
    weights_paired: int
    weights_different: tuple[str, ...]
    weights_alone: tuple[str, ...]
    agreeing: str | None
    parting: Culprit | None
    partner: str | None
    equal_if: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def answer(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        lines = [self._verdict(), self._weights()]
        if self.assumed:
            lines.append(f"Assumed: {'; '.join(self.assumed)}.")
        if not self.equal:
            agrees = f"They agree up to {self.agreeing}. " if self.agreeing else ""
            beside = f" (beside {self.partner})" if self.partner is not None else ""
            where = f"First to part: {self.parting}{beside}." if self.parting is not None else ""
            lines.append((agrees + where) or "No submodule of one could be paired with one of the other.")
            lines += [f"Equal if {words}." for words in self.equal_if]
        return "\n".join(line for line in lines if line)

    def _verdict(self) -> str:
        about = f"(largest number {self.scale:.2g}; {self.arithmetic})"
        if self.equal:
            return (
                f"{self.mine} and {self.theirs} are equal on this input: they differ by {self.size:.2g}, where "
                f"rounding makes {self.rounding:.1g} at most {about}. One input is no proof."
            )
        return (
            f"{self.mine} and {self.theirs} are not equal: they differ by {self.size:.2g}, where rounding makes "
            f"{self.rounding:.1g} at most {about}."
        )

    def _weights(self) -> str:
        said = f"{self.weights_paired} weights are paired"
        if self.weights_different:
            said += f", {len(self.weights_different)} of them differ ({', '.join(self.weights_different[:3])})"
        if self.weights_alone:
            said += f"; {len(self.weights_alone)} have no partner ({', '.join(self.weights_alone[:3])})"
        return said + "."


def compare(
    mine: nn.Module | Given,
    theirs: nn.Module | Given,
    inputs: Any = None,
    *,
    names: Mapping[str, str] | None = None,
    copy_weights: bool = False,
    seed: int = 0,
) -> Comparison:
    """Run two models that should be equal on one input and find where they part.

    ``inputs`` is an example for both. ``names`` maps beginnings of the first model's names to the second's ("blocks":
    "transformer.h"); equal names pair by themselves. ``copy_weights`` copies the second model's weights into (a copy
    of) the first wherever names and shapes pair.

    >>> torch.manual_seed(0) and None
    >>> a = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> b = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> compare(a, b, copy_weights=True).equal, compare(a, b).equal
    (True, False)
    """
    first = mine if isinstance(mine, Given) else give(mine, inputs)
    second = theirs if isinstance(theirs, Given) else give(theirs, inputs)
    pairing = Pairing(original(first.module), original(second.module), names or {})
    a, b = Subject(first, seed=seed), Subject(second, seed=seed)
    if copy_weights:
        pairing.copy(b, a)
    question = _common_question(a, b)
    answers = _Answers(a, b, question)
    size, rounding, scale = answers.gap()
    equal = size <= rounding
    trace = _Trace(a, b, question, pairing) if not equal else None
    different = () if copy_weights else pairing.different()
    return Comparison(
        mine=first.name,
        theirs=second.name,
        equal=equal,
        size=size,
        rounding=rounding,
        scale=scale,
        arithmetic=a.arithmetic,
        weights_paired=len(pairing.pairs),
        weights_different=different,
        weights_alone=pairing.alone(),
        agreeing=None if trace is None else trace.agreeing,
        parting=None if trace is None else trace.parting,
        partner=None if trace is None else trace.partner,
        equal_if=() if equal else answers.mistakes(rounding),
        assumed=tuple(dict.fromkeys((*first.assumed, *second.assumed))),
    )


class Pairing:
    """Which weights and submodules of two models belong together: by name, after a map of beginnings."""

    def __init__(self, mine: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
        self.mine, self.theirs, self.names = mine, theirs, names
        state, other = dict(mine.named_parameters()), dict(theirs.named_parameters())
        self.modules = dict(theirs.named_modules())
        for begin, target in names.items():
            if not any(_begins(name, begin) for name in state):
                raise InputError(f"The map says {begin}={target}, and no weight of the first model begins so.")
        self.pairs = {n: self.mapped(n) for n in state if self.mapped(n) in other}
        self.shapes = {n: (state[n].shape, other[t].shape) for n, t in self.pairs.items()}
        self._alone = [n for n in state if n not in self.pairs]

    def mapped(self, name: str) -> str:
        """The name in the second model."""
        for begin in sorted(self.names, key=len, reverse=True):
            if _begins(name, begin):
                return (self.names[begin] + name[len(begin) :]).strip(".")
        return name

    def different(self) -> tuple[str, ...]:
        """Paired weights that are not the same numbers."""
        state, other = dict(self.mine.named_parameters()), dict(self.theirs.named_parameters())
        return tuple(
            n for n, t in self.pairs.items()
            if state[n].shape != other[t].shape or not torch.equal(state[n].double(), other[t].double())
        )  # fmt: skip

    def alone(self) -> tuple[str, ...]:
        return tuple(self._alone)

    def copy(self, source: Subject, target: Subject) -> None:
        """Put the second model's weights into the copies of the first that the comparison works on."""
        for native in (True, False):
            into = dict(original(target.native if native else target.module).named_parameters())
            from_ = dict(original(source.native if native else source.module).named_parameters())
            with torch.no_grad():
                for name, partner in self.pairs.items():
                    if into[name].shape == from_[partner].shape:
                        into[name].copy_(from_[partner])


class _Answers:
    """The answers of both models to one question."""

    def __init__(self, a: Subject, b: Subject, question: Question) -> None:
        self.a, self.b, self.question = a, b, question
        self.mine = self._run(a)
        self.theirs = self._run(b)
        self.noise = max(_apart(self.mine, self._run(a, jitter=j)) for j in range(JITTERS))

    def gap(self) -> tuple[float, float, float]:
        """How far apart, what rounding explains, and the largest number."""
        scale = max((largest(v.abs()) for v in self.mine), default=0.0)
        eps = torch.finfo(torch.float64 if self.a.wide and self.b.wide else self.a.dtype).eps
        return _apart(self.mine, self.theirs), FACTOR * self.noise + 8 * eps * scale, scale

    def mistakes(self, rounding: float) -> tuple[str, ...]:
        """Rules under which the first model gives the second's answers."""
        found = []
        for mistake in MISTAKES:
            try:
                with undone(mistake):
                    answers = self._run(self.a)
            except Exception:  # the rule does not fit this model
                continue
            if _apart(answers, self.theirs) <= rounding:
                found.append(mistake.words)
        return tuple(dict.fromkeys(found))

    def _run(self, subject: Subject, *, jitter: int | None = None) -> list[Tensor]:
        question = self.question if subject is self.a else _for(subject, self.question)
        with torch.no_grad(), subject.running(jitter=jitter):
            made = call(subject.module, subject.inputs(question))
        return [o.values for o in subject.outputs(made, question)]


class _Trace:
    """The last submodule that agrees, and the first that is given what its partner is given and returns something else.

    torch's fused encoder layers run none of their submodules; for the trace they are switched off.
    """

    def __init__(self, a: Subject, b: Subject, question: Question, pairing: Pairing) -> None:
        seen = view(question)
        with _unfused():
            mine = recorded(a, a.inputs(question), seen)
            self.noise = [_by_name(recorded(a, a.inputs(question), seen, jitter=j)) for j in range(JITTERS)]
            theirs = recorded(b, b.inputs(_for(b, question)), seen)
        self.agreeing: str | None = None
        self.parting: Culprit | None = None
        self.partner: str | None = None
        partners = _by_name(theirs)
        for record in mine:
            partner = partners.get((pairing.mapped(record.name), record.call)) if record.name else None
            beside = [partner] if partner is not None else theirs
            if self._same(record, record.outputs, [r.outputs for r in beside], "outputs"):
                self.agreeing = record.name or self.agreeing
            elif self._fed_alike(record, partner, theirs):
                self.parting = culprit(record.module, a, call=record.call)
                self.partner = None if partner is None else partner.name
                break

    def _fed_alike(self, record: Record, partner: Record | None, theirs: list[Record]) -> bool:
        """Whether what comes in is what the partner gets; without one, whether it is found anywhere in the other."""
        if partner is not None:
            return self._same(record, record.inputs, [partner.inputs], "inputs")
        everything = [[t] for r in theirs for t in (*r.inputs, *r.outputs)]
        return all(self._same(record, [x], everything, "inputs", place=i) for i, x in enumerate(record.inputs))

    def _same(
        self, record: Record, mine: list[Tensor], others: list[list[Tensor]], part: str, *, place: int = 0
    ) -> bool:
        """Whether sketches agree with one of the others, beyond what rounding does to them."""
        runs = [run[record.name, record.call] for run in self.noise if (record.name, record.call) in run]
        for theirs in others:
            if mine and theirs and all(
                _close(x, y, [getattr(r, part)[place + i] for r in runs])
                for i, (x, y) in enumerate(zip(mine, theirs, strict=False))
            ):  # fmt: skip
                return True
        return not mine


def _by_name(records: list[Record]) -> dict[tuple[str, int], Record]:
    return {(r.name, r.call): r for r in records}


def _close(a: Tensor, b: Tensor, shaken: list[Tensor]) -> bool:
    if a[-1] != b[-1]:
        return False
    moved = max((float((s - a)[:-1].abs().max()) for s in shaken if s.shape == a.shape), default=0.0)
    return float((a - b)[:-1].abs().max()) <= FACTOR * moved + 1e-13 * float(a[-2])


@contextlib.contextmanager
def _unfused() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _common_question(a: Subject, b: Subject) -> Question:
    """One question for both: the same tokens, as long as both can take."""
    if len(a.streams) != len(b.streams):
        raise InputError(
            f"{a.given.name} takes {len(a.streams)} rows of tokens and {b.given.name} {len(b.streams)}; give models "
            "that take the same inputs, or an example for each that fits."
        )
    a.lengths = b.lengths = tuple(min(m, n) for m, n in zip(a.lengths, b.lengths, strict=True))
    for i, (mine, theirs) in enumerate(zip(a.streams, b.streams, strict=True)):
        if (mine.vocabulary is None) != (theirs.vocabulary is None):
            raise InputError(f"{a.given.name} takes ids and {b.given.name} vectors (or the other way round).")
        if mine.vocabulary is not None and theirs.vocabulary is not None:
            both = replace(mine, vocabulary=min(mine.vocabulary, theirs.vocabulary), avoid=mine.avoid | theirs.avoid)
            a.streams = tuple(both if j == i else s for j, s in enumerate(a.streams))
    return a.make()


def _for(subject: Subject, question: Question) -> Question:
    """The question with the inputs that this model wants beside the tokens."""
    return replace(question, others=subject.make(question.batch).others)


def _apart(mine: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference between the first answers of the same shape."""
    pairs = [(x, y) for x, y in zip(mine, theirs, strict=False) if x.shape == y.shape]
    if not pairs:
        shapes = [tuple(x.shape) for x in mine[:1]], [tuple(y.shape) for y in theirs[:1]]
        raise InputError(f"The two models return {shapes[0]} and {shapes[1]}, which cannot be compared; wrap one.")
    gaps = [difference(x.double(), y.double()).nan_to_num(nan=torch.inf).max() for x, y in pairs if x.numel()]
    return float(torch.stack(gaps).max()) if gaps else 0.0


def _begins(name: str, begin: str) -> bool:
    return not begin or name == begin or name.startswith(begin + ".")


def parsed_names(words: list[str] | None) -> dict[str, str]:
    """MINE=THEIRS and so on, as a dictionary.

    >>> parsed_names(["blocks=transformer.h"])
    {'blocks': 'transformer.h'}
    """
    found = {}
    for word in words or []:
        mine, equals, theirs = word.partition("=")
        if not equals or not re.fullmatch(r"[\w.]*", mine + theirs):
            raise InputError(f"--map {word!r} is not understood; write MINE=THEIRS, as in blocks=transformer.h.")
        found[mine] = theirs
    return found
