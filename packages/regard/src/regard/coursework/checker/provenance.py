"""Was it this model, on these inputs? What a recording says of itself, held against what was really drawn.

A recording comes from the process that ran somebody's code, and that code can have changed everything in it. What it
cannot change is the seed outside. So its inputs are thrown away and drawn again here, and every matrix that is said to
play a role must be made of numbers that were drawn for the model's parameters. Then the judge compares the outputs with
the reference *of these parameters on these inputs*; a process that passes has computed them, however it did so.

What this cannot find out is said as a doubt, never as a mistake: a model that is right and computes its matrices from
its parameters (weight norm, say) looks the same from here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from regard.array_types import Array
from regard.tracing import seeded_draws
from regard.tracing.constructor_arguments import PLACES, SIZES
from regard.tracing.parameter_roles import Projection, Roles, find_roles
from regard.tracing.recording import ForwardPass, Recording

LEAST_WIDTH = 4  # normalised vectors of width 1 or 2 are constants and signs: anything equals them
LARGEST_EPS = 1e-2  # a norm that divides by a large number is no norm
OTHER_INPUTS = "it was not run on the inputs that were asked for"
WITHOUT_ROLES = ("attention", "positions", "loss")  # functions, whose inputs and outputs say it all


def restore_inputs(recording: Recording, seed: int) -> tuple[Recording, tuple[str, ...]]:
    """The recording with the inputs that were really given, and whatever is doubtful about it."""
    runs = _restore_runs(recording, recording.runs, seeded_draws.SHAPES, seed)
    fresh = _restore_runs(recording, recording.fresh, seeded_draws.FRESH, seed)
    masked = None if recording.masked is None else _with_mask(recording.masked, seed)
    put_right = replace(
        recording,
        runs=tuple(run if run is not None else old for run, old in zip(runs, recording.runs, strict=True)),
        fresh=tuple(run for run in fresh if run is not None),
        masked=masked,
    )
    doubts = [OTHER_INPUTS] if None in runs or None in fresh else []
    return put_right, (*doubts, *_doubts_about_roles(put_right, seed))


def uncounted_heads(recording: Recording) -> str:
    """Why one head cannot be told from a mistake: its process does not say that it was asked for several.

    A model may be meant to have one head only; where several were asked for, this is a doubt. Two heads that are only
    said to be there do not help: then the outputs must be those of two.
    """
    if recording.kind in WITHOUT_ROLES or recording.sizes.get("heads") == SIZES["heads"]:
        return ""
    roles = find_roles(recording, whole=recording.kind == "translator")
    if not roles.attends or roles.heads > 1 or roles.queries.weight is None:
        return ""
    return "it has one head over the whole width, and its process did not take the number of heads that was asked for"


# inputs


def _restore_runs(
    recording: Recording, runs: tuple[ForwardPass, ...], shapes: tuple[tuple[int, int], ...], seed: int
) -> list[ForwardPass | None]:
    """Each run with its true inputs; None where it has none that were asked for."""
    drawn_again: list[ForwardPass | None] = []
    for place, run in enumerate(runs):
        allowed = [shapes[place]] if place < len(shapes) else []
        if shapes is seeded_draws.SHAPES and place == 1:
            allowed.append((seeded_draws.SHAPES[1][0], PLACES))  # it takes its full length only
        true = next((given for shape in allowed for given in _inputs(recording, run, shape, seed)), None)
        drawn_again.append(None if true is None else replace(run, inputs=true))
    return drawn_again


def _inputs(recording: Recording, run: ForwardPass, shape: tuple[int, int], seed: int) -> Iterator[dict[str, Array]]:
    """What can have been given for a shape, as far as the claimed inputs have the same shapes."""
    claimed = run.inputs
    for given in _draw_inputs(recording, claimed, shape, seed):
        more = {"value"} if recording.kind == "loss" else set()  # what its loss came to, which no draw can give
        same = all(name in claimed and claimed[name].shape == value.shape for name, value in given.items())
        if same and set(claimed) == set(given) | more:
            yield {**given, **{name: claimed[name] for name in more}}


def _draw_inputs(
    recording: Recording, claimed: dict[str, Array], shape: tuple[int, int], seed: int
) -> Iterator[dict[str, Array]]:
    if recording.kind == "loss":
        yield seeded_draws.losses(seed)
    elif "ids" in claimed:
        yield {"ids": seeded_draws.sentences(shape, recording.pad or 0, seed)}
    elif "x" in claimed and claimed["x"].ndim == 3:
        # the width is only claimed: memory is bounded
        yield {"x": seeded_draws.states(shape, min(claimed["x"].shape[-1], 10_000), seed)}
    elif "query" in claimed:
        # with axes of batch and heads or without, as the function takes them
        for axes, shorter in itertools.product((3, 4, 2), (True, False)):
            yield seeded_draws.vectors(shape, axes=axes, shorter=shorter, seed=seed)
    elif not claimed and recording.kind == "positions":
        yield {}


def _with_mask(run: ForwardPass, seed: int) -> ForwardPass:
    """The run with a mask: the states of the first shape, and which of its places are padding."""
    width = run.inputs["x"].shape[-1] if "x" in run.inputs and run.inputs["x"].ndim == 3 else LEAST_WIDTH
    shape = seeded_draws.SHAPES[0]
    return replace(
        run,
        inputs={"x": seeded_draws.states(shape, min(width, 10_000), seed), "padding": ~seeded_draws.words_kept(shape)},
    )


# roles


def drawn_parameters(recording: Recording, seed: int) -> dict[str, Array]:
    """Those of its parameters that hold what was drawn for them; frozen ones do not, and those that it has changed."""
    parameters = {}
    for name, claimed in recording.parameters.items():
        # how it was drawn hangs on its layer, which nobody vouches for here: all ways are tried
        for ones, table in itertools.product((False, True), repeat=2):
            drawn = seeded_draws.parameter(seed, name, claimed.shape, ones=ones, table=table)
            if np.array_equal(drawn, claimed):
                parameters[name] = drawn
                break
    return parameters


def _doubts_about_roles(recording: Recording, seed: int) -> Iterator[str]:
    if recording.kind in WITHOUT_ROLES and not recording.parameters:
        return
    roles = find_roles(recording, whole=recording.kind == "translator")
    numbers = [value.ravel() for value in drawn_parameters(recording, seed).values()]
    drawn = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0)
    strange = [name for name, value in _arrays(roles) if not is_made_of(value, drawn, times=max(roles.heads, 1))]
    if strange:
        yield f"these are not made of the numbers that were put into its parameters: {', '.join(strange)}"
    if roles.tokens is not None and roles.tokens.shape[0] < SIZES["source_words"]:
        yield f"its table has {roles.tokens.shape[0]} words, where {SIZES['source_words']} were asked for"
    widths = [value.shape[0] for _, value in _arrays(roles) if value.ndim == 2]
    if min(widths, default=LEAST_WIDTH) < LEAST_WIDTH:
        yield f"a matrix has fewer than {LEAST_WIDTH} rows"
    if any(norm.eps is not None and norm.eps > LARGEST_EPS for norm in roles.norms):
        yield f"a norm adds more than {LARGEST_EPS} to the variance"


def _arrays(roles: Roles) -> Iterator[tuple[str, Array]]:
    """Every array that the reference will compute with."""
    if roles.tokens is not None:
        yield "the words' table", roles.tokens
    if roles.learned_positions:
        yield from (("the positions", table) for table in roles.tables)
    for name in ("queries", "keys", "values", "mixing", "inner", "outer", "output"):
        one: Projection | None = getattr(roles, name)
        if one is not None and one.weight is not None:
            yield name, one.weight
            yield from [] if one.bias is None else [(f"the bias of {name}", one.bias)]
    for number, norm in enumerate(roles.norms, 1):
        yield from [] if norm.gain is None else [(f"the gain of norm {number}", norm.gain)]
        yield from [] if norm.shift is None else [(f"the shift of norm {number}", norm.shift)]


def is_made_of(value: Array, drawn: Array, *, times: int = 1) -> bool:
    """Whether every number, zeros left out, was drawn, and none stands there more than so many times.

    >>> few = np.array([2.0])
    >>> is_made_of(np.array([2.0, 0.0, 3.0]), np.array([1.0, 2.0, 3.0])), is_made_of(np.array([2.0, 2.0]), few)
    (True, False)
    """
    numbers = value[value != 0]
    if not numbers.size:
        return value.ndim < 2  # no bias is no matter; a matrix of zeros is
    known, counts = np.unique(numbers, return_counts=True)
    return bool(np.isin(known, drawn).all() and counts.max() <= times)
