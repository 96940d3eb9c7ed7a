"""The usual mistakes, by the part of a Transformer, and the words that each is named in.

The checker of coursework has a library of mistakes as well (:mod:`regard.mistakes.reference_switches`): switches of a
reference of its own, which it fits to a model that has no original. Here two models of any shape are at hand and
neither is taken apart. What the two share are the mistakes: ``undoes`` names those of the library that a rule undoes,
and where a rule stands for a single one, the library's words are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes import reference_switches as library
from regard.mistakes.rewrite_mode import Mistake
from regard.mistakes.rewrites import calls, feed_forward_and_norms, heads, masks, positions, scores
from regard.mistakes.rewrites.calls import Make

_SCALED = "scores are scaled by 1/sqrt(width of a head)"
_LESS = "scores are scaled by 1/sqrt(width of a head) once less (not at all, or not twice)"
_NOT_SCALED = "scores are not scaled"
_WEIGHTS = "weights are the softmax of the scores over the keys"
_NORMS = (F.layer_norm, F.rms_norm)
_EMBEDDING = (F.embedding,)
_SCORES = (*calls.SOFTMAX, *calls.SDPA)
_SHARP = (torch.tanh, Tensor.tanh, F.tanh, *calls.SIGMOID, torch.abs, Tensor.abs, F.leaky_relu, F.elu, F.softmax)
_SUMS = ("first-sum", "second-sum")


def _quick(x: Any) -> Any:
    return x * (1.702 * x).sigmoid()


def _of_the_library(switch: str, words: str, makes: Mapping[str, Make], calls: tuple[Any, ...]) -> list[Mistake]:
    """A mistake for each value of a switch of the library's, in the library's words."""
    entries = {one.value: one for one in library.LIBRARY if one.switch == switch}
    return [
        Mistake(words=f"{words}, where it has {entries[v].said}", make=make, calls=calls, undoes=(entries[v].name,))
        for v, make in makes.items()
    ]


def _sums(value: str) -> tuple[str, ...]:
    return tuple(f"{one}-{value}" for one in _SUMS)


POSITIONS = (
    *(Mistake(words=f"positions are counted from {n}", make=positions.count_from(n), calls=_EMBEDDING,
              undoes=("positions-from-1", "positions-last-rows")) for n in (0, 1, 2)),
    Mistake(
        words="the table of positions is read by place: row t at place t of the sentence",
        make=positions.read_by_place,
        calls=_EMBEDDING,
        undoes=("positions-reversed", "positions-table-reversed", "positions-by-sentence", "positions-first",
                "positions-last", "positions-by-length", "positions-by-word"),
    ),
    Mistake(
        words="the first rows of the table of positions are taken, in their order",
        make=positions.first_rows,
        calls=(Tensor.__getitem__, Tensor.flip, torch.flip),
        undoes=("positions-last-rows", "positions-table-reversed"),
    ),
    Mistake(
        words="positions are added once", make=positions.add_positions_once, calls=_EMBEDDING,
        undoes=("positions-twice",),
    ),
    Mistake(
        words="positions are added to the token vectors, not multiplied with them",
        make=positions.add_positions,
        calls=_EMBEDDING,
        undoes=("positions-multiplied",),
    ),
    Mistake(
        words="token vectors are multiplied by sqrt(width)",
        make=positions.scale_token_vectors(math.sqrt),
        calls=_EMBEDDING,
        undoes=("embedding-shrunk",),
    ),
    Mistake(
        words="token vectors are not multiplied by sqrt(width)",
        make=positions.scale_token_vectors(lambda d: 1 / math.sqrt(d)),
        calls=_EMBEDDING,
        undoes=("embedding-scaled",),
    ),
    Mistake(
        words="the sum of token and position is not multiplied by a number of the width",
        make=positions.remove_scaling,
        calls=(*calls.TIMES, *calls.QUOTIENTS),
        undoes=("embedding-sum-scaled", "embedding-shrunk", "embedding-times-width"),
    ),
)  # fmt: skip

HEADS = (
    Mistake(
        words="keys and values are repeated with repeat_interleave, not with repeat",
        make=heads.interleave_copies,
        calls=calls.REPEATS,
    ),
    Mistake(
        words="keys and values are repeated with repeat, not with repeat_interleave",
        make=heads.tile_copies,
        calls=calls.REPEATS,
    ),
    Mistake(
        words="the mask is copied for the heads with repeat_interleave, not with repeat",
        make=heads.interleave_masks,
        calls=(Tensor.repeat,),
        undoes=("mask-heads-mixed",),
    ),
    Mistake(
        words="heads are split by view(batch, length, heads, width) and transpose(1, 2)",
        make=heads.split_heads,
        calls=calls.VIEWS,
        undoes=("heads-not-transposed", "queries-not-transposed", "keys-not-transposed", "values-not-transposed"),
    ),
    Mistake(
        words="heads are merged by transpose(1, 2) and reshape",
        make=heads.merge_heads,
        calls=calls.VIEWS,
        undoes=("heads-merged-without-transpose", "merge-wrong-axes"),
    ),
    Mistake(
        words="a head takes columns that stand side by side, not every h-th",
        make=heads.split_contiguous_heads,
        calls=calls.VIEWS,
        undoes=("heads-interleaved",),
    ),
    Mistake(
        words="heads are merged head by head, not column by column",
        make=heads.merge_contiguous_heads,
        calls=calls.VIEWS,
        undoes=("merge-interleaved",),
    ),
    Mistake(
        words="attention runs between the places of a sentence, not between the heads of one place",
        make=heads.attend_between_places,
        calls=(*calls.PRODUCTS, *calls.SDPA),
        undoes=("attention-between-heads",),
    ),
    Mistake(
        words="batch_first is turned: places and sentences are the other way round",
        switch="batch_first",
        undoes=("attention-between-sentences",),
    ),
)

SCORES = (
    Mistake(words="attention is causal", make=scores.change_sdpa(is_causal=True), calls=calls.SDPA),
    Mistake(words="attention is causal", make=scores.change_scores(scores.hide_later_keys), calls=calls.SOFTMAX),
    Mistake(
        words="attention is not causal",
        make=scores.change_sdpa(is_causal=False),
        calls=calls.SDPA,
        undoes=("mask-hides-future",),
    ),
    Mistake(words=_NOT_SCALED, make=scores.change_sdpa(scale=1.0), calls=calls.SDPA),
    Mistake(
        words=_SCALED,
        make=scores.change_scores(lambda x, d: x / math.sqrt(d)),
        calls=calls.SOFTMAX,
        undoes=("scale-missing",),
    ),
    Mistake(
        words=_LESS,
        make=scores.change_scores(lambda x, d: x * math.sqrt(d)),
        calls=calls.SOFTMAX,
        undoes=("scale-by-width",),
    ),
    Mistake(
        words=f"{_SCALED}, not of the whole model",
        make=scores.scale_scores(lambda shape, d: math.sqrt(shape[1])),
        calls=_SCORES,
        undoes=("scale-by-all-heads", "scale-by-states"),
    ),
    *_of_the_library("scale", _SCALED, {v: scores.scale_scores(f) for v, f in scores.FACTORS.items()}, _SCORES),
    Mistake(words=_SCALED, make=scores.change_sdpa(scale=None), calls=calls.SDPA, undoes=("scale-missing",)),
    *_of_the_library(
        "scale", _SCALED, {"after the softmax": scores.scale_before_softmax}, calls.SOFTMAX
    ),
    Mistake(
        words="softmax runs over the keys, the last axis",
        make=scores.softmax_over_keys,
        calls=calls.SOFTMAX,
        undoes=("softmax-over-queries", "softmax-over-heads", "softmax-over-batch"),
    ),
    *_of_the_library(
        "softmax", _WEIGHTS, {"all pairs": scores.softmax_of_each_row, "twice": scores.softmax_once}, calls.SOFTMAX
    ),
    *(mistake
      for value, functions in scores.INSTEAD.items()
      for mistake in _of_the_library("softmax", _WEIGHTS, {value: scores.replace_by_softmax(*functions)}, functions)),
    *_of_the_library("softmax", _WEIGHTS, {"none": scores.insert_softmax}, calls.PRODUCTS),
    Mistake(
        words="weights are not transposed before they meet the values",
        make=scores.skip_transpose,
        calls=calls.SOFTMAX,
        undoes=("weights-turned",),
    ),
    Mistake(words="keys and values are exchanged", make=scores.exchange_keys_and_values, calls=calls.SDPA),
)  # fmt: skip

MASKS = (
    Mistake(
        words="the mask is turned round: what it hides is kept, and what it keeps is hidden",
        make=masks.invert_mask,
        calls=(*calls.FILLS, *calls.SDPA, torch.where),
        undoes=("mask-inverted", "mask-hides-past"),
    ),
    Mistake(
        words="hidden keys get minus infinity, not a large negative number",
        make=masks.hide_by_infinity,
        calls=(*calls.FILLS, torch.where),
    ),
    Mistake(
        words="hidden keys get minus infinity, not a number that does not hide them",
        make=masks.fill_with_minus_infinity,
        calls=calls.FILLS,
        undoes=("mask-fill-near-0", "mask-fill-positive"),
    ),
    Mistake(
        words="the mask stands on the axis of the keys, not of the queries",
        make=masks.move_mask_to_keys,
        calls=(*calls.FILLS, *calls.SDPA),
        undoes=("mask-on-queries",),
    ),
    *_of_the_library(
        "mask",
        "padded keys are hidden by minus infinity",
        {
            "added 1 at words": masks.mask_instead_of_adding(real=1),
            "added 1 at padding": masks.mask_instead_of_adding(real=0),
        },
        calls.SUMS,
    ),
    Mistake(
        words="scores are masked before the softmax, not weights after it",
        make=masks.mask_before_softmax,
        calls=calls.SOFTMAX,
        undoes=("mask-after-softmax",),
    ),
    Mistake(
        words="the triangle of the mask begins one higher",
        make=masks.shift_diagonal(1),
        calls=calls.TRIANGLES,
        undoes=("mask-hides-itself",),
    ),
    Mistake(words="the triangle of the mask begins one lower", make=masks.shift_diagonal(-1), calls=calls.TRIANGLES),
)

FEED_FORWARD = (
    Mistake(
        words="GELU is computed exactly, not by its tanh approximation",
        make=feed_forward_and_norms.set_gelu("none"), calls=(F.gelu,)
    ),
    Mistake(
        words="GELU is computed by its tanh approximation, not exactly",
        make=feed_forward_and_norms.set_gelu("tanh"), calls=(F.gelu,)
    ),
    Mistake(
        words="the activation is GELU",
        make=feed_forward_and_norms.replace_activation(F.gelu, *calls.RELU, F.silu, *_SHARP),
        calls=(*calls.RELU, F.silu, *_SHARP),
    ),
    Mistake(
        words="the activation is ReLU",
        make=feed_forward_and_norms.replace_activation(F.relu, F.gelu, F.silu, *_SHARP),
        calls=(F.gelu, F.silu, *_SHARP),
        undoes=("gelu", "gelu-tanh", "silu", "leaky-relu", "relu-sigmoid", "relu-tanh", "relu-softmax",
                "relu-absolute"),
    ),
    Mistake(
        words="the activation is SiLU",
        make=feed_forward_and_norms.replace_activation(F.silu, F.gelu, *calls.RELU, *_SHARP),
        calls=(F.gelu, *calls.RELU, *_SHARP),
    ),
    Mistake(words="the activation is x sigmoid(1.702 x)",
            make=feed_forward_and_norms.replace_activation(_quick, F.gelu), calls=(F.gelu,)),
    *(Mistake(words=f"a {name} stands between the two layers of the feed-forward part",
              make=feed_forward_and_norms.insert_activation(function), calls=(F.linear,), undoes=("relu-missing",))
      for name, function in (("ReLU", F.relu), ("GELU", F.gelu))),
    Mistake(
        words="no ReLU stands behind the mixing matrix or the second layer of the feed-forward part",
        make=feed_forward_and_norms.remove_outer_activation,
        calls=calls.RELU,
        undoes=("relu-after-mixing", "relu-after-second"),
    ),
    Mistake(
        words="no minus sign stands before the activation",
        make=feed_forward_and_norms.remove_minus_sign,
        calls=(Tensor.neg, torch.neg, Tensor.__neg__),
        undoes=("relu-negative",),
    ),
)  # fmt: skip

NORMS = (
    *(Mistake(words=f"the eps of layer norm is {s}", make=feed_forward_and_norms.set_eps(float(s)), calls=_NORMS)
      for s in ("1e-12", "1e-5", "1e-6", "1e-8")),
    Mistake(
        words="the variance of the norm divides by n, not by n - 1",
        make=feed_forward_and_norms.divide_by_n,
        calls=calls.SPREADS,
        undoes=("norm-n-1",),
    ),
    *(Mistake(words=f"the norm divides by sqrt(variance + {s}), the variance by n",
              make=feed_forward_and_norms.use_torch_layer_norm(float(s)), calls=calls.SPREADS,
              undoes=("norm-n-1", "norm-by-variance"))
      for s in ("1e-5", "1e-6", "1e-12")),
    Mistake(
        words="the norm runs over the width of each place",
        make=feed_forward_and_norms.norm_over_width,
        calls=calls.MEANS,
        undoes=("norm-over-places", "norm-over-batch", "norm-over-sentence", "norm-over-batch-and-places",
                "norm-over-everything"),
    ),
    Mistake(
        words="a layer norm stands where it has a batch norm",
        make=feed_forward_and_norms.replace_batch_norm,
        calls=(F.batch_norm,),
        undoes=("batch-norm",),
    ),
    Mistake(
        words="the norm subtracts the mean (layer norm, not RMS norm)",
        make=feed_forward_and_norms.set_mean_subtraction(subtract=True),
        calls=(F.rms_norm,),
        undoes=("norm-without-mean",),
    ),
    Mistake(
        words="the norm does not subtract the mean (RMS norm, not layer norm)",
        make=feed_forward_and_norms.set_mean_subtraction(subtract=False),
        calls=(F.layer_norm,),
    ),
    Mistake(
        words="norm_first is turned: the norm stands on the other side of its part",
        switch="norm_first",
        undoes=("norm-first",),
    ),
    *(Mistake(words="the norm is taken of the sum: norm(x + part)",
              make=feed_forward_and_norms.norm_of_sum(norms_first=all_first),
              calls=_NORMS, undoes=names)
      for all_first, names in ((False, (*_sums("norm-then-sum"), *_sums("norm-of-the-input-only"))),
                               (True, ("norm-first",)))),
)  # fmt: skip

SUMS = (
    Mistake(
        words="the input of a part is added to what it gives, before the norm",
        make=feed_forward_and_norms.add_input,
        calls=_NORMS,
        undoes=_sums("no-residual"),
    ),
    Mistake(
        words="the input is added once, and not again",
        make=feed_forward_and_norms.add_input_once,
        calls=calls.SUMS,
        undoes=(*_sums("residual-twice"), *_sums("residual-again-after-the-norm")),
    ),
    Mistake(
        words="each norm is taken once", make=feed_forward_and_norms.norm_once, calls=_NORMS, undoes=_sums("norm-twice")
    ),
    Mistake(
        words="the input itself is added, not what its norm gave",
        make=feed_forward_and_norms.add_stream,
        calls=_NORMS,
        undoes=_sums("adds-what-was-normalised"),
    ),
    Mistake(
        words="input and part are added, not subtracted",
        make=feed_forward_and_norms.add_instead(*calls.DIFFERENCES),
        calls=calls.DIFFERENCES,
        undoes=_sums("subtracted"),
    ),
    Mistake(
        words="input and part are added, not multiplied",
        make=feed_forward_and_norms.add_instead(*calls.TIMES),
        calls=calls.TIMES,
        undoes=_sums("multiplied"),
    ),
)

# Of each kind the first that fits is said: the more particular ones stand first.
KINDS = (HEADS, FEED_FORWARD, NORMS, SCORES, MASKS, POSITIONS, SUMS)
