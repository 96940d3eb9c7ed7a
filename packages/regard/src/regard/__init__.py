"""Regard: a laboratory for attention.

>>> import regard
>>> regard.attend([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]]).output.round(3).tolist()
[1.538]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import arrays as arrays
    from regard import attention as attention
    from regard import design as design
    from regard import examples as examples
    from regard import lowrank as lowrank
    from regard import noise as noise
    from regard import positions as positions
    from regard import subspace as subspace
    from regard import symmetry as symmetry
    from regard import translator as translator
    from regard.attention import attend as attend
    from regard.coursework.catalogue import claims as claims

__version__ = "0.2.0"  # as in pyproject.toml: asking importlib.metadata for it would be slow

# The public surface: a name, and the module it lives in. Loaded on first use, so `import regard` stays quick.
_WHERE = {
    "attend": "regard.attention",
    "claims": "regard.coursework.catalogue",
    "CouldNotFindOut": "regard.errors",
    "InputError": "regard.errors",
    "RegardError": "regard.errors",
}
_MODULES = (
    "arrays",
    "attention",
    "design",
    "errors",
    "examples",
    "lab",
    "layers",
    "lowrank",
    "noise",
    "positions",
    "subspace",
    "symmetry",
    "translator",
)

__all__ = ["__version__", *sorted(_WHERE), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _MODULES:
        return import_module(f"regard.{name}")
    if name == "models":
        raise AttributeError("regard.models is the package regard_models now: pip install regard-models.")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
