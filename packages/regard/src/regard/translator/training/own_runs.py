"""Somebody's own model, or their log-probabilities, on exactly the tokens that ours are scored on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.errors import InputError
from regard.translator.data.batches import EncodedPairs, encode
from regard.translator.data.corpus import Corpus
from regard.translator.data.sentences import read_vocabularies
from regard.translator.data.sources import TEST, TRAIN, VALIDATION, Pairs
from regard.translator.data.vocabulary import Vocabulary
from regard.translator.engines.run import Run
from regard.translator.models.own_translator import KIND, OwnCode, build_own
from regard.translator.runs.example import run_folder
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.preparation import load_data, prepare

Words = tuple[Vocabulary, Vocabulary]


def own_run(code: OwnCode, settings: Settings, words: Words) -> Run:
    """The model as a run that has no folder: it can translate and be scored."""
    source, target = words
    model = build_own(code, settings, len(source), len(target), to_train=False).eval()
    return Run(folder=Path(code.name), settings=settings, source=source, target=target, model=model, facts={}, about={})


def own_settings(settings: Settings) -> Settings:
    """The same, for a model of one's own."""
    return replace(settings, model=replace(settings.model, kind=KIND))


def tokens_of(settings: Settings, split: str) -> tuple[Words, Pairs, str]:
    """The vocabularies that these settings make of their data, the pairs of a split, and how to call them."""
    data = prepare(replace(settings, embedding=replace(settings.embedding, source="learned", target="learned")))
    return ((data.source, data.target), *split_pairs(data.corpus, split))


def tokens_of_run(folder: Path, split: str) -> tuple[Settings, Words, Pairs, str]:
    """The same of a run: its settings, its vocabularies, and the pairs of its data."""
    folder = run_folder(folder)
    words = read_vocabularies(folder)
    settings = load_settings(folder / "settings.toml")
    return (settings, words, *split_pairs(load_data(settings), split))


def split_pairs(corpus: Corpus, split: str) -> tuple[Pairs, str]:
    """The pairs of train, validation or test, and how to call them."""
    if split not in (TRAIN, VALIDATION, TEST):
        raise InputError(f"There is no split {split!r}; give {TEST}, {VALIDATION} or {TRAIN}.")
    pairs = corpus.splits.get(split)
    if pairs is None:
        raise InputError(f"{corpus.name} has no test set; give --split validation.")
    return pairs, f"the {split} pairs of {corpus.name}"


def encode_fitting(pairs: Pairs, words: Words, settings: Settings) -> EncodedPairs:
    """The pairs that fit the settings, as ids."""
    return encode(pairs, *words, longest=settings.data.longest)
