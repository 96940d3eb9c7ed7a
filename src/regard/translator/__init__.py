"""A one-layer Transformer encoder that translates: its data, its training and its report (needs torch).

Nothing is imported here, so that ``import regard`` stays quick; import the module you need, for instance
``from regard.translator import corpus``.
"""
