"""The one-layer encoder that translates: what it is made of, that it learns, and what pretrained vectors change."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.attention import attend
from regard.coursework.claim import read_claim
from regard.coursework.training_figures import VALIDATION, Figures, record
from regard.coursework.verdict import (
    Verdict,
    Witness,
    holds,
    measured_verdict,
    not_refuted_verdict,
    refuted_verdict,
    undecided_verdict,
)
from regard.errors import InputError
from regard.pictures import BLUE, ORANGE, axes
from regard.written_numbers import at_most

if TYPE_CHECKING:
    from regard.translator.studies.comparison_record import Comparison

ROUNDING = 1e-5  # float32 has 6e-8; sums of some tens of terms lose a little more
SIZES = ["width=12", "heads=3", "head_width=10", "feed_forward=37", "longest=15"]
WORDS, TRIALS = 29, 20
NO_TORCH = "torch"
WHY_NO_TORCH = "The model is written in torch, which is not installed here: pip install 'regard[translator]'."


def check_learning(*, seed: int) -> Verdict:
    recorded = record("defaults")
    best = min(recorded.runs, key=lambda run: run.perplexity)
    return measured_verdict(
        recorded.source,
        f"{recorded.data} (on the built-in corpus, a toy, it is 1.9). Validation perplexity {best.perplexity:.2f} "
        "counting <sos>, "
        f"{best.perplexity_without_sos:.2f} without, after epoch {best.best_epoch} "
        "(guessing evenly has as many as there are target words). "
        f"{best.weights:,} weights, {best.cpu_seconds:.0f} CPU-seconds. Run: {best.command}",
        perplexity=best.perplexity,
        without_sos=best.perplexity_without_sos,
    )


def check_pretrained_vectors(*, seed: int) -> Verdict:
    inputs, english, sides = record("embeddings"), record("english"), record("sides")
    return measured_verdict(
        inputs.source,
        f"{inputs.data}. In the input embedding: {_comparison_and_command(inputs)}; "
        f"from English, {english.log}: {_comparison_and_command(english)}; "
        f"by side, {sides.log}: {_comparison_and_command(sides)}",
    )


def _comparison_of(recorded: Figures) -> Comparison:
    if recorded.comparison is None:
        raise InputError(f"The record {recorded.name} has no comparison; python -m tools.record_training writes one.")
    return recorded.comparison


def _comparison_and_command(recorded: Figures) -> str:
    comparison = _comparison_of(recorded)
    return f"{describe_comparison(comparison)} Run: {comparison.command}"


def describe_comparison(comparison: Comparison) -> str:
    """Each variant's mean with its interval, and the differences that survive the correction for their number."""
    means = ", ".join(f"{e.name} {e.measures[VALIDATION].text()}" for e in comparison.entries)
    if len(comparison.seeds) == 1:
        return f"Validation perplexity of one seed each, which tells no difference from chance: {means}."
    paired = [d for d in comparison.differences if d.measure == VALIDATION]
    # corrected for their number: of twenty differences one would pass by chance
    sure = [d for d in paired if d.holm is not None and d.holm < 0.05]
    differ = "; ".join(f"{d.verdict} than {d.first} by {abs(d.interval.mean):.2f}" for d in sure)
    return (
        f"Validation perplexity, mean of {len(comparison.seeds)} seeds (95 % interval): {means}. "
        f"Beyond chance: {differ or 'no difference'}."
    )


def check_probabilities(*, seed: int) -> Verdict:
    try:
        import torch

        from regard.translator.data.vocabulary import FIRST_WORD
        from regard.translator.models.encoder import build_model
        from regard.translator.runs.settings import Settings
    except ImportError:
        return undecided_verdict(NO_TORCH, WHY_NO_TORCH)
    model = build_model(Settings().with_changes([*SIZES, f"seed={seed}"]), WORDS, WORDS).eval()
    draw = torch.Generator().manual_seed(seed)
    source = torch.randint(FIRST_WORD, WORDS, (20, 13), generator=draw)
    with torch.no_grad():
        said = torch.softmax(model(source), dim=-1)
    # exact sums of what the model gives: adding in floats would round once more
    sums = [sum(map(Fraction, row), Fraction(0)) for row in said.reshape(-1, WORDS).tolist()]
    total = max(sums, key=lambda one: abs(one - 1))
    off = float(abs(total - 1))
    if off > ROUNDING:
        return refuted_verdict(
            "The last step is no softmax over the target words.",
            witness=Witness(abs(total - 1), ">", Fraction(1, 10**5)),
            counterexample=f"random weights of seed {seed}: the probabilities of one place sum to {float(total):.6g}",
            region="not known",
            correction="none",
        )
    if float(said.min()) <= 0:
        return not_refuted_verdict(
            1, f"In float32 a probability is 0 (seed {seed}); in real numbers none is, by the proof."
        )
    rows = said.shape[0] * said.shape[1]
    return holds(
        f"proof (weights-are-a-distribution); {rows} rows in float32 agree",
        f"The last step is a softmax over the target words; the sums are 1 to {off:.0e} in float32.",
        region="in real numbers; in float32 to rounding, and a very improbable word may get exactly 0",
    )


def check_attention(*, seed: int) -> Verdict:
    try:
        gaps = [_attention_gap(seed + trial) for trial in range(TRIALS)]
    except ImportError:
        return undecided_verdict(NO_TORCH, WHY_NO_TORCH)
    off = max(gaps)
    if off > ROUNDING:
        return refuted_verdict(
            "The model's attention is not that of attend.",
            witness=Witness(Fraction(off), ">", Fraction(1, 10**5)),
            counterexample=f"random weights from seed {seed} on: they differ by {off:.2g}",
            region="not known",
            correction="none",
        )
    return not_refuted_verdict(
        TRIALS,
        f"Random weights, 3 heads of 13 queries and 7 keys: outputs and weights differ by {at_most(off, 1)} at most.",
    )


def _attention_gap(seed: int) -> float:
    """The largest difference of the model's attention from attend, for random weights and inputs."""
    import torch

    from regard.translator.models.encoder import Attention

    with torch.random.fork_rng(devices=[]), torch.no_grad():  # the caller's random numbers stay as they are
        torch.manual_seed(seed)
        layer, slots, words = Attention(12, heads=3, head_width=10), torch.randn(1, 13, 12), torch.randn(1, 7, 12)
        q, k, v = (
            linear(states).double().numpy().reshape(-1, 3, 10).transpose(1, 0, 2)
            for linear, states in ((layer.queries, slots), (layer.keys, words), (layer.values, words))
        )
        ours = attend(q, k, v, scale=10**-0.5)  # a head has 10 numbers
        output, weights = layer.heads(slots, words)[0].numpy(), layer.weights(slots, words)[0].numpy()
    flat = ours.output.transpose(1, 0, 2).reshape(13, 30)
    return float(max(np.abs(output - flat).max(), np.abs(weights - ours.weights).max()))


def check_embedding(*, seed: int) -> Verdict:
    try:
        import torch

        from regard.translator.models.encoder import build_model
        from regard.translator.runs.settings import Settings
    except ImportError:
        return undecided_verdict(NO_TORCH, WHY_NO_TORCH)
    model = build_model(Settings().with_changes([*SIZES, f"seed={seed}"]), WORDS, WORDS)
    tokens, places = (model.get_parameter(f"embedding.{part}.weight") for part in ("tokens", "positions"))
    every = torch.arange(WORDS)[:, None].expand(WORDS, len(places))  # every token at every place
    off = float((model.get_submodule("embedding")(every) - (tokens[:, None] + places)).detach().abs().max())
    if off:  # one addition in float32 on either side: equal to the last bit
        return refuted_verdict(
            "The input of the layer is something else.",
            witness=Witness(Fraction(off), ">", 0),
            counterexample=f"random weights of seed {seed}: they differ by {off:.2g}",
            region="not known",
            correction="none",
        )
    return holds(
        f"exact comparison of all {WORDS * len(places)} pairs of token and place",
        "The input of the layer is E[token] $+$ P[place], two tables of numbers that are learned: nothing else.",
    )


def draw(figure: Any, *, seed: int) -> None:
    recorded = record("embeddings")
    comparison = _comparison_of(recorded)
    entries = comparison.entries
    made = axes(
        figure,
        title=f"Embeddings compared, {len(comparison.seeds)} seeds each ({recorded.date})",
        xlabel="validation perplexity, counting <sos>",
    )
    for place, entry in enumerate(entries):
        values = entry.measures[VALIDATION].values
        made.plot(values, [place] * len(values), "o", color=BLUE, label="a seed" if not place else None)
        made.plot([np.mean(values)], [place], "|", color=ORANGE, ms=24, mew=3, label="mean" if not place else None)
    made.set_yticks(range(len(entries)), [e.name for e in entries])
    made.set_ylim(len(entries) - 0.5, -0.5)
    made.legend(frameon=False, loc="best")


CLAIM = read_claim(__name__)
