"""Does a model keep the properties that every Transformer should have?

Eleven properties, one file each; every check asks the model a question twice with a change that must not matter
(:mod:`.experiment`), in a float64 copy of it (:mod:`.subject`, :mod:`regard.torch_arithmetic`), and measures what
moved against what rounding can do. Where something did, :mod:`.trace` finds the submodule. It may import ``inputs`` and
``capturing``. Begin with :func:`audit` below, and with ``batch.py``, the simplest property.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import nn

from regard.errors import InputError, describe_error
from regard.results import Result
from regard_models.auditing import (
    batch,
    cache,
    causality,
    determinism,
    gradients,
    order,
    packing,
    padding,
    precision,
    reading,
    weights,
)
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.subject import Subject, eval_copy
from regard_models.inputs.copies import LARGE, copy_module, weight_bytes
from regard_models.inputs.model_input import Advance, ModelInput, model_input, refuse_nan

__all__ = ["Audit", "Culprit", "Finding", "Status", "assert_healthy", "audit"]

PROPERTIES: dict[str, ModuleType] = {
    m.NAME: m
    for m in (reading, batch, padding, packing, causality, cache, order, weights, determinism, precision, gradients)
}
_SHORT = (order.NAME, weights.NAME, determinism.NAME, precision.NAME, gradients.NAME)  # asked briefly
Report = Callable[[int, int], None]
_TABLE_UNITS, _TABLE_GROWTH = 16, 4  # how far tables are moved, and how much a failure grows if they explain it
_TABLE_GAP = 1e-4  # what no rounding of a table explains
_CALLS = 150  # how many calls of the example an audit takes about as long as: most are in float64


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Result):
    """What an audit found. ``known`` are failures that a baseline names: they are shown and do not count."""

    name: str
    findings: tuple[Finding, ...]
    assumed: tuple[str, ...]
    arithmetic: str
    batch: int
    lengths: tuple[int, ...]
    short: tuple[int, ...]  # of what does not hang on length
    seconds: float
    known: tuple[str, ...] = ()

    @property
    def answer(self) -> bool:
        """Yes only where everything could be asked and nothing failed."""
        return not self.failures and not self.open_questions

    @property
    def open_questions(self) -> tuple[Finding, ...]:
        """Checks that could not be made, because the model raised, and that no baseline knows."""
        return tuple(f for f in self.findings if f.status is Status.NOT_ASKED and f.key() not in self.known)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Failures that no baseline knows."""
        return tuple(f for f in self.findings if f.status is Status.FAILED and f.key() not in self.known)

    def headline(self) -> str:
        """Which module explains most failures, and what is the likely cause; "" for fewer than two of them."""
        named = [f for f in self.failures if f.culprit is not None]
        if len(self.failures) < 2 or not named:
            return ""
        paths = [f.culprit.module for f in named if f.culprit is not None]

        def explains(path: str, other: str) -> bool:
            return other == path or other.startswith(f"{path}.")

        best = max(paths, key=lambda path: (sum(explains(path, other) for other in paths), path))
        first = next(f for f in named if f.culprit is not None and f.culprit.module == best)
        count = sum(explains(best, other) for other in paths)
        cause = f" Likely cause: {first.cause}" if first.cause else ""
        return f"One module, {first.culprit}, explains {count} of {len(self.failures)} failures.{cause}"

    def of(self, name: str) -> tuple[Finding, ...]:
        """The findings about one property."""
        return tuple(f for f in self.findings if f.property == name)

    def __str__(self) -> str:
        sizes = {s: sum(f.status is s for f in self.findings) for s in Status}
        counts = [f"{n} {s}" for s, n in sizes.items() if n or s is not Status.NOT_ASKED]
        lines = [f"{self.name}: {self._verdict()}: {', '.join(counts)}."]
        if headline := self.headline():
            lines.insert(0, headline)
        loud = [f for status in (Status.FAILED, Status.NOT_ASKED) for f in self.findings if f.status is status]
        lines += [str(f) + ("\n  Known (baseline)." if f.key() in self.known else "") for f in loud]
        lines += [str(f) for f in self.findings if f.status is Status.NOTE]
        if self.assumed:
            lines.append(f"Assumed: {'; '.join(self.assumed)}.")
        return "\n".join([*lines, "Every check, and those that do not apply: details() shows them."])

    def _verdict(self) -> str:
        if self.failures:
            return f"{len(self.failures)} check{'s' * (len(self.failures) != 1)} failed"
        if self.open_questions:
            return "not all could be asked, so the answer is neither yes nor no"
        return "no new failure (no proof)" if self.known else "nothing failed (no proof)"

    def details(self) -> str:
        """What it was tested on, what passed, and what did not apply, with the reason."""
        lines = [f"Tested in {self.arithmetic}, {self._sizes()}."]
        fine = [f for f in self.findings if f.status is Status.PASSED]
        if fine:
            lines.append("Pass (not refuted; no proof): " + "; ".join(f"{f.property}, {f.check}" for f in fine) + ".")
        skipped = [f for f in self.findings if f.status is Status.NOT_APPLICABLE]
        lines += [f"Not applicable: {f.property}, {f.check}. {f.sentence}" for f in skipped]
        return "\n".join(lines)

    def _sizes(self) -> str:
        tokens = " and ".join(map(str, self.lengths))
        words = f"{self.batch} examples" + (f" of {tokens} tokens" if tokens else "")
        if self.short != self.lengths:
            words += f" ({', '.join(_SHORT)}: {' and '.join(map(str, self.short))})"
        return words


def audit(
    model: nn.Module | ModelInput,
    inputs: Any = None,
    *,
    causal: bool | None = None,
    masks: dict[str, str] | None = None,
    length: int | None = None,
    properties: Sequence[str] | None = None,
    known: Sequence[str] = (),
    seed: int = 0,
    advance: Advance | None = None,
    report: Report | None = None,
) -> Audit:
    """Test a model for eleven properties: does anything hang on its input, does an example depend on its neighbours or
    its padding, do packed documents meet, does a place read later ones, does a cache give the same, where does order
    enter, are the weights weights, is it deterministic, how precise is it, does every weight get a gradient.

    ``inputs`` is an example (a tensor, a tuple or a dict); Hugging Face models, torch.nn's and ours need none.
    ``causal`` claims that no place reads later ones; ``masks`` says what True means in a mask ("keep" or "hide").
    ``known`` are keys of failures that do not count (a baseline). ``advance`` writes with a cache that forward has no
    parameter for (see :class:`~regard_models.inputs.model_input.ModelInput`). The model is left as it was.

    >>> import torch
    >>> layer = torch.nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    >>> result = audit(layer, properties=["batch"])
    >>> result.answer, [str(f.status) for f in result.findings]
    (True, ['pass', 'pass', 'pass', 'pass', 'pass', 'pass'])
    """
    start = time.monotonic()
    given = model if isinstance(model, ModelInput) else model_input(model, inputs, causal=causal, masks=masks)
    given = given if advance is None else replace(given, advance=advance)
    chosen = _select_properties(properties)
    refuse_nan(given)
    replace(given, module=eval_copy(given.module)).run()  # a call may leave something behind
    subject = Subject(given, length=length, seed=seed)
    assumed = list(given.assumed)
    if subject.was_training:
        assumed.append("it came in train() mode and was tested in eval() mode, on a copy")
    findings: list[Finding] = []
    twice = list(_run_check(subject, determinism.NAME))  # first, because without it nothing can be compared
    steady = all(f.status is not Status.FAILED for f in twice)
    finite = any(bool(torch.isfinite(row).any()) for o in subject.ask(subject.make()) for row in o.values)
    for done, name in enumerate(chosen):
        if name == determinism.NAME:
            findings += twice
        elif (steady and finite) or name in _WITHOUT_COMPARISON or (steady and name == precision.NAME):
            findings += _without_rounded_tables(subject, name, list(_run_check(subject, name)))
        else:
            findings.append(_not_applicable(name, _NOT_STEADY if not steady else _NOT_FINITE))
        if report is not None:
            report(done + 1, len(chosen))
    return Audit(
        name=given.name,
        findings=tuple(findings),
        assumed=tuple(assumed),
        arithmetic=subject.arithmetic,
        batch=subject.make().batch,
        lengths=subject.lengths,
        short=subject.short_lengths(),
        seconds=round(time.monotonic() - start, 3),
        known=tuple(known),
    )


def expected_cost(given: ModelInput) -> tuple[float, int]:
    """About how many seconds an audit will take, by a call of the model, and how many bytes it needs at most."""
    begun = time.monotonic()
    given.run()
    numbers = sum(p.numel() for p in given.module.parameters())
    own = weight_bytes(given.module)
    wide = 16 * numbers if own <= LARGE else max(8 * numbers, own)  # gradients are held beside, or afterwards
    return _CALLS * (time.monotonic() - begun), own + wide


def assert_healthy(model: nn.Module | ModelInput, inputs: Any = None, **options: Any) -> Audit:
    """For a test: the audit, or an AssertionError that says what failed, where, and the usual cure.

    def test_my_model(): assert_healthy(build(), example, causal=True)
    """
    audited = audit(model, inputs, **options)
    if not audited.answer:
        what = "is not healthy" if audited.failures else "could not be asked everything"
        found = (*filter(None, [audited.headline()]), *audited.failures, *audited.open_questions)
        raise AssertionError("\n".join([f"{audited.name} {what}:", *map(str, found)]))
    return audited


def _select_properties(properties: Sequence[str] | None) -> list[str]:
    if properties is None:
        return list(PROPERTIES)
    for name in properties:
        if name not in PROPERTIES:
            raise InputError(f"There is no property {name!r}; choose from {', '.join(PROPERTIES)}.")
    return [name for name in PROPERTIES if name in properties]


_WITHOUT_COMPARISON = (weights.NAME,)


_NOT_STEADY = "Two answers to one question differ (see determinism), so nothing can be compared; mend that first."
_NOT_FINITE = "All its answers are NaN or infinite (see precision), so nothing can be compared; mend that first."


def _not_applicable(name: str, sentence: str) -> Finding:
    return Finding(property=name, check="all", status=Status.NOT_APPLICABLE, sentence=sentence)


def _without_rounded_tables(subject: Subject, name: str, findings: list[Finding]) -> list[Finding]:
    """Failures that grow with the rounding of the model's tables are notes: the tables agree only up to that.

    A table of decays, say, and one of their products, each rounded to float32, stay so in the float64 copy. A fault
    of the model is as large beside other roundings of them.
    """
    # what moved too little is no rounding
    small = [
        f
        for f in findings
        if f.status is Status.FAILED and f.size is not None and (f.rounding or 0.0) < f.size < _TABLE_GAP
    ]
    if not (small and subject.wide and _tables(subject.given.module)):
        return findings
    shaken = copy_module(subject.given.module)
    generator = torch.Generator().manual_seed(3)
    for table in _tables(shaken):
        signs = torch.randint(0, 2, table.shape, generator=generator).mul_(2).sub_(1).to(table)
        table.mul_(1 + _TABLE_UNITS * torch.finfo(table.dtype).eps * signs)
    other = Subject(replace(subject.given, module=shaken), length=subject.wanted, seed=subject.seed)
    sizes = {f.check: f.size for f in _run_check(other, name) if f.size is not None}
    return [_note_of_tables(f, sizes.get(f.check, 0.0)) if f in small else f for f in findings]


def _note_of_tables(finding: Finding, size: float) -> Finding:
    if finding.size is None or size < _TABLE_GROWTH * finding.size:
        return finding
    moved = f"with their numbers {_TABLE_UNITS} units of their last place off, it is {size:.2g}"
    sentence = f"{finding.sentence} That is the rounding of its tables (buffers): {moved}."
    return replace(finding, status=Status.NOTE, sentence=sentence, cause="", cure="", culprit=None, example={})


def _tables(module: nn.Module) -> list[torch.Tensor]:
    """The buffers that hold rounded numbers; those of a float64 model are as good as its copy's."""
    return [b for b in module.buffers() if b.is_floating_point() and b.dtype is not torch.float64]


def _run_check(subject: Subject, name: str) -> Iterator[Finding]:
    try:
        yield from PROPERTIES[name].check(subject)
    except InputError:
        raise
    except Exception as error:
        yield Finding(
            property=name,
            check="run",
            status=Status.NOT_ASKED,
            sentence=f"The check could not be made: the model raised {describe_error(error)}.",
        )
