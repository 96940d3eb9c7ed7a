"""What attention looks like to torch's dispatcher: four shapes of call, one class each.

| file | what ran |
|---|---|
| ``fused.py`` | one operator for softmax(q k^T) v: torch's scaled_dot_product kernels, flash-attention's operators |
| ``native.py`` | torch.nn's fast paths: projections, attention and (an encoder layer) everything else in one operator |
| ``product.py`` | hand-written: scores, a softmax or what stands for it, and a product with the values |
| ``flex.py`` | torch's flex attention, with the user's own score and mask functions |

All of them answer the questions of :class:`regard.models.kernels.call.AttentionCall`, which is all that
capturing and editing know about kernels.
"""
