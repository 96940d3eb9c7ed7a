"""Two models that should be equal: are they, and if not, where do they part?

A port and its original, eager and fused, before and after a change. Both run on the same input in float64 copies, and
their answers are compared against the rounding of the first; where both take a mask of padding, a padded input is
asked too, and the real tokens' answers count. Where they differ, submodules are compared in the order in which they
end (:mod:`.first_difference`): those that a map of names pairs, and where names do not pair, by what they
return. Usual mistakes are tried (:mod:`regard.mistakes.rewrites.repairs`): "equal if ...", said
only if undoing one makes them equal on inputs that it was not found by, too. A tolerance is in units of what rounding
in the first model's own type does to its answers.

A model may take a function of its output that the other does not: a softmax where scores are wanted. Nothing is run
again for it: if f(their answer) is my answer, f stands at my end; if f(mine) is theirs, it is missing there.
Of a table of sinusoidal positions it is said which formula made it, right or with a known slip.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error
from regard.mistakes.embedding import FORMULAS
from regard.mistakes.feed_forward import OUTPUT
from regard.mistakes.rewrites.repairs import KINDS, apply_repair, plausible_repairs, record_calls
from regard.results import Result
from regard.torch_arithmetic import FACTOR
from regard.written_numbers import at_most
from regard_models.auditing.experiment import View, difference, largest, view
from regard_models.auditing.finding import Culprit
from regard_models.auditing.question import Question
from regard_models.auditing.subject import JITTERS, Subject
from regard_models.comparing.first_difference import FirstDifference, Pairing
from regard_models.inputs.model_input import ModelInput, call, model_input, original

_PADDED = 3  # tokens of padding in the second question


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """What was found. ``agreeing`` is the last submodule of the first model that still agrees, ``parting`` the first
    that does not; ``equal_if`` the mistakes whose undoing makes them equal; ``order`` says where paired submodules are
    called in another order, ``calls`` which run more often in one of the two. ``padded``: what is said of size and
    place is about the input with padding."""

    mine: str
    theirs: str
    equal: bool
    size: float
    rounding: float
    own_rounding: float
    own_type: str
    tolerance: float
    scale: float
    arithmetic: str
    weights_paired: int
    weights_different: tuple[str, ...]
    weights_alone: tuple[str, ...]
    buffers_different: tuple[str, ...]
    padded: bool
    agreeing: str | None
    parting: Culprit | None
    partner: str | None
    order: str
    calls: str
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
            where = f"First to differ: {self.parting}{beside}." if self.parting is not None else ""
            lines.append((agrees + where) or "No submodule of one could be paired with one of the other.")
            lines += [self.order, self.calls, *(f"Equal if {words}." for words in self.equal_if)]
        return "\n".join(line for line in lines if line)

    def _verdict(self) -> str:
        about = f"(largest number {self.scale:.2g}; {self.arithmetic})"
        where = f", at real tokens beside {_PADDED} tokens of padding" if self.padded else ""
        if self.equal and self.size > self.rounding:
            return (
                f"{self.mine} and {self.theirs} are equal on this input within {self.tolerance:g} times the rounding "
                f"of {self.own_type}: they differ by {self.size:.2g}, {self._units()} {about}. One input is no proof."
            )
        if self.equal:
            return (
                f"{self.mine} and {self.theirs} are equal on this input: they differ by {self.size:.2g}, where "
                f"rounding makes {at_most(self.rounding, 1)} at most {about}. One input is no proof."
            )
        said = (
            f"{self.mine} and {self.theirs} are not equal: they differ by {self.size:.2g}{where}, where rounding makes "
            f"{at_most(self.rounding, 1)} at most {about}."
        )
        near = 0 < self.size <= FACTOR * self.own_rounding
        return f"{said} That is {self._units()}: see --tolerance." if near else said

    def _units(self) -> str:
        return f"{self.size / self.own_rounding:.2g} times what rounding in {self.own_type} does to the answers"

    def _weights(self) -> str:
        said = f"{self.weights_paired} weights are paired"
        if self.weights_different:
            said += f", {len(self.weights_different)} of them differ ({', '.join(self.weights_different[:3])})"
        if self.weights_alone:
            said += f"; {len(self.weights_alone)} have no partner ({', '.join(self.weights_alone[:3])})"
        if self.buffers_different and not self.equal:
            said += f". Buffers that differ: {', '.join(self.buffers_different[:3])}"
        return said + "."


def compare(
    mine: nn.Module | ModelInput,
    theirs: nn.Module | ModelInput,
    inputs: Any = None,
    *,
    names: Mapping[str, str] | None = None,
    copy_weights: bool = False,
    tolerance: float = 0.0,
    seed: int = 0,
) -> Comparison:
    """Run two models that should be equal on one input and find where they part.

    ``inputs`` is an example for both. ``names`` maps beginnings of the first model's names to the second's ("blocks":
    "transformer.h"); equal names pair by themselves. ``copy_weights`` copies the second model's weights into (a copy
    of) the first wherever names and shapes pair. ``tolerance`` also calls equal what differs by at most so many times
    what rounding in the first model's own type does to its answers: 1 for weights that were merged in that type.

    >>> torch.manual_seed(0) and None
    >>> a = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> b = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> compare(a, b, copy_weights=True).equal, compare(a, b).equal
    (True, False)
    """
    first = mine if isinstance(mine, ModelInput) else model_input(mine, inputs)
    second = theirs if isinstance(theirs, ModelInput) else model_input(theirs, inputs)
    pairing = Pairing(original(first.module), original(second.module), names or {})
    a, b = Subject(first, seed=seed), Subject(second, seed=seed)
    if copy_weights:
        pairing.copy_weights(b, a)
    asked, refused = _collect_answers(a, b)
    worst = max(asked, key=_Answers.excess)  # against rounding: with padding the numbers may have another size
    equal = worst.excess() <= 1 or max(one.size - tolerance * one.own_rounding for one in asked) <= 0
    parting = (
        None
        if equal
        else FirstDifference(a, b, (worst.question, _with_own_inputs(b, worst.question)), pairing, worst.seen)
    )
    return Comparison(
        mine=first.name,
        theirs=second.name,
        equal=equal,
        size=worst.size,
        rounding=worst.rounding,
        own_rounding=worst.own_rounding,
        own_type=str(a.dtype).removeprefix("torch."),
        tolerance=tolerance,
        scale=worst.scale,
        arithmetic=a.arithmetic,
        weights_paired=len(pairing.pairs),
        weights_different=() if copy_weights else pairing.different_weights(),
        weights_alone=pairing.unpaired_weights(),
        buffers_different=pairing.different_buffers(),
        padded=worst is not asked[0] and not equal,
        agreeing=None if parting is None else parting.agreeing,
        parting=None if parting is None else parting.culprit,
        partner=None if parting is None else parting.partner,
        order="" if parting is None else parting.order,
        calls="" if parting is None else parting.calls,
        equal_if=() if equal else _find_mistakes(asked, pairing),
        assumed=tuple(dict.fromkeys((*first.assumed, *second.assumed, *refused))),
    )


def _collect_answers(a: Subject, b: Subject) -> tuple[list[_Answers], list[str]]:
    """What both answer, and why an input with padding could not be asked."""
    asked: list[_Answers] = []
    refused = []
    for question, seen in _questions(a, b):
        try:
            asked.append(_Answers(a, b, question, seen))
        except Exception as error:
            if not asked or isinstance(error, InputError):  # the plain input must be answered; padding is asked on top
                raise
            refused.append(f"no padding, with which one of them raises {describe_error(error)}")
    return asked, refused


def _find_mistakes(asked: list[_Answers], pairing: Pairing) -> tuple[str, ...]:
    """Rules under which the first model gives the second's answers, to all that was asked and to something else."""
    a, b = asked[0].a, asked[0].b
    asked = [*asked, *_fresh_answers(a, b)]  # what fits one input by chance fails on others
    module = original(a.module)
    with record_calls() as called:  # only what ran can be what is wrong
        asked[0].run_mine()
    words = list(_describe_output_functions(asked))
    tables = pairing.different_buffers()
    if tables and all(answers.equal_under(pairing.borrow_buffers(b, a)) for answers in asked):
        words += [_describe_buffer(name, pairing) for name in tables]
    for kind in KINDS:
        tried = plausible_repairs(kind, called, module)
        fitting = (m for m in tried if all(answers.equal_under(apply_repair(m, module)) for answers in asked))
        words += [m.words for m in itertools.islice(fitting, 1)]  # lazily: a kind is done with the first that fits
    return tuple(dict.fromkeys(words))


def _fresh_answers(a: Subject, b: Subject) -> Iterator[_Answers]:
    """Answers to other tokens, and to more of them where both take more."""
    for lengths in dict.fromkeys((a.lengths, a.longer_lengths() or a.lengths)):
        question = a.make(lengths=lengths, draw=21)
        try:
            yield _Answers(a, b, question, view(question))
        except Exception:  # too long for one of them
            continue


def _describe_output_functions(asked: list[_Answers]) -> Iterator[str]:
    """What all answers are equal under."""
    each = [list(find_output_functions(answers.mine, answers.theirs, rounding=answers.rounding)) for answers in asked]
    # Of an input with padding only some places are compared: there a sum over places says nothing.
    return (words for words in each[0] if "places" in words or all(words in others for others in each))


def _describe_buffer(name: str, pairing: Pairing) -> str:
    mine, theirs = (formula_of(table) for table in pairing.buffer(name))
    has = f", where it has {mine}" if mine is not None and mine != theirs else ""
    return f"the buffer {name} is the second model's" + (f" ({theirs})" if theirs is not None else "") + has


class _Answers:
    """The answers of both models to one question: the part of them that ``seen`` protects."""

    def __init__(self, a: Subject, b: Subject, question: Question, seen: View) -> None:
        self.a, self.b, self.question, self.seen = a, b, question, seen
        self.mine, self.theirs = self.run_mine(), self._run(b, _with_own_inputs(b, question))
        noise = max(_largest_difference(self.mine, self.run_mine(jitter=j)) for j in range(JITTERS))
        own = [self.run_mine(jitter=j, unit=a.dtype) for j in range(JITTERS)]
        self.own_rounding = max(_largest_difference(self.mine, moved) for moved in own)
        # in float64 only where both have such a copy
        eps = torch.finfo(torch.float64 if a.wide and b.wide else a.dtype).eps
        self.scale = max((largest(v.abs()) for v in self.mine), default=0.0)
        self.size, self.rounding = _largest_difference(self.mine, self.theirs), FACTOR * noise + 8 * eps * self.scale

    def excess(self) -> float:
        """How far apart, in units of what rounding explains."""
        return self.size / self.rounding if self.rounding else (torch.inf if self.size else 0.0)

    def equal_under(self, change: AbstractContextManager[None]) -> bool:
        """Whether the answers agree while something is changed; a change that does not fit the model says no."""
        try:
            with change:
                return _largest_difference(self.run_mine(), self.theirs) <= self.rounding
        except Exception:
            return False

    def run_mine(self, *, jitter: int | None = None, unit: torch.dtype | None = None) -> list[Tensor]:
        return self._run(self.a, self.question, jitter=jitter, unit=unit)

    def _run(
        self, subject: Subject, question: Question, *, jitter: int | None = None, unit: torch.dtype | None = None
    ) -> list[Tensor]:
        with torch.no_grad(), subject.running(jitter=jitter, unit=unit):
            made = call(subject.module, subject.inputs(question))
        return [self.seen.of(o.values) for o in subject.outputs(made, question)]


def _questions(a: Subject, b: Subject) -> Iterator[tuple[Question, View]]:
    """All tokens real; then, where both take a mask for a row of tokens, with its last tokens padded."""
    plain = _common_question(a, b)
    yield plain, view(plain)
    for i, rows in enumerate(plain.rows):
        if a.streams[i].masks and b.streams[i].masks and rows.length > 2 * _PADDED:
            keep = rows.keep.clone()
            keep[:, -_PADDED:] = False
            padded = plain.with_rows(i, replace(rows, keep=keep))
            yield padded, view(padded, places={i: torch.arange(rows.length - _PADDED)})


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


def _with_own_inputs(subject: Subject, question: Question) -> Question:
    """The question with the inputs that this model wants beside the tokens."""
    own = subject.make(question.batch, lengths=tuple(rows.length for rows in question.rows))
    rows = tuple(replace(theirs, extras=mine.extras) for theirs, mine in zip(question.rows, own.rows, strict=True))
    return replace(question, rows=rows, others=own.others)


def _largest_difference(mine: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference between the first answers of the same shape."""
    pairs = [(x, y) for x, y in zip(mine, theirs, strict=False) if x.shape == y.shape]
    if not pairs:
        shapes = [tuple(x.shape) for x in mine[:1]], [tuple(y.shape) for y in theirs[:1]]
        raise InputError(f"The two models return {shapes[0]} and {shapes[1]}, which cannot be compared; wrap one.")
    gaps = [difference(x.double(), y.double()).nan_to_num(nan=torch.inf).max() for x, y in pairs if x.numel()]
    return float(torch.stack(gaps).max()) if gaps else 0.0


Function = Callable[[Tensor], Tensor]
# by the name of the mistake
FUNCTIONS: dict[str, tuple[str, Function]] = {
    "output-softmax": ("a softmax over the last axis", lambda x: torch.softmax(x, -1)),
    "output-log-softmax": ("a log-softmax over the last axis", lambda x: torch.log_softmax(x, -1)),
    "output-softmax-places": ("a softmax over the places", lambda x: torch.softmax(x, 1)),
    "output-log-softmax-places": ("a log-softmax over the places", lambda x: torch.log_softmax(x, 1)),
    "output-softmax-batch": ("a softmax over the batch", lambda x: torch.softmax(x, 0)),
    "output-softmax-twice": ("two softmaxes", lambda x: torch.softmax(torch.softmax(x, -1), -1)),
    "output-sigmoid": ("a sigmoid", torch.sigmoid),
    "output-relu": ("a ReLU", torch.relu),
    "output-tanh": ("a tanh", torch.tanh),
}


def find_output_functions(mine: list[Tensor], theirs: list[Tensor], *, rounding: float) -> Iterator[str]:
    """Words for "equal if ...", of the answers of two models; ``rounding`` is how far equal answers may be apart."""
    said = {one.name: one.said for one in OUTPUT}
    for name, (words, function) in FUNCTIONS.items():
        if _agree(_apply(function, theirs), mine, rounding):
            yield f"the output is left as it is, where it has {said[name]}"
        elif _agree(
            _apply(function, mine), theirs, 4 * rounding
        ):  # none of them stretches a difference more than twice
            yield f"{words} is taken of the output"


def _apply(function: Function, answers: list[Tensor]) -> list[Tensor]:
    return [function(x) for x in answers if x.ndim > 1]


def _agree(made: list[Tensor], wanted: list[Tensor], rounding: float) -> bool:
    pairs = [(x, y) for x, y in zip(made, wanted, strict=False) if x.shape == y.shape and x.numel()]
    return bool(pairs) and all(bool(((x - y).abs() <= rounding).all()) for x, y in pairs)


_ROWS = 40  # of a table: at later places angles are too large for float32
_FAR = 1e-4  # tables are made in float32: the sine of an angle of some tens is known to 1e-5


def formula_of(table: Tensor) -> str | None:
    """The words of the catalogue of mistakes for the formula that made a table, None where it is none of them.

    >>> import torch
    >>> place, column = torch.arange(30.0)[:, None], torch.arange(0, 8, 2)
    >>> angles = place / 10_000 ** (column / 8)
    >>> formula_of(torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
    'sinusoidal positions'
    """
    values = table.detach().double().cpu().numpy().squeeze()
    if values.ndim != 2 or values.shape[1] < 4 or values.shape[0] < 2:
        return None
    for one in FORMULAS:
        made = one.function(min(_ROWS, len(values)), values.shape[1])
        if made.shape[1] == values.shape[1] and np.abs(made - values[:_ROWS]).max() <= _FAR:
            return one.said
    return None
