"""One file per claim: ``average_of_two.py`` holds ``CLAIM``, the claim average-of-two. Nothing else lists them."""
