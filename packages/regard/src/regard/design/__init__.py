"""The query that does what you ask of arbitrary keys, the shortest one, or the proof that none does.

Those who look for an answer and those who check it share nothing but the products whose rounding is bounded. It may
import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``shortest.py`` (the method) and
``certificate.py`` (what is proved); ``verbs.py`` has copy, share and match.
"""

from __future__ import annotations

from regard.design.answer import Ceiling, Ceilings, Design, Designs
from regard.design.certificate import Certificate
from regard.design.key_ceiling import ceiling, ceilings
from regard.design.textbook import copying_query, sharing_query, shortest_for_orthonormal, textbook_query
from regard.design.verbs import copy, copy_many, match, share
from regard.design.verification import Verification, verify
from regard.design.winnable_check import CheckedWinnable, verify_winnable
from regard.design.winnable_rows import Winnable, winnable

__all__ = [
    "Ceiling",
    "Ceilings",
    "Certificate",
    "CheckedWinnable",
    "Design",
    "Designs",
    "Verification",
    "Winnable",
    "ceiling",
    "ceilings",
    "copy",
    "copy_many",
    "copying_query",
    "match",
    "share",
    "sharing_query",
    "shortest_for_orthonormal",
    "textbook_query",
    "verify",
    "verify_winnable",
    "winnable",
]
