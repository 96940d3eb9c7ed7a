"""Every known way to get attention wrong: each a function in the place of a right one, with its sentence and its cure.

``layer.py`` is a plain Transformer in NumPy, stage by stage; ``embedding.py``, ``attention.py`` and ``feed_forward.py``
have its steps and beside each step the mistakes. ``rewrites`` has rules that undo a mistake while a torch model runs.
``catalogue.py`` is all of it by name, ``smallest.py`` writes one as a module, and ``suite_check.py`` tries
people's tests. It may import the ground and :mod:`regard.tracing`. Begin with ``mistake.py``, then ``layer.py``.
"""
