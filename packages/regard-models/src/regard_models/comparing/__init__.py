"""Two models that should be one: where they part, and which known mistake would explain it.

It may import ``auditing``, ``inputs`` and :mod:`regard.mistakes`. Begin with ``comparison.py``; ``first_difference.py``
says which weights belong together, and where the models part.
"""
