"""A small server's parts for pages on this machine: who may ask, what a request may be, work in the background.

It may import the ground, and nothing of the lab. Begin with ``local_server.py``; ``access.py`` says who may ask and
which other pages may show ours, ``background_tasks.py`` does what takes too long for an answer.
"""
