"""Translating with an exported run: the same search as :mod:`regard.translator.decoding.beam`, in the engine's C++.

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

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.progress import Progress
from regard.translator.data.vocabulary import MARKERS, PAD, SOS
from regard.translator.decoding.beam import POWER
from regard.translator.decoding.translation import translate_ids
from regard.translator.engines.export import ABOUT, digests, exportable_model, fingerprint, import_engine
from regard.translator.runs.files import read_json

if TYPE_CHECKING:
    from regard.translator.engines.run import Run

NAMES = {"ctranslate2": "ctranslate2-float32", "ctranslate2-int8": "ctranslate2-int8"}  # and their folders in a run

Written = list[tuple[list[int], float]]  # ids without markers and their log-probability, one for each sentence


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
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # like lengths together
        written: dict[int, tuple[list[int], float]] = {}
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            written |= dict(zip(rows, self._search([sources[i] for i in rows], beam, longest), strict=True))
            if progress is not None:
                progress(len(written), len(order))
        endless = [i for i in order if len(written[i][0]) > longest]
        again = translate_ids(self.run.model, [sources[i] for i in endless], beam=beam, batch=batch)
        written |= dict(zip(endless, again, strict=True))
        return [written[i] for i in range(len(sources))]

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
    if not (folder / ABOUT).exists():
        raise InputError(f"{folder} is not an export: it has no {ABOUT}; give the folder that export wrote.")
    about = read_json(folder / ABOUT, otherwise="export the run again")
    if not isinstance(about, dict) or not {"fingerprint", "quantization", "weights", "epoch"} <= about.keys():
        raise InputError(f"{folder / ABOUT} does not describe an export; export the run again.")
    return about
