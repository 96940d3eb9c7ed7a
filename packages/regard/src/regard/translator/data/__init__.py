"""Sentence pairs: where they come from, their tokens and vectors, and the batches they are trained in.

It may import the ground and ``translator.runs``. Begin with ``corpus.py``; ``vocabulary.py`` has the tokens.
"""
