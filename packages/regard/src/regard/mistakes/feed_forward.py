"""Sums, norms, the feed-forward part and the output, and the known ways to get them wrong.

y = norm(x + m),   f = ReLU(y W_1 + b_1) W_2 + b_2,   z = norm(y + f),   scores = z W + b
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from regard.array_types import Array
from regard.mistakes.attention import softmax
from regard.mistakes.mistake import Mistake, Weight, wrong_versions
from regard.tracing.dataflow import Norm

NORM_INSTEAD = (
    "(x - mean) / sqrt(variance + eps) over the width of each place, times a learned gain, plus a learned shift"
)


def layer_norm(x: Array, eps: float, axis: int | tuple[int, ...] = -1, less: int = 0) -> Array:
    """(x - mean) / sqrt(variance + eps); the variance divides by n - less."""
    centred = x - np.mean(x, axis=axis, keepdims=True)
    made: Array = centred / np.sqrt(variance(centred, axis, less) + eps)
    return made


def variance(centred: Array, axis: int | tuple[int, ...] = -1, less: int = 0) -> Array:
    """The mean square, or with n - 1 in the place of n."""
    n = math.prod(centred.shape[a] for a in (axis if isinstance(axis, tuple) else (axis,)))
    size: Array = np.mean(centred**2, axis=axis, keepdims=True) * (n / max(n - less, 1))
    return size


def centre(x: Array) -> Array:
    """x - mean."""
    centred: Array = x - np.mean(x, axis=-1, keepdims=True)
    return centred


NormFunction = Callable[[Array, float], Array]
# kind, name, sentence, function; those without a name are right
_NORMS: list[tuple[str, str, str, NormFunction]] = [
    ("layer", "", "", layer_norm),
    ("layer, eps outside", "", "", lambda x, eps: centre(x) / (np.sqrt(variance(centre(x))) + eps)),
    ("n - 1", "norm-n-1", "a norm that divides by n - 1 in the variance", lambda x, eps: layer_norm(x, eps, less=1)),
    ("n - 1, eps outside", "norm-n-1", "a norm that divides by n - 1 in the variance",
     lambda x, eps: centre(x) / (np.sqrt(variance(centre(x), less=1)) + eps)),
    ("places", "norm-over-places", "a norm over the places instead of the width",
     lambda x, eps: layer_norm(x, eps, 1)),
    ("batch", "norm-over-batch", "a norm over the batch instead of the width", lambda x, eps: layer_norm(x, eps, 0)),
    ("sentence", "norm-over-sentence", "a norm over places and width at once",
     lambda x, eps: layer_norm(x, eps, (1, 2))),
    ("batch and places", "norm-over-batch-and-places", "a norm over batch and places instead of the width",
     lambda x, eps: layer_norm(x, eps, (0, 1))),
    ("everything", "norm-over-everything", "a norm over everything at once",
     lambda x, eps: layer_norm(x, eps, (0, 1, 2))),
    ("mean not subtracted", "norm-without-mean", "a norm that does not subtract the mean",
     lambda x, eps: x / np.sqrt(variance(x) + eps)),
    ("running", "batch-norm", "a batch norm where a layer norm belongs",  # it has seen nothing: mean 0, variance 1
     lambda x, eps: x / (1 + eps) ** 0.5),
    ("mean in the variance alone", "norm-without-mean", "a norm that does not subtract the mean from what it divides",
     lambda x, eps: x / np.sqrt(variance(centre(x)) + eps)),
    ("length", "norm-by-length", "a division by the length of the vector where a norm belongs",
     lambda x, eps: x / np.sqrt(np.sum(x**2, axis=-1, keepdims=True) + eps)),
    ("sum of squares", "norm-by-sum", "a norm that divides by the root of the sum of squares instead of their mean",
     lambda x, eps: centre(x) / np.sqrt(np.sum(centre(x) ** 2, axis=-1, keepdims=True) + eps)),
    ("only the mean", "norm-without-variance", "a norm that does not divide by the deviation",
     lambda x, eps: centre(x)),
    ("variance for deviation", "norm-by-variance", "a norm that divides by the variance instead of its root",
     lambda x, eps: centre(x) / (variance(centre(x)) + eps)),
    ("places, n - 1", "norm-over-places", "a norm over the places instead of the width, with n - 1",
     lambda x, eps: layer_norm(x, eps, 1, 1)),
    ("sentence, n - 1", "norm-over-sentence", "a norm over places and width at once, with n - 1",
     lambda x, eps: layer_norm(x, eps, (1, 2), 1)),
]  # fmt: skip
NORM_KINDS = {kind: function for kind, _, _, function in _NORMS}
_NORM_MISTAKES = {
    kind: Mistake(
        name=name,
        stage="norm",
        said=said,
        replaces={"norm": function},
        instead=NORM_INSTEAD,
        at=("norm 1",),
        weight=Weight.DEPARTURE if kind == "mean not subtracted" else Weight.MISTAKE,
    )
    for kind, name, said, function in _NORMS
    if name
}
UNLEARNED_NORM = Mistake(
    name="norm-unlearned", stage="norm", said="a norm without learned gain and shift", instead=NORM_INSTEAD,
    replaces={"gain": lambda made, gain, shift: made}, at=("norm 1",),
)  # fmt: skip


def scale_and_shift(made: Array, gain: Array | None, shift: Array | None) -> Array:
    """The learned part of a norm."""
    made = made if gain is None else made * gain
    return made if shift is None else made + shift


@dataclass(frozen=True, kw_only=True, eq=False)
class NormChoice:
    """A normalisation: its learned vectors, where the small number stands, and over which axes it goes."""

    norm: Norm | None
    eps: float
    kind: str = "layer"
    index: int = -1

    def __call__(self, x: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            made = NORM_KINDS[self.kind](x, self.eps)
        return made if self.norm is None else scale_and_shift(made, self.norm.gain, self.norm.shift)

    def mistakes(self, stage: str, number: int) -> tuple[Mistake, ...]:
        """What is wrong with it in its stage: the way it is taken, and that nothing in it is learned."""
        wrong = [_NORM_MISTAKES[self.kind]] if self.kind in _NORM_MISTAKES else []
        bare = [UNLEARNED_NORM] if self.norm is None or self.norm.gain is None else []
        return tuple(replace(one, stage=stage, at=(f"norm {number}",)) for one in (*wrong, *bare))


# sums: x came in, the part is what attention or the feed-forward part made of it, read is what that was given

Layer = Callable[[Array], Array]


def norm_of_sum(x: Array, part: Array, norm: Layer, read: Array) -> Array:
    """norm(x + part)."""
    return norm(x + part)


def plain_sum(x: Array, part: Array, norm: Layer, read: Array) -> Array:
    """x + part."""
    return x + part


def _sum_mistakes(number: int, word: str, what: str) -> tuple[Mistake, ...]:
    rows: list[tuple[str, str, Callable[..., Array]]] = [
        ("no-residual", "no residual: the input is not added", lambda x, part, norm, read: norm(part)),
        ("no-norm", "no norm after the sum", lambda x, part, norm, read: x + part),
        ("neither", "neither sum nor norm", lambda x, part, norm, read: part),
        ("norm-then-sum", "the norm on the part alone, and the input added after it",
         lambda x, part, norm, read: x + norm(part)),
        ("norm-of-the-input-only", "the norm on the input alone, and the part added after it",
         lambda x, part, norm, read: norm(x) + part),
        ("residual-twice", "the input added twice", lambda x, part, norm, read: norm(2 * x + part)),
        ("residual-again-after-the-norm", "the input added once more after the norm",
         lambda x, part, norm, read: norm(x + part) + x),
        ("norm-twice", "the same norm taken twice", lambda x, part, norm, read: norm(norm(x + part))),
        ("part-ignored", f"the {what}'s output left out of the sum", lambda x, part, norm, read: norm(x)),
        ("subtracted", "a difference where the sum belongs", lambda x, part, norm, read: norm(x - part)),
        ("part-twice", "the part added to itself instead of the input", lambda x, part, norm, read: norm(part + part)),
        ("part-added-twice", f"the {what}'s output added twice", lambda x, part, norm, read: norm(x + 2 * part)),
        ("multiplied", "a product where the sum belongs", lambda x, part, norm, read: norm(x * part)),
        ("input-times-a-number", "the input multiplied by a number in the sum",
         lambda x, part, norm, read, number=0.3: norm(number * x + part)),
        ("part-times-a-number", f"the {what}'s output multiplied by a number in the sum",
         lambda x, part, norm, read, number=0.3: norm(x + number * part)),
        ("adds-what-was-normalised", "the normalised input added where the input itself belongs",
         lambda x, part, norm, read: read + part),
    ]  # fmt: skip
    return wrong_versions(
        f"{word} sum and norm", f"{word} sum", f"sum {number}, norm {number}", f"norm(input + {what})",
        [(f"{word}-sum-{name}", said, function) for name, said, function in rows],
    )  # fmt: skip


FIRST_SUM = _sum_mistakes(1, "first", "attention")
SECOND_SUM = (
    *_sum_mistakes(2, "second", "feed-forward"),
    *wrong_versions(
        "second sum and norm", "second adds", "sum 2", "norm(y + feed-forward(y))",
        [("second-sum-adds-x", "the layer's input added again where attention's result belongs",
          lambda known: known["x"]),
         ("second-sum-adds-attention", "attention's output added before its sum and norm", lambda known: known["m"])],
    ),
)  # fmt: skip
NORM_FIRST, *_ = LAYOUTS = wrong_versions(
    "first sum and norm", "layout", "norm 1", "norm(x + part(x)), the order of the 2017 paper",
    [("norm-first", "the norms before attention and feed-forward instead of after their sums",
      {"layout": "norm first", "first sum": plain_sum, "second sum": plain_sum}),
     ("norm-first-attention", "the norm before attention instead of after its sum",
      {"layout": "norm 1 first", "first sum": plain_sum}),
     ("norm-first-feed-forward", "the norm before the feed-forward part instead of after its sum",
      {"layout": "norm 2 first", "second sum": plain_sum})],
    Weight.DEPARTURE,
)  # fmt: skip

# the feed-forward part, and what is done behind the mixing matrix


def relu(x: Array) -> Array:
    """The larger of x and 0."""
    return np.clip(x, 0, None)


def erf(x: Array) -> Array:
    """The error function, which NumPy has not."""
    from scipy.special import erf

    return np.asarray(erf(x))


def as_it_is(x: Array) -> Array:
    """Nothing belongs here."""
    return x


_RELU = "ReLU(y W_1 + b_1) W_2 + b_2"
ACTIVATION = (
    *wrong_versions(
        "feed-forward", "activation", "activation, inner", _RELU,
        [
            ("relu-missing", "no ReLU between the two layers", as_it_is),
            ("relu-sigmoid", "a sigmoid in the place of the ReLU", lambda x: 1 / (1 + np.exp(-x))),
            ("relu-tanh", "a tanh in the place of the ReLU", lambda x: np.tanh(x)),
            ("relu-softmax", "a softmax in the place of the ReLU", softmax),
            ("relu-absolute", "the absolute value in the place of the ReLU", lambda x: np.abs(x)),
            ("relu-negative", "the negative part in the place of the ReLU", lambda x: relu(-x)),
            ("relu-other-side", "the smaller of x and 0 in the place of the ReLU", lambda x: np.clip(x, None, 0)),
            ("relu-other-threshold", "the larger of x and a number other than 0 in the place of the ReLU",
             lambda x, number=0.3: np.clip(x, number, None)),
            ("relu-squared", "the square of the ReLU", lambda x: relu(x) ** 2),
            ("relu-before-first", "a ReLU before the first layer, and none between the two",
             {"reads": lambda known: relu(known["y"]), "activation": as_it_is}),
            ("relu-in-place-before-first",
             "a ReLU in place before the first layer, which changes what is added after the second, too",
             {"reads": lambda known: relu(known["y"]), "second adds": lambda known: relu(known["y"]),
              "activation": as_it_is}),
        ],
    ),
    *wrong_versions(
        "feed-forward", "activation", "activation, inner", _RELU,
        [
            ("gelu", "GELU in the place of ReLU", lambda x: x * 0.5 * (1 + erf(x / 2**0.5))),
            ("gelu-tanh", "GELU (by tanh) in the place of ReLU",
             lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))),
            ("leaky-relu", "a leaky ReLU in the place of ReLU", lambda x: np.where(x > 0, x, 0.01 * x)),
            ("leaky-relu-steep", "a leaky ReLU of another slope in the place of ReLU",
             lambda x, number=0.3: np.where(x > 0, x, number * x)),
            ("silu", "SiLU in the place of ReLU", lambda x: x / (1 + np.exp(-x))),
            ("elu", "an ELU in the place of ReLU", lambda x: np.where(x > 0, x, np.expm1(np.clip(x, None, 0)))),
            ("softplus", "softplus in the place of ReLU", lambda x: np.log1p(np.exp(x))),
            ("mish", "mish in the place of ReLU", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ],
        Weight.DEPARTURE,
    ),
)  # fmt: skip
FEED_FORWARD = (
    *ACTIVATION,
    *wrong_versions(
        "feed-forward", "after outer", "activation, outer", "the ReLU stands between the two layers only",
        [("relu-after-second", "a ReLU after the second layer", relu)],
    ),
    *wrong_versions(
        "feed-forward", "reads", "inner", "the feed-forward part reads y = norm(x + attention)",
        [("feed-forward-reads-x", "the layer's input read instead of attention's result", lambda known: known["x"]),
         ("feed-forward-reads-attention", "attention's output read before its sum and norm", lambda known: known["m"])],
    ),
)  # fmt: skip
MIXING = wrong_versions(
    "mixing", "mixed", "mixing", "no activation between W_O and the sum",
    [("relu-after-mixing", "a ReLU after the mixing matrix", relu)],
)  # fmt: skip

OUTPUT = wrong_versions(
    "output", "output", "output", "return z W + b; the cross-entropy takes the softmax",
    [
        ("output-softmax", "a softmax at the output, where scores are wanted (the loss has its own)", softmax),
        ("output-log-softmax", "a log-softmax at the output, where scores are wanted", lambda s: np.log(softmax(s))),
        ("output-softmax-places", "a softmax over the places (dim=1) at the output", lambda s: softmax(s, 1)),
        ("output-log-softmax-places", "a log-softmax over the places at the output", lambda s: np.log(softmax(s, 1))),
        ("output-softmax-batch", "a softmax over the batch (dim=0) at the output", lambda s: softmax(s, 0)),
        ("output-softmax-twice", "two softmaxes at the output", lambda s: softmax(softmax(s))),
        ("output-sigmoid", "a sigmoid at the output", lambda s: 1 / (1 + np.exp(-s))),
        ("output-relu", "a ReLU at the output", relu),
        ("output-tanh", "a tanh at the output", lambda s: np.tanh(s)),
        ("output-times-a-number", "the scores multiplied or divided by a number", lambda s, number=0.3: number * s),
    ],
)  # fmt: skip
OUTPUT_READS = wrong_versions(
    "output", "output reads", "output", "the output reads z = norm(y + feed-forward(y))",
    [("output-skips-feed-forward", "the output read before the feed-forward part", lambda known: known["y"]),
     ("output-skips-layer", "the output read from the embedding", lambda known: known["x"]),
     ("output-adds-x", "the embedding added once more before the output", lambda known: known["z"] + known["x"]),
     ("output-mean-of-places", "the mean of all places read by the output at each",
      lambda known: known["z"] * 0 + np.mean(known["z"], axis=1, keepdims=True)),
     ("output-first-place", "the first place read by the output at each",
      lambda known: known["z"] * 0 + known["z"][:, :1]),
     ("output-last-place", "the last place read by the output at each",
      lambda known: known["z"] * 0 + known["z"][:, -1:]),
     ("output-reads-feed-forward", "the output read before the last sum and norm", lambda known: known["f"])],
)  # fmt: skip

MISTAKES = (*MIXING, *FIRST_SUM, *FEED_FORWARD, *SECOND_SUM, *OUTPUT, *OUTPUT_READS, *LAYOUTS)
NORM_MISTAKES = (*_NORM_MISTAKES.values(), UNLEARNED_NORM)
RIGHT = {
    "mixed": as_it_is,
    "first sum": norm_of_sum,
    "reads": lambda known: known["y"],
    "activation": relu,
    "after outer": as_it_is,
    "second adds": lambda known: known["y"],
    "second sum": norm_of_sum,
    "output reads": lambda known: known["z"],
    "output": as_it_is,
    "layout": "norm after",
    "last norm": as_it_is,
    "norm": layer_norm,
    "gain": scale_and_shift,
}
