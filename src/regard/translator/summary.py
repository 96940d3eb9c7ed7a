"""Comparisons in numbers: each variant over its seeds, every two of them paired, and groups of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import InputError
from regard.results import Result
from regard.translator.budget import duration
from regard.translator.intervals import Difference, Interval, paired_differences, t_interval
from regard.translator.records import Record
from regard.translator.settings import Settings

COMPARED = ("validation perplexity", "perplexity", "BLEU")  # the measures that differences are given for

Results = dict[str, list[tuple[Record, dict[str, Any]]]]  # for each variant, seed by seed: the run and its scores


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """One variant over all seeds; perplexities count <sos>, the ones ending in "without <sos>" do not."""

    name: str
    embedding: dict[str, Any]
    changes: list[str]  # settings that differ from the comparison's own
    coverage: list[str]
    parameters: int
    cpu_seconds: float  # of all its runs
    best_epochs: list[int]
    measures: dict[str, Interval]
    runs: list[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupRow:
    """Sentences of one length or phenomenon, variant by variant; perplexity counts <sos>, of the pairs that fit."""

    kind: str
    name: str
    pairs: int
    bleu: dict[str, Interval]
    exact: dict[str, Interval]
    perplexity: dict[str, Interval]  # empty where no pair of the group fits the model


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """What :func:`compare` returns; ``scored_on`` says which pairs perplexity and BLEU are of."""

    folder: str
    scored_on: str
    seeds: list[int]
    entries: list[Entry]
    differences: list[Difference]
    groups: list[GroupRow]
    bleu_signature: str
    notes: list[str]

    def __str__(self) -> str:
        parts = [_heading(self), _table(self), *self.notes]
        if self.differences:
            parts += ["", "Differences, paired by seed (95 % intervals; + means the second has more):", _pairs(self)]
        return "\n".join([*parts, f"BLEU {self.bleu_signature}"])

    def difference(self, measure: str, first: str, second: str) -> Difference:
        """The difference of two variants, whichever came first."""
        for d in self.differences:
            if d.measure == measure and (d.first, d.second) == (first, second):
                return d
        raise InputError(f"There is no difference of {measure!r} between {first!r} and {second!r}, in this order.")


def summarise(
    results: Results,
    seeds: Sequence[int],
    *,
    folder: str,
    scored_on: str,
    notes: Sequence[str],
) -> Comparison:
    """Means, intervals, paired differences and groups from each run's record and scores."""
    base = next(iter(results.values()))[0][0].settings
    entries = [_entry(name, found, base) for name, found in results.items()]
    paired = len({tuple(r.settings.training.seed for r, _ in found) for found in results.values()}) == 1
    said = list(notes)
    if not paired:
        said.append("The runs have different seeds, so differences cannot be paired and none is given.")
    if len(seeds) == 1:
        said.append("One seed says nothing about noise: no interval, and no difference can be told from chance.")
    differences = [
        d
        for measure in COMPARED
        for d in paired_differences(
            measure, {e.name: e.measures[measure].values for e in entries}, lower_is_better="perp" in measure
        )
    ]
    signatures = {str(s["bleu_signature"]) for found in results.values() for _, s in found}
    return Comparison(
        folder=folder,
        scored_on=scored_on,
        seeds=list(seeds),
        entries=entries,
        differences=differences if paired and len(entries) > 1 else [],
        groups=_groups({name: [s for _, s in found] for name, found in results.items()}),
        bleu_signature=" or ".join(sorted(signatures)),
        notes=said,
    )


def _entry(name: str, found: Sequence[tuple[Record, dict[str, Any]]], base: Settings) -> Entry:
    record = found[0][0]
    vectors = record.about.get("vectors") or {}
    return Entry(
        name=name,
        embedding=record.settings.to_dict()["embedding"],
        changes=[d.replace(": ", " is ", 1) for d in record.settings.differences(base)],
        coverage=[f"{side}: {_coverage(v)}" for side, v in vectors.items() if v],
        parameters=int(record.about.get("parameters", 0)),
        cpu_seconds=sum(r.cpu_seconds for r, _ in found),
        best_epochs=[r.best.epoch for r, _ in found],
        measures={key: t_interval([_measured(r, s)[key] for r, s in found]) for key in _measured(*found[0])},
        runs=[str(r.folder) for r, _ in found],
    )


def _measured(record: Record, scores: dict[str, Any]) -> dict[str, float]:
    return {
        "validation perplexity": record.best.perplexity,
        "validation perplexity without <sos>": record.best.perplexity_without_sos,
        "perplexity": float(scores["perplexity"]["counting_sos"]),
        "perplexity without <sos>": float(scores["perplexity"]["without_sos"]),
        "BLEU": float(scores["all"]["bleu"]),
        "chrF": float(scores["all"]["chrf"]),
        "exact": float(scores["all"]["exact"]),
    }


def _coverage(vectors: dict[str, Any]) -> str:
    types, tokens = vectors["types_covered"] / max(1, vectors["types"]), vectors["tokens_covered"]
    return (
        f"{vectors['spec'].partition(':')[0]} has {types:.1%} of the words "
        f"({tokens / max(1, vectors['tokens']):.1%} of the running ones), {vectors['width']} numbers each"
    )


def _groups(scores: dict[str, list[dict[str, Any]]]) -> list[GroupRow]:
    rows = []
    first = next(iter(scores.values()))[0]
    for kind, key in (("length", "by_length"), ("phenomenon", "by_phenomenon")):
        for i, group in enumerate(first[key]):
            same = {name: [s[key][i] for s in found] for name, found in scores.items()}
            rows.append(
                GroupRow(
                    kind=kind,
                    name=group["name"],
                    pairs=group["pairs"],
                    bleu={name: t_interval([g["bleu"] for g in found]) for name, found in same.items()},
                    exact={name: t_interval([g["exact"] for g in found]) for name, found in same.items()},
                    perplexity={
                        name: t_interval([float(g["perplexity"]) for g in found])
                        for name, found in same.items()
                        if all(g["perplexity"] is not None for g in found)
                    },
                )
            )
    return rows


def _heading(found: Comparison) -> str:
    seeds = ", ".join(map(str, found.seeds))
    cpu = duration(sum(e.cpu_seconds for e in found.entries))
    several = "mean and 95 % t-interval over seeds" if len(found.seeds) > 1 else "seed"
    return (
        f"{len(found.entries)} variants, {several} {seeds}; {cpu} of training. Perplexity (lower is better) counts "
        f"<sos>; perplexity and BLEU are of {found.scored_on}."
    )


def _table(found: Comparison) -> str:
    columns = [("validation perplexity", 2), ("perplexity", 2), ("BLEU", 1), ("chrF", 1)]
    rows = [["", *(name for name, _ in columns)]]
    rows += [[e.name, *(e.measures[name].text(digits) for name, digits in columns)] for e in found.entries]
    return aligned(rows)


def _pairs(found: Comparison) -> str:
    rows = []
    for d in found.differences:
        low, high = d.interval.low, d.interval.high
        span = "" if low is None or high is None else f"({low:+.2f} to {high:+.2f})"
        rows.append([d.measure, f"{d.first}, {d.second}", f"{d.interval.mean:+.2f}", span, d.verdict])
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, two blanks apart.

    >>> print(aligned([["a", "b"], ["long", "c"]]))
    a     b
    long  c
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
