"""The library of known mistakes: each is one switch of the reference, with what it says and where it would stand.

``said`` completes "exactly ours, but with ..."; ``instead`` says what is right. A *variation* is no mistake (heads laid
out otherwise, a mask of padding): it costs nothing and is at most mentioned. A *departure* is right in some other model
(norm first, GELU): it is named, and counts as a mistake only against the model asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Weight(StrEnum):
    """How much a difference matters."""

    MISTAKE = "mistake"
    DEPARTURE = "departure"
    VARIATION = "variation"


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One way of being different: the switch, its value, and the sentence."""

    name: str
    stage: str
    switch: str
    value: Any
    said: str
    instead: str = ""
    at: tuple[str, ...] = ()  # places in the file, the best first
    weight: Weight = Weight.MISTAKE
    echo: bool = False  # the same mistake once more, which costs nothing further

    @property
    def cost(self) -> int:
        return 0 if self.echo or self.weight is Weight.VARIATION else 1


def _switch_mistakes(
    stage: str,
    switch: str,
    at: str,
    rows: Iterable[tuple[Any, str, str]],
    *,
    instead: str,
    weight: Weight = Weight.MISTAKE,
) -> tuple[Mistake, ...]:
    return tuple(
        Mistake(
            name=name,
            stage=stage,
            switch=switch,
            value=value,
            said=said,
            instead=instead,
            at=tuple(at.split(", ")),
            weight=weight,
        )
        for value, name, said in rows
    )


EMBEDDING = (
    *_switch_mistakes(
        "embedding",
        "rows",
        "positions, tokens",
        [
            ("none", "positions-missing", "no positions added"),
            ("twice", "positions-twice", "the positions added twice"),
            ("from the end", "positions-reversed", "positions counted from the end of the input"),
            ("last rows", "positions-last-rows", "the last rows of the table of positions instead of the first"),
            ("last row first", "positions-table-reversed", "the table of positions read from its last row backwards"),
            (
                "by sentence",
                "positions-by-sentence",
                "the position of a sentence in the batch instead of a word's in it",
            ),
            ("always the first", "positions-first", "the first position at every place"),
            ("always the last", "positions-last", "the last position at every place"),
            ("by length", "positions-by-length", "one position for all places, that of the length"),
            ("by word", "positions-by-word", "the row of the word's id where the row of its place belongs"),
        ],
        instead="add row t of the table at place t, counted along the sentence",
    ),
    *_switch_mistakes(
        "embedding",
        "rows",
        "positions, tokens",
        [("from 1", "positions-from-1", "positions counted from 1")],
        instead="",
        weight=Weight.VARIATION,
    ),
    *_switch_mistakes(
        "embedding",
        "tokens",
        "tokens",
        [
            ("times sqrt(width)", "embedding-scaled", "the embedding multiplied by the root of the width"),
            ("sum scaled", "embedding-sum-scaled", "the sum of token and position multiplied by the root of the width"),
            ("divided by sqrt(width)", "embedding-shrunk", "the embedding divided by the root of the width"),
            ("times width", "embedding-times-width", "the embedding multiplied by the width"),
            ("fixed", "embedding-times-a-number", "the embedding multiplied or divided by a number"),
        ],
        instead="the sum of the two rows as it is; the 2017 paper scales, the model asked for does not",
        weight=Weight.DEPARTURE,
    ),
    *_switch_mistakes(
        "embedding",
        "join",
        "positions, tokens",
        [("multiplied", "positions-multiplied", "the position multiplied with the token instead of added")],
        instead="add the two rows",
    ),
)

FORMULAS = (
    *_switch_mistakes(
        "embedding",
        "formula",
        "positions",
        [
            ("interleaved", "positions-sinusoidal", "sinusoidal positions"),
            ("halves", "positions-sinusoidal-halves", "sinusoidal positions, sines in the first half"),
            ("cosines first", "positions-cosines-first", "sinusoidal positions, cosines first"),
            ("halves, d - 1", "positions-halves-d-1", "sinusoidal positions with frequencies down to 1/10000 exactly"),
            ("i/(d/2 - 1)", "positions-d-1", "sinusoidal positions with frequencies down to 1/10000 exactly"),
        ],
        instead="",
        weight=Weight.VARIATION,
    ),
    *_switch_mistakes(
        "embedding",
        "formula",
        "positions",
        [
            ("doubled", "sinusoid-exponent-doubled", "the exponent of the sinusoidal table doubled: 4i/d"),
            (
                "doubled, odd on",
                "sinusoid-exponent-by-column",
                "the exponent 2j/d with the column j where 2i/d belongs",
            ),
            (
                "doubled, cosine one pair on",
                "sinusoid-exponent-doubled-shifted",
                "the exponent of the sinusoidal table doubled, and shifted in the cosines",
            ),
            ("i/d", "sinusoid-exponent-halved", "the exponent i/d in the sinusoidal table"),
            (
                "column/d",
                "sinusoid-exponent-column",
                "another exponent, j/d by column, in the cosines than in the sines",
            ),
            ("cosine one on", "sinusoid-cosine-shifted", "the cosines with the exponent of the next pair"),
            ("whole exponents", "sinusoid-floor-division", "an exponent that floor division made 0"),
            ("no exponent", "sinusoid-no-exponent", "one frequency for all columns"),
            ("half", "sinusoid-exponent-quarter", "the exponent i/(2d) in the sinusoidal table"),
            ("base 1000", "sinusoid-base-1000", "the base 1000 instead of 10000 in the sinusoidal table"),
            ("base 100000", "sinusoid-base-100000", "the base 100000 instead of 10000 in the sinusoidal table"),
            ("inverted", "sinusoid-inverted", "frequencies that grow instead of fall in the sinusoidal table"),
            ("sines only", "sinusoid-sines-only", "sines in the even and in the odd columns"),
        ],
        instead="columns 2i and 2i+1 are sin and cos of t / 10000^(2i/d)",
    ),
)

ATTENTION = (
    *_switch_mistakes(
        "attention",
        "scale",
        "scale, scores",
        [
            ("none", "scale-missing", "no division by sqrt(d)"),
            ("width", "scale-by-width", "a division by d instead of sqrt(d)"),
            (
                "sqrt of all heads",
                "scale-by-all-heads",
                "a division by the root of all heads' width instead of one head's",
            ),
            ("all heads", "scale-by-all-heads-linear", "a division by all heads' width"),
            (
                "sqrt of the states",
                "scale-by-states",
                "a division by the root of the states' width instead of a head's",
            ),
            ("states", "scale-by-states-linear", "a division by the states' width"),
            ("sqrt of the batch", "scale-by-batch", "a division by the root of the number of sentences"),
            ("sqrt of the length", "scale-by-length", "a division by the root of the length"),
            ("sqrt of the heads", "scale-by-heads", "a division by the root of the number of heads"),
            ("inverted", "scale-inverted", "a multiplication by sqrt(d) instead of a division"),
            ("floored", "scale-floored", "a division by sqrt(d) rounded down"),
            ("floored, all heads", "scale-floored-all-heads", "a division by the rounded root of all heads' width"),
            ("fourth root", "scale-fourth-root", "a division by the fourth root of d"),
            ("per head again", "scale-by-split-head", "a division by the root of d divided by the heads once more"),
            ("after the softmax", "scale-after-softmax", "the division by sqrt(d) after the softmax instead of before"),
            ("fixed", "scale-by-another-number", "a number that is not sqrt(d), as one that fits another width"),
        ],
        instead="divide the scores by the root of one head's width before the softmax",
    ),
    *_switch_mistakes(
        "attention",
        "softmax",
        "softmax, scores",
        [
            ("queries", "softmax-over-queries", "the softmax over the queries (dim=-2) instead of the keys"),
            ("heads", "softmax-over-heads", "the softmax over the heads instead of the keys"),
            ("batch", "softmax-over-batch", "the softmax over the batch (dim=0) instead of the keys"),
            ("all pairs", "softmax-over-pairs", "one softmax over all pairs of places"),
            ("none", "softmax-missing", "no softmax"),
            ("sigmoid", "softmax-sigmoid", "a sigmoid instead of the softmax"),
            ("twice", "softmax-twice", "the softmax taken twice in the attention"),
            ("not divided", "softmax-not-divided", "exponentials that are not divided by their sum"),
            ("log", "softmax-log", "the logarithm of the softmax"),
            ("no exponential", "softmax-no-exponential", "scores divided by their sum, without exponentials"),
        ],
        instead="each query's weights over the keys sum to 1: softmax along the last axis of (N, heads, queries, keys)",
    ),
    *_switch_mistakes(
        "attention",
        "split",
        "scores",
        [
            (("no transpose", "all"), "heads-not-transposed", "heads made by a reshape without a transpose"),
            (("no transpose", "queries"), "queries-not-transposed", "the queries' heads made without a transpose"),
            (("no transpose", "keys"), "keys-not-transposed", "the keys' heads made without a transpose"),
            (("no transpose", "values"), "values-not-transposed", "the values' heads made without a transpose"),
            (("between heads", "all"), "attention-between-heads", "attention between the heads of one place"),
            (("between sentences", "all"), "attention-between-sentences", "attention between sentences, not places"),
            (
                ("all sentences at once", "all"),
                "attention-over-all-sentences",
                "one attention over all sentences' places",
            ),
        ],
        instead="(N, T, heads, d), then a transpose to (N, heads, T, d)",
    ),
    *_switch_mistakes(
        "attention",
        "split",
        "scores",
        [(("interleaved", "all"), "heads-interleaved", "heads that take every h-th column")],
        instead="",
        weight=Weight.VARIATION,
    ),
    *_switch_mistakes(
        "attention",
        "merge",
        "mixing, context",
        [
            ("no transpose back", "heads-merged-without-transpose", "heads merged without transposing back"),
            ("sum", "heads-summed", "the heads summed instead of side by side"),
            ("mean", "heads-averaged", "the heads averaged instead of side by side"),
            ("first head", "first-head-only", "the first head's output alone"),
            ("last head", "last-head-only", "the last head's output alone"),
            ("places and widths exchanged", "merge-wrong-axes", "heads merged with places and widths exchanged"),
        ],
        instead="transpose (N, heads, T, d) back to (N, T, heads, d), then flatten the last two",
    ),
    *_switch_mistakes(
        "attention",
        "merge",
        "mixing, context",
        [
            ("interleaved", "merge-interleaved", "heads merged column by column"),
            ("other order", "merge-other-order", "heads in the other order"),
            ("as if transposed", "merge-as-if-transposed", "heads merged by a transpose that was not needed"),
        ],
        instead="",
        weight=Weight.VARIATION,
    ),
    *_switch_mistakes(
        "attention",
        "weights",
        "context",
        [("turned", "weights-turned", "the weights transposed before they meet the values")],
        instead="row q of the weights belongs to query q",
    ),
    *_switch_mistakes(
        "attention",
        "values",
        "context",
        [
            ("keys", "values-are-keys", "the keys in the place of the values"),
            ("queries", "values-are-queries", "the queries in the place of the values"),
        ],
        instead="weights times x W_V",
    ),
    *_switch_mistakes(
        "attention",
        "used head",
        "scores",
        [("first", "one-head-twice", "the first head used for all heads")],
        instead="each head reads its own columns",
    ),
    *_switch_mistakes(
        "attention",
        "mask",
        "mask, softmax, scores",
        [
            ("queries", "mask-on-queries", "the padding mask on the query axis instead of the keys"),
            ("inverted", "mask-inverted", "the padding mask inverted: only padding is read"),
            (
                "fill 0",
                "mask-fill-near-0",
                "a mask that fills with 0 or 1e-9 where -inf is meant: padding is still read",
            ),
            ("fill +1e9", "mask-fill-positive", "a mask that fills with +1e9: only padding is read"),
            ("added 1 at words", "mask-added-as-numbers", "a mask of 0 and 1 added to the scores"),
            ("added 1 at padding", "mask-added-inverted", "a mask of 0 and 1 added to the scores, 1 at padding"),
            ("after the softmax", "mask-after-softmax", "the mask after the softmax: the weights no longer sum to 1"),
            (
                "heads and sentences mixed up",
                "mask-heads-mixed",
                "a mask repeated in another order than heads and sentences are in",
            ),
            ("past", "mask-hides-past", "a mask that hides the past and the word itself"),
            ("not itself", "mask-hides-itself", "a mask that hides each word from itself"),
        ],
        instead="fill the scores of padded keys with -inf before the softmax: a mask of shape (N, 1, 1, T)",
    ),
    *_switch_mistakes(
        "attention",
        "mask",
        "mask, softmax, scores",
        [
            ("future", "mask-hides-future", "a mask that hides the future"),
            ("future and padding", "mask-hides-future-and-padding", "a mask that hides the future and the padding"),
        ],
        instead="an encoder reads the whole sentence",
        weight=Weight.DEPARTURE,
    ),
    *_switch_mistakes(
        "attention",
        "mask",
        "mask",
        [
            ("keys", "mask-padding", "padding hidden"),
            ("keys and queries", "mask-padding-both", "padding hidden, as key and as query"),
        ],
        instead="",
        weight=Weight.VARIATION,
    ),
)

MIXING = _switch_mistakes(
    "mixing",
    "mixed",
    "mixing",
    [("ReLU", "relu-after-mixing", "a ReLU after the mixing matrix")],
    instead="no activation between W_O and the sum",
)


def _sums(stage: str, switch: str, number: int, what: str) -> tuple[Mistake, ...]:
    at = f"sum {number}, norm {number}"
    rows = [
        ("no residual", "no residual: the input is not added"),
        ("no norm", "no norm after the sum"),
        ("neither", "neither sum nor norm"),
        ("norm, then sum", "the norm on the part alone, and the input added after it"),
        ("norm of the input only", "the norm on the input alone, and the part added after it"),
        ("residual twice", "the input added twice"),
        ("residual again after the norm", "the input added once more after the norm"),
        ("norm twice", "the same norm taken twice"),
        ("part ignored", f"the {what}'s output left out of the sum"),
        ("subtracted", "a difference where the sum belongs"),
        ("part twice", "the part added to itself instead of the input"),
        ("multiplied", "a product where the sum belongs"),
        ("adds what was normalised", "the normalised input added where the input itself belongs"),
    ]
    named = [
        (value, f"{switch.replace(' ', '-')}-{value.replace(',', '').replace(' ', '-')}", said) for value, said in rows
    ]
    return _switch_mistakes(stage, switch, at, named, instead=f"norm(input + {what})")


FIRST_SUM = _sums("first sum and norm", "first sum", 1, "attention")
SECOND_SUM = (
    *_sums("second sum and norm", "second sum", 2, "feed-forward"),
    *_switch_mistakes(
        "second sum and norm",
        "second adds",
        "sum 2",
        [
            ("x", "second-sum-adds-x", "the layer's input added again where attention's result belongs"),
            ("m", "second-sum-adds-attention", "attention's output added before its sum and norm"),
        ],
        instead="norm(y + feed-forward(y))",
    ),
)
FEED_FORWARD = (
    *_switch_mistakes(
        "feed-forward",
        "activation",
        "activation, inner",
        [
            ("none", "relu-missing", "no ReLU between the two layers"),
            ("sigmoid", "relu-sigmoid", "a sigmoid in the place of the ReLU"),
            ("tanh", "relu-tanh", "a tanh in the place of the ReLU"),
            ("softmax", "relu-softmax", "a softmax in the place of the ReLU"),
            ("absolute value", "relu-absolute", "the absolute value in the place of the ReLU"),
            ("ReLU of the negative", "relu-negative", "the negative part in the place of the ReLU"),
        ],
        instead="ReLU(y W_1 + b_1) W_2 + b_2",
    ),
    *_switch_mistakes(
        "feed-forward",
        "activation",
        "activation, inner",
        [
            ("GELU", "gelu", "GELU in the place of ReLU"),
            ("GELU by tanh", "gelu-tanh", "GELU (by tanh) in the place of ReLU"),
            ("leaky ReLU", "leaky-relu", "a leaky ReLU in the place of ReLU"),
            ("SiLU", "silu", "SiLU in the place of ReLU"),
        ],
        instead="ReLU(y W_1 + b_1) W_2 + b_2",
        weight=Weight.DEPARTURE,
    ),
    *_switch_mistakes(
        "feed-forward",
        "after outer",
        "activation, outer",
        [("ReLU", "relu-after-second", "a ReLU after the second layer")],
        instead="the ReLU stands between the two layers only",
    ),
    *_switch_mistakes(
        "feed-forward",
        "reads",
        "inner",
        [
            ("x", "feed-forward-reads-x", "the layer's input read instead of attention's result"),
            ("m", "feed-forward-reads-attention", "attention's output read before its sum and norm"),
        ],
        instead="the feed-forward part reads y = norm(x + attention)",
    ),
)
OUTPUT = (
    *_switch_mistakes(
        "output",
        "output",
        "output",
        [
            ("softmax", "output-softmax", "a softmax at the output, where scores are wanted (the loss has its own)"),
            ("log softmax", "output-log-softmax", "a log-softmax at the output, where scores are wanted"),
            ("softmax over places", "output-softmax-places", "a softmax over the places (dim=1) at the output"),
            ("log softmax over places", "output-log-softmax-places", "a log-softmax over the places at the output"),
            ("softmax over the batch", "output-softmax-batch", "a softmax over the batch (dim=0) at the output"),
            ("softmax twice", "output-softmax-twice", "two softmaxes at the output"),
            ("sigmoid", "output-sigmoid", "a sigmoid at the output"),
            ("ReLU", "output-relu", "a ReLU at the output"),
            ("tanh", "output-tanh", "a tanh at the output"),
        ],
        instead="return z W + b; the cross-entropy takes the softmax",
    ),
    *_switch_mistakes(
        "output",
        "output reads",
        "output",
        [
            ("y", "output-skips-feed-forward", "the output read before the feed-forward part"),
            ("x", "output-skips-layer", "the output read from the embedding"),
            ("f", "output-reads-feed-forward", "the output read before the last sum and norm"),
        ],
        instead="the output reads z = norm(y + feed-forward(y))",
    ),
)
NORM_FIRST = Mistake(
    name="norm-first",
    stage="first sum and norm",
    switch="layout",
    value="norm first",
    said="the norms before attention and feed-forward instead of after their sums",
    instead="norm(x + part(x)), the order of the 2017 paper",
    at=("norm 1",),
    weight=Weight.DEPARTURE,
)
NORM_KINDS = {
    "n - 1": ("norm-n-1", "a norm that divides by n - 1 in the variance"),
    "n - 1, eps outside": ("norm-n-1", "a norm that divides by n - 1 in the variance"),
    "places": ("norm-over-places", "a norm over the places instead of the width"),
    "places, n - 1": ("norm-over-places", "a norm over the places instead of the width, with n - 1"),
    "batch": ("norm-over-batch", "a norm over the batch instead of the width"),
    "sentence": ("norm-over-sentence", "a norm over places and width at once"),
    "sentence, n - 1": ("norm-over-sentence", "a norm over places and width at once, with n - 1"),
    "batch and places": ("norm-over-batch-and-places", "a norm over batch and places instead of the width"),
    "everything": ("norm-over-everything", "a norm over everything at once"),
    "running": ("batch-norm", "a batch norm where a layer norm belongs"),
    "mean not subtracted": ("norm-without-mean", "a norm that does not subtract the mean"),
    "only the mean": ("norm-without-variance", "a norm that does not divide by the deviation"),
    "variance for deviation": ("norm-by-variance", "a norm that divides by the variance instead of its root"),
}
NORM_INSTEAD = (
    "(x - mean) / sqrt(variance + eps) over the width of each place, times a learned gain, plus a learned shift"
)

LIBRARY: tuple[Mistake, ...] = (
    *EMBEDDING,
    *FORMULAS,
    *ATTENTION,
    *MIXING,
    *FIRST_SUM,
    *FEED_FORWARD,
    *SECOND_SUM,
    *OUTPUT,
    NORM_FIRST,
)


def mistakes_of_stage(stage: str) -> dict[str, list[Mistake]]:
    """The library's mistakes of one stage, by switch."""
    by_switch: dict[str, list[Mistake]] = {}
    for one in LIBRARY:
        if one.stage == stage and one.switch not in ("layout", "formula"):
            by_switch.setdefault(one.switch, []).append(one)
    return by_switch


def norm_mistake(kind: str, stage: str, number: int) -> Mistake | None:
    """A norm taken in a wrong way; None for the right ones."""
    if kind not in NORM_KINDS:
        return None
    name, said = NORM_KINDS[kind]
    return Mistake(
        name=name,
        stage=stage,
        switch=f"norm {number}",
        value=kind,
        said=said,
        instead=NORM_INSTEAD,
        at=(f"norm {number}",),
        weight=Weight.DEPARTURE if kind == "mean not subtracted" else Weight.MISTAKE,
    )


def unlearned_norm(stage: str, number: int) -> Mistake:
    """A norm without learned gain and shift."""
    return Mistake(
        name="norm-unlearned",
        stage=stage,
        switch=f"norm {number}",
        value="unlearned",
        said="a norm without learned gain and shift",
        instead=NORM_INSTEAD,
        at=(f"norm {number}",),
    )
