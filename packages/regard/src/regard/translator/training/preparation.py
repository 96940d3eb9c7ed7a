"""What comes before the first step: the corpus, the vocabularies, the pairs as ids, pretrained vectors.

Somebody's own model, on exactly the tokens that ours are scored on.

The files of a run folder that training writes, and whether one holds a run to go on with.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from regard.errors import InputError
from regard.translator.data.batches import EncodedPairs, encode
from regard.translator.data.corpus import Corpus, load_corpus
from regard.translator.data.sources import TEST, TRAIN, VALIDATION, Pairs
from regard.translator.data.vocabulary import BPEVocabulary, Vocabulary, WordVocabulary, encode_sources, without_unknown
from regard.translator.models.embeddings import Vectors, initial_vectors
from regard.translator.models.own_translator import KIND, OwnCode, OwnTranslator, build_own
from regard.translator.models.run import Run
from regard.translator.models.translation import Baseline, TranslationModel, mean_probability, translate_ids
from regard.translator.models.weights import choose_device, count_parameters
from regard.translator.runs.files import RUN, SETTINGS, VOCABULARY, json_file
from regard.translator.runs.records import is_finished, read_about
from regard.translator.runs.settings import Settings, load_settings


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
        corpus, vectors = self.corpus, {"Source": self.source_vectors, "Target": self.target_vectors}
        long = {
            "training": len(corpus.train) - self.fitting, "validation": len(corpus.validation) - len(self.validation)
        }  # fmt: skip
        share = f"It is trained on {len(self.train):,} of {self.fitting:,} training pairs (data.share)."
        return [
            *str(corpus.report).splitlines(),
            *(f"{n} {x} pairs have too many tokens for data.longest and are left out." for x, n in long.items() if n),
            *[share] * (len(self.train) < self.fitting),
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


ORDINARY = 200  # validation sentences that are translated to see how sure a run is


def has_unfinished_run(
    settings: Settings, folder: Path, fingerprint: str | None, *, processes: int = 1, own: OwnCode | None = None
) -> bool:
    """Whether ``folder`` has this very run, unfinished; raises if it has anything else.

    A run belongs to its number of processes: with another one dropout differs, and without dropout the rounding.
    A run of somebody's ``own`` model belongs to the file that it began with.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / RUN).exists():
        raise InputError(f"{folder} exists and is not a run of ours; give another --out.")
    about, theirs = read_about(folder), load_settings(folder / SETTINGS)
    if different := settings.differences(theirs):
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        raise InputError(
            f"{folder} holds a run with other settings (asked for, there: {'; '.join(different[:3])}{more}); "
            "give another --out."
        )
    if fingerprint is not None and about.get("fingerprint") != fingerprint:
        raise InputError(f"{folder} holds a run on other data than {settings.data.path} has now; give another --out.")
    if is_finished(folder):
        raise InputError(f"The run in {folder} is finished; score it, or give another --out to train again.")
    if own is not None and about.get("code", {}).get("sha256") != own.digest:
        raise InputError(
            f"The run in {folder} was begun with another {own.path}; give another --out, or put the file back as it "
            "was."
        )
    # a record that does not say how many began it is taken at the asker's word
    if (began := about.get("processes", processes)) != processes:
        raise InputError(
            f"The run in {folder} was begun by {began} process{'es' * (began != 1)} and would end with other weights "
            f"if {processes} went on with it; start as many as then, or give another --out."
        )
    return True


def first_files(
    settings: Settings, data: PreparedData, model: TranslationModel, command: str, *, processes: int = 1
) -> dict[str, bytes]:
    """The files a new run folder starts with: settings, vocabularies, and what the run depends on."""
    vectors = {"source": data.source_vectors, "target": data.target_vectors}
    about = {
        "fingerprint": data.corpus.fingerprint,
        "corpus": data.corpus.report.to_dict(),
        "seed": settings.training.seed,
        "command": command,
        "processes": processes,
        "pairs": {"train": len(data.train), "validation": len(data.validation)},
        "target_tokens": data.train.target_tokens,
        "words": {"source": len(data.source), "target": len(data.target)},
        "parameters": count_parameters(model),
        "vectors": {
            side: None if v is None else v.to_dict() | {"sha256": hashlib.sha256(v.matrix.tobytes()).hexdigest()}
            for side, v in vectors.items()
        },
        "versions": versions(),
    }
    if isinstance(model, OwnTranslator):
        about["code"] = {"name": model.code.name, "sha256": model.code.digest}
    words = {"source": data.source.to_dict(), "target": data.target.to_dict()}
    return {
        SETTINGS: settings.to_toml().encode(),
        VOCABULARY: json_file(words),
        RUN: json_file(about),
    }


def baseline_file(run: Run, training: Sequence[str], validation: Sequence[str]) -> bytes:
    """What ``usual.json`` says about a run: the training's words, and how sure it is of some validation sentences."""
    some = validation[:: max(1, len(validation) // ORDINARY)]
    read, _ = without_unknown(some, run.source)
    ids, _ = encode_sources(read, run.source, longest=run.settings.data.longest, cut=True)
    sure = [mean_probability(words, value) for words, value in translate_ids(run.model, ids)]
    return json_file(Baseline.measure(training, sure).to_dict())


def versions() -> dict[str, str]:
    """What the numbers depend on beside the settings."""
    known = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    for package in ("regard", "torch", "numpy", "tokenizers", "gensim"):
        with contextlib.suppress(PackageNotFoundError):
            known[package] = version(package)
    return known
