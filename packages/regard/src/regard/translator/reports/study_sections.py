"""The part of the page about a search: what was tried, what mattered, and the default beside the best."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from regard.progress import duration
from regard.translator.reports import figures, tables
from regard.translator.reports.comparison_sections import comparison_tables
from regard.translator.studies.search_record import Trial, Tuning

_KINDS = {"complete": 0, "pruned": 1}


def study_section(study: Tuning, *, anchor: str, first: bool) -> str:
    """A study, whole."""
    best, default = study.best, study.default
    return "".join(
        [
            tables.heading(2, f"Search {study.folder}", anchor, "first" if first else ""),
            _headline(study),
            tables.paragraph(
                "Data, vocabulary, tokenisation, epochs and the single layer were fixed. Trials were judged by their "
                "best validation perplexity (counting <sos>) with one seed, so the best trial's number flatters it; "
                "the confirmation below uses seeds that took no part in the choice."
            ),
            tables.heading(3, "Trials in order"),
            _history(study),
            tables.heading(3, "What mattered"),
            _importance(study),
            _effects(study),
            *_confirmation(study),
            tables.heading(3, "Best beside default"),
            _settings(best, default),
            tables.heading(3, "Everything that was tried"),
            _trials(study),
            tables.heading(3, "Commands"),
            tables.commands([study.searched_by, study.command]),
        ]
    )


def _headline(study: Tuning) -> str:
    boxes = [(f"{study.best.perplexity:.2f}", f"validation perplexity of the best trial (number {study.best.number})")]
    if study.default is not None and study.default.perplexity:
        boxes.append((f"{study.default.perplexity:.2f}", "of the settings it started from"))
        boxes.append((f"{(study.best.perplexity or 0) / study.default.perplexity - 1:+.1%}", "change, one seed"))
    pruned = sum(t.state == "pruned" for t in study.trials)
    boxes += [(str(len(study.trials)), f"trials, {pruned} of them pruned"), (duration(study.cpu_seconds), "CPU time")]
    return tables.facts(boxes)


def _history(study: Tuning) -> str:
    judged = [t for t in study.trials if t.perplexity is not None]
    points = [
        figures.Point(
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
    svg = figures.cloud(points, title="Trials in order", x_label="trial", y_label="validation perplexity", steps=steps)
    return tables.figure(
        svg,
        "Blue circles: complete. Orange squares: pruned, placed where they would be had they gained as much as the "
        "complete trials did on average after that epoch. Line: the best so far.",
    )


def _importance(study: Tuning) -> str:
    if not study.importance:
        return tables.paragraph("There are too few trials to say.", "warn")
    rows = [(i.name, [figures.Dot(value=i.mean, low=i.low, high=i.high)]) for i in study.importance]
    said = ["" if i.low > 0 else "not shown to matter" for i in study.importance]
    svg = figures.dots(
        rows, title="Importance", x_label="share of the scatter of ln perplexity", zero=True, note=said.__getitem__
    )
    return tables.figure(
        svg,
        "By how much a random forest's error on unseen trials grows when a setting's values are shuffled, relative to "
        "the variance of ln perplexity; mean and 5 % to 95 % of resampled trials. Pruned trials count "
        "with the perplexity they could expect, as above.",
    )


def _effects(study: Tuning) -> str:
    """Perplexity against the settings that mattered most."""
    names = [i.name for i in study.importance[:6]] or list(study.best.changes)[:6]
    pictures = "".join(f"<div>{_effect(study.trials, name)}</div>" for name in names)
    return tables.figure(
        f'<div class="maps">{pictures}</div>', "Every trial: perplexity against one setting at a time."
    )


def _effect(trials: Sequence[Trial], name: str) -> str:
    judged = [t for t in trials if t.perplexity is not None]
    values = sorted({t.changes[name] for t in judged}, key=lambda v: (isinstance(v, str), v))
    few = isinstance(values[0], (str, bool)) or len(values) <= 6
    logarithmic = not few and min(values) > 0 and max(values) / min(values) > 20
    place = (lambda v: float(values.index(v))) if few else math.log10 if logarithmic else float
    points = [
        figures.Point(x=place(t.changes[name]), y=t.expected or 1.0, kind=_KINDS[t.state], title=_trial_title(t))
        for t in judged
    ]
    ticks = [(place(v), _format_value(v)) for v in values] if few else None
    if logarithmic:
        ticks = [(math.log10(v), f"{v:g}") for v in figures.log_ticks(min(values), max(values), most=5)]
    return figures.cloud(
        points, title=f"Perplexity by {name}", x_label=name, y_label="perplexity", ticks=ticks, width=340, height=220
    )


def _confirmation(study: Tuning) -> list[str]:
    if study.confirmation is None:
        return [
            tables.paragraph("Not confirmed: add --confirm 3 to the tune command for fresh seeds and the test set.")
        ]
    return [tables.heading(3, "Default beside best, on fresh seeds"), comparison_tables(study.confirmation)]


def _settings(best: Trial, default: Trial | None) -> str:
    before = default.changes if default is not None else {}
    rows = [
        [html.escape(k), html.escape(_format_value(before.get(k, "-"))),
         f"<b>{html.escape(_format_value(v))}</b>" if before.get(k) != v else html.escape(_format_value(v))]
        for k, v in best.changes.items()
    ]  # fmt: skip
    return tables.table(["setting", "default", f"best (trial {best.number})"], rows)


def _trials(study: Tuning) -> str:
    keys = list(study.best.changes)
    order = sorted(study.trials, key=lambda t: (t.state != "complete", t.perplexity or math.inf))
    rows = [
        [str(t.number), t.state + (f": {html.escape(t.reason)}" if t.reason else ""),
         "-" if t.perplexity is None else f"{t.perplexity:.2f}", str(len(t.curve)),
         *(html.escape(_format_value(t.changes.get(k, "-"))) for k in keys)]
        for t in order
    ]  # fmt: skip
    head = [
        "trial",
        "state",
        "perplexity",
        "epochs",
        *(k.rpartition(".")[2] if _is_unique(k, keys) else k for k in keys),
    ]
    return tables.table(head, rows, numbers=2, chosen=0)


def _is_unique(key: str, keys: Sequence[str]) -> bool:
    return sum(k.rpartition(".")[2] == key.rpartition(".")[2] for k in keys) == 1


def _trial_title(trial: Trial) -> str:
    return f"{trial.perplexity:.2f}; " + ", ".join(f"{k} {_format_value(v)}" for k, v in trial.changes.items())


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
