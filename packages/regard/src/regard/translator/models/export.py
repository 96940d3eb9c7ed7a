"""An encoder-decoder written down for CTranslate2, an engine in C++ that translates several times faster on a CPU.

| file | what |
|---|---|
| ``model.bin``, ``config.json`` | the weights as the engine wants them (float32, or int8 with one scale per row) |
| ``source_vocabulary.json``, ``target_vocabulary.json`` (or ``shared_vocabulary.json``) | the tokens, for the engine |
| ``vocabulary.json`` | our vocabularies, whole: what splits sentences into those tokens and joins them again |
| ``export.json`` | what was exported: fingerprint of weights and vocabularies, engine version, each file's SHA-256 |

Everything is taken from what the modules compute, not from their names: an embedding is what it gives for every word,
positions are what they add to zeros, an output layer is what it gives for unit vectors. So pretrained vectors, tied
matrices and any table of positions come out right, and the tests compare the engine with the model token by token.

Translating with an export is the same search as :mod:`regard.translator.models.encoder_decoder`, in the engine's C++:

| ``--engine`` | what translates |
|---|---|
| ``eager`` | the run itself, in torch; nothing to install |
| ``ctranslate2`` | its export in float32: the same translations |
| ``ctranslate2-int8`` | its export in int8 |
| a folder | the export that is there |

The engine counts lengths as we do, <eos> included, so its ``length_penalty`` is our power; and it ends a search like
ours, when as many hypotheses are finished as the beam is wide. Two things it does otherwise:

* At the longest length it lets sentences go without <eos>; ours must write one. Where the engine's best sentence is one
  without (a token too long), the run itself translates that sentence instead. In all others the engine's best is ours:
  its unfinished rivals had the higher score that leaving <eos> out gives, and still lost.
* It takes what is never written (<pad>, <sos>, <unk>) out before the softmax, we after it: log-probabilities come out
  higher by log of what is left at each place. Greedily nothing changes; a beam may choose otherwise where <unk> is
  probable, so with a vocabulary of words, not of pieces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.array_types import Single
from regard.errors import InputError
from regard.extras import require
from regard.files import read_file, replace_folder, write_file
from regard.progress import Progress
from regard.results import Result
from regard.translator.data.vocabulary import EOS, MARKERS, PAD, SOS, UNK
from regard.translator.models.encoder import Attention, FeedForward, Output
from regard.translator.models.encoder_decoder import POWER, Decoder, Encoder, EncoderDecoder
from regard.translator.models.own_translator import KIND
from regard.translator.models.run import Run, load_run
from regard.translator.models.translation import Written, in_batches, translate_ids
from regard.translator.models.weights import model_tensors
from regard.translator.runs.files import SETTINGS, VOCABULARY, is_begun, is_packaged, json_file, read_description
from regard.translator.runs.settings import load_settings

ABOUT = "export.json"
QUANTIZATIONS = ("float32", "int8")


@dataclass(frozen=True, kw_only=True, eq=False)
class Export(Result):
    """What :func:`export` wrote."""

    folder: str
    run: str
    engine: str
    version: str  # of the engine
    quantization: str
    epoch: int
    weights: str
    size: int  # bytes, all files
    fingerprint: str

    def __str__(self) -> str:
        # a short name inside its run's folder, its own folder elsewhere
        short = self.engine if self.quantization == "float32" else f"{self.engine}-{self.quantization}"
        inside = Path(self.run) / f"{self.engine}-{self.quantization}" == Path(self.folder)
        return (
            f"{self.folder}: {self.size / 1e6:,.1f} MB in {self.quantization}, the {self.weights} weights (epoch "
            f"{self.epoch}) for {self.engine} {self.version}.\n"
            f"Use it: regard translator translate {self.run} --engine {short if inside else self.folder}"
        )


def export(
    folder: str | Path,
    *,
    to: str = "ctranslate2",
    quantization: str = "float32",
    out: str | Path | None = None,
    weights: str = "best",
) -> Export:
    """Write the run in ``folder`` for an engine, into ``out`` (left out: a folder inside the run), whole or not at all.

    float32 gives the same translations as the run itself; int8 is a quarter of the size, faster, and a little worse.
    An export that is there is replaced; any other folder is refused.
    """
    if to != "ctranslate2":
        raise InputError(f"There is no engine {to!r} to export to; there is ctranslate2.")
    if quantization not in QUANTIZATIONS:
        raise InputError(f"quantization must be one of {', '.join(QUANTIZATIONS)}, not {quantization!r}.")
    _refuse_own(Path(folder))
    library = import_engine()
    run = load_run(folder, weights=weights, device="cpu")
    exportable_model(run)
    if out is None and is_packaged(run.folder):
        raise InputError("The example run is a part of the package, where nothing is written; give --out FOLDER.")
    target = Path(out) if out is not None else run.folder / f"{to}-{quantization}"
    _check_target(target)
    about = {
        "run": str(run.folder),
        "engine": to,
        "version": str(library.__version__),
        "quantization": quantization,
        "epoch": run.epoch,
        "weights": weights,
        "fingerprint": fingerprint(run),
    }
    spec = _specification(run, library)
    _write(spec, run, target, quantization, about)
    size = sum(path.stat().st_size for path in target.iterdir())
    return Export(folder=str(target), size=size, **about)  # type: ignore[arg-type]


def _refuse_own(folder: Path) -> None:
    """A model of somebody's own can be anything; an engine in C++ holds what it was written for."""
    path = folder / SETTINGS
    if path.is_file() and load_settings(path).model.kind == KIND:
        raise InputError(
            f"{folder} is a run of a model of your own, and the engine holds our encoder-decoders only; use it as it "
            "is: translate and score take --model FILE.py:NAME, without --engine."
        )


def import_engine() -> Any:
    """The ctranslate2 package, or one sentence."""
    require("The engine", "ctranslate2")
    import ctranslate2

    return ctranslate2


def exportable_model(run: Run) -> EncoderDecoder:
    """The run's model, if the engine can hold it."""
    if not isinstance(run.model, EncoderDecoder):
        raise InputError(
            f"The engine holds models of kind encoder-decoder, and {run.folder} is of kind {run.settings.model.kind}; "
            "use it as it is, without --engine."
        )
    return run.model


def fingerprint(run: Run) -> str:
    """sha256 of the weights and vocabularies: an export of others is out of date."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model_tensors(run.model).items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    digest.update(_vocabularies(run))
    return digest.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of an export but the one that says them."""
    names = sorted(path.name for path in folder.iterdir() if path.name != ABOUT)
    return {name: hashlib.sha256(read_file(folder / name)).hexdigest() for name in names}


def _vocabularies(run: Run) -> bytes:
    both = {"source": run.source.to_dict(), "target": run.target.to_dict()}
    return json.dumps(both, ensure_ascii=False, sort_keys=True).encode()


def _specification(run: Run, library: Any) -> Any:
    """The engine's own description of a Transformer, filled."""
    model, size = exportable_model(run), run.settings.model
    rotary = 0 if run.settings.embedding.positions == "rotary" else None  # 0: all numbers of a head are turned
    layout = {"pre_norm": True, "rotary_dim": rotary, "head_dim": size.head_width}
    encoder = library.specs.transformer_spec.TransformerEncoderSpec(size.layers, size.heads, **layout)
    decoder = library.specs.transformer_spec.TransformerDecoderSpec(size.decoder_layers, size.heads, **layout)
    with torch.no_grad():
        _fill_encoder(encoder, model.encoder, model.places)
        _fill_decoder(decoder, model.decoder, model.places)
        _fill_output(decoder.projection, model.output, size.width)
    spec = library.specs.TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(run.source.words)
    spec.register_target_vocabulary(run.target.words)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = MARKERS[UNK], MARKERS[SOS], MARKERS[EOS]
    config.decoder_start_token = MARKERS[SOS]
    config.add_source_bos = config.add_source_eos = False  # ours are in the ids already
    config.layer_norm_epsilon = model.encoder.norm.eps
    return spec


def _fill_encoder(spec: Any, stack: Encoder, places: int) -> None:
    _fill_embedding(spec, spec.embeddings[0], stack, places)
    blocks: Any = stack.blocks
    for layer, block in zip(spec.layer, blocks, strict=True):
        _fill_own_attention(layer.self_attention, block.attention, block.before_attention)
        _fill_feed_forward(layer.ffn, block.feed_forward, block.before_feed_forward)


def _fill_decoder(spec: Any, stack: Decoder, places: int) -> None:
    _fill_embedding(spec, spec.embeddings, stack, places)
    blocks: Any = stack.blocks
    for layer, block in zip(spec.layer, blocks, strict=True):
        _fill_own_attention(layer.self_attention, block.own_attention, block.before_own)
        _fill_source_attention(layer.attention, block.source_attention, block.before_source)
        _fill_feed_forward(layer.ffn, block.feed_forward, block.before_feed_forward)


def _fill_embedding(spec: Any, embeddings: Any, stack: Encoder | Decoder, places: int) -> None:
    tokens, positions, scale = stack.embedding.tokens, stack.embedding.positions, stack.embedding.scale
    rows = tokens(torch.arange(len(tokens.table())))
    embeddings.weight = _array(rows)
    spec.scale_embeddings = np.float32(scale)
    if hasattr(spec, "position_encodings"):  # a decoder with rotary positions has none
        spec.position_encodings.encodings = _array(positions(torch.zeros(1, places, rows.shape[1]), 0)[0])
    _fill_norm(spec.layer_norm, stack.norm)


def _fill_output(spec: Any, output: Output, width: int) -> None:
    # what it gives for unit vectors are the columns of its matrix, whatever it is made of
    states, weight, bias = output.factors(torch.eye(width))
    spec.weight, spec.bias = _array(weight @ states.T), _array(bias)


def _fill_own_attention(spec: Any, attention: Attention, norm: nn.LayerNorm) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.queries, attention.keys, attention.values)
    _fill_linear(spec.linear[1], attention.mix)


def _fill_source_attention(spec: Any, attention: Attention, norm: nn.LayerNorm) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.queries)
    _fill_linear(spec.linear[1], attention.keys, attention.values)
    _fill_linear(spec.linear[2], attention.mix)


def _fill_feed_forward(spec: Any, part: FeedForward, norm: nn.LayerNorm) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear_0, part[0])
    _fill_linear(spec.linear_1, part[2])


def _fill_linear(spec: Any, *parts: Any) -> None:
    """Several layers of one input as one, one below the other."""
    spec.weight = _array(torch.cat([part.weight for part in parts]))
    spec.bias = _array(torch.cat([part.bias for part in parts]))


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: torch.Tensor) -> Single:
    return np.ascontiguousarray(tensor.detach().numpy(), dtype=np.float32)


def _check_target(target: Path) -> None:
    if is_begun(target) and not (target / ABOUT).exists():
        raise InputError(f"{target} exists and is not an export of ours; give another --out.")


def _write(spec: Any, run: Run, target: Path, quantization: str, about: dict[str, Any]) -> None:
    """All files beside their place, then one rename; what was there goes last."""
    try:
        with replace_folder(target) as partial:
            spec.validate()
            spec.optimize(quantization=quantization)
            spec.save(str(partial))
            write_file(partial / VOCABULARY, _vocabularies(run))
            write_file(partial / ABOUT, json_file(about | {"files": digests(partial)}))
    except OSError as error:
        raise InputError(
            f"{target} could not be written: {error.strerror or error}; make room, or give --out."
        ) from None


NAMES = {"ctranslate2": "ctranslate2-float32", "ctranslate2-int8": "ctranslate2-int8"}  # and their folders in a run


class Engine:
    """An export, opened; ``run`` is what it was made from."""

    def __init__(self, run: Run, folder: Path, *, threads: int = 1) -> None:
        about = _about(folder)
        if about["fingerprint"] != fingerprint(run):
            raise InputError(
                f"{folder} was exported from other weights than {run.folder} has now ({about['weights']}, epoch "
                f"{about['epoch']}); export the run again."
            )
        changed = about.get("files", there := digests(folder)) != there  # earlier exports have no digests
        if changed:
            raise InputError(f"{folder} has other files than were exported, or damaged ones; export the run again.")
        self.run, self.folder, self.quantization = run, folder, str(about["quantization"])
        try:
            self._translator: Any = import_engine().Translator(
                str(folder), device="cpu", compute_type=self.quantization, inter_threads=1, intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"The engine cannot open {folder} ({reason}); export the run again.") from None
        self._ids = {word: i for i, word in enumerate(run.target.words)}

    def translate(
        self, sources: Sequence[list[int]], *, beam: int = 1, batch: int = 100, progress: Progress | None = None
    ) -> Written:
        """Target ids without markers and their log-probability, in the order of ``sources`` (ids with markers)."""
        longest = self.run.settings.data.longest
        written = in_batches(lambda some: self._search(some, beam, longest), sources, batch=batch, progress=progress)
        endless = [i for i, (ids, _) in enumerate(written) if len(ids) > longest]
        again = translate_ids(self.run.model, [sources[i] for i in endless], beam=beam, batch=batch)
        for i, whole in zip(endless, again, strict=True):
            written[i] = whole
        return written

    def _search(self, sources: Sequence[list[int]], beam: int, longest: int) -> Written:
        words = self.run.source.words
        results = self._translator.translate_batch(
            [[words[i] for i in ids] for ids in sources],
            beam_size=beam,
            length_penalty=POWER,
            max_decoding_length=longest + 1,  # with <eos>
            min_decoding_length=0,
            max_input_length=0,  # ours are short enough already
            disable_unk=True,
            suppress_sequences=[[MARKERS[PAD]], [MARKERS[SOS]]],
            return_scores=True,
        )
        ids = [[self._ids[word] for word in result.hypotheses[0]] for result in results]
        # the engine's score is divided by the length already
        return [(each, r.scores[0] * (len(each) + 1) ** POWER) for each, r in zip(ids, results, strict=True)]


def open_engine(run: Run, name: str, *, threads: int | None = None) -> Engine:
    """The export of ``run`` that ``name`` says: one of the table above, or a folder.

    Opening takes a moment; to translate again and again, keep it and hand it to ``run.translate(..., engine=...)``.
    """
    exportable_model(run)
    inside = name in NAMES
    folder = run.folder / NAMES[name] if inside else Path(name)
    if not inside and not folder.is_dir():
        raise InputError(f"There is no engine {name!r}: give eager, {', '.join(NAMES)}, or the folder of an export.")
    if not folder.is_dir():
        how = "--to ctranslate2" + (" --quantization int8" if name.endswith("int8") else "")
        raise InputError(f"{run.folder} is not exported yet; first: regard translator export {run.folder} {how}")
    return Engine(run, folder, threads=run.settings.training.threads if threads is None else threads)


def _about(folder: Path) -> dict[str, Any]:
    wanted, again = {"fingerprint", "quantization", "weights", "epoch"}, "export the run again"
    return read_description(folder / ABOUT, "an export", wanted, otherwise=again, give="the folder that export wrote")
