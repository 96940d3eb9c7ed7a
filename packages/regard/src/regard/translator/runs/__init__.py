"""A run as it is written down: settings, files, records. No torch here, so a page of runs opens at once.

It may import the ground alone. Begin with ``settings.py`` and ``records.py``.
"""
