"""A run folder: begun, gone on with, or opened to translate and to score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.progress import Progress
from regard.translator.data.vocabulary import Vocabulary, encode_sources, read_vocabularies, without_unknown
from regard.translator.models.embeddings import Vectors
from regard.translator.models.encoder import build_model
from regard.translator.models.own_translator import KIND, OwnCode, build_own
from regard.translator.models.sentence_attention import SentenceAttention
from regard.translator.models.translation import (
    UNTOLD,
    Baseline,
    TranslationModel,
    Translations,
    device_of,
    reasons_for_doubt,
    translate_ids,
)
from regard.translator.models.weights import (
    check_size,
    choose_device,
    put_on_device,
    put_weights,
    read_weights,
    use_averages,
)
from regard.translator.runs.files import BEST, LAST, SETTINGS, USUAL, explain_errors, missing_digest_note, read_json
from regard.translator.runs.records import existing_folder, read_about
from regard.translator.runs.settings import Settings, load_settings

if TYPE_CHECKING:
    from regard.translator.models.export import Engine


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

        ``engine`` names an export of the run (see :mod:`regard.translator.models.export`), or is one that was
        opened. An empty sentence is refused, and so is one longer than the run was trained for, unless ``cut`` is
        true: then its first tokens are translated and the result says so.
        """
        read, left_out = without_unknown(sentences, self.source)
        ids, shortened = encode_sources(read, self.source, longest=self.settings.data.longest, cut=cut)
        beam = checked_beam(self.settings, beam)
        if engine == "eager":
            written = translate_ids(self.model, ids, beam=beam, batch=batch, progress=progress)
        else:
            from regard.translator.models.export import open_engine

            opened = open_engine(self, engine) if isinstance(engine, str) else engine
            written = opened.translate(ids, beam=beam, batch=batch, progress=progress)
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

        The layers are those that read the source: in an encoder-decoder, the decoder's. A sentence that is too long is
        refused, or cut, as in :meth:`translate`.
        """
        (ids,), shortened = encode_sources([sentence], self.source, longest=self.settings.data.longest, cut=cut)
        source = torch.tensor([ids]).to(device_of(self.model))
        self.model.eval()
        with torch.no_grad():
            ((written, log_probability),) = self.model.translate(source)
            weights = self.model.attention(source)[0]
        # where a model has no place left for <eos>, the table ends with its last word
        rows = ["<sos>", *(self.target.words[i] for i in written), "<eos>"][: weights.shape[2]]
        return SentenceAttention(
            source=sentence,
            target=self.target.decode(written),
            log_probability=log_probability,
            cut=bool(shortened),
            columns=[self.source.words[i] for i in ids],
            rows=rows,
            weights=weights[:, :, : len(rows), : len(ids)].cpu().numpy(),
        )


def uses_search(settings: Settings) -> bool:
    """Whether the model of the settings looks for its translations; the others say every place at once."""
    return settings.model.kind not in ("encoder", "reads-padding", KIND)


def checked_beam(settings: Settings, beam: int) -> int:
    """The beam, if the model of the settings can be searched with it."""
    if beam < 1:
        raise InputError(f"beam must be 1 (greedy) or more, not {beam}.")
    if beam > 1 and not uses_search(settings):
        raise InputError(
            f"A beam of {beam} is for the encoder-decoder, which searches; this {settings.model.kind} writes all "
            "places at once, each word the best there: leave --beam out."
        )
    return beam


def load_run(folder: str | Path, *, weights: str = "best", own: OwnCode | None = None, device: str = "auto") -> Run:
    """Open a run folder with its ``best`` (by validation perplexity) or its ``last`` weights; ``example`` is ours.

    ``device``: auto (a graphics card if there is one), cpu, cuda or mps, wherever it was trained.

    A run of somebody's ``own`` model opens with its code only, which is named by whoever opens it: no folder can make
    this process run a file.
    """
    if weights not in ("best", "last"):
        raise InputError(f"weights must be best or last, not {weights!r}.")
    folder = existing_folder(folder)
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
        vectors = _vectors_like(tensors, "model.exchange", settings.embedding.source)
        where = str(choose_device(device))
        model = build_own(code, settings, len(source), len(target), vectors=vectors, device=where)
    else:
        if own is not None:
            notes.append(f"The run in {folder} is of a model of ours; {own.name} is not used for it.")
        # before memory is taken: the settings may have been damaged, or written by somebody else
        check_size(settings, len(source), len(target))
        model = put_on_device(_model_like(tensors, settings, len(source), len(target)), choose_device(device))
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
