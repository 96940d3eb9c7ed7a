"""What the figures of a run or a comparison say, in a paragraph of plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.translator.runs.records import Record
from regard.translator.studies.summary import DIGITS, Comparison

if TYPE_CHECKING:
    from regard.translator.reports.run_sections import ScoredRun
    from regard.translator.studies.search_record import Tuning

_MEASURES = (("validation perplexity", True), ("BLEU", False))  # and whether lower is better


def run_paragraph(run: ScoredRun) -> str:
    """What was trained on what, how learning went, and what came out."""
    return " ".join([_training_sentence(run.record), _learning_sentence(run.record), *_score_sentences(run)])


def comparison_paragraph(comparison: Comparison) -> str:
    """Which variant is best, and from which others that can be told."""
    said = [_best(comparison, *measure) for measure in _MEASURES if comparison.has(measure[0])]
    if len(comparison.entries) < 2:
        said = []
    return " ".join(said)


def run_sentence(run: ScoredRun) -> str:
    """A run in one sentence: how well it translates, or how well it fits where it was not scored."""
    name, best = run.record.name, run.record.best
    if run.scores is None:
        return f"{name} reaches a validation perplexity of {best.perplexity:.2f} after epoch {best.epoch}; not scored."
    whole = run.scores["all"]
    return (
        f"{name} translates {run.scored_on} with BLEU {whole['bleu']:.1f} and {whole['exact']:.1%} of the sentences "
        f"exactly as their reference; its best validation perplexity is {best.perplexity:.2f}."
    )


def study_sentence(study: Tuning) -> str:
    """A search in one sentence: what it found, beside what it started from."""
    best, default = study.best, study.default
    sentence = f"The best of {len(study.trials)} trials has a validation perplexity of {best.perplexity:.2f}"
    if default is None or not default.perplexity:
        return f"{sentence}."
    sure = "new seeds are below" if study.confirmation is not None else "of one seed: a best of many flatters itself"
    return f"{sentence}, the settings it started from {default.perplexity:.2f} ({sure})."


def _training_sentence(record: Record) -> str:
    corpus, pairs = record.about.get("corpus", {}), record.about.get("pairs", {})
    s = record.settings.training
    languages = f"{corpus.get('source_language', '?')} to {corpus.get('target_language', '?')}"
    size = f"batches of about {s.batch_tokens:,} target tokens" if s.batch_tokens else f"batches of {s.batch} pairs"
    return (
        f"{model_phrase(record)}, with {record.about.get('parameters', 0):,} weights, was trained on "
        f"{pairs.get('train', 0):,} pairs of {corpus.get('name', 'a corpus')} ({languages}): {s.epochs} "
        f"epoch{'s' * (s.epochs != 1)} of Adam at {s.learning_rate:g} in {size}, seed {s.seed}."
    )


def model_phrase(record: Record) -> str:
    """The kind of model, as a sentence begins."""
    model = record.settings.model
    match model.kind:
        case "encoder":
            return "A one-layer Transformer encoder that never reads padding"
        case "reads-padding":
            return "A one-layer Transformer encoder that reads padding like words, as the coursework describes it"
        case "ctc":
            return f"A Transformer encoder of {model.layers} and {model.decoder_layers} layers with CTC"
        case "own":
            return f"A model of one's own ({record.about.get('code', {}).get('name', 'its code is not known')})"
    return f"A Transformer with {model.layers} encoder and {model.decoder_layers} decoder layers"


def _learning_sentence(record: Record) -> str:
    best, last = record.best, record.epochs[-1]
    said = (
        f"Validation perplexity is lowest after epoch {best.epoch}: {best.perplexity:.2f} counting <sos>, "
        f"{best.perplexity_without_sos:.2f} without it."
    )
    if best.epoch == last.epoch:
        return said + (" It was still falling when training ended." if len(record.epochs) > 1 else "")
    return said + (
        f" By epoch {last.epoch} it has risen to {last.perplexity:.2f}: from there on the model learns its training "
        "pairs by heart, so the weights of the best epoch are the ones kept and scored."
    )


def _score_sentences(run: ScoredRun) -> list[str]:
    if run.scores is None:
        return []
    whole, perplexity = run.scores["all"], run.scores["perplexity"]
    said = [
        f"On {run.scored_on} its perplexity is {float(perplexity['counting_sos']):.2f} counting <sos> "
        f"({float(perplexity['without_sos']):.2f} without), BLEU {whole['bleu']:.1f} and chrF {whole['chrf']:.1f}; "
        f"{whole['exact']:.1%} of the translations equal their reference."
    ]
    groups: list[dict[str, Any]] = run.scores["by_length"]
    if len(groups) > 1:
        first, last = groups[0], groups[-1]
        said.append(
            f"By source length BLEU goes from {first['bleu']:.1f} ({first['name']} words) to {last['bleu']:.1f} "
            f"({last['name']} words)."
        )
    return said


def _best(comparison: Comparison, measure: str, lower: bool) -> str:
    order = sorted(comparison.entries, key=lambda e: e.measures[measure].mean, reverse=not lower)
    best, digits = order[0], DIGITS.get(measure, 2)
    said = f"The {'lowest' if lower else 'highest'} {measure} has {best.name}, {best.measures[measure].mean:.{digits}f}"
    others = [d for d in comparison.differences if d.measure == measure and best.name in (d.first, d.second)]
    if len(comparison.seeds) < 2 or not others:
        return said + "; with the seeds at hand, chance cannot be told from a difference."
    # Holm's p-values: the best is held against every other at once, and chance has as many tries
    sure = [d.second if d.first == best.name else d.first for d in others if d.holm is not None and d.holm < 0.05]
    rest = [e.name for e in order[1:] if e.name not in sure]
    told = [("better beyond chance than", sure), ("not beyond chance better than", rest)]
    parts = [f"{how} {_join_names(names)}" for how, names in told if names]
    return f"{said}: {', and '.join(parts)}."


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
