"""Assignments as files: read, written from a template, checked before students see them.

It may import ``grading.gradebook`` and below. Begin with ``assignment_file.py``.
"""
