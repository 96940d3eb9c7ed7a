"""A comparison as its folder tells it; reading it needs no torch. What is in the folder: see
:mod:`regard.translator.studies.comparison`, which fills it.

Comparisons in numbers: each variant over its seeds, every two of them paired, and groups of sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.progress import duration
from regard.results import Result
from regard.terminal import align_columns
from regard.translator.runs.files import explain_errors, read_description, read_json
from regard.translator.runs.records import Record, read_record, why_perplexities_differ
from regard.translator.runs.settings import Settings
from regard.translator.scoring.significance import Bootstrap, Difference, Interval, paired_differences, t_interval

PLAN = "comparison.json"


def read_comparison(folder: str | Path) -> Comparison:
    """The comparison in a folder that :func:`compare` has finished."""
    with explain_errors(Path(folder), "comparison"):
        plan = read_plan(Path(folder))
        notes = [str(v["note"]) for v in plan["variants"] if v["note"]]
        return summarise(
            comparison_results(folder),
            [int(seed) for seed in plan["seeds"]],
            folder=str(folder),
            scored_on=str(plan["scored_on"]),
            notes=notes,
            command=str(plan.get("command", "")),
        )


def comparison_results(folder: str | Path) -> Results:
    """Each variant's runs, seed by seed: the record and the scores."""
    folder = Path(folder)
    plan = read_plan(folder)
    return {
        str(v["name"]): [_result(folder, f"{v['slug']}-seed{seed}") for seed in plan["seeds"]] for v in plan["variants"]
    }


def read_plan(folder: Path) -> dict[str, Any]:
    """What a comparison's folder says it compares."""
    wanted = {"settings", "fingerprint", "scored_on", "seeds", "variants"}
    return read_description(folder / PLAN, "a comparison", wanted, otherwise="give another --out")


def _result(folder: Path, name: str) -> tuple[Record, dict[str, Any]]:
    run, scores = folder / "runs" / name, folder / "scores" / f"{name}.json"
    if not run.exists() or not scores.exists():
        raise InputError(f"The comparison in {folder} is not finished: {name} is missing; give its command again.")
    content = read_json(scores, otherwise="remove it and give the compare command again")
    if not isinstance(content, dict) or not {"perplexity", "all", "by_length", "by_phenomenon"} <= content.keys():
        raise InputError(f"{scores} is damaged; remove it and give the compare command again.")
    return read_record(run), content


NLL = "NLL per character"  # in nats, unknown words spelled out
COMPARED = ("validation perplexity", "perplexity", NLL, "BLEU")  # the measures that differences are given for
DIGITS = {NLL: 4, "BLEU": 1, "chrF": 1}  # the others have 2

Scores = dict[str, Any]
Results = dict[str, list[tuple[Record, Scores]]]  # for each variant, seed by seed: the run and its scores


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """One variant over all seeds; perplexities count <sos>, the ones ending in "without <sos>" do not.

    A measure that would not mean the same for all variants is left out, and the comparison's notes say why.
    """

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
    perplexity: dict[str, Interval]  # empty where no pair of the group fits the model, or it would not compare


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """What :func:`compare` returns; ``scored_on`` says which pairs perplexity and BLEU are of.

    ``differences`` are paired by seed (would another training say the same?); ``bootstrap`` by sentence (would other
    test sentences?), where finished runs were compared.
    """

    folder: str
    scored_on: str
    seeds: list[int]
    entries: list[Entry]
    differences: list[Difference]
    groups: list[GroupRow]
    bleu_signature: str
    chrf_signature: str
    notes: list[str]
    bootstrap: Bootstrap | None = None
    command: str = ""  # that trained it all

    def __str__(self) -> str:
        parts = [_heading(self), _table(self), *self.notes]
        if self.differences and len(self.seeds) > 1:  # of one seed the notes say what that is worth
            parts += ["", "Differences, paired by seed (95 % intervals; + means the second has more):", _pairs(self)]
        if self.bootstrap is not None:
            parts += ["", self.bootstrap.table()]
        return "\n".join([*parts, f"BLEU {self.bleu_signature}", f"chrF {self.chrf_signature}"])

    def has(self, measure: str) -> bool:
        """Whether a measure is compared; the notes say why one is not."""
        return all(measure in e.measures for e in self.entries)

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
    bootstrap: Bootstrap | None = None,
    command: str = "",
) -> Comparison:
    """Means, intervals, paired differences and groups from each run's record and scores."""
    records = [record for runs in results.values() for record, _ in runs]
    unlike = why_perplexities_differ(records)
    nll, about_nll = shared_nll(results)
    bleu_signature, chrf_signature = _signature(results, "bleu_signature"), _signature(results, "chrf_signature")
    entries = [_entry(name, runs, records[0].settings, nll.get(name), not unlike) for name, runs in results.items()]
    # a difference seed by seed needs the same seeds in every variant, in the same order
    paired = len({tuple(r.settings.training.seed for r, _ in runs) for runs in results.values()}) == 1
    said = [*notes, *([f"No perplexity is compared: {unlike}."] if unlike else []), *([about_nll] if about_nll else [])]
    if not paired:
        said.append("The runs have different seeds, so differences cannot be paired and none is given.")
    if len(seeds) == 1:
        said.append("One seed says nothing about noise: no interval, and no difference can be told from chance.")
    return Comparison(
        folder=folder,
        scored_on=scored_on,
        seeds=list(seeds),
        entries=entries,
        differences=differences_of(entries) if paired and len(entries) > 1 else [],
        groups=_groups({name: [s for _, s in runs] for name, runs in results.items()}, perplexity=not unlike),
        bleu_signature=bleu_signature,
        chrf_signature=chrf_signature,
        notes=said,
        bootstrap=bootstrap,
        command=command,
    )


def shared_nll(results: Results) -> tuple[dict[str, list[float]], str]:
    """Each run's nats per character over the pairs that every run can read, and what is to be said about it."""
    scores = [s for runs in results.values() for _, s in runs]
    if any("likelihood" not in s for s in scores):
        return {}, ""  # scores of an earlier version
    if len({s["likelihood"]["lowercase"] for s in scores}) > 1:
        return {}, f"No {NLL} is compared: some runs write upper and lower case and some do not, and case costs nats."
    lengths = scores[0]["likelihood"]["lengths"]
    rows = [i for i in range(len(lengths)) if all(s["likelihood"]["nats"][i] is not None for s in scores)]
    if not rows:
        return {}, f"No {NLL} is compared: no pair is short enough for all of these runs."
    whole = sum(lengths[i] for i in rows)
    nats = {
        name: [sum(s["likelihood"]["nats"][i] for i in rows) / whole for _, s in runs] for name, runs in results.items()
    }
    few = f"{NLL} is of the {len(rows):,} of {len(lengths):,} pairs that all of these runs can read."
    return nats, few if len(rows) < len(lengths) else ""


def _signature(results: Results, which: str) -> str:
    signatures = sorted({str(s.get(which, "")) for runs in results.values() for _, s in runs})
    if len(signatures) > 1:
        raise InputError(f"BLEU and chrF were not counted in the same way ({signatures[0]} and {signatures[1]}).")
    return signatures[0]


def differences_of(entries: Sequence[Entry]) -> list[Difference]:
    """Every two entries, paired by seed, in every measure that differences are given for."""
    return [
        difference
        for measure in COMPARED
        if measure in entries[0].measures
        for difference in paired_differences(
            measure, {e.name: e.measures[measure].values for e in entries}, lower_is_better=measure != "BLEU"
        )
    ]


def _entry(
    name: str, runs: Sequence[tuple[Record, Scores]], base: Settings, nll: Sequence[float] | None, perplexity: bool
) -> Entry:
    record = runs[0][0]
    vectors = record.about.get("vectors") or {}
    measured = [_run_measures(r, s, perplexity) for r, s in runs]
    measures = {key: t_interval([m[key] for m in measured]) for key in measured[0]}
    return Entry(
        name=name,
        embedding=record.settings.to_dict()["embedding"],
        changes=[d.replace(": ", " is ", 1) for d in record.settings.differences(base)],
        coverage=[f"{side}: {_coverage(v)}" for side, v in vectors.items() if v],
        parameters=int(record.about.get("parameters", 0)),
        cpu_seconds=sum(r.cpu_seconds for r, _ in runs),
        best_epochs=[r.best.epoch for r, _ in runs],
        measures=measures if nll is None else measures | {NLL: t_interval(nll)},
        runs=[str(r.folder) for r, _ in runs],
    )


def _run_measures(record: Record, scores: Scores, perplexity: bool) -> dict[str, float]:
    perplexities = {
        "validation perplexity": record.best.perplexity,
        "validation perplexity without <sos>": record.best.perplexity_without_sos,
        "perplexity": float(scores["perplexity"]["counting_sos"]),
        "perplexity without <sos>": float(scores["perplexity"]["without_sos"]),
    }
    return (perplexities if perplexity else {}) | {
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


def _groups(scores: dict[str, list[Scores]], *, perplexity: bool) -> list[GroupRow]:
    rows = []
    first = next(iter(scores.values()))[0]
    for kind, key in (("length", "by_length"), ("phenomenon", "by_phenomenon")):
        for i, group in enumerate(first[key]):
            of = {
                measure: {
                    name: t_interval([float(s[key][i][measure]) for s in runs])
                    for name, runs in scores.items()
                    if all(s[key][i][measure] is not None for s in runs)
                }
                for measure in ("bleu", "exact", *["perplexity"] * perplexity)
            }
            rows.append(GroupRow(kind=kind, name=group["name"], pairs=group["pairs"], **{"perplexity": {}, **of}))
    return rows


def _heading(comparison: Comparison) -> str:
    seeds, count = ", ".join(map(str, comparison.seeds)), len(comparison.entries)
    cpu = duration(sum(e.cpu_seconds for e in comparison.entries))
    several = "mean and 95 % t-interval over seeds" if len(comparison.seeds) > 1 else "seed"
    return (
        f"{count} variant{'s' * (count != 1)}, {several} {seeds}; {cpu} of training. Perplexity (lower is better) "
        f"counts <sos>; {NLL} (lower is better) is in nats; all but validation perplexity are of "
        f"{comparison.scored_on}."
    )


def _table(comparison: Comparison) -> str:
    columns = ["validation perplexity", "perplexity", NLL, "BLEU", "chrF"]
    rows = [
        [e.name, *(e.measures[m].text(DIGITS.get(m, 2)) if m in e.measures else "-" for m in columns)]
        for e in comparison.entries
    ]
    return align_columns([["", *columns], *rows])


def _pairs(comparison: Comparison) -> str:
    rows = []
    for d in comparison.differences:
        low, high, digits = d.interval.low, d.interval.high, max(2, DIGITS.get(d.measure, 2))
        span = "" if low is None or high is None else f"({low:+.{digits}f} to {high:+.{digits}f})"
        rows.append([d.measure, f"{d.first}, {d.second}", f"{d.interval.mean:+.{digits}f}", span, d.verdict])
    return align_columns(rows)
