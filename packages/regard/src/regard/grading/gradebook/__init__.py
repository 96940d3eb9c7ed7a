"""The marks of a class: given by the grader, changed by hand, and kept so that nothing is lost.

It may import ``grading.questions`` and below. Begin with ``grader.py``; ``marks.py`` is what it returns.
"""
