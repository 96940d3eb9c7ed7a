"""A run folder: begun, gone on with, or opened to translate and to score."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from regard.errors import InputError
from regard.progress import Progress
from regard.translator.data.sentences import encode_sources, read_vocabularies, without_unknown
from regard.translator.data.vocabulary import Vocabulary
from regard.translator.decoding.doubts import UNTOLD, Baseline, mean_probability, reasons_for_doubt
from regard.translator.decoding.greedy import TranslationModel, Translations, translate_ids
from regard.translator.decoding.sentence_attention import SentenceAttention, sentence_attention
from regard.translator.models.embeddings import Vectors
from regard.translator.models.encoder import build_model
from regard.translator.models.own import KIND, OwnCode, OwnTranslator, build_own
from regard.translator.models.size import check_size
from regard.translator.runs.checkpoint_files import missing_digest_note
from regard.translator.runs.example import run_folder
from regard.translator.runs.files import (
    BEST,
    LAST,
    RUN,
    SETTINGS,
    USUAL,
    VOCABULARY,
    explain_errors,
    json_file,
    read_json,
)
from regard.translator.runs.records import check_name, is_finished, read_about
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.averaging import use_averages
from regard.translator.training.checkpoints import put_weights, read_weights
from regard.translator.training.preparation import PreparedData

ORDINARY = 200  # validation sentences that are translated to see how sure a run is

if TYPE_CHECKING:
    from regard.translator.engines.ctranslate2 import Engine


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What a run folder holds; ``facts`` says at which epoch its weights were, and how good."""

    folder: Path
    settings: Settings
    source: Vocabulary
    target: Vocabulary
    model: TranslationModel
    facts: dict[str, Any]
    about: dict[str, Any]
    notes: tuple[str, ...] = ()  # worth knowing about its files
    usual: Baseline = UNTOLD

    @property
    def epoch(self) -> int:
        """The epoch that its weights are from; 0 where their file does not say."""
        number = self.facts.get("epoch")
        return number if isinstance(number, int) else 0

    def translate(
        self,
        sentences: Sequence[str],
        *,
        cut: bool = False,
        beam: int = 1,
        batch: int = 100,
        engine: str | Engine = "eager",
        progress: Progress | None = None,
    ) -> Translations:
        """Translate sentences, keeping the ``beam`` best beginnings of each (1: greedily).

        ``engine`` names an export of the run (see :mod:`regard.translator.engines.ctranslate2`), or is one that was
        opened. An empty sentence is refused, and so is one longer than the run was trained for, unless ``cut`` is
        true: then its first tokens are translated and the result says so.
        """
        read, left_out = without_unknown(sentences, self.source)
        ids, shortened = encode_sources(read, self.source, longest=self.settings.data.longest, cut=cut)
        beam = checked_beam(self.settings, beam)
        if engine == "eager":
            written = translate_ids(self.model, ids, beam=beam, batch=batch, progress=progress)
        else:
            written = self._open_engine(engine).translate(ids, beam=beam, batch=batch, progress=progress)
        target = [self.target.decode(words) for words, _ in written]
        return Translations(
            source=list(sentences),
            target=target,
            log_probability=[value for _, value in written],
            cut=shortened,
            left_out=left_out,
            doubts=self._confidence_warnings(sentences, written, target),
        )

    def _confidence_warnings(
        self, sentences: Sequence[str], written: Sequence[tuple[list[int], float]], target: Sequence[str]
    ) -> list[str]:
        said = []
        for number, (sentence, (ids, value), text) in enumerate(zip(sentences, written, target, strict=True), 1):
            if reasons := reasons_for_doubt(
                sentence, self.source, written=ids, log_probability=value, text=text, usual=self.usual
            ):
                said.append(f"Do not trust the translation of sentence {number}: {', and '.join(reasons)}.")
        return said

    def attention(self, sentence: str, *, cut: bool = False) -> SentenceAttention:
        """The translation of one sentence, and which source token each written one read, in every layer and head.

        The layers are those that read the source: of an encoder-decoder the decoder's, of ctc those after its places
        were doubled. Too long a sentence is refused, or cut, as in :meth:`translate`.
        """
        (ids,), shortened = encode_sources([sentence], self.source, longest=self.settings.data.longest, cut=cut)
        words = self.source, self.target
        return sentence_attention(self.model, ids, sentence=sentence, words=words, cut=bool(shortened))

    def _open_engine(self, engine: str | Engine) -> Engine:
        from regard.translator.engines.ctranslate2 import open_engine

        return open_engine(self, engine) if isinstance(engine, str) else engine


def uses_search(settings: Settings) -> bool:
    """Whether the model of the settings looks for its translations; the others say every place at once."""
    return settings.model.kind not in ("encoder", "reads-padding", KIND)


def checked_beam(settings: Settings, beam: int) -> int:
    """The beam, if the model of the settings can be searched with it."""
    if beam < 1:
        raise InputError(f"beam must be 1 (greedy) or more, not {beam}.")
    if beam > 1 and not uses_search(settings):
        raise InputError(
            f"A beam of {beam} is for models that search, encoder-decoder and ctc; this {settings.model.kind} says all "
            "places at once, each word the best there: leave --beam out."
        )
    return beam


def load_run(folder: str | Path, *, weights: str = "best", own: OwnCode | None = None) -> Run:
    """Open a run folder with its ``best`` (by validation perplexity) or its ``last`` weights; ``example`` is ours.

    A run of somebody's ``own`` model opens with its code only, which is named by whoever opens it: no folder can make
    this process run a file.
    """
    folder = run_folder(folder)
    if weights not in ("best", "last"):
        raise InputError(f"weights must be best or last, not {weights!r}.")
    check_name(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}; give the one that train wrote, or example, which is ours.")
    about = read_about(folder)
    notes: list[str] = []
    settings = load_settings(folder / SETTINGS, notes=notes)
    source, target = read_vocabularies(folder)
    path = folder / (BEST if weights == "best" else LAST)
    tensors, header = read_weights(path)
    # people translate with the averaged weights; only training goes on from the others
    tensors = use_averages(tensors)
    notes += [] if header.digest else [missing_digest_note(path)]
    model: TranslationModel
    if settings.model.kind == KIND:
        code = _code_of(folder, about, own, notes)
        model = build_own(code, settings, len(source), len(target))
    else:
        if own is not None:
            notes.append(f"The run in {folder} is of a model of ours; {own.name} is not used for it.")
        # before memory is taken: the settings may have been damaged, or written by somebody else
        check_size(settings, len(source), len(target))
        model = _model_like(tensors, settings, len(source), len(target))
    put_weights(path, model, tensors)
    model.eval()
    return Run(
        folder=folder,
        settings=settings,
        source=source,
        target=target,
        model=model,
        facts=header.facts,
        about=about,
        notes=tuple(notes),
        usual=_read_baseline(folder),
    )


def _read_baseline(folder: Path) -> Baseline:
    if not (folder / USUAL).exists():  # of an earlier version, or not finished
        return UNTOLD
    with explain_errors(folder, "run"):
        return Baseline.from_dict(read_json(folder / USUAL))


def baseline_file(run: Run, training: Sequence[str], validation: Sequence[str]) -> bytes:
    """What ``usual.json`` says about a run: the training's words, and how sure it is of some validation sentences."""
    some = validation[:: max(1, len(validation) // ORDINARY)]
    read, _ = without_unknown(some, run.source)
    ids, _ = encode_sources(read, run.source, longest=run.settings.data.longest, cut=True)
    sure = [mean_probability(words, value) for words, value in translate_ids(run.model, ids)]
    return json_file(Baseline.measure(training, sure).to_dict())


def _model_like(tensors: Mapping[str, Tensor], settings: Settings, source: int, target: int) -> TranslationModel:
    """A model of ours that these weights fit."""
    one_layer = settings.model.kind in ("encoder", "reads-padding")
    embedding = "model.embedding.tokens" if one_layer else "model.encoder.embedding.tokens"
    # tied: one table reads the source and says the target
    output = embedding if settings.model.tied else "model.output.vectors"
    return build_model(
        settings,
        source,
        target,
        source_vectors=_vectors_like(tensors, embedding, settings.embedding.source),
        target_vectors=_vectors_like(tensors, output, settings.embedding.target),
    )


def _code_of(folder: Path, about: Mapping[str, Any], own: OwnCode | None, notes: list[str]) -> OwnCode:
    trained = about.get("code", {})
    if own is None:
        name = trained.get("name", "my.py:NAME")
        raise InputError(
            f"The run in {folder} is of somebody's own model, and opening it runs their code: say --model {name} if "
            "you trust that file."
        )
    if own.digest != trained.get("sha256"):
        notes.append(f"{own.path} has changed since {folder} was trained; its weights still fit.")
    return own


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
        "cannot_say": {"train": model.cannot_say(data.train), "validation": model.cannot_say(data.validation)},
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


def count_parameters(model: nn.Module) -> int:
    """Trained weights."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def versions() -> dict[str, str]:
    """What the numbers depend on beside the settings."""
    known = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    for package in ("regard", "torch", "numpy", "tokenizers", "gensim"):
        with contextlib.suppress(PackageNotFoundError):
            known[package] = version(package)
    return known


def _vectors_like(tensors: Mapping[str, Tensor], where: str, spec: str) -> Vectors | None:
    """Vectors of the saved shape, so that a run opens without the file its vectors came from."""
    if spec == "learned":
        return None
    rows = tensors.get(f"{where}.fixed", tensors.get(f"{where}.weight"))
    if rows is None or rows.ndim != 2:
        raise InputError(f"The checkpoint has no word vectors at {where}; the folder mixes files of different runs.")
    free = tensors.get(f"{where}.is_free")
    # rows without a vector of their own are trained, which the weights' shapes do not tell; the numbers follow later
    covered = np.zeros(len(rows), bool) if free is None else free.flatten().numpy() == 0
    return Vectors(
        spec=spec, width=rows.shape[1], types=0, types_covered=0, tokens=0, tokens_covered=0, missing=[],
        _matrix=np.zeros(tuple(rows.shape), np.float32), _covered=covered,
    )  # fmt: skip
