"""Low rank: singular values, best approximations, and what an approximation of the scores does to the weights.

>>> from regard import lowrank
>>> result = lowrank.spectrum([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
>>> result.rank_for_error(2.5).rank, result.truncate(1).spectral_error_above.__round__(6)
(1, 2.0)

It may import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``singular.py`` (what is known of a
matrix) and ``certificate.py`` (how it is proved); ``sketches.py`` is for matrices too large for both.
"""

from __future__ import annotations

from regard.lowrank.analysis import (
    SoftmaxEffect,
    Statements,
    Study,
    Table,
    attaining,
    softmax_effect,
    statements,
    study,
    table,
    variation_bound,
    weight_change,
)
from regard.lowrank.certificate import Certificate, certify, residual_above
from regard.lowrank.decompose import product_spectrum, spectrum
from regard.lowrank.singular import RankForError, Spectrum, SpectrumCheck, Truncation, TruncationCheck
from regard.lowrank.sketches import Sketch, SketchCheck, sketch

__all__ = [
    "Certificate",
    "RankForError",
    "Sketch",
    "SketchCheck",
    "SoftmaxEffect",
    "Spectrum",
    "SpectrumCheck",
    "Statements",
    "Study",
    "Table",
    "Truncation",
    "TruncationCheck",
    "attaining",
    "certify",
    "product_spectrum",
    "residual_above",
    "sketch",
    "softmax_effect",
    "spectrum",
    "statements",
    "study",
    "table",
    "variation_bound",
    "weight_change",
]
