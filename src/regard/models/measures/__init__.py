"""What one head does, measured: how it spreads its weights, which pattern it follows, what its keys allow.

Everything here takes arrays and needs no torch, but :mod:`regard.models.measures.direct` and
:mod:`regard.models.measures.rank`, which run the model.
"""
