"""A person's own Transformer: the file to fill in, the recording of what it computed, and the diagnosis with its hints.

``recording_tool.py`` runs beside the person's code and records it (torch); ``recorded_run.py`` hands that to the
sandbox and reads what comes back. ``diagnosis.py`` then finds the roles of its parameters and, with ``search.py``, the
smallest set of known mistakes that gives the same numbers; ``provenance.py`` asks whether it was this model at all. It
may import the sandbox, :mod:`regard.tracing`, :mod:`regard.mistakes` and ``coursework.answers``. Begin with
``check.py``.
"""
