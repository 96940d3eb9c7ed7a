"""What there is to know about a corpus: counts, lengths, leaks between its splits, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from regard.results import Result
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import split_words


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
