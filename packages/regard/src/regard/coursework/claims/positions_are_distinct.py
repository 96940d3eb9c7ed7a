"""Are sinusoidal positions all different, at every length?"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, format_distinctly, read_question, worst_ruling
from regard.coursework.verdict import Status, Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.positions import Table, distance, first_collision, first_equal_rows, frequencies, positions, sinusoidal

UNITS = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}  # of the formats, from the narrowest


def check_every_length(*, dim: int, length: int) -> Verdict:
    answer = positions(dim=dim, length=length)
    if not answer.answer or answer.distance is None or not answer.distance[0] > 0:
        return not_refuted_verdict(1, f"The proof and the computed distances differ: {answer}")
    pair = answer.nearest or (0, 1)
    return holds(
        "proof; the nearest two enclosed",
        f"Equal rows would make $pi$ rational. Of {length:,} positions the nearest two, {pair[0]} and {pair[1]}, are "
        f"{answer.distance[0]:.6g} apart.",
        region="for every even dim $>= 2$ and every length: attention-position-svd is right, no condition is needed",
        tightness="there is no positive lower bound for all lengths at once: as the length grows, some offset comes as "
        "near to a common period as one likes",
        distance=answer.distance[0],
    )


def check_condition_needed(*, dim: int, length: int) -> Verdict:
    decided = check_every_length(dim=dim, length=length)
    if decided.status is not Status.HOLDS:
        return not_refuted_verdict(1, "The real vectors could not be shown to differ.")
    return refuted_verdict(
        "The slowest pair alone repeats only after $2 pi 10000$ positions or so, but the fastest pair alone already "
        "never repeats exactly.",
        witness=Witness(Fraction(decided.numbers["distance"]), ">", 0),  # a proved lower bound of all distances
        counterexample="dim $= 2$, where the only pair repeats nearly every 6.28 positions, and no two positions are "
        f"equal; dim $= {dim}$, length {length:,}: {decided.because.partition('. ')[2]}",
        region="in number formats, where a condition on the length is needed (next reading)",
        correction="$Phi_t != Phi_t'$ for all whole $t != t'$, without any condition on the length.",
    )


def check_under_a_condition(*, dim: int, length: int) -> Verdict:
    decided = check_every_length(dim=dim, length=length)
    if decided.status is not Status.HOLDS:
        return not_refuted_verdict(1, "The real vectors could not be shown to differ.")
    return holds(
        "proof: a special case of every length",
        f"What holds at every length holds up to any bound. {decided.because.partition('. ')[2]}",
        region="whatever the bound is: the condition does no harm and is not needed, as another reading shows",
    )


def check_in_format(*, dim: int, length: int, format: str) -> Verdict:
    table = Table(dim, format)
    pair = first_collision(table, length).pair
    if pair is None:
        return holds(
            "exact comparison of all rows, correctly rounded",
            f"No two of {length:,} positions of dim {dim} are equal in {format}.",
            region=f"at least up to this length in {format}",
        )
    first, second = pair
    return refuted_verdict(
        f"Rounding to {format} makes near misses equal.",
        witness=tuple(
            Witness(Fraction(a), "==", Fraction(b)) for a, b in zip(*table.rows([first, second]).tolist(), strict=True)
        ),
        counterexample=f"dim {dim}: positions {first} and {second} (counted from 0) are equal bit for bit, the first "
        "such pair",
        region=f"for lengths up to {second:,} at dim {dim}",
        correction=f"In {format}, with every number rounded once, all of the first {second:,} positions of dim {dim} "
        "differ, and no more.",
    )


check_in_bfloat16 = partial(check_in_format, format="bfloat16")
check_in_float32 = partial(check_in_format, format="float32")


def proof_numbers(*, dim: int, length: int) -> dict[str, object]:
    low, _ = distance(710, dim)
    return {"low": low}


def draw(made: Any, *, dim: int, length: int) -> None:
    offsets = np.arange(1, 200_001)
    for d, colour, style in ((2, VERMILION, "-"), (4, ORANGE, "--"), (64, BLUE, "-.")):
        squares = np.zeros(len(offsets))
        for w in frequencies(d):
            squares += 4 * np.sin(offsets * w / 2) ** 2
        made.plot(offsets, np.minimum.accumulate(np.sqrt(squares)), style, color=colour, lw=2, label=f"dim {d}")


# your own answer


def length_and_dimension(latent: Any, *, dim: int, length: int) -> Instance:
    return Instance(given={"length": length, "dim": dim})


def judge_positions(instance: Instance, rows: Any) -> Ruling:
    """No two rows equal, and every entry that of the formula; where it is not, which known table it is instead."""
    return worst_ruling(distinct_ruling(rows), formula_ruling(rows))


def formula_ruling(rows: Any) -> Ruling:
    length, dim = rows.shape
    slack, right = _slack(rows), sinusoidal(length, dim)
    over = np.abs(rows - right) - slack
    if (over <= 0).all():
        return Ruling(room=1.0, said="")
    t, column = (int(at) for at in np.unravel_index(int((over > 0).argmax()), over.shape))
    ours, yours = format_distinctly(right[t, column], rows[t, column])
    said = f"at position {t}, column {column} (counted from 0) the formula has {ours}; yours has {yours}"
    return Ruling(room=-float(over.max()), said=f"{said}{_known_table_sentence(rows, slack)}")


def _slack(rows: Float) -> Float:
    """What rounding explains, row by row: a few units of the narrowest number format that holds all entries, t times as
    many for the angle at position t."""
    with np.errstate(over="ignore"):
        unit = next(u for form, u in UNITS.items() if np.array_equal(rows.astype(form), rows) or form == "float64")
    return np.asarray(unit * (4 + 16 * np.arange(len(rows)))[:, None], dtype=np.float64)


def _known_table_sentence(rows: Any, slack: Any) -> str:
    """Which of the known tables it is; several may agree at these sizes."""
    from regard.mistakes.embedding import FORMULAS, sinusoids

    known = [(one.said, one.function(*rows.shape)) for one in FORMULAS]
    known.append(("positions counted from 1", sinusoids(len(rows) + 1, rows.shape[1])[1:]))
    # twice the slack: the known tables are rounded as well
    names = [said for said, table in known if (np.abs(rows - table) <= 2 * slack).all()]
    if not names:
        return ""
    return f". Yours is exactly {' or (the same at these sizes) '.join(dict.fromkeys(names))}"


def distinct_ruling(rows: Any) -> Ruling:
    size = max(float(np.abs(rows).max()), 1e-300)
    for shown, how in ((rows, "equal"), (np.round(rows / size, 12), "equal but for rounding")):
        pair = first_equal_rows(shown + 0.0)  # -0.0 is 0.0
        if pair is not None:
            said = f"positions {pair[0]} and {pair[1]} (counted from 0) are {how}: {rows[pair[0]][:4].tolist()}"
            return Ruling(room=-1.0, said=said)
    return Ruling(room=1.0, said="")


QUESTION = read_question(
    "positions-are-distinct",
    shape=lambda given: (given["length"], given["dim"]),
    fits=lambda dim, length: dim * length <= 4e5,
    make=length_and_dimension,
    judge=judge_positions,
)

CLAIM = read_claim(__name__)
