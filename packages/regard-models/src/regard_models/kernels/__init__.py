"""What attention looks like to torch's dispatcher: four shapes of call, one class each.

| file | what ran |
|---|---|
| ``fused_kernels.py`` | one operator for softmax(q k^T) v: torch's scaled_dot_product kernels, flash-attention's |
| ``native.py`` | torch.nn's fast paths: projections, attention and (an encoder layer) everything else in one operator |
| ``product.py`` | hand-written: scores, a softmax or what stands for it, and a product with the values |
| ``flex.py`` | torch's flex attention, with the user's own score and mask functions |

All of them answer the questions of :class:`regard_models.kernels.attention_call.AttentionCall`, which is all that
capturing and editing know about kernels. It may import torch and no other room. Begin with ``attention_call.py``.
"""

CURVE = "the scores went through a curve before the softmax (a softcap)"  # a note of records
