"""The student's own Transformer: the file to fill in, the process that runs it, and the report with its hints.

    template.py    the file: a class with four methods to write
    child.py       runs in an interpreter of its own; imports the file and records it (torch)
    runner.py      starts that process, bounds it, and reads the recording
    check.py       the recording judged, and told with as many hints as were asked for

What is right and what is a mistake is decided in :mod:`regard.models.diagnosis`.
"""
