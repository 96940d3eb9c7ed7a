"""Rules that rewrite single calls of torch functions while a model runs: each undoes one usual mistake.

A rule is a function of (function, arguments, keywords); it returns what the call should have returned, or
NotImplemented to leave the call as it is. Nothing of the model is edited. Composite functions of torch
(multi_head_attention_forward) are one call: what happens inside them is not seen.

    calls.py        the calls that rules look for, and what they remember
    positions.py heads.py scores.py masks.py parts.py        the rules, by the part of a Transformer

Which mistake a rule undoes, and in what words that is said: :mod:`regard.models.mistakes`.
"""
