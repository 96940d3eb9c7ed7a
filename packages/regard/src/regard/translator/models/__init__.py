"""The networks, from embeddings to losses, and what a trained one does: translate, show its attention, be exported.

It may import the ground, ``positions``, ``symmetry``, the sandbox, :mod:`regard.tracing` and the rooms ``runs`` and
``data``. Begin with ``encoder.py``, the whole one-layer translator from the top; ``own_translator.py`` puts a person's
own model among ours, ``run.py`` opens a run folder, ``export.py`` writes it down for a fast engine.
"""
