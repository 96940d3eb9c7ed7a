"""Rules that rewrite single calls of torch functions while a model runs: each undoes a mistake of the catalogue.

A rule is a function of a call and of what it remembers of the run; it returns what the call should have returned, or
NotImplemented to leave the call as it is. Nothing of the model is edited. One file for each part of a Transformer; it
may import torch and the ground. Begin with ``repairs.py``, then ``calls.py``.
"""
