"""The files of a run folder that training writes, and whether one holds a run to go on with."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from regard.errors import InputError
from regard.translator.data.sentences import encode_sources, without_unknown
from regard.translator.decoding.confidence import Baseline, mean_probability
from regard.translator.decoding.translation import TranslationModel, translate_ids
from regard.translator.engines.run import Run
from regard.translator.models.own_translator import OwnCode, OwnTranslator
from regard.translator.models.size import count_parameters
from regard.translator.runs.files import RUN, SETTINGS, VOCABULARY, json_file
from regard.translator.runs.records import is_finished, read_about
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.preparation import PreparedData

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
