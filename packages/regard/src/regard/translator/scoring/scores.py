"""How good a translator is: perplexity, BLEU and chrF; by length, and by phenomenon where the pairs are labelled.

    perplexity = exp(mean over target tokens of -log p(token))

counted twice: over every target token, <sos> too (the coursework's way, flattered by a place that is always right), and
without the <sos> place. It is never label-smoothed, unknown words count as <unk>, and it compares only between runs
with the same target vocabulary. Across vocabularies the likelihood compares,

    nats per character = sum of the references' costs / sum of their characters

where a reference costs -log p of its tokens, <eos> too, and the spelling of its unknown words (see
:mod:`regard.translator.data.spelling`). BLEU and chrF are sacrebleu's, with the signature that says how they are
counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.array_types import Float
from regard.errors import InputError
from regard.progress import Progress
from regard.results import Result
from regard.translator.data.batches import EncodedPairs, encode
from regard.translator.data.sources import Pairs
from regard.translator.data.spelling import characters, speller, unknown_words
from regard.translator.data.vocabulary import split_words
from regard.translator.decoding.translation import TranslationModel
from regard.translator.engines.run import Run
from regard.translator.scoring.literature import LiteratureBleu, literature_bleu
from regard.translator.scoring.significance import bleu, chrf

_LENGTHS = (5, 8, 11, 14, 18, 25, 40)  # upper ends of the groups by source length


@dataclass(frozen=True, kw_only=True)
class Perplexity(Result):
    """Both ways of counting, and over how many tokens.

    A pair that the model cannot say (probability 0) would make it infinite; such pairs are left out and counted.
    """

    counting_sos: float
    without_sos: float
    tokens: int  # <sos> and <eos> included
    pairs: int
    left_out: int = 0

    def __str__(self) -> str:
        left_out = (
            f"; {self.left_out:,} more have probability 0, which makes it infinite over all" if self.left_out else ""
        )
        return (
            f"Perplexity {self.counting_sos:.2f} counting <sos>, {self.without_sos:.2f} without it "
            f"({self.tokens:,} target tokens of {self.pairs:,} pairs{left_out})."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Likelihood(Result):
    """-log p of the references in nats, unknown words spelled out, over the characters of the references as written.

    It compares between runs of any tokens, if both keep upper and lower case or neither does, over the pairs that both
    can read. How a vocabulary of words puts blanks between its tokens is not charged for.
    """

    per_character: float
    characters: int
    pairs: int
    unknown: int  # words (or characters, for pieces) that were spelled
    spelling: float  # nats of the whole spent on that
    lowercase: bool
    nats: list[float | None]  # of every pair; None where it does not fit the model
    lengths: list[int]  # characters of every reference

    def __str__(self) -> str:
        share = self.spelling / (self.per_character * self.characters)
        return (
            f"Negative log-likelihood {self.per_character:.4f} nats per character, that is "
            f"{self.per_character / math.log(2):.4f} bits ({self.characters:,} characters of {self.pairs:,} pairs); "
            f"{share:.1%} of it spells {self.unknown:,} unknown words."
        )


@dataclass(frozen=True, kw_only=True)
class Group:
    """The scores of some of the pairs; ``exact`` is the share translated word for word like the reference."""

    name: str
    pairs: int
    bleu: float
    chrf: float
    exact: float
    perplexity: float | None  # counting <sos>; None where no pair of the group fits the model


@dataclass(frozen=True, kw_only=True, eq=False)
class Score(Result):
    """What :func:`score` returns."""

    run: str
    epoch: int
    beam: int  # 1 = greedy
    engine: str
    perplexity: Perplexity
    likelihood: Likelihood
    all: Group
    fitting: Group  # the pairs with no more tokens than the run was trained for
    cut: int  # sources that were too long, of which only the beginning was translated
    by_length: list[Group]
    by_phenomenon: list[Group]
    bleu_signature: str
    chrf_signature: str
    translations: list[str]
    literature: LiteratureBleu | None = None  # of all pairs, where it was asked for

    def __str__(self) -> str:
        lines = [
            f"{self.run}{f', weights of epoch {self.epoch}' if self.epoch else ''}: {self.perplexity}",
            str(self.likelihood),
            f"{_line(self.all)}; {self.all.exact:.1%} exactly the reference{self._method_note()}.",
        ]
        if self.fitting.pairs < self.all.pairs:
            lines.append(f"{_line(self.fitting)}; {self.cut:,} longer sources were cut.")
        lines += [f"BLEU {self.bleu_signature}", f"chrF {self.chrf_signature}"]
        lines += [str(self.literature)] if self.literature else []
        for title, groups in [("source length", self.by_length), ("phenomenon", self.by_phenomenon)]:
            if groups:
                lines += ["", _table(title, groups)]
        return "\n".join(lines)

    def _method_note(self) -> str:
        parts = [f" by {self.engine}"] * (self.engine != "eager") + [f" with a beam of {self.beam}"] * (self.beam > 1)
        return f"; translated{''.join(parts)}" if parts else ""


def perplexity(model: TranslationModel, encoded: EncodedPairs) -> Perplexity:
    """Perplexity of every pair of ``encoded``; sums are kept in float64."""
    losses, starts = token_losses(model, encoded)
    return _perplexity(losses, starts)


def token_losses(model: TranslationModel, encoded: EncodedPairs, *, batch: int = 64) -> tuple[list[Float], list[Float]]:
    """-log p of each pair's target tokens, and of its <sos>, in the order of ``encoded``."""
    was_training = model.training
    model.eval()
    whole: dict[int, Float] = {}
    with torch.no_grad():
        for rows, pairs in encoded.in_order(batch):
            flat = model.token_losses(pairs).double().numpy()
            # the losses of a batch come sentence after sentence, without padding
            parts = np.split(flat, np.cumsum(encoded.target_lengths[rows])[:-1])
            whole |= dict(zip(rows.tolist(), parts, strict=True))
    model.train(was_training)
    losses = [whole[i] for i in range(len(encoded))]
    return losses, [part[:1] for part in losses]


def score(
    run: Run,
    pairs: Pairs,
    *,
    beam: int = 1,
    engine: str = "eager",
    lowercase: bool | None = None,
    literature: bool = False,
    progress: Progress | None = None,
) -> Score:
    """Translate the sources of ``pairs`` (``beam`` and ``engine`` as for :meth:`Run.translate`) and judge the result.

    Perplexity and likelihood are of the run itself, whatever the engine, and cover the pairs that fit the model (no
    more tokens on either side than it was trained for) and that it can say at all. BLEU, chrF and exactness cover all
    pairs, a longer source being cut, and once more the fitting pairs alone. They ignore case where ``lowercase`` says
    so (left out: where the run's vocabulary does), and the signature tells. ``literature`` adds BLEU as papers on
    Multi30k count it.
    """
    if not len(pairs):
        raise InputError("There is no pair to score; give files with at least one sentence.")
    longest = run.settings.data.longest
    encoded = encode(pairs, run.source, run.target, longest=longest)
    losses, starts = token_losses(run.model, encoded)
    translated = run.translate(pairs.source, cut=True, beam=beam, engine=engine, progress=progress)
    # from a pair's row to its losses: too long and impossible ones have none
    place = {encoded.kept[k]: k for k in _possible(losses)}
    ignore_case = run.settings.vocabulary.lowercase if lowercase is None else lowercase
    judge = Judge(ignore_case, pairs.target, translated.target, losses, place)
    lengths = [len(split_words(s)) for s in pairs.source]  # in words, so that runs of any tokens have the same groups
    return Score(
        run=str(run.folder),
        epoch=int(run.facts.get("epoch", 0)),
        beam=beam,
        engine=engine,
        perplexity=_perplexity(losses, starts),
        likelihood=_likelihood(run, pairs.target, losses, starts, place),
        all=judge.group("all pairs", range(len(pairs))),
        fitting=judge.group(f"pairs of at most {longest} tokens", encoded.kept),
        cut=len(translated.cut),
        by_length=[judge.group(name, rows) for name, rows in _by_length(lengths)],
        by_phenomenon=[judge.group(name, rows) for name, rows in _by_label(pairs)],
        bleu_signature=judge.bleu_signature,
        chrf_signature=judge.chrf_signature,
        translations=translated.target,
        literature=_literature_bleu(run, translated.target, pairs) if literature else None,
    )


def _literature_bleu(run: Run, translations: Sequence[str], pairs: Pairs) -> LiteratureBleu:
    return literature_bleu(translations, pairs.target, language=run.settings.data.target)


class Judge:
    """Scores any selection of the pairs."""

    def __init__(
        self,
        lowercase: bool,
        references: Sequence[str],
        translations: Sequence[str],
        losses: Sequence[Float],
        place: dict[int, int],
    ) -> None:
        self.references, self.translations = list(references), list(translations)
        self.lowercase, self.losses, self.place = lowercase, losses, place
        self.bleu, self.chrf = bleu(lowercase), chrf(lowercase)
        self.group("", range(len(self.references)))  # sacrebleu signs after a first use
        self.bleu_signature, self.chrf_signature = str(self.bleu.get_signature()), str(self.chrf.get_signature())

    def group(self, name: str, rows: Sequence[int]) -> Group:
        said, meant = [self.translations[i] for i in rows], [self.references[i] for i in rows]
        fitting = [self.losses[self.place[i]] for i in rows if i in self.place]
        return Group(
            name=name,
            pairs=len(said),
            bleu=self.bleu.corpus_score(said, [meant]).score,
            chrf=self.chrf.corpus_score(said, [meant]).score,
            exact=float(np.mean([self._is_same(s, m) for s, m in zip(said, meant, strict=True)])),
            perplexity=_exp(float(np.concatenate(fitting).mean())) if fitting else None,
        )

    def _is_same(self, said: str, meant: str) -> bool:
        return said.lower() == meant.lower() if self.lowercase else said == meant


def perplexity_of_losses(losses: Sequence[Float]) -> Perplexity:
    """Both ways of counting, from -log p of each pair's target tokens, <sos> first."""
    return _perplexity(losses, [part[:1] for part in losses])


def _perplexity(losses: Sequence[Float], starts: Sequence[Float]) -> Perplexity:
    possible = _possible(losses)
    total, tokens = float(sum(losses[k].sum() for k in possible)), sum(len(losses[k]) for k in possible)
    start = float(sum(starts[k].sum() for k in possible))
    return Perplexity(
        counting_sos=_exp(total / tokens),
        without_sos=_exp((total - start) / (tokens - len(possible))),
        tokens=tokens,
        pairs=len(possible),
        left_out=len(losses) - len(possible),
    )


def _possible(losses: Sequence[Float]) -> list[int]:
    """Which pairs have a probability above 0."""
    possible = [k for k, part in enumerate(losses) if not np.isposinf(part).any()]
    if not possible:
        raise InputError(
            f"This model can say none of the {len(losses)} targets: each is too long for its source; give other pairs."
        )
    return possible


def _likelihood(
    run: Run, references: Sequence[str], losses: Sequence[Float], starts: Sequence[Float], place: Mapping[int, int]
) -> Likelihood:
    """What each reference costs; <sos> is free, since every sentence has it. ``place`` says where its losses are."""
    spell = speller(run.target)
    unknown = {row: unknown_words(references[row], run.target) for row in place}
    spelling = {row: sum(map(spell.cost, words)) for row, words in unknown.items()}
    nats: list[float | None] = [None] * len(references)
    for row, k in place.items():
        nats[row] = float(losses[k].sum() - starts[k].sum()) + spelling[row]
    lengths = [characters(text) for text in references]
    total = sum(lengths[row] for row in place)
    return Likelihood(
        per_character=math.fsum(x for x in nats if x is not None) / total,
        characters=total,
        pairs=len(place),
        unknown=sum(map(len, unknown.values())),
        spelling=math.fsum(spelling.values()),
        lowercase=run.settings.vocabulary.lowercase,
        nats=nats,
        lengths=lengths,
    )


def _exp(mean: float) -> float:
    return math.exp(mean) if mean < 700 else math.inf


def _by_length(lengths: Sequence[int]) -> list[tuple[str, list[int]]]:
    groups, lower = [], 1
    for upper in (*_LENGTHS, max(*lengths, _LENGTHS[-1]) + 1):
        rows = [i for i, n in enumerate(lengths) if lower <= n <= upper]
        if rows:
            groups.append((f"{lower}-{upper}" if upper in _LENGTHS else f"{lower} and more", rows))
        lower = upper + 1
    return groups


def _by_label(pairs: Pairs) -> list[tuple[str, list[int]]]:
    labels = pairs.labels or []
    names = sorted({name for some in labels for name in some})
    return [(name, [i for i, some in enumerate(labels) if name in some]) for name in names]


def _line(group: Group) -> str:
    return f"{group.name.capitalize()} ({group.pairs:,}): BLEU {group.bleu:.1f}, chrF {group.chrf:.1f}"


def _table(title: str, groups: Sequence[Group]) -> str:
    width = max(len(title), *(len(g.name) for g in groups))
    head = f"{title:<{width}}  {'pairs':>6}  {'BLEU':>5}  {'chrF':>5}  {'exact':>6}  {'perplexity':>10}"
    rows = [
        f"{g.name:<{width}}  {g.pairs:>6,}  {g.bleu:>5.1f}  {g.chrf:>5.1f}  {g.exact:>6.1%}  "
        + (f"{g.perplexity:>10.2f}" if g.perplexity is not None else f"{'-':>10}")
        for g in groups
    ]
    return "\n".join([head, *rows])
