"""Change what heads do while a model runs: edit, ablate, patch.

It may import ``capturing`` and below. Begin with ``head_edits.py``; ``patching.py`` goes through all heads in turn, and
``head_pictures.py`` draws what came of it.
"""
