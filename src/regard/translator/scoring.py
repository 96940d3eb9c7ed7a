"""How good a translator is: perplexity, BLEU and chrF; by length, and by phenomenon where the pairs are labelled.

    perplexity = exp(mean over target tokens of -log p(token))

counted twice: over every target token, <sos> too (the coursework's way, flattered by a place that is always right), and
without the <sos> place. It is never label-smoothed, unknown words count as <unk>, and it compares only between runs
with the same target vocabulary. BLEU and chrF are sacrebleu's, with the signature that says how they were counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import InputError
from regard.results import Result
from regard.translator.batches import Encoded, encode
from regard.translator.model import EncoderTranslator
from regard.translator.runs import Run
from regard.translator.sources import Pairs

Float = npt.NDArray[np.float64]
_LENGTHS = (5, 8, 11, 14, 18, 25, 40)  # upper ends of the groups by source length


@dataclass(frozen=True, kw_only=True)
class Perplexity(Result):
    """Both ways of counting, and over how many tokens."""

    counting_sos: float
    without_sos: float
    tokens: int  # <sos> and <eos> included
    pairs: int

    def __str__(self) -> str:
        return (
            f"Perplexity {self.counting_sos:.2f} counting <sos>, {self.without_sos:.2f} without it "
            f"({self.tokens:,} target tokens of {self.pairs:,} pairs)."
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
    perplexity: Perplexity
    all: Group
    fitting: Group  # the pairs with no more tokens than the run was trained for
    cut: int  # sources that were too long, of which only the beginning was translated
    by_length: list[Group]
    by_phenomenon: list[Group]
    bleu_signature: str
    chrf_signature: str
    translations: list[str]

    def __str__(self) -> str:
        lines = [
            f"{self.run}, weights of epoch {self.epoch}: {self.perplexity}",
            f"{_line(self.all)}; {self.all.exact:.1%} exactly the reference.",
        ]
        if self.fitting.pairs < self.all.pairs:
            lines.append(f"{_line(self.fitting)}; {self.cut:,} longer sources were cut.")
        lines += [f"BLEU {self.bleu_signature}", f"chrF {self.chrf_signature}"]
        for title, groups in [("source length", self.by_length), ("phenomenon", self.by_phenomenon)]:
            if groups:
                lines += ["", _table(title, groups)]
        return "\n".join(lines)


def perplexity(model: EncoderTranslator, encoded: Encoded) -> Perplexity:
    """Perplexity of every pair of ``encoded``; sums are kept in float64."""
    losses, starts = token_losses(model, encoded)
    return _perplexity(losses, starts, len(encoded))


def token_losses(model: EncoderTranslator, encoded: Encoded, *, batch: int = 64) -> tuple[list[Float], list[Float]]:
    """-log p of each pair's target tokens, and of its <sos>, in the order of ``encoded``."""
    was_training = model.training
    model.eval()
    whole: dict[int, Float] = {}
    with torch.no_grad():
        for rows, pairs in encoded.in_order(batch):
            flat = model.token_losses(pairs).double().numpy()
            parts = np.split(flat, np.cumsum(encoded.target_lengths[rows])[:-1])
            whole |= dict(zip(rows.tolist(), parts, strict=True))
    model.train(was_training)
    losses = [whole[i] for i in range(len(encoded))]
    return losses, [part[:1] for part in losses]


def score(run: Run, pairs: Pairs, *, watch: Callable[[int, int], None] | None = None) -> Score:
    """Translate the sources of ``pairs`` and compare with their targets.

    Perplexity covers the pairs that fit the model (no more tokens on either side than it was trained for). BLEU, chrF
    and exactness cover all pairs, a longer source being cut, and once more the fitting pairs alone. Where the run's
    vocabulary is lower-cased, case is ignored, and the signature says so.
    """
    if not len(pairs):
        raise InputError("There is no pair to score; give files with at least one sentence.")
    longest = run.settings.data.longest
    encoded = encode(pairs, run.source, run.target, longest=longest)
    losses, starts = token_losses(run.model, encoded)
    found = run.translate(pairs.source, cut=True, watch=watch)
    place = {row: k for k, row in enumerate(encoded.kept)}
    judge = _Judge(run.settings.vocabulary.lowercase, pairs.target, found.target, losses, place)
    lengths = [len(run.source.encode(s)) for s in pairs.source]
    return Score(
        run=str(run.folder),
        epoch=int(run.facts.get("epoch", 0)),
        perplexity=_perplexity(losses, starts, len(encoded)),
        all=judge.group("all pairs", range(len(pairs))),
        fitting=judge.group(f"pairs of at most {longest} tokens", encoded.kept),
        cut=len(found.cut),
        by_length=[judge.group(name, rows) for name, rows in _by_length(lengths)],
        by_phenomenon=[judge.group(name, rows) for name, rows in _by_label(pairs)],
        bleu_signature=judge.bleu_signature,
        chrf_signature=judge.chrf_signature,
        translations=found.target,
    )


class _Judge:
    """Scores any selection of the pairs."""

    def __init__(
        self,
        lowercase: bool,
        references: Sequence[str],
        translations: Sequence[str],
        losses: Sequence[Float],
        place: dict[int, int],
    ) -> None:
        try:
            from sacrebleu import BLEU, CHRF
        except ImportError:
            raise InputError("BLEU and chrF need sacrebleu: pip install 'regard[translator]'.") from None
        self.references, self.translations = list(references), list(translations)
        self.lowercase, self.losses, self.place = lowercase, losses, place
        self.bleu, self.chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
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
            exact=float(np.mean([self._same(s, m) for s, m in zip(said, meant, strict=True)])),
            perplexity=math.exp(np.concatenate(fitting).mean()) if fitting else None,
        )

    def _same(self, said: str, meant: str) -> bool:
        return said.lower() == meant.lower() if self.lowercase else said == meant


def _perplexity(losses: Sequence[Float], starts: Sequence[Float], pairs: int) -> Perplexity:
    total, tokens = float(np.concatenate(losses).sum()), sum(map(len, losses))
    start = float(np.concatenate(starts).sum())
    return Perplexity(
        counting_sos=_exp(total / tokens),
        without_sos=_exp((total - start) / (tokens - pairs)),
        tokens=tokens,
        pairs=pairs,
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
