"""Any torch model, ours or somebody's: audit it, capture its attention, measure its heads, look at it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.models.records import AttentionRecord as AttentionRecord
    from regard.models.records import Capture as Capture

# A name, and the module it lives in. Loaded on first use: records and arrays are read without torch.
_WHERE = {
    "AttentionRecord": "regard.models.records",
    "Capture": "regard.models.records",
}

__all__ = ["AttentionRecord", "Capture"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'regard.models' has no attribute {name!r}")
