"""A torch model with an example of its input, from wherever it comes: a file, a folder, a library, a run of ours.

It may import regard and no other room. Begin with ``model_input.py``; ``input_roles.py`` says what the inputs mean.
"""
