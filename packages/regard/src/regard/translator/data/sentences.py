"""Sentences as a run reads them: its two vocabularies, and ids with markers. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import InputError
from regard.translator.data.vocabulary import EOS, SOS, BPEVocabulary, Vocabulary, vocabulary_from_dict
from regard.translator.runs.files import VOCABULARY, read_json


def read_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """The source's and the target's vocabulary of a run."""
    saved = read_json(folder / VOCABULARY)
    if not isinstance(saved, dict) or not {"source", "target"} <= saved.keys():
        raise InputError(f"{folder / VOCABULARY} needs a source and a target vocabulary; restore it from a copy.")
    try:
        return vocabulary_from_dict(saved["source"]), vocabulary_from_dict(saved["target"])
    except InputError as error:
        raise InputError(f"{folder / VOCABULARY} is damaged: {error} Restore it from a copy.") from None


def encode_sources(
    sentences: Sequence[str], vocabulary: Vocabulary, *, longest: int, cut: bool
) -> tuple[list[list[int]], list[int]]:
    """Ids with markers of every sentence, and which were cut."""
    encoded, shortened = [], []
    for number, sentence in enumerate(sentences):
        ids = vocabulary.encode(sentence)
        if not ids:
            raise InputError(f"Sentence {number + 1} is empty; give at least one word, or remove the line.")
        if len(ids) > longest and not cut:
            raise InputError(
                f"Sentence {number + 1} has {len(ids)} tokens and this run reads at most {longest}; "
                "shorten it, or pass --cut to translate its beginning."
            )
        if len(ids) > longest:
            shortened.append(number)
        encoded.append([SOS, *ids[:longest], EOS])
    return encoded, shortened


def without_unknown(sentences: Sequence[str], vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """Sentences without the characters that pieces cannot spell, and what was left out of which.

    A sentence of which nothing would be left stays as it is. Unknown words of a vocabulary of words stay: its models
    have learnt what <unk> is.
    """
    if not isinstance(vocabulary, BPEVocabulary):
        return list(sentences), []
    kept, said = [], []
    for number, sentence in enumerate(sentences, 1):
        text, unknown = vocabulary.without_unknown(sentence)
        if text and unknown:
            said.append(f"Not in the training text, and so left out of sentence {number}: {' '.join(unknown)}")
        kept.append(text if text and unknown else sentence)
    return kept, said
