"""What somebody's Transformer computed, written down: every operation, what it read and what it gave.

Two halves that share plain data only (``recording.py``). The recorder (torch; it runs beside the other person's code)
is ``tracer.py``, ``model_recorder.py`` and ``part_recorder.py``. The reader (NumPy) takes nothing on trust: what was
sent is checked field by field, and ``dataflow.py`` and ``parameter_roles.py`` find which tensor is W_Q of which head.
It may import the ground and nothing that knows what is right: that is :mod:`regard.mistakes`. Begin with
``recording.py``.
"""
