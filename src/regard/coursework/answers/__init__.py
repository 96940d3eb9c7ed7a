"""A person's own answer: the file to fill in, the one runner of other people's code, its jail, and the judge outside.

``checking`` asks and judges, ``runner`` runs, ``jail`` keeps in, ``report`` says what was found. Of what runs inside,
``inside`` and ``confinement``, nothing may import regard.
"""
