"""A translator to train, study and look into: from the coursework's one-layer encoder to one worth using.

    from regard.translator import Settings, train, load_run
    train(Settings(), "runs/one")
    print(load_run("runs/one").translate(["zwei hunde spielen"]))

The names below are loaded on first use, so importing this needs no torch; using what trains a model does (``pip install
'regard[translator]'``). Its rooms, each using only those before it: ``runs``, ``data``, ``models``, ``scoring``,
``training``, ``studies``, ``reports``. It may import the ground, ``positions``, ``symmetry``, the sandbox and
:mod:`regard.tracing`. Begin with ``models/encoder.py``, then ``training/loop.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.extras import require

if TYPE_CHECKING:
    from regard.translator.data.corpus import load_corpus as load_corpus
    from regard.translator.models.export import export as export
    from regard.translator.models.run import load_run as load_run
    from regard.translator.reports import report as report
    from regard.translator.runs.settings import Settings as Settings
    from regard.translator.runs.settings import load_settings as load_settings
    from regard.translator.scoring.scores import score as score
    from regard.translator.studies.comparison import compare as compare
    from regard.translator.studies.comparison import compare_runs as compare_runs
    from regard.translator.studies.tuning import tune as tune
    from regard.translator.training.loop import train as train

# The public surface: a name, and the module it lives in.
_WHERE = {
    "Settings": "runs.settings",
    "compare": "studies.comparison",
    "compare_runs": "studies.comparison",
    "export": "models.export",
    "load_corpus": "data.corpus",
    "load_run": "models.run",
    "load_settings": "runs.settings",
    "report": "reports",
    "score": "scoring.scores",
    "train": "training.loop",
    "tune": "studies.tuning",
}
_WITHOUT_TORCH = {"Settings", "load_corpus", "load_settings"}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'regard.translator' has no attribute {name!r}")
    if name not in _WITHOUT_TORCH:
        require(f"regard.translator.{name}", "torch", *["optuna"] * (name == "tune"), extra="translator")
    return getattr(import_module(f"regard.translator.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
