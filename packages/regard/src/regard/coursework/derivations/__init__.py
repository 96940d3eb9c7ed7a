"""Derivations: a proof as a person writes it, read, tested and proved line by line; begin with report.py.

May import the ground, rigor and the rest of the coursework that stands below it; a derivation is data, nothing runs.
"""
