"""One module per claim: ``average_of_two.py`` holds ``CLAIM``, the claim average-of-two. Nothing else lists them.

Its words and its proof stand beside it in ``average-of-two.toml``. A claim may import the coursework's own modules, the
ideas, the translator and ``mistakes``, and no other claim. Begin with ``average_of_two.py``; docs/claims.md shows how
to write one.
"""
