"""The networks, from embeddings to losses, and what belongs to their weights: checkpoints, averages, sizes.

It may import the ground, ``positions``, ``symmetry``, the sandbox, :mod:`regard.tracing` and the rooms ``runs``,
``data`` and ``decoding``. Begin with ``encoder.py``, the whole one-layer translator from the top;
``own_translator.py`` puts a person's own model among ours.
"""
