"""Every known way to get attention wrong: each with its sentence and its cure.

Told in two ways. ``reference.py`` is a Transformer in NumPy whose switches (``reference_switches.py``) are mistakes:
for one model without an original. ``rewrites`` has rules that undo a mistake while a torch model runs
(``rewrite_mode.py``): for two models that should be equal. It may import the ground and :mod:`regard.tracing`. Begin
with ``catalogue.py``.
"""
