"""``regard model compare``: two models that should be equal."""

from __future__ import annotations

from regard.cli.model.options import Device, Limit, ModelArgument, load_given
from regard.cli.output import AsJson, show


def compare(
    mine: ModelArgument,
    theirs: ModelArgument,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """Two models that should be equal: the first submodule where they part, and by how much."""
    from regard.models.comparison import compare as examine

    first, second = (load_given(name, device=device, limit=limit) for name in (mine, theirs))
    show(examine(first, second), as_json=as_json)
