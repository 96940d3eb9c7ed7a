"""What comes before the first step: the corpus, the vocabularies, the pairs as ids, pretrained vectors.

Somebody's own model, on exactly the tokens that ours are scored on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import InputError
from regard.translator.data.batches import EncodedPairs, encode
from regard.translator.data.corpus import Corpus, load_corpus
from regard.translator.data.sources import TEST, TRAIN, VALIDATION, Pairs
from regard.translator.data.vocabulary import BPEVocabulary, Vocabulary, WordVocabulary
from regard.translator.engines.run import Run
from regard.translator.models.device import choose_device
from regard.translator.models.embeddings import Vectors, initial_vectors
from regard.translator.models.own_translator import KIND, OwnCode, build_own
from regard.translator.runs.settings import Settings


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedData:
    """Everything a run needs before its first step; several runs on the same data may share it."""

    corpus: Corpus
    source: Vocabulary
    target: Vocabulary
    train: EncodedPairs
    fitting: int  # training pairs that are short enough; data.share says how many of them are in train
    validation: EncodedPairs
    source_vectors: Vectors | None
    target_vectors: Vectors | None

    def remarks(self) -> list[str]:
        """What to know before training: counts, leaks, pairs left out, and how much of the text vectors cover."""
        vectors = {"Source": self.source_vectors, "Target": self.target_vectors}
        return [
            *str(self.corpus.report).splitlines(),
            *(
                f"{len(whole) - kept} {name} pairs have too many tokens for data.longest and are left out."
                for name, whole, kept in [
                    ("training", self.corpus.train, self.fitting),
                    ("validation", self.corpus.validation, len(self.validation)),
                ]
                if kept < len(whole)
            ),
            *(
                [f"It is trained on {len(self.train):,} of {self.fitting:,} training pairs (data.share)."]
                if len(self.train) < self.fitting
                else []
            ),
            *(f"{side} {origin}" for side, origin in vectors.items() if origin is not None),
        ]


def prepare(settings: Settings, corpus: Corpus | None = None) -> PreparedData:
    """Read the data, build the vocabularies from its training pairs, encode it, and read pretrained vectors."""
    s = settings
    corpus = load_data(settings) if corpus is None else corpus
    source, target = _vocabularies(s, corpus)
    both = [*corpus.train.source, *corpus.train.target] if s.model.tied else None  # one matrix: the text of both sides
    vectors = [
        None if spec == "learned" else initial_vectors(spec, words, texts, seed=s.training.seed, width=s.model.width)
        for spec, words, texts in [
            (s.embedding.source, source, both or corpus.train.source),
            (s.embedding.target, target, both or corpus.train.target),
        ]
    ]
    # vocabularies from all training pairs, whatever share is trained on: shares then differ in nothing else
    fitting = encode(corpus.train, source, target, longest=s.data.longest)
    return PreparedData(
        corpus=corpus,
        source=source,
        target=target,
        train=fitting.subsample(s.data.share),
        fitting=len(fitting),
        validation=encode(corpus.validation, source, target, longest=s.data.longest),
        source_vectors=vectors[0],
        target_vectors=vectors[1],
    )


def load_data(settings: Settings) -> Corpus:
    """The corpus that the settings name."""
    s = settings.data
    return load_corpus(
        s.path,
        source=s.source,
        target=s.target,
        maximum_tokens=s.longest,
        remove_leaks=s.remove_leaks,
        test=s.test or None,
        size=s.size,
    )


def _vocabularies(settings: Settings, corpus: Corpus) -> tuple[Vocabulary, Vocabulary]:
    s = settings.vocabulary
    sides = [corpus.train.source, corpus.train.target]
    if s.joint:
        sides = [[*sides[0], *sides[1]]]
    built: list[Vocabulary] = [
        WordVocabulary.build(text, lowercase=s.lowercase, minimum_frequency=s.minimum_frequency, size=s.size or None)
        if s.kind == "words"
        else BPEVocabulary.build(
            text, lowercase=s.lowercase, minimum_frequency=s.minimum_frequency, size=s.size or 4000
        )
        for text in sides
    ]
    return built[0], built[-1]


Words = tuple[Vocabulary, Vocabulary]


def own_run(code: OwnCode, settings: Settings, words: Words, *, device: str = "auto") -> Run:
    """The model as a run that has no folder: it can translate and be scored."""
    source, target = words
    where = str(choose_device(device))
    model = build_own(code, settings, len(source), len(target), to_train=False, device=where).eval()
    return Run(folder=Path(code.name), settings=settings, source=source, target=target, model=model, facts={}, about={})


def own_settings(settings: Settings) -> Settings:
    """The same, for a model of one's own."""
    return replace(settings, model=replace(settings.model, kind=KIND))


def tokens_of(settings: Settings, split: str) -> tuple[Words, Pairs, str]:
    """The vocabularies that these settings make of their data, the pairs of a split, and how to call them."""
    data = prepare(replace(settings, embedding=replace(settings.embedding, source="learned", target="learned")))
    return ((data.source, data.target), *split_pairs(data.corpus, split))


def split_pairs(corpus: Corpus, split: str) -> tuple[Pairs, str]:
    """The pairs of train, validation or test, and how to call them."""
    if split not in (TRAIN, VALIDATION, TEST):
        raise InputError(f"There is no split {split!r}; give {TEST}, {VALIDATION} or {TRAIN}.")
    pairs = corpus.splits.get(split)
    if pairs is None:
        raise InputError(f"{corpus.name} has no test set; give --split validation.")
    return pairs, f"the {split} pairs of {corpus.name}"
