"""Two models that should be one: where they part, and which known mistake would explain it.

It may import ``auditing``, ``inputs`` and :mod:`regard.mistakes`. Begin with ``comparison.py``; ``pairing.py`` says
which weights belong together, ``first_difference.py`` where the models part.
"""
