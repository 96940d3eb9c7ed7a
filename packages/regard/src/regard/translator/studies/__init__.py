"""Many runs with a question: embeddings compared, settings searched.

It may import every room of the translator but ``reports``. Begin with ``comparison.py`` and ``tuning.py``.
"""
