"""Rules that rewrite single calls of torch functions while a model runs: each undoes one usual mistake.

A rule is a function of (function, arguments, keywords); it returns what the call should have returned, or
NotImplemented to leave the call as it is. Nothing of the model is edited. Composite functions of torch
(multi_head_attention_forward) are one call: what happens inside them is not seen. One file for each part of a
Transformer; it may import torch and the ground. Begin with ``calls.py``, the calls that rules look for. Which mistake a
rule undoes, and in what words that is said: :mod:`regard.mistakes.catalogue`.
"""
