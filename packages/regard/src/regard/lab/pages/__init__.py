"""One file per page; each defines a ``PAGE``. Other packages add theirs through :mod:`regard.extras`.

A page may import what the lab may, and calls a verb for every number that it shows. Begin with ``copy.py``.
"""
