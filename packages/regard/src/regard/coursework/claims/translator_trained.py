"""The translator trained with defaults, then tuned: what perplexity, and what improved it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from regard.coursework.claim import read_claim
from regard.coursework.claims.translator import describe_comparison
from regard.coursework.training_figures import Figures, RunFigures, record
from regard.coursework.verdict import Verdict, measured_verdict
from regard.pictures import BLUE, GREEN, GREY, ORANGE

if TYPE_CHECKING:
    from regard.translator.studies.search_record import Tuning


def check_defaults() -> Verdict:
    recorded = record("defaults")
    said = "; ".join(
        f"seed {run.seed}: {run.perplexity:.2f} ({run.perplexity_without_sos:.2f} without <sos>) after epoch "
        f"{run.best_epoch}"
        for run in recorded.runs
    )
    first = recorded.runs[0]
    return measured_verdict(
        recorded.source,
        f"{recorded.data}. Best validation perplexity counting <sos>, {len(first.curve)} epochs: {said}. "
        f"{first.weights:,} weights, {first.cpu_seconds:.0f} CPU-seconds. Run: {first.command}",
        perplexity=min(run.perplexity for run in recorded.runs),
    )


def check_as_described() -> Verdict:
    described, ours = record("described"), record("defaults")
    groups: dict[str, list[RunFigures]] = {}
    for run in described.runs:
        groups.setdefault(describe_corrections(run), []).append(run)
    groups["both corrected, our defaults"] = ours.runs
    said = "; ".join(f"{name}: {_describe_best(runs)}" for name, runs in groups.items())
    first = described.runs[0]
    return measured_verdict(
        described.source,
        f"{described.data}. Best validation perplexity counting <sos>: {said}. Run: {first.command}",
        perplexity=min(run.perplexity for run in next(iter(groups.values()))),
    )


def describe_corrections(run: RunFigures) -> str:
    """Which of our two corrections a run has, in words."""
    padding_read = any(change.startswith("model.kind: 'reads-padding'") for change in run.changes)
    long_start = any(change.startswith("embedding.start: 'normal'") for change in run.changes)
    match padding_read, long_start:
        case True, True:
            return "as described"
        case True, False:
            return "word vectors started short"
        case False, True:
            return "padding hidden"
    return "both corrected"


def _describe_best(runs: list[RunFigures]) -> str:
    """Each seed's best, or the mean of several."""
    values = [run.perplexity for run in runs]
    if len(values) == 1:
        return f"{values[0]:.2f} after epoch {runs[0].best_epoch} (seed {runs[0].seed})"
    each = ", ".join(f"{run.perplexity:.2f} after epoch {run.best_epoch}" for run in runs)
    return f"{sum(values) / len(values):.2f}, the mean of {len(values)} seeds ({each})"


def check_more_epochs() -> Verdict:
    recorded = record("defaults")
    said = "; ".join(
        f"seed {run.seed}: {run.perplexity:.2f} after epoch {run.best_epoch}, {run.curve[-1]:.2f} after "
        f"{len(run.curve)}"
        for run in recorded.runs
    )
    # a best epoch that is the last one may not be the end of it
    useful = any(run.best_epoch == len(run.curve) for run in recorded.runs)
    help_ = "may help (a run was still improving)" if useful else "do not help: each run was at its best before its end"
    return measured_verdict(recorded.source, f"{said}. With these settings more epochs alone {help_}.")


def check_tuned() -> Verdict:
    recorded = record("tuned")
    return measured_verdict(recorded.source, " ".join(_tuning_sentences(recorded)))


def _tuning_sentences(recorded: Figures) -> list[str]:
    """What was tried and what improved, one sentence for each source."""
    best = min(run.perplexity for run in record("defaults").runs)
    said = [f"{recorded.data}.", f"The defaults have {best:.2f}."]
    if recorded.study is not None:
        said += _search_sentences(recorded.study)
    if recorded.comparison is not None:
        said += [describe_comparison(recorded.comparison), f"Run: {recorded.comparison.command}"]
    for run in sorted(recorded.runs, key=lambda run: run.perplexity):
        what = ", ".join(run.changes) or "the defaults"
        said.append(
            f"{run.perplexity:.2f} after epoch {run.best_epoch} (seed {run.seed}) with {what}. Run: {run.command}"
        )
    return said


def _search_sentences(study: Tuning) -> list[str]:
    best = study.best.perplexity or math.nan
    chosen = ", ".join(f"{key} = {value}" for key, value in study.best.changes.items())
    said = [
        f"{len(study.trials)} trials, {study.cpu_seconds:,.0f} CPU-seconds: the best has {best:.2f}, with {chosen}."
    ]
    if study.default is not None:
        said.append(f"The settings it started from have {study.default.perplexity or math.nan:.2f}.")
    shown = [f"{one.name} {one.mean:.0%}" for one in study.importance if one.low > 0]
    said.append(f"Shown to matter: {', '.join(shown) or 'nothing'}.")
    if study.confirmation is not None:
        said.append(f"With seeds the search never saw: {describe_comparison(study.confirmation)}")
    return [*said, f"Run: {study.searched_by}"]


def proof_numbers() -> dict[str, object]:
    each = (
        f"seed {run.seed} has {run.perplexity:.2f} counting <sos> and {run.perplexity_without_sos:.2f} without"
        for run in record("defaults").runs
    )
    return {"perplexities": "; ".join(each)}


def draw(made: Any) -> None:
    for name, colours in (("defaults", (BLUE, ORANGE, GREY)), ("tuned", (GREEN,))):
        for run, colour in zip(record(name).runs, colours, strict=False):
            label = f"{name}, seed {run.seed}"
            made.plot(range(1, len(run.curve) + 1), run.curve, "-o", ms=4, color=colour, label=label)
            made.plot([run.best_epoch], [run.perplexity], "o", ms=11, mfc="none", color=colour)
    made.set_ylim(top=24)


CLAIM = read_claim(__name__)
