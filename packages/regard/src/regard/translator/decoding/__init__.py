"""From scores to sentences: the best token or a beam, what was read on the way, and how far to trust it.

It may import the ground, ``positions``, ``translator.runs`` and ``translator.data``. Begin with ``translation.py``;
``beam.py`` is the search, ``numpy_run.py`` a whole model without torch.
"""
