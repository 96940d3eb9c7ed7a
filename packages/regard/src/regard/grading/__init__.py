"""Grading: an assignment and a pile of submissions in, marks with counterexamples out.

Its rooms, each using only those before it: ``submissions`` (what was handed in; nothing of it is trusted),
``questions`` (what is asked, and one answer examined), ``gradebook`` (the marks of a class), ``assignments`` (the
teacher's file), ``reports`` (what people and course systems get). ``solutions`` has our own answers. It may import the
coursework and the sandbox: answers run in the jail, and verdicts are computed outside of it, from plain data. Begin
with ``gradebook/grader.py``.
"""
