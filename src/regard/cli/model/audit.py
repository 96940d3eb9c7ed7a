"""``regard model audit``: does a model keep the properties that every Transformer should have."""

from __future__ import annotations

from regard.cli.model.options import Causal, Device, Limit, Masks, ModelArgument, Text, load_given
from regard.cli.output import AsJson, show


def audit(
    model: ModelArgument,
    text: Text = None,
    causal: Causal = None,
    mask: Masks = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """Does a model keep the properties that every Transformer should have."""
    from regard.models.auditing import audit as examine

    given = load_given(model, text=text, device=device, limit=limit, causal=causal, masks=mask)
    show(examine(given), as_json=as_json)
