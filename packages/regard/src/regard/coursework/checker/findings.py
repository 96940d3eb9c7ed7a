"""What comparing numbers cannot see: shared and unused parameters, results thrown away, gradients that do not arrive.

Roles absorb such things (values that read the keys' matrix are "values with that matrix"), so they are looked for in
the structure: which slices are equal, which parameter reaches the output, which operation's result nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from regard.array_types import Array
from regard.coursework.checker.comparison import EXACT, SINGLE, Match, output_difference
from regard.mistakes.embedding import TOKENS
from regard.mistakes.feed_forward import NORM_INSTEAD, NormChoice
from regard.mistakes.mistake import Mistake, Weight
from regard.tracing.constructor_arguments import PLACES
from regard.tracing.parameter_roles import Roles
from regard.tracing.recording import NOWHERE, ForwardPass, Place, Recording

THROWN = {"masked_fill": "mask", "where": "mask", "relu": "ReLU", "div": "division"}
MISSED = {"mask": ("mask", ""), "ReLU": ("activation", "relu-missing"), "division": ("scale", "scale-missing")}
DROPOUT = {"bernoulli_", "bernoulli", "native_dropout"}
EACH_ITS_OWN = "each head has queries, keys and values of its own"
SAME = "the same computation in every mode and dtype"

# name, stage, the place of a role or "", what is said, what is right; {...} is filled in where it is found
_STRUCTURE: list[tuple[str, str, str, str, str]] = [
    ("unregistered", "", "",
     "self.{attribute} is a plain attribute: .to(device), state_dict() and the optimiser do not see it",
     "nn.Parameter, register_buffer, nn.ModuleList or nn.ModuleDict"),
    ("dropout-in-eval", "", "", "dropout that stays on in eval()",
     "nn.Dropout, or F.dropout(x, p, training=self.training)"),
    ("random-in-forward", "", "", "random numbers are drawn in forward ({op}): two calls differ",
     "make parameters and layers in the constructor"),
    ("unsteady", "", "", "two calls in eval() give different scores", "the same every time"),
    ("positions-other-rows", "embedding", "positions", "the places 0, 1, 2, ... read the rows {rows} of the table",
     "row t of the table at place t, counted along the sentence"),
    ("no-attention", "attention", "", "no attention was found: no scores that lead to values", ""),
    ("not-projected", "attention", "", "{side} that are not projected: the states themselves are used",
     "{side} are x times a matrix of their own"),
    ("feed-forward-missing", "feed-forward", "", "no feed-forward part", ""),
    ("outer-missing", "feed-forward", "", "a feed-forward part of one layer only", ""),
    ("relu-with-a-ceiling", "feed-forward", "", "a ReLU that is cut off at {top:g}", "ReLU(x), the larger of x and 0"),
    ("heads-see-a-slice", "attention", "scores",
     "each head reads only its own slice of the states, through one small matrix that all heads share",
     "project the whole state first, width to heads * d, and split the result into heads"),
    ("share", "attention", "", "{second} and {first} read with the same matrix",
     "queries, keys and values have a matrix each"),
    ("feed-forward-shared", "feed-forward", "", "one matrix for both layers of the feed-forward part", ""),
    ("positions-share-tokens", "embedding", "positions", "positions are looked up in the table of the words",
     "a table of positions of its own"),
    ("one-head-twice", "attention", "scores", "one head is used several times", EACH_ITS_OWN),
    ("heads-share", "attention", "scores", "several heads share their {sides}", EACH_ITS_OWN),
    ("norm-shared", "second sum and norm", "norm 2", "{what}", "two norms, each with its own gain and shift"),
    ("norm-one-gain", "", "", "a norm with one gain and one shift for the whole width", NORM_INSTEAD),
    ("norm-without-shift", "", "", "a norm with a gain and no shift", NORM_INSTEAD),
    ("mixing-unused", "mixing", "", "parameters that are never used ({listed}), and no mixing matrix after the heads",
     "the heads side by side times W_O"),
    ("parameters-unused", "", "", "parameters that are never used: {listed}: the scores do not depend on {them}", ""),
    ("thrown-away", "", "", "the result of a {what} ({op}) is thrown away",
     "x = x.{op}(...): it returns a new tensor and leaves x as it is"),
    ("one-wide-head", "attention", "scores", "one head over the whole width where {asked} were asked for",
     "split the width into heads before the scores"),
    ("bias-missing", "feed-forward", "", "no bias {letter} in the {role} layer",
     "the model asked for adds {letter} there"),
    ("nan", "attention", "softmax",
     "NaN among the scores of a padded input: a softmax with every key forbidden gives NaN",
     "never forbid every key of a query"),
    ("half-precision", "", "", "numbers are cut to 16 bits here (float16 or bfloat16)",
     "float32 throughout; autocast, outside of the model, is for speed"),
    ("gradient-wrong", "", "", "the scores depend on {listed}, but {what}",
     "no .data, .detach(), .item(), numpy or torch.tensor(...) between the input and the output, and in a "
     "backward of your own the derivative of its forward"),
    ("only-without-gradients", "", "", "the scores are others when gradients are on", SAME),
    ("only-in-eval", "", "", "in train() the scores are others than in eval(), with no dropout at all", SAME),
    ("only-in-float64", "", "", "in float32, as it will be trained, the scores are others, or forward fails", SAME),
    ("only-outside-training", "", "", "in train(), in float32 and with gradients, the scores are others", SAME),
    ("changes-with-calls", "", "", "the same input has other scores after some calls than at first", SAME),
    ("sentences-mixed", "", "", "a sentence has other scores alone than in a batch (by {much:.2g})",
     "nothing is kept from one call for the next, and no step reads across the first axis: look at each "
     "view, reshape, transpose and dim="),
    ("positions-missing", "embedding", "",
     "exchanging two words exchanges their scores and nothing else: positions have no effect",
     "add row t of the table at place t"),
    ("reads-itself-only", "attention", "",
     "the scores of a place depend on its own word alone: attention brings nothing from the other places",
     "each query meets the keys of all places, and the softmax goes over them"),
    ("mask-hides-future", "attention", "", "the scores of a place do not depend on later words",
     "an encoder reads the whole sentence"),
    ("fails-on-a-shape", "", "", "forward fails on {size} ({raised})",
     "any number of sentences and places up to the longest"),
    ("full-length-only", "", "", "forward fails on {size} ({raised})",
     "any number of sentences and places up to the longest"),
    ("positions-from-1", "embedding", "",
     "positions are counted from 1, so that the longest sentence runs out of the table ({raised})",
     "row t of the table at place t, counted from 0"),
    ("differs-on-a-shape", "", "",
     "on {size} the scores differ from what explains them elsewhere",
     "the same computation whatever the batch and the length"),
    # of the run with a mask, and of the padding that was asked for
    ("mask-without-effect", "attention", "mask, softmax", "a mask that is given and changes nothing",
     "scores = scores.masked_fill(hidden, -inf), before the softmax"),
    ("padding-hidden", "attention", "softmax", "padding is hidden", "the model asked for reads padding"),
    ("padding-read", "attention", "softmax", "padding is read like words", "hide the keys that are padding"),
]  # fmt: skip
STRUCTURE = {
    name: Mistake(name=name, stage=stage, said=said, instead=instead, at=tuple(at.split(", ")))
    for name, stage, at, said, instead in _STRUCTURE
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """One thing that was found in the structure, and where; without a place of its own it is its role's."""

    mistake: Mistake
    place: Place = NOWHERE


def find(kind: str, place: Place = NOWHERE, *, name: str = "", weight: Weight = Weight.MISTAKE, stage: str = "",
         **words: object) -> Finding:  # fmt: skip
    """A kind of the list above, with its words filled in."""
    one = STRUCTURE[kind]
    said, instead = one.said.format(**words), one.instead.format(**words)
    known = replace(one, name=name or kind, said=said, instead=instead, weight=weight, stage=stage or one.stage)
    return Finding(mistake=known, place=place)


def find_findings(recording: Recording, match: Match, *, stages: tuple[str, ...]) -> list[Finding]:
    """Everything that the structure says, in the order of the parts."""
    looks: list[Callable[[Recording, Match], Iterator[Finding]]] = [
        unregistered_findings,
        _random_draws,
        _discarded_results,
    ]
    if "embedding" in stages:
        looks += [_position_rows]
    if "mixing" in stages:
        looks += [_missing_attention, _heads, _shared_matrices, _shared_norms, _half_norms, _unused_parameters]
    if "feed-forward" in stages:
        looks += [_feed_forward_missing, _ceiling, _biases]
    looks += [_odd_operations, _few_digits, _gradients, _conditions]
    findings = [finding for look in looks for finding in look(recording, match)]
    return findings + list(_other_shapes(recording, match, stages))


def unregistered_findings(recording: Recording, match: Match | None = None) -> Iterator[Finding]:
    """Tensors and layers that hang on the model and that torch does not see."""
    yield from (find("unregistered", attribute=name) for name in recording.unregistered)


def _random_draws(recording: Recording, match: Match) -> Iterator[Finding]:
    drawn = [event for event in recording.runs[0].events if event.kind == "random"]
    dropped = [event for event in drawn if event.op in DROPOUT]
    if dropped:
        yield find("dropout-in-eval", dropped[0].place)
    elif drawn and recording.unsteady:
        yield find("random-in-forward", drawn[0].place, op=drawn[0].op.rstrip("_"))
    elif recording.unsteady:
        yield find("unsteady")


def _position_rows(recording: Recording, match: Match) -> Iterator[Finding]:
    """A learned table that was found by its numbers may be rows of a parameter in another order, or a multiple."""
    roles = match.roles
    if not (match.complete and roles.learned_positions and roles.tables) or match.switches.get("formula"):
        return
    table = roles.tables[min(match.switches.get("table", 0), len(roles.tables) - 1)][:PLACES]
    for raw in (turned for value in recording.parameters.values() if value.ndim == 2 for turned in (value, value.T)):
        if raw.shape[1] != table.shape[1]:
            continue
        rows = [int(np.flatnonzero(same)[0]) for row in table if (same := (raw == row).all(axis=1)).any()]
        if len(rows) == len(table) and rows != [*range(rows[0], rows[0] + len(rows))]:
            yield find("positions-other-rows", rows=", ".join(map(str, rows)))
        factor = table[0, 0] / raw[0, 0] if raw[0, 0] else 1.0
        # a product and a quotient by one number leave a factor of 1 up to rounding
        if len(raw) >= len(table) and abs(factor - 1) > 1e-9 and np.allclose(table, factor * raw[: len(table)], 1e-12):
            yield from (Finding(mistake=one) for one in TOKENS if one.name == "positions-times-a-number")


def _missing_attention(recording: Recording, match: Match) -> Iterator[Finding]:
    roles = match.roles
    if not roles.attends:
        yield from [] if recording.runs[0].raised is not None else [find("no-attention")]  # or not written yet
        return
    for side in ("queries", "keys", "values"):
        if getattr(roles, side).weight is None:
            yield find("not-projected", _place_of_side(roles, side), name=f"{side}-not-projected", side=side)


def _place_of_side(roles: Roles, side: str) -> Place:
    return roles.places.get("context" if side == "values" else "scores", NOWHERE)


def _feed_forward_missing(recording: Recording, match: Match) -> Iterator[Finding]:
    if recording.runs[0].raised is not None:
        return
    if match.roles.inner is None:
        yield find("feed-forward-missing")
    elif match.roles.outer is None:
        yield find("outer-missing")


def _ceiling(recording: Recording, match: Match) -> Iterator[Finding]:
    """A ReLU that is cut off above: few numbers of a run are so large that it shows."""
    run = recording.runs[0]
    for event in run.events:
        if event.op.rstrip("_") not in ("hardtanh", "clamp") or not run.nodes[event.inputs[0]].parameters:
            continue  # a mask is no work of parameters
        value, cut = run.nodes[event.inputs[0]].value, [float(p) for p in event.plain if isinstance(p, (int, float))]
        if value is not None and (value < 0).any() and len(cut) == 2 and cut[0] == 0 < cut[1] < 1e4:
            yield find("relu-with-a-ceiling", event.place, top=cut[1])
            return


def _shared_matrices(recording: Recording, match: Match) -> Iterator[Finding]:
    roles = match.roles
    sides = {side: getattr(roles, side).weight for side in ("queries", "keys", "values")}
    for first, second in combinations(sides, 2):
        if _share_a_head(sides[first], sides[second], roles.heads):
            name = f"{second}-share-{first}"
            yield find("share", _place_of_side(roles, second), name=name, first=first, second=second)
    yield from _shared_heads(roles, sides)
    inner, outer = (None if one is None else one.weight for one in (roles.inner, roles.outer))
    if outer is not None and _equal(inner, outer.T):
        yield find("feed-forward-shared")
    shared = set(roles.token_parameters) & set(roles.position_parameters)
    if shared and any(_equal(table, roles.tokens) for table in roles.tables):  # not words, then places, in one table
        yield find("positions-share-tokens")


def _share_a_head(first: Array | None, second: Array | None, heads: int) -> bool:
    """Whether a head of the one reads with the matrix of a head of the other."""
    if first is None or second is None or first.shape[1] % heads or second.shape[1] % heads:
        return _equal(first, second)
    return any(_equal(a, b) for a in np.split(first, heads, axis=1) for b in np.split(second, heads, axis=1))


def _shared_heads(roles: Roles, sides: dict[str, Array | None]) -> Iterator[Finding]:
    same = []
    for side, weight in sides.items():
        if weight is None or roles.heads < 2 or weight.shape[1] % roles.heads:
            continue
        blocks = np.split(weight, roles.heads, axis=1)
        if any(_equal(a, b) for a, b in combinations(blocks, 2)):
            same.append(side)
    if len(same) == 3:
        yield find("one-head-twice")
    elif same:
        yield find("heads-share", name=f"heads-share-{'-'.join(same)}", sides=" and ".join(same))


def _shared_norms(recording: Recording, match: Match) -> Iterator[Finding]:
    first, second = match.switches.get("first norm"), match.switches.get("second norm")
    if not isinstance(first, NormChoice) or not isinstance(second, NormChoice):
        return
    # a norm that is not taken is shared with nobody
    if any(match.mistake_at(f"{word} sum").endswith(("no-norm", "neither")) for word in ("first", "second")):
        return
    if first.norm is None or second.norm is None or not first.norm.parameters:
        return
    if _equal(first.norm.gain, second.norm.gain) or _equal(first.norm.shift, second.norm.shift):
        whole = first.norm.same(second.norm)
        yield find("norm-shared", what="one norm is used after both sums" if whole else "the two norms share a gain "
                   "or a shift")  # fmt: skip


def _half_norms(recording: Recording, match: Match) -> Iterator[Finding]:
    for number, switch in enumerate(("first norm", "second norm"), 1):
        choice = match.switches.get(switch)
        if match.mistake_at(switch.replace("norm", "sum")).endswith(("no-norm", "neither")):
            continue
        norm, place = getattr(choice, "norm", None), match.roles.places.get(f"norm {number}", NOWHERE)
        if norm is not None and norm.gain is not None and norm.gain.size == 1:
            yield find("norm-one-gain", place)
        if norm is not None and norm.gain is not None and norm.shift is None:
            yield find("norm-without-shift", place, weight=Weight.DEPARTURE)


def _unused_parameters(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    if run.result is None:
        return
    reached = set(run.nodes[run.result].parameters)
    unused = [name for name in recording.parameters if name not in reached]
    if not unused:
        return
    listed = ", ".join(unused[:4]) + (", ..." if len(unused) > 4 else "")
    if match.roles.mixing is None and match.roles.attends:
        yield find("mixing-unused", name="mixing-unused" if len(unused) <= 2 else "parameters-unused", listed=listed)
    else:  # too many parameters change no score: no mistake
        them = "it" if len(unused) == 1 else "them"
        yield find("parameters-unused", weight=Weight.VARIATION, listed=listed, them=them)


def _discarded_results(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    read = {node for event in run.events for node in event.inputs} | {run.result}
    for event in run.events:
        if event.op not in THROWN or event.line is None or not run.nodes[event.outputs[0]].live:
            continue
        step, missing = MISSED[what := THROWN[event.op]]
        if match.complete and match.mistake_at(step) != missing:
            continue  # dead code beside the line that does it
        if event.outputs[0] not in read and run.raised is None:
            stage = "attention" if what == "mask" else ""
            name = f"{what.lower()}-thrown-away"
            yield find("thrown-away", event.place, name=name, stage=stage, what=what, op=event.op)
            return


def _heads(recording: Recording, match: Match) -> Iterator[Finding]:
    if match.roles.sliced:
        yield find("heads-see-a-slice")
    asked = recording.sizes.get("heads")
    if asked and match.roles.attends and match.roles.heads == 1 < asked and match.roles.queries.weight is not None:
        yield find("one-wide-head", asked=asked)


def _biases(recording: Recording, match: Match) -> Iterator[Finding]:
    if recording.runs[0].raised is not None:
        return
    for role, letter in (("inner", "b_1"), ("outer", "b_2"), ("output", "b")):
        part = getattr(match.roles, role)
        if part is not None and part.bias is None:
            place, stage = match.roles.places.get(role, NOWHERE), "output" if role == "output" else ""
            name, weight = f"{role}-bias-missing", Weight.DEPARTURE
            yield find("bias-missing", place, name=name, stage=stage, weight=weight, role=role, letter=letter)


def _odd_operations(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    if run.output is not None and np.isnan(run.output).any():
        yield find("nan")


def _few_digits(recording: Recording, match: Match) -> Iterator[Finding]:
    """Numbers that leave an operation with 11 bits or fewer, where they came with more: float16, or bfloat16."""
    run = recording.runs[0]
    for event in () if match.complete else run.events:  # scores that are explained to 2e-5 have more than 11 bits
        values = [run.nodes[node].value for node in (*event.inputs, *event.outputs) if run.nodes[node].live]
        if len(event.inputs) == 1 and len(values) == 2 and has_few_digits(values[1]) and not has_few_digits(values[0]):
            yield find("half-precision", event.place)
            return


def has_few_digits(value: Array | None, *, bits: int = 11) -> bool:
    """Whether many different numbers, not all of them whole, have at most so many significant bits."""
    if value is None or value.dtype.kind != "f" or not np.isfinite(value).all() or (value == np.round(value)).all():
        return False
    share, _ = np.frexp(value)
    # a few zeros, ones and halves have few digits by themselves
    return bool(np.unique(share).size > 20 and np.array_equal(share, np.round(share * 2**bits) / 2**bits))


def _gradients(recording: Recording, match: Match) -> Iterator[Finding]:
    wrong = []
    # differences of so small a step drown in float32, which an unexplained model may well use inside
    # and scores beside a mask of -1e4 or 1e308 drown in it, unless all else is right and their weight is 0
    drowned = any(
        one.cost and (one.step == "mask" or _largest_number(recording.runs[0]) > 1e3) for one in match.mistakes
    )
    blurred = recording.wavers or match.tolerance > EXACT or not match.complete or drowned
    for slope in () if blurred else recording.slopes:
        allowed = slope.scale + 1e-4 * max(abs(slope.differences), abs(slope.backward or 0.0))
        # not "> allowed": a gradient that is NaN is wrong, too
        if not abs((slope.backward or 0.0) - slope.differences) <= allowed and np.isfinite(slope.differences):
            wrong.append(slope)
    if wrong:
        listed = ", ".join(slope.parameter for slope in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
        none = all(slope.backward is None or slope.backward == 0 for slope in wrong)
        another = "backward gives another slope than differences of forward"
        yield find("gradient-wrong", listed=listed, what="no gradient arrives there" if none else another)


def _largest_number(run: ForwardPass) -> float:
    values = [n.value[np.isfinite(n.value)] for n in run.nodes if n.value is not None and n.value.dtype.kind == "f"]
    return max((float(np.abs(value).max(initial=0.0)) for value in values), default=0.0)


CONDITIONS = {  # how far from itself a model may be, and what it is called
    "gradients": (1e-9, "only-without-gradients"),
    "train": (1e-9, "only-in-eval"),
    "float32": (1e-4, "only-in-float64"),
    "training": (1e-4, "only-outside-training"),
    "later": (1e-9, "changes-with-calls"),
}


def _conditions(recording: Recording, match: Match) -> Iterator[Finding]:
    """Right in float64, in eval() or at first only: measured on the model against itself."""
    # batch norm differs in train() by design
    normed_by_batch = any("batch_norm" in event.op for event in recording.runs[0].events)
    # the single conditions first: "training" is three of them at once
    for condition, (allowed, name) in CONDITIONS.items():
        if recording.conditions.get(condition, 0.0) > allowed and not recording.unsteady and not normed_by_batch:
            yield find(name)
            return
    # where the reference gives every output, all that is left is what hangs on the calls before
    explained = match.complete and any(one.cost for one in match.mistakes)
    if not explained and not recording.unsteady and not normed_by_batch and "alone" in recording.conditions:
        yield from _between_sentences_and_places(recording.conditions)


def _between_sentences_and_places(measured: dict[str, float]) -> Iterator[Finding]:
    """What needs no role: on which words the scores of a place depend."""
    if not np.isfinite(measured["alone"]):
        return  # it fails on one sentence, which is told
    if measured["alone"] > SINGLE:
        yield find("sentences-mixed", much=measured["alone"])
    elif measured["order"] < 1e-9:
        yield find("positions-missing")
    elif measured["future"] == 0 == measured["past"]:
        yield find("reads-itself-only")
    elif measured["future"] == 0:
        yield find("mask-hides-future")


def _other_shapes(recording: Recording, match: Match, stages: tuple[str, ...]) -> Iterator[Finding]:
    if recording.runs[0].raised is not None or recording.wavers:
        return
    for run in recording.fresh:
        shape = tuple(next(iter(run.inputs.values())).shape[:2])
        size = f"{shape[0]} sentence{'s' * (shape[0] != 1)} of {shape[1]} places"
        if run.raised is not None:
            longest = max(one.inputs[next(iter(one.inputs))].shape[1] for one in recording.runs)
            whole = all(
                one.raised is not None for one in recording.fresh if next(iter(one.inputs.values())).shape[1] < longest
            )
            name, weight = ("full-length-only", Weight.VARIATION) if whole else ("fails-on-a-shape", Weight.MISTAKE)
            if match.mistake_at("rows") == "positions-from-1":
                name = "positions-from-1"
            yield find(name, run.raised.place, name=name, weight=weight, size=size, raised=run.raised)
            return
        if match.complete and output_difference(match, run, recording.pad, stages):
            yield find("differs-on-a-shape", size=size)
            return


def _equal(first: Array | None, second: Array | None) -> bool:
    return first is not None and second is not None and first.shape == second.shape and np.array_equal(first, second)
