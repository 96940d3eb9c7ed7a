"""One page on which all attention of a model can be seen, without a server.

It may import ``head_measures`` and below. Begin with ``page_result.py``; ``static`` has the page's scripts.
"""
