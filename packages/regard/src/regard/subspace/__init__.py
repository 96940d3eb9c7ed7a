"""Vectors out of sums: :func:`extract` finds the matrix that recovers v_a from v_a + v_b, :func:`check` rechecks it.

It may import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``extraction.py``; ``recheck.py`` shares
nothing with it.
"""

from regard.subspace.extraction import Extraction, Witness, extract
from regard.subspace.recheck import check

__all__ = ["Extraction", "Witness", "check", "extract"]
