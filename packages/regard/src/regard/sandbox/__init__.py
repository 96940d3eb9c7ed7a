"""The one runner of other people's code: a process, a jail around it where the system allows one, and limits.

It may import the ground (errors, files, JSON) and nothing that knows what is asked or marked. Begin with ``runner.py``
(one file asked many times) and ``jail.py`` (what keeps it in); ``child.py`` is what runs inside, alone, without regard.
"""
