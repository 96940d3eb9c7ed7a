"""The student's own Transformer: the file to fill in, the process that runs it, and the report with its hints.

    template.py    the file: a class with four methods to write
    child.py       runs beside the person's code, in the jail if there is one, and records it (torch)
    runner.py      hands that to the one runner of other people's code, and reads the recording
    check.py       the recording judged, and told with as many hints as were asked for

What is right and what is a mistake is decided in :mod:`regard.models.diagnosis`.
"""
