"""Our own translators, from a run folder or from Python: what they take, and how they know padding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regard.errors import InputError
from regard_models.inputs.input_roles import Stream

if TYPE_CHECKING:
    from regard.translator.models.run import Run
    from regard_models.inputs.model_input import ModelInput

BATCH, LENGTH, TARGET = 3, 17, 13


def is_run(folder: Path) -> bool:
    """Whether the folder is one that ``regard translator train`` wrote."""
    return (folder / "run.json").is_file() and (folder / "settings.toml").is_file()


def load(folder: Path) -> tuple[nn.Module, Run]:
    """The model of a run, with its best weights, and the run itself, which knows the words."""
    from regard.translator.models.run import load_run

    run = load_run(folder, device="cpu")
    return run.model, run


def is_translator(module: nn.Module) -> bool:
    """Whether the module is one of our translators."""
    return type(module).__module__.startswith("regard.translator.")


def derive(module: nn.Module, label: str, *, text: str | None = None, run: Any = None) -> ModelInput:
    """Ids for one of our translators; it knows padding by its id, and markers stand at both ends in training only."""
    from regard.translator.data.vocabulary import EOS, PAD, SOS
    from regard_models.inputs.model_input import ModelInput, parameter_names

    generator = torch.Generator().manual_seed(0)
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
    words = min(tables, default=16) if run is None else min(len(run.source), len(run.target))
    longest = int(getattr(module, "places", LENGTH))
    first = min(LENGTH, longest)
    inputs: dict[str, object] = {"source": torch.randint(4, max(words, 5), (BATCH, first), generator=generator)}
    special = frozenset({PAD, SOS, EOS})
    shared = {"avoid": special, "pad": PAD, "padded_by_id": True, "longest": longest}
    streams = [Stream(name="source", vocabulary=words, **shared)]  # type: ignore[arg-type]
    names = parameter_names(module)
    if "target" in names:
        inputs["target"] = torch.randint(4, max(words, 5), (BATCH, min(TARGET, longest)), generator=generator)
        streams.append(Stream(name="target", vocabulary=words, causal=True, **shared))  # type: ignore[arg-type]
    words_of: dict[str, Any] = {}
    if text is not None:
        inputs, words_of = _encode_text(text, run, inputs, label)
    return ModelInput(
        name=label,
        module=module,
        inputs=inputs,
        streams=tuple(streams),
        **words_of,
        assumed=(f"padding is known by its id, {PAD}",),
    )


def _encode_text(text: str, run: Any, drawn: dict[str, object], label: str) -> tuple[dict[str, object], dict[str, Any]]:
    """The ids of a sentence, and as the target what the run itself writes for it; the words of both."""
    from regard.translator.data.vocabulary import PAD, SOS, encode_sources

    if run is None:
        raise InputError(f"{label} came without its words; give its run folder, or leave the text out.")
    if not text.strip():
        raise InputError("The text is empty; give a few words.")
    (ids,), _ = encode_sources([text], run.source, longest=run.settings.data.longest, cut=False)
    if run.settings.model.kind in ("encoder", "reads-padding"):  # they read as many places as there can be
        ids = [*ids, *[PAD] * (run.model.places - len(ids))]
    source = torch.tensor([ids])
    read = [[run.source.words[i] for i in ids]]
    if "target" not in drawn:
        return {"source": source}, {"tokens": read}
    run.model.eval()
    with torch.no_grad():
        ((written, _),) = run.model.translate(source)
    said = [SOS, *written]
    words = {"tokens": read, "target_tokens": [[run.target.words[i] for i in said]]}
    return {"source": source, "target": torch.tensor([said])}, words
