"""The arithmetic that every proof stands on, in one place.

- :mod:`regard.rigor.floats`: float64 with a bound on what rounding did (products, leads of one score over another).
- :mod:`regard.rigor.matrices`: the same for products of whole matrices, as one number in the Frobenius norm.
- :mod:`regard.rigor.balls`: Arb's balls, and the one way from a ball to a float on the safe side of it.
- :mod:`regard.rigor.exact`: whole numbers and rationals, for what must be decided and not only bounded.
- :mod:`regard.rigor.comparisons`, :mod:`regard.rigor.combinations`: who wins, and what balances, by the cheapest of
  these that decides.

Checkers whose point is to share nothing with a search (``design.winnable_check``, ``subspace.recheck``) use nothing of
it but :func:`check_arithmetic`, which tries out the machine. It may import ``errors`` and ``array_types`` alone. Begin
with ``floats.py``.
"""

from regard.rigor.balls import entropy_bounds
from regard.rigor.combinations import choose_basis, enclose_combination, exact_combination, solve_enclosure
from regard.rigor.comparisons import Query, rivals, strictly_wins
from regard.rigor.exact import integers
from regard.rigor.floats import (
    SLACK,
    TINY,
    U,
    check_arithmetic,
    dot_enclosure,
    dot_enclosures,
    exact_differences,
    exact_sum,
    exact_sums,
    largest,
    margins,
    next_up,
    product_bound,
    row_blocks,
    row_chunks,
    two_prod,
)

__all__ = [
    "SLACK",
    "TINY",
    "Query",
    "U",
    "check_arithmetic",
    "choose_basis",
    "dot_enclosure",
    "dot_enclosures",
    "enclose_combination",
    "entropy_bounds",
    "exact_combination",
    "exact_differences",
    "exact_sum",
    "exact_sums",
    "integers",
    "largest",
    "margins",
    "next_up",
    "product_bound",
    "rivals",
    "row_blocks",
    "row_chunks",
    "solve_enclosure",
    "strictly_wins",
    "two_prod",
]
