"""What an assignment asks, kind by kind, and what an answer to each is worth.

It may import ``grading.submissions`` and below. Begin with ``assignment.py``; ``examination.py`` judges one answer.
"""
