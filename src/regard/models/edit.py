from __future__ import annotations
from torch import Tensor
def was_edited(tensor: Tensor) -> bool:
    return False
