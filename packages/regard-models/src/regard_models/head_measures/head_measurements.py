"""Where heads lie while they are measured: one method for each group of measures, one table for each measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.array_types import Flags, Float
from regard.progress import Progress
from regard_models.capturing.records import AttentionRecord, Capture
from regard_models.head_measures import head_keys, weight_patterns
from regard_models.head_measures.head_report import Heads
from regard_models.head_measures.weight_patterns import has_influence, influence, rollout, value_lengths
from regard_models.kernels import CURVE

if TYPE_CHECKING:
    from regard_models.inputs.model_input import ModelInput

_TWINS = 400  # heads up to which all pairs are compared; beyond, those of one layer
_CROSS = ("cross", "encdec", "multihead_attn", "encoder_attn")


@dataclass(eq=False)
class HeadMeasurements:
    """Where the heads lie while they are measured: every measure fills one table, layers by heads."""

    captured: Capture
    records: list[AttentionRecord]
    example: int
    eps: float
    given: ModelInput | None
    measures: dict[str, Float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    kinds: list[tuple[str, ...]] = field(default_factory=list)

    def put(self, name: str, row: int, values: Any) -> None:
        """One layer's numbers of a measure."""
        widest = max(len(record.heads) for record in self.records)
        table = self.measures.setdefault(name, np.full((len(self.records), widest), np.nan))
        table[row, : len(values)] = values

    def put_one(self, name: str, row: int, h: int, value: float) -> None:
        """One head's number of a measure."""
        if name not in self.measures:
            self.put(name, row, ())
        self.measures[name][row, h] = value

    # the cheap measures

    def measure_cheap(self) -> None:
        for row, record in enumerate(self.records):
            weights, allowed = weights_of(record, self.example), allowed_keys(record, self.example)
            self._spread(row, weights, allowed)
            self._patterns(row, record, weights, allowed)
            self._keys(row, record, weights, allowed)
            self._influence(row, record, weights)
        self._agreement()
        self._rollout()

    def _spread(self, row: int, weights: Float, allowed: Flags) -> None:
        measured = weight_patterns.spread(weights, allowed, eps=self.eps)
        for name in ("entropy", "effective", "largest", "copying", "margin", "sharing"):
            self.put(name, row, getattr(measured, name))

    def _patterns(self, row: int, record: AttentionRecord, weights: Float, allowed: Flags) -> None:
        words, key_words = self._words(record)
        measured = weight_patterns.pattern_scores(
            weights, allowed, words=words, key_words=key_words, cross=is_cross(record, words, key_words)
        )
        for name in weight_patterns.PATTERNS:
            if name in measured.scores and np.isfinite(measured.chance[name]):
                self.put(name, row, measured.scores[name])
                self.put(f"{name} by chance", row, np.full(len(weights), measured.chance[name]))
        readable = float(allowed.sum(axis=2).mean())
        effective = self.measures["effective"][row]
        self.kinds.append(tuple(measured.name(h, broadness=effective[h] / readable) for h in range(len(weights))))
        if words is None:
            self.missing["separator, duplicate, induction"] = "needs tokens"

    def _keys(self, row: int, record: AttentionRecord, weights: Float, allowed: Flags) -> None:
        if record.k is None:
            self.missing["swing"] = "needs keys"
            self.missing["evened"] = "needs queries and keys"
            return
        k = record.k[self.example].astype(np.float64)
        self.put("swing", row, head_keys.swing(k))
        scores = self.scores(record)
        if scores is None:
            self.missing["evened"] = "needs scores that are scale q.k and a mask, and nothing else"
        else:
            self.put("evened", row, head_keys.even_length_effect(scores, k, allowed))

    def _influence(self, row: int, record: AttentionRecord, weights: Float) -> None:
        if not has_influence(record):
            missing = "values" if record.v is None else "the output projection, which is not known"
            self.missing["adds, elsewhere"] = f"needs {missing}"
            return
        used = record if record.used is None else replace(record, weights=record.used)
        v, w = (np.asarray(a, dtype=np.float64) for a in (record.v[self.example], record.w_o))  # type: ignore[index]
        added = value_lengths(np.asarray(used.weights[self.example], dtype=np.float64) @ v, w)
        self.put("adds", row, added.mean(axis=1))
        self.put(
            "elsewhere", row, weight_patterns.mean_total_variation(weights, influence(record, example=self.example))
        )

    def _agreement(self) -> None:
        """Each head's twin: the head whose weights overlap most with its own."""
        many = sum(len(record.heads) for record in self.records) > _TWINS
        groups: dict[Any, list[int]] = {}
        for row, record in enumerate(self.records):
            groups.setdefault(row if many else record.shape[2:], []).append(row)
        twins: dict[str, str] = {}
        for rows in groups.values():
            labels = [(row, h) for row in rows for h in range(len(self.records[row].heads))]
            if len(labels) < 2:
                continue
            some = weight_patterns.sample_rows(self.records[rows[0]].shape[2])
            pairs = weight_patterns.agreement(
                np.concatenate([self.records[row].weights[self.example][:, some] for row in rows])
            )
            np.fill_diagonal(pairs, -1.0)
            near = np.nanargmax(np.where(np.isnan(pairs), -1.0, pairs), axis=1)
            for number, (row, h) in enumerate(labels):
                if pairs[number, near[number]] >= 0:  # a head that reads nothing has no twin
                    self.put_one("overlap", row, h, pairs[number, near[number]])
                    twins[self._label(row, h)] = self._label(*labels[near[number]])
        self.results["twins"] = twins
        if not twins:
            self.missing["overlap"] = "needs two heads of one shape"

    def _rollout(self) -> None:
        layers = [record for record in self.captured.records if record.step == 0]  # all, whichever were chosen
        cross = any(is_cross(record, *self._words(record)) for record in layers)
        if not cross and len({record.shape[2:] for record in layers}) == 1:
            self.results["rollout"] = rollout([weights_of(record, self.example) for record in layers])
        else:
            self.missing["rollout"] = "needs one stack of self-attention layers of one length"

    # the costly measures

    def ceilings(self, *, progress: Progress | None) -> None:
        each = []
        for row, record, h, head in self._each_head("ceilings", progress):
            words = self.captured.labels(record, example=self.example)[1]
            one = head_keys.head_ceilings(
                self._array(record.k, h), self._array(record.q, h), allowed_keys(record, self.example)[h],
                scale=scale_of(record), words=words, layer=record.index, head=head, eps=self.eps,
            )  # fmt: skip
            each.append(one)
            self.put_one("never win", row, h, len(one.never))
            self.put_one("out of reach", row, h, len(one.out_of_reach))
        self.results["ceilings"] = tuple(each)

    def noise(self, *, progress: Progress | None) -> None:
        each = []
        for row, record, h, head in self._each_head("noise", progress):
            scores, allowed = self.scores(record), allowed_keys(record, self.example)[h]
            amount = float(self.measures["swing"][row, h])
            if scores is not None and amount > 0 and allowed.sum(axis=1).max() > 1:
                one = head_keys.swing_noise(scores[h], allowed, amount, layer=record.index, head=head)
                each.append(one)
                self.put_one("noise", row, h, one.sd)
                self.put_one("noise drawn", row, h, one.measured_sd)
        self.results["noise"] = tuple(each)

    def _each_head(self, what: str, progress: Progress | None) -> Iterator[tuple[int, AttentionRecord, int, int]]:
        """Row, record, place and number of every head whose scores are known; and how far the work is."""
        ready = [(row, record) for row, record in enumerate(self.records) if self.scores(record) is not None]
        if len(ready) < len(self.records):
            self.missing[what] = "needs queries and keys, and scores that are scale q.k and a mask"
        done, total = 0, sum(len(record.heads) for _, record in ready)
        for row, record in ready:
            for h, head in enumerate(record.heads):
                yield row, record, h, head
                done += 1
                if progress is not None:
                    progress(done, total)

    def ablation(self, *, progress: Progress | None) -> None:
        if (given := self._model_for("ablation")) is None:
            return
        from regard_models.editing.patching import ablate
        from regard_models.head_measures.effects import loss_of, yardstick
        from regard_models.inputs.model_input import run_once

        usual = run_once(given.module, given.inputs, given.name)
        measure = yardstick(given, usual)
        metric = None if measure.loss is None else lambda out: loss_of(given, out) or 0.0
        layers = [record.index for record in self.records]
        effects = ablate(given.module, given.inputs, layers=layers, metric=metric, progress=progress)
        self.results["effect"] = measure.name
        for row, record in enumerate(self.records):
            self.put("ablation", row, effects.effects[row, list(record.heads)])

    def direct(self, *, progress: Progress | None) -> None:
        if (given := self._model_for("direct")) is None:
            return
        from regard_models.head_measures.effects import direct_effects

        counts = {record.index: list(record.heads) for record in self.records}
        name, effects, why = direct_effects(given, counts, progress=progress)
        self.results["direct"] = name
        if why is not None:
            self.missing["direct"] = why
        for row, record in enumerate(self.records):
            if effects:
                self.put("direct", row, [effects.get((record.index, head), np.nan) for head in record.heads])

    def rank(self, *, rank: int | None, progress: Progress | None) -> None:
        if (given := self._model_for("rank")) is None:
            return
        from regard_models.head_measures.effects import head_ranks

        counts = {record.index: list(record.heads) for record in self.records}
        name, ranks = head_ranks(given, counts, rank=rank, progress=progress)
        self.results["effect"], self.results["ranks"] = name, tuple(ranks)
        if any(one.qk_effective is None or one.ov_effective is None for one in ranks):
            self.missing["rank of some heads"] = "needs one matrix that made the queries, keys or values"
        rows = {record.index: row for row, record in enumerate(self.records)}
        for name in ("qk_effective", "qk_rank", "qk_effect", "ov_effective", "ov_rank", "ov_effect"):
            for row in rows.values():
                here = [getattr(one, name) for one in ranks if rows[one.layer] == row]
                self.put(name.replace("_", " "), row, [np.nan if value is None else value for value in here])

    # what they share

    def scores(self, record: AttentionRecord) -> Float | None:
        """scale q.k of a layer, None where that is not what the head used."""
        if record.q is None or record.k is None or CURVE in record.notes:
            return None
        q, k = (a[self.example].astype(np.float64) for a in (record.q, record.k))
        weights, allowed = weights_of(record, self.example), allowed_keys(record, self.example)
        return head_keys.plain_scores(q, k, scale_of(record), weights, allowed, rounding=record.tolerance or 0.0)

    def _array(self, array: Any, h: int) -> Float:
        return np.asarray(array[self.example, h], dtype=np.float64)

    def _words(self, record: AttentionRecord) -> tuple[list[str] | None, list[str] | None]:
        if self.captured.tokens is None and self.captured.target_tokens is None:
            return None, None
        return self.captured.labels(record, example=self.example)

    def _label(self, row: int, h: int) -> str:
        return f"{self.records[row].index}.{self.records[row].heads[h]}"

    def _model_for(self, what: str) -> ModelInput | None:
        if self.given is None:
            self.missing[what] = "needs the model itself, not only its weights"
        return self.given

    def result(self, notes: tuple[str, ...]) -> Heads:
        return Heads(
            name=self.captured.name, example=self.example, eps=self.eps,
            layers=tuple(r.index for r in self.records), modules=tuple(r.module for r in self.records),
            numbers=tuple(r.heads for r in self.records), shapes=tuple(r.shape[2:] for r in self.records),
            measures=self.measures, kinds=tuple(self.kinds), not_applicable=self.missing,
            tokens=None if self.captured.tokens is None else self.captured.tokens[self.example],
            notes=notes, **self.results,
        )  # fmt: skip


def weights_of(record: AttentionRecord, example: int) -> Float:
    """The weights of one example in float64: heads x queries x keys."""
    return np.asarray(record.weights[example], dtype=np.float64)


def allowed_keys(record: AttentionRecord, example: int) -> Flags:
    """Which keys each query may read, by the mask that was seen; where none was, all that the weights leave open.

    Keys that nobody in the layer reads are padding; if nobody ever looks ahead, nobody may.
    """
    weights = record.weights[example]
    if record.allowed is not None:
        mask = record.allowed[example if record.allowed.shape[0] > 1 else 0]
        if mask.shape[0] > 1 and mask.shape[0] != len(weights):
            mask = mask[list(record.heads)]
        return np.broadcast_to(mask, weights.shape)
    read = (np.asarray(weights) != 0).any(axis=0)
    may = np.broadcast_to(read.any(axis=0), read.shape)
    if read.shape[0] == read.shape[1] > 1 and not np.triu(read, 1).any():
        may = np.tril(may)
    return np.broadcast_to(may, weights.shape)


def scale_of(record: AttentionRecord) -> float:
    """The scores' scale; where nobody said it, the usual one, which :func:`plain_scores` then confirms or not."""
    if record.scale is not None:
        return record.scale
    return 1.0 if record.q is None else record.q.shape[-1] ** -0.5


def is_cross(record: AttentionRecord, words: Sequence[str] | None, key_words: Sequence[str] | None) -> bool:
    """Whether queries and keys are places of different inputs."""
    named = any(word in record.module.lower() for word in _CROSS)
    return named or record.shape[2] != record.shape[3] or (words is not None and words != key_words)
