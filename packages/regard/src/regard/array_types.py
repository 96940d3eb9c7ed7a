"""The kinds of arrays that signatures speak of; shapes are in the docstrings, where the letters are explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # any real type
Float = npt.NDArray[np.float64]  # all mathematics
Single = npt.NDArray[np.float32]  # what engines and files of word vectors hold
Whole = npt.NDArray[np.int64]  # numbers of rows, keys, tokens; permutations
Real = npt.NDArray[np.floating[Any]]  # float64 as it comes out of functions for which NumPy promises no more than this
Flags = npt.NDArray[np.bool_]  # one yes or no per entry
