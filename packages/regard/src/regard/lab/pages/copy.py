"""Copy and share: keys one can drag, what a query of one's own does to them, and the shortest that does the task."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import regard
from regard.array_types import Float
from regard.errors import CouldNotFindOut, InputError
from regard.lab.copy_state import QUERY, START, STARTS, WINDOW, CopySetup, Sphere, apply_actions, hull_edges, read_setup
from regard.lab.page import (
    ANSWERS,
    REFUSED,
    Answer,
    Explanation,
    Number,
    Page,
    State,
    Step,
    format_rows,
    shortest_text,
    tex,
)
from regard.strict_json import JsonObject
from regard.written_numbers import at_most

if TYPE_CHECKING:
    from regard.attention import Attention
    from regard.design import Ceiling, Design


AWAY = 0.995  # the cosine between a query and its key below which one sees that they differ
SHOWN = 5  # keys whose numbers are written out, those that are to be copied among them


LONGEST = 12.0  # the norm at which the slider of the query ends, unless a query in the picture is longer
EPS = ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5")


def answer(state: State) -> Answer:
    """Everything about the keys and the query of a state."""
    answers = ANSWERS not in state.hidden
    if not answers and "use" in state.text("do"):
        raise InputError(REFUSED)
    setup, complaints = apply_actions(read_setup(state), state.text("do"))
    keys = setup.keys
    own = regard.attend(setup.vector, keys, keys)
    ceilings: list[Ceiling | None] = (
        list(_ceilings(tuple(map(tuple, keys.tolist())))) if answers else [None] * len(keys)
    )
    shortest = setup.design() if answers else None
    return Answer(
        picture={**_picture(setup, own, ceilings, shortest), "answers": answers},
        numbers=_numbers(setup, own, shortest),
        say=(*complaints, *(_say(setup, shortest) if answers else ()), *_say_inside(ceilings)),
        formulas=(*_formulas(setup, own, shortest), *_proofs(ceilings)),
        python=_python(setup, answers),
        shell=_shell(setup, answers),
        state=setup.words(),
        why=(*why_the_shortest(setup, shortest), *why_ceilings_fall(ceilings)),
        steps=attention_steps(setup, own),
    )


# What is computed ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)  # a query that is dragged changes no ceiling
def _ceilings(rows: tuple[tuple[float, ...], ...]) -> tuple[Ceiling | None, ...]:
    """The most that each key can ever get; None where that could not be pinned down."""
    keys = np.array(rows)
    ceilings: list[Ceiling | None] = []
    for index in range(len(keys)):
        try:
            ceilings.append(regard.design.ceiling(keys, index))
        except CouldNotFindOut:
            ceilings.append(None)
    return tuple(ceilings)


def _combination(ceiling: Ceiling) -> list[tuple[int, float]]:
    """The convex combination of other keys that equals the key: the proof of its ceiling; empty where there is none."""
    combination = ceiling.certificate.combination
    weights = [] if combination is None else regard.design.certificate.floats(combination.weights).tolist()
    others = [i for i in range(len(weights) + 1) if i != ceiling.key]
    return [(i, weight) for i, weight in zip(others, weights, strict=True) if weight > 0] if weights else []


# What is shown -------------------------------------------------------------------------------------------------------


def _picture(
    setup: CopySetup, own: Attention, ceilings: list[Ceiling | None], shortest: Design | str | None
) -> JsonObject:
    places, behind = setup.scene.place(setup.keys)
    degrees = "°" if setup.space == "sphere" else ""
    rows = [
        {
            "key": i,
            "place": ", ".join(shortest_text(round(x, 4)) for x in setup.rows[i]) + degrees,
            "exactly": ", ".join(shortest_text(x) for x in setup.rows[i]) + degrees,
            "x": places[i, 0],
            "y": places[i, 1],
            "behind": behind[i],
            "chosen": i in setup.chosen,
            "score": own.scores[i],
            "weight": own.weights[i],
            "ceiling": None if ceiling is None else ceiling.ceiling,
            "most": "?" if ceiling is None else ceiling._bound_text(4),
            "inside": ceiling is not None and ceiling.ceiling < 0.5,
        }
        for i, ceiling in enumerate(ceilings)
    ]
    (output,), (hidden,) = setup.scene.place(own.output[None])
    feet = own.scores[:, None] * setup.vector / max(setup.norm**2, 1e-300)
    sums = np.cumsum(own.weights[:, None] * setup.keys, axis=0)
    return {
        "space": setup.space,
        "window": WINDOW,
        "radius": Sphere.radius,
        "keys": rows,
        "circles": setup.scene.circles(),
        "edges": hull_edges(setup.keys),
        "output": {"x": output[0], "y": output[1], "behind": hidden, "text": _vector(own.output)},
        "feet": setup.scene.place(feet)[0].tolist(),
        "sums": setup.scene.place(sums)[0].tolist(),
        "arrows": _arrows(setup, shortest),
        "eps": list(EPS),
        "starts": {name: start[0] for name, start in STARTS.items()},
        "longest": max(LONGEST, *(math.ceil(arrow["norm"]) for arrow in _arrows(setup, shortest))),
        "norm": setup.norm,
        "scale": QUERY if setup.space == "plane" else QUERY * Sphere.radius,
    }


def _arrows(setup: CopySetup, shortest: Design | str | None) -> list[JsonObject]:
    """The queries in the drawing: the shortest and the textbook's, where there are any, and the user's own."""
    shown = [("own", "your query", setup.vector)]
    if not isinstance(shortest, str) and shortest is not None:
        if shortest.textbook is not None:
            shown.insert(0, ("textbook", "the textbook's", shortest.textbook.query))
        if shortest.query is not None:
            shown.insert(0, ("shortest", "the shortest", shortest.query))
    arrows = []
    for kind, name, query in shown:
        (place,), (hidden,) = setup.scene.place(QUERY * query[None])
        cut = min(1.0, 0.97 * WINDOW / max(float(np.abs(place).max()), 1e-9))
        arrows.append(
            {"kind": kind, "name": name, "norm": float(np.linalg.norm(query)), "behind": hidden, "cut": cut < 1}
            | {"x": cut * place[0], "y": cut * place[1], "text": _vector(query)}
        )
    return arrows


def _numbers(setup: CopySetup, own: Attention, shortest: Design | str | None) -> tuple[Number, ...]:
    numbers = [Number(name="own-norm", label="norm of your query", value=setup.norm)]
    if setup.chosen:
        least = float(own.weights[setup.chosen].min())
        label = "attention it gives" if len(setup.chosen) == 1 else "least attention it gives"
        numbers.append(Number(name="own-attention", label=label, value=least, form=".6g"))
    if not isinstance(shortest, str) and shortest is not None:
        if shortest.norm is not None:
            numbers.append(Number(name="shortest-norm", label="norm of the shortest", value=shortest.norm, form=".6g"))
        if shortest.textbook is not None:
            numbers.append(Number(name="textbook-norm", label="norm of the textbook's", value=shortest.textbook.norm))
        if shortest.bound is not None and not shortest.reachable:
            numbers.append(Number(name="bound", label="the most there is", value=shortest.bound, form=".6g"))
    return tuple(numbers)


def _say(setup: CopySetup, shortest: Design | str | None) -> tuple[str, ...]:
    if shortest is None:
        return ("Choose a key to copy, or several to share between: click its row, or press space on the point.",)
    if isinstance(shortest, str):
        return (shortest,)
    task = _task(setup)
    checked = "(proved, and rechecked by separate code)"
    if not shortest.reachable:
        most = at_most(shortest.bound or 0.0, 6)
        return (f"No query gives {task} {_required_share(setup)}; {most} is the most there is {checked}.",)
    norm = at_most(shortest.norm or 0.0, 6)
    first = f"The shortest query that gives {task} {_required_share(setup)} has norm {norm}: none is shorter {checked}."
    if shortest.norm == 0:
        first = f"The zero query already gives {task} {_required_share(setup)} {checked}."
    if shortest.textbook is None:
        return (first, "The textbook has no query here: its keys are orthonormal, or unit vectors at least 1 apart.")
    longer = "" if not shortest.norm else f", {shortest.textbook.norm / shortest.norm:.3g} times as long"
    return (first, f"The textbook's, {shortest.textbook.name}, has norm {shortest.textbook.norm:.4g}{longer}.")


def _say_inside(ceilings: list[Ceiling | None]) -> tuple[str, ...]:
    inside = [ceiling for ceiling in ceilings if ceiling is not None and ceiling.ceiling < 0.5]
    if not inside:
        return ()
    keys = ", ".join(str(ceiling.key) for ceiling in inside)
    several = "s" * (len(inside) > 1)
    verb = "lie" if several else "lies"
    return (f"Key{several} {keys} {verb} in the hull of the others and can never win: some other scores as high.",)


def _task(setup: CopySetup) -> str:
    keys = ", ".join(map(str, setup.chosen))
    return f"key {keys}" if len(setup.chosen) == 1 else f"each of keys {keys}"


def _required_share(setup: CopySetup) -> str:
    count, eps = len(setup.chosen), setup.eps
    return f"a share of 1/({count}+{eps:g}) = {1 / (count + eps):.4g}"


def _formulas(setup: CopySetup, own: Attention, shortest: Design | str | None) -> tuple[str, ...]:
    key = setup.chosen[0] if setup.chosen else int(own.weights.argmax())
    shown = own.scores[:4] if len(own.scores) > 5 else own.scores
    terms = " + ".join(f"e^{{{score:.2f}}}" for score in shown) + r" + \dots" * (len(shown) < len(own.scores))
    weight = rf"\alpha_{{{key}}} = \frac{{e^{{q \cdot k_{{{key}}}}}}}{{\sum_i e^{{q \cdot k_i}}}} = "
    weight += rf"\frac{{e^{{{own.scores[key]:.2f}}}}}{{{terms}}} = {own.weights[key]:.4f}"
    if isinstance(shortest, str) or shortest is None or not shortest.reachable:
        return (weight,)
    which = ", ".join(rf"\alpha_{{{i}}}" for i in setup.chosen[:3]) + r", \dots" * (len(setup.chosen) > 3)
    least = rf"\min \lVert q \rVert = {tex(shortest.norm or 0.0, 6)} \quad\text{{for}}\quad "
    least += rf"{which} \ge \frac{{1}}{{{len(setup.chosen)}+{setup.eps:g}}} = {1 / (len(setup.chosen) + setup.eps):.4f}"
    return (weight, least)


def _proofs(ceilings: list[Ceiling | None]) -> tuple[str, ...]:
    """For keys in the hull: the combination, and the ceiling that its entropy proves."""
    proofs = []
    for ceiling in ceilings:
        parts = _combination(ceiling) if ceiling is not None else []
        if ceiling is not None and parts:
            total = sum(weight for _, weight in parts)
            mixed = " + ".join(f"{weight / total:.3f}\\,k_{{{i}}}" for i, weight in parts)
            most = ceiling._bound_text(4)
            proofs.append(rf"k_{{{ceiling.key}}} = {mixed} \;\Rightarrow\; \alpha_{{{ceiling.key}}} \le {most}")
    return tuple(proofs[:2])


def _python(setup: CopySetup, answers: bool) -> str:
    verb, chosen = ("copy", setup.chosen[0]) if len(setup.chosen) == 1 else ("share", setup.chosen)
    lines = [
        "from regard import attend, design" if answers else "from regard import attend",
        f"keys = {setup.keys.tolist()}",
        f"query = {setup.vector.tolist()}",
        "print(attend(query, keys, keys).weights.tolist())",
    ]
    if not answers:
        return "\n".join(lines)
    if setup.chosen:
        lines.append(f"print(design.{verb}(keys, {chosen}, eps={shortest_text(setup.eps)}).details())")
    return "\n".join([*lines, "print(design.ceilings(keys).details())"])


def _shell(setup: CopySetup, answers: bool) -> str:
    keys, lines = format_rows(setup.keys.tolist()), []
    if answers and setup.chosen:
        verb, chosen = "copy" if len(setup.chosen) == 1 else "share", " ".join(map(str, setup.chosen))
        lines.append(f'regard design {verb} --keys "{keys}" {chosen} --eps {shortest_text(setup.eps)} --details')
    if answers:
        lines.append(f'regard design ceiling --keys "{keys}" --all-rows')
    code = f"from regard import attend; k = {setup.keys.tolist()}; print(attend({setup.vector.tolist()}, k, k).weights)"
    return "\n".join([*lines, f'python -c "{code}"'])


def _vector(vector: Float) -> str:
    return "(" + ", ".join(f"{x:.3g}" for x in vector) + ")"


PAGE = Page(
    place=1,
    title="Copy and share",
    hint="Drag a key into the middle of the others and watch its ceiling fall; then try to win it back with the query.",
    about="A query, a few keys and the weights between them: which key can win, and at what length of the query.",
    start=START,
    answer=answer,
)


# What is explained ---------------------------------------------------------------------------------------------------


def attention_steps(setup: CopySetup, own: Attention) -> tuple[Step, ...]:
    """From the query to the output in four steps, with the numbers of the table beside the picture."""
    others = [key for key in range(len(setup.rows)) if key not in setup.chosen]
    few = sorted([*setup.chosen, *others][:SHOWN])
    more = r"\;\dots" * (len(setup.rows) > SHOWN)
    powers = np.exp(own.scores - own.scores.max())
    query = _latex_vector(setup.vector)
    scores = [
        rf"s_{{{i}}} = k_{{{i}}}\cdot q = {_latex_vector(setup.keys[i])}\cdot {query} = {own.scores[i]:.2f}"
        for i in few
    ]
    exponentials = [
        rf"e^{{s_{{{i}}} - \max s}} = e^{{{own.scores[i] - own.scores.max():.2f}}} = {tex(powers[i])}" for i in few
    ]
    total = tex(powers.sum())
    weights = [rf"\alpha_{{{i}}} = \frac{{{tex(powers[i])}}}{{{total}}} = {own.weights[i]:.4f}" for i in few]
    parts = " + ".join(rf"{own.weights[i]:.3f}\,v_{{{i}}}" for i in few) + (r" + \dots" if more else "")
    return (
        Step(title="Dot products", formulas=(*scores, *([more] if more else [])), lit="score"),
        Step(title="Exponentials", formulas=(*exponentials, *([more] if more else [])), lit="score"),
        Step(title="Normalise", formulas=(rf"\sum_i e^{{s_i - \max s}} = {total}", *weights), lit="weight"),
        Step(title="Weighted sum", formulas=(rf"c = {parts} = {_latex_vector(own.output)}",), lit="output"),
    )


def why_the_shortest(setup: CopySetup, shortest: Design | str | None) -> tuple[Explanation, ...]:
    """Why the shortest query does not point where its key does, where that is so."""
    if isinstance(shortest, str) or shortest is None or len(setup.chosen) != 1:
        return ()
    if shortest.query is None or not shortest.norm:
        return ()
    key = setup.keys[setup.chosen[0]]
    cosine = float(shortest.query @ key) / (shortest.norm * float(np.linalg.norm(key)) or 1.0)
    if cosine > AWAY:
        return ()
    return (
        Explanation(
            question="Why does the shortest query not point at its key?",
            because="Softmax sees only differences of scores, so a query must point away from the other keys more than "
            "towards its own. The shortest one points from a weighted mean of the others, those that come nearest "
            "weighing most, to the key.",
            lit="shortest",
        ),
    )


def why_ceilings_fall(ceilings: list[Ceiling | None]) -> tuple[Explanation, ...]:
    """Why a key in the hull cannot win, where there is one."""
    if not any(ceiling is not None and ceiling.ceiling < 0.5 for ceiling in ceilings):
        return ()
    return (
        Explanation(
            question="Why does a ceiling fall inside the hull?",
            because="A key inside is an average of the others, so its score is the same average of theirs, "
            "whatever the query. An average never exceeds the largest: some other key always has as much attention or "
            "more.",
            lit="hull",
        ),
    )


def _latex_vector(vector: Float) -> str:
    return "(" + ",\\,".join(f"{x:.3g}" for x in vector) + ")"
