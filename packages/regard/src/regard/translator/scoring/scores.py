"""How good a translator is: perplexity, BLEU and chrF; by length, and by phenomenon where the pairs are labelled.

    perplexity = exp(mean over target tokens of -log p(token))

counted twice: over every target token, <sos> too (the coursework's way, flattered by a place that is always right), and
without the <sos> place. It is never label-smoothed, unknown words count as <unk>, and it compares only between runs
with the same target vocabulary. Across vocabularies the likelihood compares,

    nats per character = sum of the references' costs / sum of their characters

BLEU and chrF are sacrebleu's, with the signature that says how they are counted.

What a reference costs, whatever the tokens are. A perplexity is a mean over tokens, so it changes with them; and a
model that calls every rare word <unk> has an easy life. Over characters, every word written to its end, models compare:

    cost(text) = - sum over its tokens, <eos> too, of log p(token) + sum over its unknown words of spelling(word)
    spelling(c_1 ... c_k) = - log q(c_1) - ... - log q(c_k) - log q(end)
    q(c) = (n(c) + 1) / (N + A + 2)         for the A characters of the vocabulary's words
    q(end) = (W + 1) / (N + A + 2)
    q(c) = 1 / (N + A + 2) / 1,114,112      for any other character: "other", then one of all there are in Unicode

where n(c) counts c in the W words of the vocabulary, each word once, and N = W + sum n(c). The sum of q is 1 and all of
it comes from the training text, so exp(-cost) adds up to 1 at most over all texts as the vocabulary sees them: nothing
is had for nothing.

BLEU as papers on Multi30k give it, so that a score can be laid beside theirs.

Those papers split both the translations and the references with the Moses tokeniser after its clean-up of punctuation,
lower-case them, and count BLEU over those tokens without smoothing, as multi-bleu.perl does. sacrebleu's BLEU counts
over its own 13a tokens of the text as it was written. Lower case forgives, and hyphens and apostrophes are split
otherwise, so the two numbers of one translation differ by some points: compare only like with like (post2018).
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.array_types import Float
from regard.errors import InputError
from regard.extras import require
from regard.progress import Progress
from regard.results import Result
from regard.translator.data.batches import EncodedPairs, encode
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import FIRST_WORD, UNK, BPEVocabulary, Vocabulary, split_words
from regard.translator.models.run import Run
from regard.translator.models.translation import TranslationModel, device_of
from regard.translator.scoring.significance import bleu, chrf

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
            str(self.perplexity),
            str(self.likelihood),
            f"{_line(self.all)}; {self.all.exact:.1%} exactly the reference{self._method_note()}.",
        ]
        if self.fitting.pairs < self.all.pairs:
            lines.append(f"{_line(self.fitting)}; {self.cut:,} longer sources were cut.")
        lines += [f"BLEU {self.bleu_signature}", f"chrF {self.chrf_signature}"]
        lines += [str(self.literature)] if self.literature else []
        lines.append(f"Scored: {self.run}{f', weights of epoch {self.epoch}' if self.epoch else ''}.")
        for title, groups in [("source length", self.by_length), ("phenomenon", self.by_phenomenon)]:
            if groups:
                lines += ["", _table(title, groups)]
        return "\n".join(lines)

    def _method_note(self) -> str:
        parts = [f" by {self.engine}"] * (self.engine != "eager") + [f" with a beam of {self.beam}"] * (self.beam > 1)
        return f"; translated{''.join(parts)}" if parts else ""


def perplexity(model: TranslationModel, encoded: EncodedPairs) -> Perplexity:
    """Perplexity of every pair of ``encoded``; sums are kept in float64."""
    return _perplexity(token_losses(model, encoded))


def token_losses(model: TranslationModel, encoded: EncodedPairs, *, batch: int = 64) -> list[Float]:
    """-log p of each pair's target tokens, <sos> first, in the order of ``encoded``."""
    was_training, device = model.training, device_of(model)
    model.eval()
    whole: dict[int, Float] = {}
    with torch.no_grad():
        for rows, pairs in encoded.in_order(batch):
            flat = model.token_losses(pairs.to(device)).cpu().double().numpy()
            # the losses of a batch come sentence after sentence, without padding
            parts = np.split(flat, np.cumsum(encoded.target_lengths[rows])[:-1])
            whole |= dict(zip(rows.tolist(), parts, strict=True))
    model.train(was_training)
    return [whole[i] for i in range(len(encoded))]


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
    more tokens on either side than it was trained for). BLEU, chrF and exactness cover all
    pairs, a longer source being cut, and once more the fitting pairs alone. They ignore case where ``lowercase`` says
    so (left out: where the run's vocabulary does), and the signature tells. ``literature`` adds BLEU as papers on
    Multi30k count it.
    """
    if not len(pairs):
        raise InputError("There is no pair to score; give files with at least one sentence.")
    longest = run.settings.data.longest
    encoded = encode(pairs, run.source, run.target, longest=longest)
    losses = token_losses(run.model, encoded)
    translated = run.translate(pairs.source, cut=True, beam=beam, engine=engine, progress=progress)
    of_pair = dict(zip(encoded.kept, losses, strict=True))  # a pair that is too long has no losses
    ignore_case = run.settings.vocabulary.lowercase if lowercase is None else lowercase
    judge = Judge(ignore_case, pairs.target, translated.target, of_pair)
    lengths = [len(split_words(s)) for s in pairs.source]  # in words, so that runs of any tokens have the same groups
    return Score(
        run=str(run.folder),
        epoch=int(run.facts.get("epoch", 0)),
        beam=beam,
        engine=engine,
        perplexity=_perplexity(losses),
        likelihood=_likelihood(run, pairs.target, of_pair),
        all=judge.group("all pairs", range(len(pairs))),
        fitting=judge.group(f"pairs of at most {longest} tokens", encoded.kept),
        cut=len(translated.cut),
        by_length=[judge.group(name, rows) for name, rows in _by_length(lengths)],
        by_phenomenon=[judge.group(name, rows) for name, rows in _by_label(pairs)],
        bleu_signature=judge.bleu_signature,
        chrf_signature=judge.chrf_signature,
        translations=translated.target,
        literature=literature_bleu(translated.target, pairs.target, language=run.settings.data.target)
        if literature
        else None,
    )


class Judge:
    """Scores any selection of the pairs."""

    def __init__(
        self,
        lowercase: bool,
        references: Sequence[str],
        translations: Sequence[str],
        losses: Mapping[int, Float],
    ) -> None:
        self.references, self.translations = list(references), list(translations)
        self.lowercase, self.losses = lowercase, losses
        self.bleu, self.chrf = bleu(lowercase), chrf(lowercase)
        self.group("", range(len(self.references)))  # sacrebleu signs after a first use
        self.bleu_signature, self.chrf_signature = str(self.bleu.get_signature()), str(self.chrf.get_signature())

    def group(self, name: str, rows: Sequence[int]) -> Group:
        said, meant = [self.translations[i] for i in rows], [self.references[i] for i in rows]
        fitting = [self.losses[i] for i in rows if i in self.losses]
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


def _perplexity(losses: Sequence[Float]) -> Perplexity:
    total, tokens = float(sum(part.sum() for part in losses)), sum(map(len, losses))
    start = float(sum(part[0] for part in losses))
    return Perplexity(
        counting_sos=_exp(total / tokens),
        without_sos=_exp((total - start) / (tokens - len(losses))),
        tokens=tokens,
        pairs=len(losses),
    )


def _likelihood(run: Run, references: Sequence[str], losses: Mapping[int, Float]) -> Likelihood:
    """What each reference costs; <sos> is free, since every sentence has it. ``losses`` are by the pair's number."""
    spell = Speller(run.target.words[FIRST_WORD:])
    unknown = {row: unknown_words(references[row], run.target) for row in losses}
    spelling = {row: sum(map(spell.cost, words)) for row, words in unknown.items()}
    nats: list[float | None] = [None] * len(references)
    for row, part in losses.items():
        nats[row] = float(part.sum() - part[0]) + spelling[row]
    lengths = [characters(text) for text in references]
    total = sum(lengths[row] for row in losses)
    return Likelihood(
        per_character=math.fsum(x for x in nats if x is not None) / total,
        characters=total,
        pairs=len(losses),
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


WHY_THEY_DIFFER = (
    "It ignores case and splits words as Moses does; sacrebleu's BLEU keeps case and splits by its own rule (13a). "
    "Compare it with papers that score this way, and with nothing else."
)


@dataclass(frozen=True, kw_only=True)
class LiteratureBleu(Result):
    """BLEU over lower-cased Moses tokens; ``recipe`` says how it was counted."""

    bleu: float
    language: str
    recipe: str

    def __str__(self) -> str:
        return f"BLEU {self.bleu:.1f} as in the literature ({self.recipe}). {WHY_THEY_DIFFER}"


def literature_bleu(translations: Sequence[str], references: Sequence[str], *, language: str) -> LiteratureBleu:
    """BLEU of lower-cased Moses tokens; ``language`` is that of the references ("en", "de", ...), for its rules."""
    require("BLEU as in the literature", "sacremoses", "sacrebleu", extra="translator")
    import sacrebleu
    import sacremoses

    clean, split = sacremoses.MosesPunctNormalizer(lang=language), sacremoses.MosesTokenizer(lang=language)

    def tokens(sentence: str) -> str:
        return str(split.tokenize(clean.normalize(sentence), return_str=True, escape=False)).lower()

    # force: the text looks tokenised to sacrebleu, which warns about it unless told that this is meant
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    counted = metric.corpus_score([tokens(said) for said in translations], [[tokens(meant) for meant in references]])
    return LiteratureBleu(
        bleu=float(counted.score),
        language=language,
        recipe=f"lower-cased, sacremoses {sacremoses.__version__} tokens of {language}, no smoothing",
    )


_CHARACTERS = sys.maxunicode + 1


class Speller:
    """The cost in nats of spelling a word that is not in ``words``, those of a vocabulary without its markers.

    >>> speller = Speller(["ab", "b"])  # 1 a, 2 b, 2 ends, nothing else: 5 of them, and 4 kinds with "other"
    >>> round(math.exp(-speller.cost("a")), 6)  # 2/9 for a, then 3/9 for the end
    0.074074
    >>> round(speller.cost("ax") - speller.cost("a"), 6) == round(math.log(9) + math.log(1114112), 6)
    True
    """

    def __init__(self, words: Sequence[str]) -> None:
        counts = Counter(c for word in words for c in word)
        total = counts.total() + len(words) + len(counts) + 2  # N + A + 2: each kind, "end" and "other" get one more
        self._costs = {c: math.log(total / (n + 1)) for c, n in counts.items()}
        self._end = math.log(total / (len(words) + 1))
        self._other = math.log(total) + math.log(_CHARACTERS)

    def cost(self, word: str) -> float:
        """-log of the probability of the word's characters and its end."""
        return sum(self._costs.get(c, self._other) for c in word) + self._end


def unknown_words(sentence: str, vocabulary: Vocabulary) -> list[str]:
    """What stands behind each <unk> of a sentence: words, or single characters for a vocabulary of pieces.

    >>> from regard.translator.data.vocabulary import MARKERS, WordVocabulary
    >>> unknown_words("Der Hund bellt laut.", WordVocabulary([*MARKERS, "der", "hund", "."]))
    ['bellt', 'laut']
    """
    ids = vocabulary.encode(sentence)
    if UNK not in ids:
        return []
    if not isinstance(vocabulary, BPEVocabulary):
        return [word for word, i in zip(vocabulary.tokens(sentence), ids, strict=True) if i == UNK]
    text = unicodedata.normalize("NFC", sentence)
    known = set(vocabulary.words)
    return [c for c in (text.lower() if vocabulary.lowercase else text) if not c.isspace() and c not in known]


def characters(sentence: str) -> int:
    """The characters of a reference as every run counts them: blanks too, accents composed.

    >>> characters("Ma\\u0308dchen lacht.")
    14
    """
    return len(unicodedata.normalize("NFC", sentence))
