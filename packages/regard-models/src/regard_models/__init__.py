"""Any torch model, ours or somebody's: audit it, compare it with its twin, capture and change its attention.

Nothing is imported before it is asked for, torch least of all: records and arrays are read without it.

>>> import regard_models
>>> "audit" in dir(regard_models)
True

Its rooms, from the ground up: ``inputs`` and ``kernels``; ``capturing``; ``auditing`` and ``editing``; ``comparing``
and ``head_measures``; ``attention_page``. ``commands``, ``grading`` and ``lab_page.py`` are what it adds to regard,
which finds them by their entry points (:mod:`regard.extras`), and ``pytest_plugin.py`` to pytest. Begin with
``inputs/model_input.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard_models.attention_page.page_result import look as look
    from regard_models.auditing import assert_healthy as assert_healthy
    from regard_models.auditing import audit as audit
    from regard_models.capturing.attention_capture import capture as capture
    from regard_models.capturing.records import AttentionRecord as AttentionRecord
    from regard_models.capturing.records import Capture as Capture
    from regard_models.comparing.comparison import compare as compare
    from regard_models.editing.head_edits import edit as edit
    from regard_models.editing.patching import ablate as ablate
    from regard_models.editing.patching import patch as patch
    from regard_models.head_measures.head_report import Heads as Heads
    from regard_models.head_measures.model_heads import heads as heads
    from regard_models.head_measures.weight_patterns import influence as influence
    from regard_models.head_measures.weight_patterns import rollout as rollout

# A name, and the module it lives in.
_WHERE = {
    "AttentionRecord": "regard_models.capturing.records",
    "Capture": "regard_models.capturing.records",
    "Heads": "regard_models.head_measures.head_report",
    "ablate": "regard_models.editing.patching",
    "assert_healthy": "regard_models.auditing",
    "audit": "regard_models.auditing",
    "capture": "regard_models.capturing.attention_capture",
    "compare": "regard_models.comparing.comparison",
    "edit": "regard_models.editing.head_edits",
    "heads": "regard_models.head_measures.model_heads",
    "influence": "regard_models.head_measures.weight_patterns",
    "look": "regard_models.attention_page.page_result",
    "patch": "regard_models.editing.patching",
    "rollout": "regard_models.head_measures.weight_patterns",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'regard_models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
