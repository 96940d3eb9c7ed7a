"""From a settings file to a trained model: what comes before the first step, the loop, many processes.

It may import ``translator.scoring`` and the rooms before it. Begin with ``loop.py``; ``preparation.py`` comes before
it, ``parallel.py`` beside it.
"""
