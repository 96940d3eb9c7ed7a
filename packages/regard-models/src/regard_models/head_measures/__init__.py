"""What one head does, measured: how it spreads its weights, which pattern it follows, what its keys allow.

Most of it takes arrays and needs no torch; ``effects.py`` runs the model. It may
import ``editing`` and below, and regard's ``design``, ``lowrank`` and ``noise``. Begin with ``model_heads.py``, the
verb; ``head_report.py`` is what it returns.
"""
