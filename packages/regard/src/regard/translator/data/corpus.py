"""The sentence pairs a translator learns from: loaded, cleaned, checked for leaks, counted and fingerprinted.

| you write | you get |
|---|---|
| ``DIR`` | its ``train.de`` and ``train.en``, ``val.*`` (valid, validation, dev) and ``test*.*``, plain or ``.gz`` |
| ``FILE.tsv`` | a table: source, tab, target; a header may name the languages, ``split`` and ``phenomena`` |
| ``builtin`` | our own German-English sentences (:mod:`~regard.translator.data.sources`), all labelled |
| ``hf:NAME``, ``hf:NAME:CONFIGURATION``, each perhaps ``@REVISION`` | a Hugging Face dataset, by ``datasets`` |
| ``{"train": (FILE, FILE), ...}`` | explicit file pairs (from Python) |

What there is to know about a corpus: counts, lengths, leaks between its splits, and its fingerprint.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import InputError
from regard.results import Result
from regard.translator.data.sources import (
    BUILTIN_SIZE,
    TEST,
    TRAIN,
    VALIDATION,
    Pairs,
    SourceSplits,
    from_builtin,
    from_files,
    from_folder,
    from_hub,
    from_table,
    parse_dataset,
    read_pairs,
)
from regard.translator.data.vocabulary import split_words

__all__ = ["Corpus", "CorpusReport", "Pairs", "clean", "find_leaks", "fingerprint", "load_corpus", "read_pairs"]

# Seen or not by accident of copying, never part of the sentence: soft hyphen, zero-width space, stray byte-order mark.
_INVISIBLE = {0x00AD: None, 0x200B: None, 0xFEFF: None, 0x0000: None}
_HELD_OUT = 20  # a table without splits gives every 20th source sentence to validation, and as many to the test


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Clean sentence pairs in splits, and the report on them."""

    train: Pairs
    validation: Pairs
    test: Pairs | None
    report: CorpusReport

    @property
    def name(self) -> str:
        """As the report calls it."""
        return self.report.name

    @property
    def fingerprint(self) -> str:
        """sha256 of every pair of every split, in order: equal exactly when the data is equal."""
        return self.report.fingerprint

    @property
    def splits(self) -> dict[str, Pairs]:
        """The splits by name, in the order train, validation, test."""
        parts = {TRAIN: self.train, VALIDATION: self.validation}
        return parts if self.test is None else {**parts, TEST: self.test}


def load_corpus(
    data: str | Path | Mapping[str, Sequence[str | Path]],
    *,
    source: str = "de",
    target: str = "en",
    maximum_tokens: int | None = None,
    remove_leaks: bool = False,
    test: str | None = None,
    seed: int = 0,
    size: int = BUILTIN_SIZE,
) -> Corpus:
    """Load, clean and check a corpus; the table at the top of this module says what ``data`` can be.

    Cleaning: Unicode NFC, white space to single blanks, invisible characters removed, pairs with an empty side
    dropped. ``maximum_tokens`` (words and marks, the coursework's is 18) drops longer pairs from training and
    validation; a test set is kept whole. ``remove_leaks`` drops training pairs whose source is in another split.
    ``test`` names one of several test sets in a folder. ``size`` (training pairs) is for ``builtin``; ``seed`` picks
    the held-out rows of a table that has no splits.

    >>> corpus = load_corpus("builtin", size=200)
    >>> len(corpus.train), corpus.report.leaks, len(corpus.fingerprint)
    (200, [], 64)
    """
    if source == target:
        raise InputError(f"source and target are both {source!r}; give two languages.")
    raw = _find(data, source, target, test=test, seed=seed, size=size)
    name = _name(data)
    _hold_out(raw, seed)
    splits, dropped = _clean_splits(raw.splits, maximum_tokens)
    if remove_leaks and TRAIN in splits:
        _remove_leaks(splits, raw.notes)
    _check_splits(splits, name, maximum_tokens)
    report = CorpusReport(
        name=name,
        source_language=source,
        target_language=target,
        splits={key: split_statistics(pairs, *dropped[key]) for key, pairs in splits.items()},
        leaks=find_leaks(splits),
        maximum_tokens=maximum_tokens,
        notes=raw.notes,
        fingerprint=fingerprint(splits),
    )
    return Corpus(train=splits[TRAIN], validation=splits[VALIDATION], test=splits.get(TEST), report=report)


def clean(sentence: str) -> str:
    """A sentence without accidents of typing: NFC, single blanks, nothing invisible.

    >>> clean("  Ein\\u00a0Ma\\u0308dchen \\t lacht. ")
    'Ein Mädchen lacht.'
    """
    return " ".join(unicodedata.normalize("NFC", sentence.translate(_INVISIBLE)).split())


def _find(
    data: str | Path | Mapping[str, Sequence[str | Path]],
    source: str,
    target: str,
    *,
    test: str | None,
    seed: int,
    size: int,
) -> SourceSplits:
    if isinstance(data, Mapping):
        return from_files(data)
    if str(data) == "builtin":
        return from_builtin(source, target, size=size, seed=seed)
    if str(data).startswith("hf:"):
        return from_hub(parse_dataset(str(data)), source, target)
    path = Path(data)
    if path.is_dir():
        return from_folder(path, source, target, test=test)
    if path.is_file():
        return from_table(path, source, target)
    raise InputError(
        f"There is no corpus {str(data)!r}: give a folder of paired files, a .tsv file, 'builtin' or 'hf:NAME' "
        "(Multi30k is hf:bentrevett/multi30k, and as files at github.com/multi30k/dataset, data/task1/raw)."
    )


def _name(data: str | Path | Mapping[str, Sequence[str | Path]]) -> str:
    if isinstance(data, Mapping):
        return "files"
    return str(data) if str(data).startswith("hf:") else Path(data).resolve().name


def _hold_out(splits: SourceSplits, seed: int) -> None:
    """Give a source that has only training pairs a validation and a test set, equal sources staying together."""
    if not splits.divisible:
        return
    pairs = splits.splits[TRAIN]
    # sorted, since a set has another order in every process
    sources = sorted({clean(s) for s in pairs.source} - {""})
    if len(sources) < 3:
        raise InputError(f"One table needs 3 different source sentences or more to be split, not {len(sources)}.")
    order = np.random.default_rng(seed).permutation(len(sources))
    held = max(1, len(sources) // _HELD_OUT)
    where = {sources[i]: VALIDATION if k < held else TEST if k < 2 * held else TRAIN for k, i in enumerate(order)}
    rows: dict[str, list[int]] = {TRAIN: [], VALIDATION: [], TEST: []}
    for i, s in enumerate(pairs.source):
        rows[where.get(clean(s), TRAIN)].append(i)
    splits.splits = {name: pairs.keep(chosen) for name, chosen in rows.items()}
    splits.notes.append(f"The data has no splits: {held} source sentences each were held out for validation and test.")


def _clean_splits(
    splits: Mapping[str, Pairs], maximum_tokens: int | None
) -> tuple[dict[str, Pairs], dict[str, tuple[int, int]]]:
    if maximum_tokens is not None and maximum_tokens < 1:
        raise InputError(f"maximum_tokens must be 1 or more, not {maximum_tokens}; the coursework's is 18.")
    kept: dict[str, Pairs] = {}
    dropped: dict[str, tuple[int, int]] = {}
    for name in (n for n in (TRAIN, VALIDATION, TEST) if n in splits):
        pairs = splits[name]
        tidy = Pairs([clean(s) for s in pairs.source], [clean(t) for t in pairs.target], pairs.labels)
        # cleaned first: a side of invisible characters alone is empty too
        full = short = _select_pairs(tidy, lambda s, t: bool(s and t))
        if (most := maximum_tokens) is not None and name != TEST:
            short = _select_pairs(full, lambda *both: all(len(split_words(one)) <= most for one in both))
        kept[name], dropped[name] = short, (len(pairs) - len(full), len(full) - len(short))
    return kept, dropped


def _select_pairs(pairs: Pairs, wanted: Callable[[str, str], bool]) -> Pairs:
    return pairs.keep(i for i, (s, t) in enumerate(zip(pairs.source, pairs.target, strict=True)) if wanted(s, t))


def _remove_leaks(splits: dict[str, Pairs], notes: list[str]) -> None:
    elsewhere = {s for name, pairs in splits.items() if name != TRAIN for s in pairs.source}
    train = splits[TRAIN]
    splits[TRAIN] = _select_pairs(train, lambda s, t: s not in elsewhere)
    removed = len(train) - len(splits[TRAIN])
    notes.append(f"{removed} training pairs whose source sentence is in another split were removed.")


def _check_splits(splits: Mapping[str, Pairs], name: str, maximum_tokens: int | None) -> None:
    for needed in (TRAIN, VALIDATION):
        if needed not in splits:
            raise InputError(f"{name} has no {needed} split; it has {', '.join(splits) or 'none'}: add one.")
    for split, pairs in splits.items():
        if not len(pairs):
            longer = f" and the limit of {maximum_tokens} tokens" if maximum_tokens else ""
            raise InputError(f"{name}: no pair of the {split} split is left after cleaning{longer}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitStatistics:
    """One split in numbers; tokens are words by the rule of :mod:`regard.translator.data.vocabulary`, case kept."""

    pairs: int
    source_tokens: int
    target_tokens: int
    source_types: int
    target_types: int
    source_mean_length: float
    target_mean_length: float
    source_longest: int
    target_longest: int
    equal_length_share: float
    duplicates: int
    dropped_empty: int
    dropped_long: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Leak:
    """What two splits have in common; ``examples`` are up to three such source sentences."""

    first: str
    second: str
    pairs: int
    sources: int
    examples: list[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class CorpusReport(Result):
    """What was loaded and what to know about it; ``answer`` is False when splits leak into one another."""

    name: str
    source_language: str
    target_language: str
    splits: dict[str, SplitStatistics]
    leaks: list[Leak]
    maximum_tokens: int | None
    notes: list[str]
    fingerprint: str

    @property
    def answer(self) -> bool:
        return not self.leaks

    def __str__(self) -> str:
        lines = [f"Corpus {self.name}, {self.source_language} to {self.target_language}, sha256 {self.fingerprint}."]
        lines += [self._line(name, split) for name, split in self.splits.items()]
        lines += [
            f"Leak: {leak.pairs} pairs and {leak.sources} source sentences of {leak.second} are in {leak.first} too, "
            f"for instance {leak.examples[0]!r}."
            for leak in self.leaks
        ]
        lines += self.notes if self.leaks else [*self.notes, "No source sentence is in two splits."]
        return "\n".join(lines)

    def _line(self, name: str, s: SplitStatistics) -> str:
        dropped = f"; dropped {s.dropped_empty} empty" if s.dropped_empty else ""
        if s.dropped_long:
            dropped += (
                f"{' and' if dropped else '; dropped'} {s.dropped_long} of more than {self.maximum_tokens} tokens"
            )
        return (
            f"{name}: {s.pairs} pairs, {s.source_tokens} and {s.target_tokens} tokens "
            f"({s.source_types} and {s.target_types} types), {s.source_mean_length:.1f} and {s.target_mean_length:.1f} "
            f"a sentence (longest {s.source_longest} and {s.target_longest}), {s.equal_length_share:.1%} of equal "
            f"length, {s.duplicates} duplicates{dropped}."
        )


def fingerprint(splits: Mapping[str, Pairs]) -> str:
    """sha256 over split, source and target of every pair (clean text has no tabs or line feeds to confuse it)."""
    digest = hashlib.sha256()
    for name, pairs in splits.items():
        for source, target in zip(pairs.source, pairs.target, strict=True):
            digest.update(f"{name}\t{source}\t{target}\n".encode())
    return digest.hexdigest()


def find_leaks(splits: Mapping[str, Pairs]) -> list[Leak]:
    """Every two splits that share a source sentence, with the number of shared pairs and sources."""
    leaks, names = [], list(splits)
    for i, first in enumerate(names):
        sources = set(splits[first].source)
        pairs = set(zip(splits[first].source, splits[first].target, strict=True))
        for second in names[i + 1 :]:
            other = splits[second]
            # in the order of the text, so that the examples are the same in every process
            shared = list(dict.fromkeys(s for s in other.source if s in sources))
            same = len({p for p in zip(other.source, other.target, strict=True) if p in pairs})
            if shared:
                leak = Leak(first=first, second=second, pairs=same, sources=len(shared), examples=shared[:3])
                leaks.append(leak)
    return leaks


def split_statistics(pairs: Pairs, dropped_empty: int, dropped_long: int) -> SplitStatistics:
    """Count one split that has been cleaned; the numbers of dropped pairs are handed in."""
    source, target = ([split_words(s) for s in side] for side in (pairs.source, pairs.target))
    lengths = [np.array([len(words) for words in side]) for side in (source, target)]
    return SplitStatistics(
        pairs=len(pairs),
        source_tokens=int(lengths[0].sum()),
        target_tokens=int(lengths[1].sum()),
        source_types=len({w for words in source for w in words}),
        target_types=len({w for words in target for w in words}),
        source_mean_length=float(lengths[0].mean()),
        target_mean_length=float(lengths[1].mean()),
        source_longest=int(lengths[0].max()),
        target_longest=int(lengths[1].max()),
        equal_length_share=float((lengths[0] == lengths[1]).mean()),
        duplicates=len(pairs) - len(set(zip(pairs.source, pairs.target, strict=True))),
        dropped_empty=dropped_empty,
        dropped_long=dropped_long,
    )
