"""What a capture holds: one record for every attention call, and what ran without leaving one.

A record's ``weights`` have four axes, always: batch, heads, queries, keys. Layers are numbered in the order in which
they ran, across encoder and decoder, from 0: that number is what a person types after ``--layers``. Where a model runs
several times (``generate``), a layer keeps its number and :attr:`AttentionRecord.step` counts the runs; where one
module runs several times in one forward (shared layers), every time is a layer of its own and
:attr:`AttentionRecord.call` counts the module's calls.

Nothing here needs torch: a capture that was written to a file is read, measured and drawn without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Flags, Single
from regard.errors import InputError
from regard.results import Result, plain

Tokens = list[list[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionRecord:
    """The attention of one layer in one call: weights, and how far they were checked.

    ``weights`` are what the softmax gave, batch x heads x queries x keys in float32; memory-mapped where the capture
    was streamed to a file. ``used`` are the weights after dropout, None where nothing was dropped. ``heads`` are the
    numbers of the heads along the second axis. ``allowed`` is True where a query may read a key and broadcasts
    against the weights, None where every key may be read. ``residual`` is max |W V - output| / max |output|, with the
    kernel's own output, and ``tolerance`` what rounding in the kernel's number type explains. ``verified`` is the
    answer of the identity probe, None where it was not asked for. ``q``, ``k`` and ``v`` (batch x heads x places x
    width, keys and values repeated for heads that share them) are there where they were asked for and could be seen;
    scores are ``scale`` q k^T, and a mask or a bias on top of it, where ``scale`` is known. ``w_q``, ``w_k``, ``w_v``
    (heads x model's width x head's width) are the maps that made them, before rotary positions, and ``w_o`` (heads x
    head's width x model's width) the one that reads the head's output; there where asked for and found.
    """

    index: int
    module: str
    kernel: str
    weights: Single
    heads: tuple[int, ...]
    call: int = 0
    step: int = 0
    used: Single | None = None
    allowed: Flags | None = None
    residual: float | None = None
    tolerance: float | None = None
    verified: bool | None = None
    notes: tuple[str, ...] = ()
    scale: float | None = None
    q: Single | None = None
    k: Single | None = None
    v: Single | None = None
    w_q: Single | None = None
    w_k: Single | None = None
    w_v: Single | None = None
    w_o: Single | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries, keys."""
        batch, heads, queries, keys = self.weights.shape
        return batch, heads, queries, keys

    @property
    def sound(self) -> bool:
        """Whether every check that was made came out well."""
        fits = self.residual is None or self.tolerance is None or self.residual <= self.tolerance
        return fits and self.verified is not False

    def head(self, number: int, *, example: int = 0) -> Single:
        """The weights (queries x keys) of one head, by its number in the model."""
        if number not in self.heads:
            raise InputError(f"Layer {self.index} has no head {number} here; it has {format_ranges(self.heads)}.")
        if not 0 <= example < self.weights.shape[0]:
            raise InputError(f"There is no example {example}; the batch has {self.weights.shape[0]}, counted from 0.")
        return np.asarray(self.weights[example, self.heads.index(number)], dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, of which the shapes."""
        facts = {name: plain(getattr(self, name)) for name in FACTS}
        return {**facts, "shape": list(self.shape), "sound": self.sound}

    def __str__(self) -> str:
        batch, heads, queries, keys = self.shape
        sizes = f"{batch} x {heads} heads x {queries} queries x {keys} keys"
        where = self.module or "(unnamed)"
        checks = "not checked" if self.residual is None else f"W V = output {_closeness(self.residual)}"
        if self.verified is not None:
            checks += ", identity probe " + ("passed" if self.verified else "FAILED")
        if not self.sound:
            checks += ", NOT SOUND"
        step = f", run {self.step}" if self.step else ""
        return "; ".join([f"layer {self.index}{step}: {where}, {self.kernel}, {sizes}; {checks}", *self.notes])


# The fields of a record that are not arrays, in the order in which they are written down.
FACTS = ("index", "step", "call", "module", "kernel", "heads", "residual", "tolerance", "verified", "notes",
         "scale")  # fmt: skip
ARRAYS = ("weights", "used", "allowed", "q", "k", "v", "w_q", "w_k", "w_v", "w_o")


@dataclass(frozen=True, kw_only=True)
class UnseenModule:
    """A module that looks like attention, ran, and left no record."""

    module: str
    why: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Capture(Result):
    """The records of one run of a model, in the order of their emission.

    ``tokens`` are the words of the input, one list for every example; ``target_tokens`` those of the decoder where
    there are two inputs. ``output`` is the model's own, bit for bit what it gives without the capture; it is not
    written to files. ``missed`` names what could not be captured. ``file`` is where a streamed capture lies.
    """

    records: tuple[AttentionRecord, ...]
    tokens: Tokens | None = None
    target_tokens: Tokens | None = None
    output: Any = None
    missed: tuple[UnseenModule, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = "model"
    file: str | None = None

    @property
    def answer(self) -> bool:
        """False where a check failed: those weights are not what the model used."""
        return all(record.sound for record in self.records)

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of the layers that there are records of."""
        return tuple(sorted({record.index for record in self.records}))

    def record(self, layer: int, *, step: int = 0) -> AttentionRecord:
        """The record of one layer, in the first run of the model or in a later one."""
        for record in self.records:
            if (record.index, record.step) == (layer, step):
                return record
        run = f" in run {step}" if step else ""
        raise InputError(f"There is no layer {layer}{run} in this capture; it has layers {format_ranges(self.layers)}.")

    def labels(self, record: AttentionRecord, *, example: int = 0) -> tuple[list[str], list[str]]:
        """Words for the queries and for the keys of a record; places (0, 1, ...) where no words fit."""
        cross = is_cross(record.module)
        decoder_first = cross or any(word in record.module.lower() for word in ("decoder", "target"))
        sides = [self.target_tokens, self.tokens] if decoder_first else [self.tokens, self.target_tokens]
        _, _, queries, keys = record.shape
        return _fitting_words(sides, queries, example), _fitting_words(sides[::-1] if cross else sides, keys, example)

    def to_dict(self) -> dict[str, Any]:
        """All facts, and of the arrays the shapes: arrays go to files (:meth:`to_safetensors`)."""
        return {
            "name": self.name,
            "sound": self.answer,
            "records": [record.to_dict() for record in self.records],
            "missed": plain(self.missed),
            "notes": list(self.notes),
            "tokens": self.tokens,
            "target_tokens": self.target_tokens,
            "file": self.file,
        }

    def to_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Write all records and facts to one file, whole or not at all; the model's output is left out."""
        from regard_models.capturing.capture_file import write_capture

        write_capture(self, path)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Capture:
        """The capture in a file that :meth:`to_safetensors` or a stream wrote; its arrays stay on the disk."""
        from regard_models.capturing.capture_file import read_capture

        return read_capture(path)

    @staticmethod
    def from_arrays(weights: Any, *, tokens: Sequence[Any] | None = None, name: str = "weights") -> Capture:
        """Weights from elsewhere: see :func:`regard_models.capturing.given_weights.from_arrays`."""
        from regard_models.capturing.given_weights import from_arrays

        return from_arrays(weights, tokens=tokens, name=name)

    def __str__(self) -> str:
        lines = [self._headline(), *(f"  {record}" for record in _records_to_list(self.records))]
        if len(self.records) > TOLD:
            lines.append(f"  and {len(self.records) - TOLD} more records (to_json() lists them all)")
        lines += [f"Not captured: {miss.module or '(the model itself)'}: {miss.why}." for miss in self.missed]
        lines += [f"Note: {note}." for note in self.notes]
        if self.file is not None:
            lines.append(f"The weights are in {self.file}.")
        return "\n".join(lines)

    def _headline(self) -> str:
        if not self.records:
            return f"{self.name}: no attention was captured."
        count, layers = len(self.records), len(self.layers)
        runs = max(record.step for record in self.records) + 1
        what = f"{self.name}: {_count(layers, 'attention layer')}"
        what += f" in {runs} runs, {_count(count, 'record')}" if runs > 1 else ""
        return f"{what}. {self._checks()}"

    def _checks(self) -> str:
        residuals = [record.residual for record in self.records if record.residual is not None]
        probed = [record.verified for record in self.records if record.verified is not None]
        if not self.answer:
            wrong = [record.index for record in self.records if not record.sound]
            return (
                f"The checks FAILED in layers {format_ranges(tuple(sorted(set(wrong))))}: do not trust those weights."
            )
        said = "Nothing was checked." if not residuals else f"W V = output everywhere, {_closeness(max(residuals))}."
        return said + (f" The identity probe passed for {_count(len(probed), 'record')}." if probed else "")


TOLD = 40  # records that the paragraph lists


def _records_to_list(records: tuple[AttentionRecord, ...]) -> tuple[AttentionRecord, ...]:
    """The first ones, and before them whatever is wrong: it must not hide behind "and 300 more"."""
    wrong = tuple(record for record in records if not record.sound)
    return (wrong + tuple(record for record in records if record.sound))[:TOLD] if wrong else records[:TOLD]


def is_cross(module: str) -> bool:
    """Whether a module's name says that it reads another sequence than its own: cross-attention.

    >>> is_cross("decoder.layers.0.encoder_attn"), is_cross("decoder.layers.0.self_attn")
    (True, False)
    """
    name = module.lower()
    if any(word in name for word in ("cross", "encdec", "encoder_attn", "source_attention")):
        return True
    return "decoder" in name and "multihead" in name


def _fitting_words(sides: Sequence[Tokens | None], length: int, example: int) -> list[str]:
    for side in sides:
        if side is not None and example < len(side) and len(side[example]) == length:
            return side[example]
    return [str(place) for place in range(length)]


def format_ranges(numbers: Sequence[int]) -> str:
    """Whole numbers as a person lists them.

    >>> format_ranges([0, 1, 2, 5])
    '0 to 2 and 5'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts) or "none"


def _closeness(residual: float) -> str:
    return "exactly" if residual == 0 else f"to {residual:.1e}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def record_from(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> AttentionRecord:
    """A record from what :data:`FACTS` and :data:`ARRAYS` name, as files hold them."""
    chosen: dict[str, Any] = {name: facts[name] for name in FACTS} | {name: arrays.get(name) for name in ARRAYS}
    for name in ("heads", "notes"):
        chosen[name] = tuple(chosen[name])
    for name in ("residual", "tolerance"):  # JSON has no NaN: results write it as a word
        chosen[name] = None if chosen[name] is None else float(chosen[name])
    return AttentionRecord(**chosen)
