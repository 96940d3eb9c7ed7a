"""The part of the page about one run: curve, scores, translations, attention, settings, commands.

What the figures of a run or a comparison say, in a paragraph of plain sentences; and a translation beside its
reference, word by word: right, right but elsewhere, wrong, missing.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.markup import Html, element, escape, join
from regard.progress import duration
from regard.translator.data.corpus import Pairs
from regard.translator.data.vocabulary import split_words
from regard.translator.models.own_translator import KIND
from regard.translator.models.run import load_run, uses_search
from regard.translator.reports import pieces
from regard.translator.runs.records import Record
from regard.translator.studies.comparison_record import DIGITS, Comparison

if TYPE_CHECKING:
    from regard.translator.studies.search_record import Tuning


_GROUP_HEAD = ["pairs", "BLEU", "chrF", "exact", "perplexity"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredRun:
    """A run with its scores, and the pairs they are of; ``why_not`` says why there are none."""

    record: Record
    scores: dict[str, Any] | None
    pairs: Pairs | None
    scored_on: str
    why_not: str = ""


def run_section(run: ScoredRun) -> Html:
    """One run, whole."""
    r = run.record
    parts = [
        _state(r),
        pieces.paragraph(run_paragraph(run)),
        _headline(run),
        element("h3", "Learning curve"),
        _curve(r),
    ]
    if run.why_not:
        parts.append(pieces.paragraph(f"Not scored: {run.why_not}", "warn"))
    if run.scores is not None and run.pairs is not None:
        parts += _scores(run.scores, run.scored_on)
        parts += [
            element("h3", "Translations, from the best to the worst at even distances"),
            legend(),
            samples(run.pairs, {"translation": run.scores["translations"]}, lowercase=r.settings.vocabulary.lowercase),
            attention_maps([("", r)], run.pairs),
        ]
    return join(*parts, _data(r), _settings(r), run_commands(r))


def attention_maps(runs: list[tuple[str, Record]], pairs: Pairs, *, sentences: int = 2) -> Html:
    """What each written word read, for a few middling sentences, all layers that read the source and all heads."""
    # about 8 words: long enough for attention to have a choice, short enough for a map on a page
    order = sorted(range(len(pairs)), key=lambda i: (abs(len(pairs.source[i].split()) - 8), i))
    parts = [element("h3", "Attention: which source word (columns) each written word (rows) reads")]
    ours = [(name, record) for name, record in runs if record.settings.model.kind != KIND]
    if len(ours) < len(runs):
        parts.append(pieces.paragraph("A model of one's own does not tell what it read, so no map of it is drawn."))
    opened = [(name, load_run(record.folder)) for name, record in ours]
    for i in order[: sentences if opened else 0]:
        maps = []
        for name, run in opened:
            read = run.attention(pairs.source[i], cut=True)
            layers, heads = read.weights.shape[:2]
            for layer, head in itertools.product(range(layers), range(heads)):
                where = f"layer {layer}, head {head}" if layers > 1 else f"head {head}"
                title = f"{name + ', ' if name else ''}{where}"
                table = read.weights[layer, head].tolist()
                picture = pieces.attention_map(table, read.rows, read.columns, title=f"{title}: {pairs.source[i]}")
                maps.append(element("div", pieces.paragraph(title), picture))
        kinds = {run.settings.model.kind for _, run in opened}
        caption = " ".join([pairs.source[i], "Darker is more; every row sums to 1.", *map(_how_to_read, sorted(kinds))])
        parts.append(pieces.figure(element("div", *maps, class_="maps"), caption))
    return join(*parts)


def _how_to_read(kind: str) -> str:
    """What to know about the maps of a kind of model."""
    if kind == "encoder-decoder":
        return "Decoder layers and heads are counted from 0; <sos> is given, not said, so its row is empty."
    return "Heads are counted from 0."


def run_commands(r: Record) -> Html:
    code = f" --model {r.about['code']['name']}" if r.settings.model.kind == KIND and "code" in r.about else ""
    again = f"regard translator train {r.folder / 'settings.toml'}{code} --out runs/again"
    told = [
        r.about.get("command", ""),
        f"{again}   # the same run once more",
        f"regard translator score {r.folder}{code}",
    ]
    return join(element("h3", "Commands"), pieces.commands(told))


def group_table(title: str, groups: list[dict[str, Any]]) -> Html:
    """Scores by length or by phenomenon."""
    rows = [
        [g["name"], f"{g['pairs']:,}", f"{g['bleu']:.1f}", f"{g['chrf']:.1f}", f"{g['exact']:.1%}",
         "-" if g["perplexity"] is None else f"{float(g['perplexity']):.2f}"]
        for g in groups
    ]  # fmt: skip
    return pieces.table([title, *_GROUP_HEAD], rows)


def _state(r: Record) -> Html | None:
    total = r.settings.training.epochs
    if r.finished:
        return None
    cut = " Its log ends in the middle of a line, which is left out." if r.log.cut else ""
    return pieces.paragraph(f"This run is not finished: {len(r.epochs)} of {total} epochs are done.{cut}", "warn")


def _headline(run: ScoredRun) -> Html:
    r, best = run.record, run.record.best
    boxes = [
        (f"{best.perplexity:.2f}", "best validation perplexity, counting <sos>"),
        (f"{best.perplexity_without_sos:.2f}", "the same without <sos>"),
        (f"{best.epoch} of {r.settings.training.epochs}", "best epoch"),
    ]
    if run.scores is not None:
        boxes += [
            (f"{run.scores['perplexity']['counting_sos']:.2f}", "perplexity of the scored pairs, counting <sos>"),
            (f"{run.scores['all']['bleu']:.1f}", "BLEU"),
            (f"{run.scores['all']['chrf']:.1f}", "chrF"),
        ]
    boxes += [(f"{r.about.get('parameters', 0):,}", "weights"), (duration(r.cpu_seconds), "CPU time of training")]
    return pieces.facts(boxes)


def _curve(r: Record) -> Html:
    counting = not uses_search(r.settings)  # the others are given <sos>, and their loss is without it
    lines = [
        pieces.Line(name="validation", y=[e.perplexity if counting else e.perplexity_without_sos for e in r.epochs]),
        # a run that went wrong may have a loss whose exponential is no float (above e^709)
        pieces.Line(name="training", y=[math.exp(min(e.training_loss, 700)) for e in r.epochs]),
    ]
    inside = "dropout in it"
    if r.settings.training.smoothing > 0:
        inside = "label smoothing and dropout in it, so it is not a perplexity to compare"
    caption = (
        f"Perplexity {'counting' if counting else 'without'} <sos>, on a logarithmic scale. The training curve is the "
        f"mean over an epoch while the weights change, with {inside}."
    )
    svg = pieces.curves(lines, title=f"Learning curve of {r.name}", x_label="epoch", y_label="perplexity")
    return pieces.figure(svg, caption)


def _scores(scores: dict[str, Any], scored_on: str) -> list[Html]:
    parts = [element("h3", "Scores"), pieces.paragraph(f"Scored on {scored_on}, with the best epoch's weights.")]
    whole = [scores["all"], *([scores["fitting"]] if scores["fitting"]["pairs"] < scores["all"]["pairs"] else [])]
    parts.append(group_table("", whole))
    signatures = f"BLEU {scores['bleu_signature']}; chrF {scores['chrf_signature']}."
    parts.append(pieces.paragraph(signatures, "lead"))
    for title, key in (("source length", "by_length"), ("phenomenon", "by_phenomenon")):
        if scores[key]:
            rows = [(g["name"], [pieces.Dot(value=g["bleu"])]) for g in scores[key]]
            pairs = [f"{g['pairs']:,} pairs" for g in scores[key]]
            svg = pieces.dots(rows, title=f"BLEU by {title}", x_label="BLEU", zero=True, note=pairs.__getitem__)
            parts += [element("h3", f"BLEU by {title}"), pieces.figure(svg, ""), group_table(title, scores[key])]
    return parts


def _data(r: Record) -> Html | None:
    corpus = r.about.get("corpus", {})
    rows = [
        [name, *(f"{s[key]:,}" for key in ("pairs", "source_tokens", "target_tokens", "source_types", "target_types"))]
        for name, s in corpus.get("splits", {}).items()
    ]
    if not rows:
        return None
    leaks = [f"{k['sources']} source sentences of {k['second']} are in {k['first']} too." for k in corpus["leaks"]]
    vectors = [f"{side}: {v['spec']}" for side, v in (r.about.get("vectors") or {}).items() if v]
    said = [*corpus.get("notes", []), *leaks, *(f"Word vectors of the {v}." for v in vectors)]
    return join(
        element("h3", f"Data: {corpus['name']}, {corpus['source_language']} to {corpus['target_language']}"),
        pieces.table(["split", "pairs", "source tokens", "target tokens", "source types", "target types"], rows),
        pieces.paragraph(" ".join(said) or "No source sentence is in two splits."),
        pieces.paragraph(f"Fingerprint (sha256): {r.about['fingerprint']}", "lead"),
    )


def _settings(r: Record) -> Html:
    versions = ", ".join(f"{name} {value}" for name, value in (r.about.get("versions") or {}).items())
    return join(
        element("h3", "Settings"),
        pieces.paragraph("Bold: different from the coursework's defaults.", "lead"),
        pieces.settings_table(r.settings),
        pieces.paragraph(f"Versions: {versions}.", "lead"),
    )


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
    said = f"'{best.name}' has the best {measure} ({best.measures[measure].mean:.{digits}f})"
    others = [d for d in comparison.differences if d.measure == measure and best.name in (d.first, d.second)]
    if len(comparison.seeds) < 2 or not others:
        return f"{said}; {'with one seed ' if len(comparison.seeds) < 2 else ''}this may be chance."
    # Holm's p-values: the best is held against every other at once, and chance has as many tries
    sure = [d.second if d.first == best.name else d.first for d in others if d.holm is not None and d.holm < 0.05]
    rest = [e.name for e in order[1:] if e.name not in sure]
    told = [("better beyond chance than", sure), ("not beyond chance better than", rest)]
    parts = [f"{how} {_join_names(names)}" for how, names in told if names]
    return f"{said}: {', and '.join(parts)}."


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


SAMPLES = 10


def samples(pairs: Pairs, translations: dict[str, Sequence[str]], *, lowercase: bool) -> Html:
    """Sentences from the best translated to the worst, at even distances, with errors marked; nothing is hand-picked.

    The first of ``translations`` orders them.
    """
    first = next(iter(translations.values()))
    words = [_words(t, lowercase) for t in pairs.target]
    quality = [mark(_words(said, lowercase), meant).share for said, meant in zip(first, words, strict=True)]
    order = sorted(range(len(first)), key=lambda i: (-quality[i], i))
    count = min(SAMPLES, len(order))
    chosen = [order[round(k * (len(order) - 1) / max(1, count - 1))] for k in range(count)]
    return join(*(_sample(pairs, i, words[i], translations, lowercase) for i in dict.fromkeys(chosen)))


def legend() -> Html:
    return Html(
        '<p><span class="wrong">wrong word</span> &nbsp; <span class="moved">right word, elsewhere</span> &nbsp; '
        '<span class="missing"><span class="wrong">missing from the translation</span></span> (in the reference)</p>'
    )


def _sample(pairs: Pairs, i: int, meant: list[str], translations: dict[str, Sequence[str]], lowercase: bool) -> Html:
    marked = {name: mark(_words(said[i], lowercase), meant) for name, said in translations.items()}
    only = next(iter(marked.values()))
    labels = element("small", f"({', '.join(sorted(pairs.labels[i]))})") if pairs.labels else None
    lines: list[tuple[str, object]] = [("source", join(pairs.source[i], labels and Html(" &nbsp; "), labels))]
    if len(marked) == 1:
        lines.append(("reference", element("span", as_html(only.reference), class_="missing")))
        lines.append(("translation", as_html(only.translation)))
    else:
        lines.append(("reference", " ".join(meant)))
        lines += [(name, as_html(m.translation)) for name, m in marked.items()]
    body = (part for name, text in lines for part in (element("dt", name), element("dd", text)))
    return element("div", element("dl", *body), class_="sample")


def _words(sentence: str, lowercase: bool) -> list[str]:
    return split_words(sentence.lower() if lowercase else sentence)


RIGHT, MOVED, WRONG = "right", "moved", "wrong"


@dataclass(frozen=True, kw_only=True)
class MarkedWords:
    """Every word with its mark; for the reference ``wrong`` means missing from the translation."""

    translation: list[tuple[str, str]]
    reference: list[tuple[str, str]]

    @property
    def share(self) -> float:
        """Words in place, of both sentences, as a share: 1 for an exact translation."""
        words = [*self.translation, *self.reference]
        return sum(mark == RIGHT for _, mark in words) / max(1, len(words))


def mark(translation: Sequence[str], reference: Sequence[str]) -> MarkedWords:
    """Mark the words of both: the longest common subsequence is right; the same word elsewhere is moved.

    >>> found = mark("the dog sees a man".split(), "the man sees a cat".split())
    >>> " ".join(f"{word}/{m}" for word, m in found.translation)
    'the/right dog/wrong sees/right a/right man/moved'
    >>> found.reference[1], found.reference[4]
    (('man', 'moved'), ('cat', 'wrong'))
    """
    kept = common_subsequence(translation, reference)
    here, there = {i for i, _ in kept}, {j for _, j in kept}
    spare_here = Counter(w for i, w in enumerate(translation) if i not in here)
    spare_there = Counter(w for j, w in enumerate(reference) if j not in there)
    return MarkedWords(
        translation=_marks(translation, here, spare_there),
        reference=_marks(reference, there, spare_here),
    )


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence, as pairs (place in a, place in b)."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    # from the end, so that the walk below goes from the beginning; equal words met there always belong to a longest one
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            match = longest[i + 1][j + 1] + 1 if a[i] == b[j] else 0
            longest[i][j] = max(match, longest[i + 1][j], longest[i][j + 1])
    kept, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            kept.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return kept


def as_html(marked: Sequence[tuple[str, str]]) -> Html:
    """The words with their marks as HTML: looks differ without colour too."""
    if not marked:
        return element("span", "(nothing)", class_="nothing")
    words = (word if what == RIGHT else element("span", word, class_=what) for word, what in marked)
    return Html(" ".join(map(escape, words)))


def _marks(words: Sequence[str], in_place: set[int], spare: Counter[str]) -> list[tuple[str, str]]:
    marks = []
    for i, word in enumerate(words):
        what = RIGHT if i in in_place else MOVED if spare[word] > 0 else WRONG
        if what == MOVED:
            spare[word] -= 1
        marks.append((word, what))
    return marks
