"""A person's own answer to a claim's question: the file to fill in, the judge, and the report.

The answer runs in :mod:`regard.sandbox`; it is judged here, outside, from plain numbers. It may import the sandbox and
the coursework's questions. Begin with ``answer_check.py``, which asks and judges; ``report.py`` says what was found,
and writes the file to fill in.
"""
