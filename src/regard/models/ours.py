"""Our own translators, from a run folder or from Python: what they take, and how they know padding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.models.roles import Stream

if TYPE_CHECKING:
    from regard.models.given import Given

BATCH, LENGTH, TARGET = 3, 17, 13


def is_run(folder: Path) -> bool:
    """Whether the folder is one that ``regard translator train`` wrote."""
    return (folder / "run.json").is_file() and (folder / "settings.toml").is_file()


def load(folder: Path) -> nn.Module:
    """The model of a run, with its best weights."""
    from regard.translator.models.run import load_run

    return load_run(folder).model


def is_ours(module: nn.Module) -> bool:
    """Whether the module is one of our translators."""
    return type(module).__module__.startswith("regard.translator.")


def derive(module: nn.Module, label: str) -> Given:
    """Ids for one of our translators; it knows padding by its id, and markers stand at both ends in training only."""
    from regard.models.given import Given, parameter_names
    from regard.translator.data.vocabulary import EOS, PAD, SOS

    generator = torch.Generator().manual_seed(0)
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
    words = min(tables, default=16)
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
    return Given(
        name=label,
        module=module,
        inputs=inputs,
        streams=tuple(streams),
        assumed=(f"padding is known by its id, {PAD}",),
    )
