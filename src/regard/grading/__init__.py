"""Grading: an assignment and a pile of submissions in, marks with counterexamples out.

    assignment, reading, shipped    what is asked: the TOML file, read with all its mistakes at once; the five that ship
    own_question, statements        questions of the teacher's own; statements and their false neighbours
    submissions, archives, notebooks, students    what was handed in, and by whom; nothing of it is trusted
    examination, grader, journal    each answer in the jail of the answer checker; resumable, the same again
    marks, differences, mistakes    points by the stated rule; what changed; what is often wrong
    pages, marking, formats         what students, teachers and course systems get

Verdicts are computed here, outside of the jail, from plain data; see :mod:`regard.coursework.answers`.
"""
