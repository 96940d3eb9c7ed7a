"""Any torch model, ours or somebody's: audit it, compare it with its twin, capture and change its attention.

Nothing is imported before it is asked for, torch least of all: records and arrays are read without it.

>>> import regard.models
>>> "audit" in dir(regard.models)
True
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.models.auditing import assert_healthy as assert_healthy
    from regard.models.auditing import audit as audit
    from regard.models.capture import capture as capture
    from regard.models.comparison import compare as compare
    from regard.models.edit import edit as edit
    from regard.models.head_report import Heads as Heads
    from regard.models.heads import heads as heads
    from regard.models.influence import influence as influence
    from regard.models.influence import rollout as rollout
    from regard.models.looking import look as look
    from regard.models.patching import ablate as ablate
    from regard.models.patching import patch as patch
    from regard.models.records import AttentionRecord as AttentionRecord
    from regard.models.records import Capture as Capture

# A name, and the module it lives in.
_WHERE = {
    "AttentionRecord": "regard.models.records",
    "Capture": "regard.models.records",
    "Heads": "regard.models.head_report",
    "ablate": "regard.models.patching",
    "assert_healthy": "regard.models.auditing",
    "audit": "regard.models.auditing",
    "capture": "regard.models.capture",
    "compare": "regard.models.comparison",
    "edit": "regard.models.edit",
    "heads": "regard.models.heads",
    "influence": "regard.models.influence",
    "look": "regard.models.looking",
    "patch": "regard.models.patching",
    "rollout": "regard.models.influence",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'regard.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Verbs(ModuleType):
    """Python binds a submodule to its name in the package once it is imported; here that name is the verb's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Verbs
