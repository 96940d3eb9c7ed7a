"""The part of the page about a search: what was tried, what mattered, and the default beside the best.

The part of the page about a comparison: intervals, paired differences, groups, translations side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.markup import Html, element, join
from regard.progress import duration
from regard.translator.data.corpus import Pairs
from regard.translator.reports import pieces
from regard.translator.reports.run_sections import attention_maps, comparison_paragraph, legend, samples
from regard.translator.runs.settings import Settings
from regard.translator.scoring.significance import Bootstrap, BootstrapDifference, Difference
from regard.translator.studies.comparison_record import DIGITS, NLL, Comparison, GroupRow, Results
from regard.translator.studies.search_record import Trial, Tuning

_KINDS = {"complete": 0, "pruned": 1}


def study_section(study: Tuning) -> Html:
    """A study, whole."""
    return join(
        _headline(study),
        pieces.paragraph(
            "Data, vocabulary, tokenisation, epochs and the single layer were fixed. Trials were judged by their best "
            "validation perplexity (counting <sos>) with one seed, so the best trial's number flatters it; the "
            "confirmation below uses seeds that took no part in the choice."
        ),
        element("h3", "Trials in order"),
        _history(study),
        element("h3", "What mattered"),
        _importance(study),
        _effects(study),
        *_confirmation(study),
        element("h3", "Best beside default"),
        _settings(study.best, study.default),
        element("h3", "Everything that was tried"),
        _trials(study),
        element("h3", "Commands"),
        pieces.commands([study.searched_by, study.command]),
    )


def _headline(study: Tuning) -> Html:
    boxes = [(f"{study.best.perplexity:.2f}", f"validation perplexity of the best trial (number {study.best.number})")]
    if study.default is not None and study.default.perplexity:
        boxes.append((f"{study.default.perplexity:.2f}", "of the settings it started from"))
        boxes.append((f"{(study.best.perplexity or 0) / study.default.perplexity - 1:+.1%}", "change, one seed"))
    pruned = sum(t.state == "pruned" for t in study.trials)
    boxes += [(str(len(study.trials)), f"trials, {pruned} of them pruned"), (duration(study.cpu_seconds), "CPU time")]
    return pieces.facts(boxes)


def _history(study: Tuning) -> Html:
    judged = [t for t in study.trials if t.perplexity is not None]
    points = [
        pieces.Point(
            x=t.number, y=t.expected or 1.0, kind=_KINDS[t.state], title=f"trial {t.number}: {_trial_title(t)}"
        )
        for t in judged
    ]
    steps, lowest = [], math.inf
    for t in judged:
        if t.state == "complete":
            lowest = min(lowest, t.perplexity or math.inf)
        if lowest < math.inf:
            steps.append((float(t.number), lowest))
    svg = pieces.cloud(points, title="Trials in order", x_label="trial", y_label="validation perplexity", steps=steps)
    return pieces.figure(
        svg,
        "Blue circles: complete. Orange squares: pruned, placed where they would be had they gained as much as the "
        "complete trials did on average after that epoch. Line: the best so far.",
    )


def _importance(study: Tuning) -> Html:
    if not study.importance:
        return pieces.paragraph("There are too few trials to say.", "warn")
    rows = [(i.name, [pieces.Dot(value=i.mean, low=i.low, high=i.high)]) for i in study.importance]
    said = ["" if i.low > 0 else "not shown to matter" for i in study.importance]
    svg = pieces.dots(
        rows, title="Importance", x_label="share of the scatter of ln perplexity", zero=True, note=said.__getitem__
    )
    return pieces.figure(
        svg,
        "By how much a random forest's error on unseen trials grows when a setting's values are shuffled, relative to "
        "the variance of ln perplexity; mean and 5 % to 95 % of resampled trials. Pruned trials count "
        "with the perplexity they could expect, as above.",
    )


def _effects(study: Tuning) -> Html:
    """Perplexity against the settings that mattered most."""
    names = [i.name for i in study.importance[:6]] or list(study.best.changes)[:6]
    pictures = (element("div", _effect(study.trials, name)) for name in names)
    return pieces.figure(
        element("div", *pictures, class_="maps"), "Every trial: perplexity against one setting at a time."
    )


def _effect(trials: Sequence[Trial], name: str) -> Html:
    judged = [t for t in trials if t.perplexity is not None]
    values = sorted({t.changes[name] for t in judged}, key=lambda v: (isinstance(v, str), v))
    few = isinstance(values[0], (str, bool)) or len(values) <= 6
    logarithmic = not few and min(values) > 0 and max(values) / min(values) > 20
    place = (lambda v: float(values.index(v))) if few else math.log10 if logarithmic else float
    points = [
        pieces.Point(x=place(t.changes[name]), y=t.expected or 1.0, kind=_KINDS[t.state], title=_trial_title(t))
        for t in judged
    ]
    ticks = [(place(v), _format_value(v)) for v in values] if few else None
    if logarithmic:
        ticks = [(math.log10(v), f"{v:g}") for v in pieces.log_ticks(min(values), max(values), most=5)]
    return pieces.cloud(
        points, title=f"Perplexity by {name}", x_label=name, y_label="perplexity", ticks=ticks, width=340, height=220
    )


def _confirmation(study: Tuning) -> list[Html]:
    if study.confirmation is None:
        return [
            pieces.paragraph("Not confirmed: add --confirm 3 to the tune command for fresh seeds and the test set.")
        ]
    return [element("h3", "Default beside best, on fresh seeds"), comparison_tables(study.confirmation)]


def _settings(best: Trial, default: Trial | None) -> Html:
    before = default.changes if default is not None else {}
    rows = [
        [key, _format_value(before.get(key, "-")), pieces.bold_if(before.get(key) != value, _format_value(value))]
        for key, value in best.changes.items()
    ]
    return pieces.table(["setting", "default", f"best (trial {best.number})"], rows)


def _trials(study: Tuning) -> Html:
    keys = list(study.best.changes)
    order = sorted(study.trials, key=lambda t: (t.state != "complete", t.perplexity or math.inf))
    rows = [
        [str(t.number), t.state + (f": {t.reason}" if t.reason else ""),
         "-" if t.perplexity is None else f"{t.perplexity:.2f}", str(len(t.curve)),
         *(_format_value(t.changes.get(k, "-")) for k in keys)]
        for t in order
    ]  # fmt: skip
    names = [k.rpartition(".")[2] for k in keys]
    unique = [name if names.count(name) == 1 else key for name, key in zip(names, keys, strict=True)]
    head = ["trial", "state", "perplexity", "epochs", *unique]
    return pieces.table(head, rows, numbers=2, chosen=0)


def _trial_title(trial: Trial) -> str:
    return f"{trial.perplexity:.2f}; " + ", ".join(f"{k} {_format_value(v)}" for k, v in trial.changes.items())


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


_COLUMNS = ["validation perplexity", "validation perplexity without <sos>", "perplexity", NLL, "BLEU", "chrF"]
_CHARTS = [("validation perplexity", "lower is better"), ("BLEU", "higher is better")]


def comparison_section(
    comparison: Comparison, results: Results, pairs: Pairs | None, why_not: str, *, numbers: bool = True
) -> Html:
    """A comparison, whole; without its ``numbers`` where they are on the page already."""
    curves = comparison.has("validation perplexity")
    return join(
        comparison_tables(comparison) if numbers else None,
        *([element("h3", "Learning curves"), _curves(results)] if curves else []),
        *_groups(comparison.groups, [e.name for e in comparison.entries]),
        _translations(results, pairs, why_not),
        _how(results),
    )


def comparison_tables(comparison: Comparison) -> Html:
    """Means with intervals, as a table and as pictures, and the differences."""
    names = [e.name for e in comparison.entries]
    seeds = ", ".join(map(str, comparison.seeds))
    columns = [m for m in _COLUMNS if comparison.has(m)]  # the notes say why one is missing
    rows = [
        [e.name, *(pieces.interval(e.measures[m], DIGITS.get(m, 2)) for m in columns),
         f"{e.parameters:,}", duration(e.cpu_seconds)]
        for e in comparison.entries
    ]  # fmt: skip
    several = "Mean and 95 % t-interval over the seeds" if len(comparison.seeds) > 1 else "Seed"
    said = comparison_paragraph(comparison)
    parts = [
        *([pieces.paragraph(said)] if said else []),
        pieces.paragraph(
            f"{several} {seeds}. All but validation perplexity are of {comparison.scored_on}; perplexities count <sos> "
            "unless said; NLL is in nats, unknown words spelled out."
        ),
        pieces.table(["", *columns, "weights", "CPU time"], rows),
        *(pieces.paragraph(note) for note in comparison.notes),
        *(pieces.paragraph(f"{e.name}: {'; '.join(e.coverage)}.") for e in comparison.entries if e.coverage),
        pieces.paragraph(f"BLEU {comparison.bleu_signature}; chrF {comparison.chrf_signature}.", "lead"),
    ]
    for measure, better in ((m, b) for m, b in _CHARTS if comparison.has(m)):
        dots = [(n, [_dot(e.measures[measure])]) for n, e in zip(names, comparison.entries, strict=True)]
        svg = pieces.dots(dots, title=measure, x_label=f"{measure} ({better})")
        parts.append(pieces.figure(svg, ""))
    if comparison.differences and len(comparison.seeds) > 1:
        parts += [element("h3", "Differences, paired by seed"), _differences(comparison)]
    if comparison.bootstrap is not None:
        parts += [element("h3", "Differences, paired by test sentence"), _bootstrap(comparison.bootstrap)]
    return join(*parts)


def _differences(comparison: Comparison) -> Html:
    rows = []
    for d in comparison.differences:
        p = "" if d.holm is None else "<0.001" if d.holm < 0.001 else f"{d.holm:.3f}"
        rows.append([*_difference_cells(d, d.interval.mean, d.interval.low, d.interval.high), p])
    note = (
        "Each interval is a 95 % t-interval of the differences between runs of the same seed, which saw the same "
        "pairs in the same order. The last column corrects for looking at several pairs (Holm)."
    )
    return join(pieces.table([*_DIFFERENCE, "p, corrected"], rows, numbers=3), pieces.paragraph(note, "lead"))


def _bootstrap(bootstrap: Bootstrap) -> Html:
    rows = [
        [*_difference_cells(d, d.difference, d.low, d.high), f"{d.p:.3f}", f"{d.holm:.3f}"]
        for d in bootstrap.differences
    ]
    note = (
        f"Paired bootstrap: {bootstrap.samples:,} draws of {bootstrap.sentences:,} test sentences, "
        f"seed {bootstrap.seed}. It says how other test sentences would come out for these weights; differences paired "
        "by seed, how other trainings would. p is two-sided; the last column corrects it for looking at several pairs "
        "(Holm)."
    )
    return join(pieces.table([*_DIFFERENCE, "p", "p, corrected"], rows, numbers=3), pieces.paragraph(note, "lead"))


_DIFFERENCE = ["measure", "pair", "verdict", "difference", "95 % interval"]


def _difference_cells(
    d: Difference | BootstrapDifference, mean: float, low: float | None, high: float | None
) -> list[str]:
    """The cells under ``_DIFFERENCE``."""
    digits = max(2, DIGITS.get(d.measure, 2))
    span = "" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"
    return [d.measure, f"{d.second} minus {d.first}", d.verdict, f"{mean:+.{digits}f}", span]


def _curves(results: Results) -> Html:
    lines = []
    for name, runs in results.items():
        members = [[e.perplexity for e in r.epochs] for r, _ in runs]
        shortest = min(map(len, members))
        mean = [sum(m[i] for m in members) / len(members) for i in range(shortest)]
        lines.append(pieces.Line(name=name, y=mean, members=members if len(members) > 1 else ()))
    svg = pieces.curves(lines, title="Validation perplexity", x_label="epoch", y_label="validation perplexity")
    return pieces.figure(
        svg, "Validation perplexity counting <sos>, logarithmic: the mean over seeds, each seed thinner."
    )


def _groups(groups: Sequence[GroupRow], names: Sequence[str]) -> list[Html]:
    parts = []
    for kind, title in (("length", "source length"), ("phenomenon", "phenomenon")):
        rows = [g for g in groups if g.kind == kind]
        if not rows:
            continue
        chart = [(g.name, [_dot(g.bleu[n]) for n in names]) for g in rows]
        pairs = [f"{g.pairs:,} pairs" for g in rows]
        svg = pieces.dots(
            chart, title=f"BLEU by {kind}", names=names, x_label="BLEU", zero=True, least=0, note=pairs.__getitem__
        )
        parts += [element("h3", f"By {title}"), pieces.figure(svg, "")]
        fitting = [(g.name, [_dot(g.perplexity[n]) for n in names]) for g in rows if len(g.perplexity) == len(names)]
        if fitting:
            label = "perplexity, counting <sos> (lower is better)"
            svg = pieces.dots(fitting, title=f"Perplexity by {kind}", names=names, x_label=label, least=1)
            parts.append(pieces.figure(svg, ""))
        head = [title, "pairs", *(f"BLEU, {n}" for n in names), *(f"exact, {n}" for n in names)]
        scores = [[*(f"{g.bleu[n].mean:.1f}" for n in names), *(f"{g.exact[n].mean:.1%}" for n in names)] for g in rows]
        cells = [[g.name, f"{g.pairs:,}", *row] for g, row in zip(rows, scores, strict=True)]
        parts.append(pieces.table(head, cells))
    return parts


def _translations(results: Results, pairs: Pairs | None, why_not: str) -> Html:
    if pairs is None:
        return pieces.paragraph(f"Translations are left out: {why_not}", "warn")
    firsts = {name: runs[0] for name, runs in results.items()}
    lowercase = next(iter(firsts.values()))[0].settings.vocabulary.lowercase
    said = {name: scores["translations"] for name, (_, scores) in firsts.items()}
    return join(
        element("h3", "Translations of the first seed, ordered by the first variant from best to worst"),
        legend(),
        samples(pairs, said, lowercase=lowercase),
        attention_maps([(name, record) for name, (record, _) in firsts.items()], pairs, sentences=1),
    )


def _how(results: Results) -> Html:
    first = next(iter(results.values()))[0][0]
    changes = [[name, _different(runs[0][0].settings, first.settings) or "as below"] for name, runs in results.items()]
    folders = [f"regard translator score {runs[0][0].folder}" for runs in results.values()]
    return join(
        element("h3", "Settings"),
        pieces.table(["", "what differs from the settings below"], changes, numbers=2),
        pieces.settings_table(first.settings),
        pieces.paragraph(f"Data fingerprint (sha256): {first.about['fingerprint']}", "lead"),
        element("h3", "Commands"),
        pieces.commands([first.about.get("command", ""), *folders]),
    )


def _different(settings: Settings, other: Settings) -> str:
    ours, theirs = settings.to_dict(), other.to_dict()
    return "; ".join(
        f"{section}.{key} = {value}"
        for section, content in ours.items()
        for key, value in content.items()
        if value != theirs[section][key]
    )


def _dot(interval: Any) -> pieces.Dot:
    return pieces.Dot(value=interval.mean, low=interval.low, high=interval.high)
