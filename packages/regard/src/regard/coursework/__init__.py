"""The coursework's statements as claims that can be checked: HOLDS, REFUTED, NOT REFUTED in N trials, or MEASURED.

>>> from regard.coursework.catalogue import claims
>>> claims["average-within-budget"].check(n=1000, eps=0.01).verdicts[0].status.value
'HOLDS'

One file per claim, in the folder ``claims``; its name is the claim's. ``answers`` checks a person's own answer,
``checker`` a person's own Transformer. It may import the ground, the ideas, the translator, the sandbox, ``tracing``
and ``mistakes``. Begin with ``claim.py`` and ``verdict.py``; docs/claims.md shows how to add a claim.
"""
