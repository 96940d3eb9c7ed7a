"""A trained run, opened to translate: in torch, or in somebody else's engine for which it was written down.

It may import ``translator.models`` and the rooms before it. Begin with ``run.py``, what ``load_run`` returns;
``export.py`` is the fast engine.
"""
