"""Sentence pairs: where they come from, their tokens and vectors, and the batches they are trained in."""
