"""The attention that a model really used, read off its calls while it runs.

It may import ``inputs`` and ``kernels``. Begin with ``attention_capture.py``; ``records.py`` is what it returns.
"""
