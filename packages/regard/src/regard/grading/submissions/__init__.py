"""What students hand in: archives, notebooks and single files, read in bounds, and whose they are.

It may import the sandbox and the coursework's questions. Begin with ``submission.py``.
"""
