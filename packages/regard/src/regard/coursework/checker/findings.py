"""What comparing numbers cannot see: shared and unused parameters, results thrown away, gradients that do not arrive.

Roles absorb such things (values that read the keys' matrix are "values with that matrix"), so they are looked for in
the structure: which slices are equal, which parameter reaches the output, which operation's result nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from regard.array_types import Array
from regard.coursework.checker.comparison import EXACT, SINGLE, Match, output_difference
from regard.mistakes.feed_forward import NORM_INSTEAD, NormChoice
from regard.mistakes.mistake import Weight
from regard.tracing.parameter_roles import Place, Roles
from regard.tracing.recording import Event, ForwardPass, Recording

THROWN = {"masked_fill": "mask", "where": "mask", "relu": "ReLU", "div": "division"}
MISSED = {"mask": ("mask", ""), "ReLU": ("activation", "relu-missing"), "division": ("scale", "scale-missing")}
DROPOUT = {"bernoulli_", "bernoulli", "native_dropout"}
NOWHERE = Place()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found in the structure."""

    name: str
    said: str
    instead: str = ""
    place: Place = NOWHERE
    stage: str = ""
    weight: Weight = Weight.MISTAKE


def find_findings(recording: Recording, match: Match, *, stages: tuple[str, ...]) -> list[Finding]:
    """Everything that the structure says, in the order of the parts."""
    looks: list[Callable[[Recording, Match], Iterator[Finding]]] = [
        unregistered_findings,
        _random_draws,
        _discarded_results,
    ]
    if "mixing" in stages:
        looks += [_missing_attention, _slices, _shared_matrices, _shared_norms, _half_norms, _unused_parameters, _heads]
    if "feed-forward" in stages:
        looks += [_feed_forward_missing, _biases]
    looks += [_odd_operations, _few_digits, _gradients, _conditions]
    findings = [finding for look in looks for finding in look(recording, match)]
    return findings + list(_other_shapes(recording, match, stages))


def unregistered_findings(recording: Recording, match: Match | None = None) -> Iterator[Finding]:
    """Tensors and layers that hang on the model and that torch does not see."""
    for name in recording.unregistered:
        yield Finding(
            name="unregistered",
            said=f"self.{name} is a plain attribute: .to(device), state_dict() and the optimiser do not see it",
            instead="nn.Parameter, register_buffer, nn.ModuleList or nn.ModuleDict",
        )


def _random_draws(recording: Recording, match: Match) -> Iterator[Finding]:
    drawn = [event for event in recording.runs[0].events if event.kind == "random"]
    if any(event.op in DROPOUT for event in drawn):
        event = next(event for event in drawn if event.op in DROPOUT)
        yield Finding(
            name="dropout-in-eval",
            said="dropout that stays on in eval()",
            instead="nn.Dropout, or F.dropout(x, p, training=self.training)",
            place=_place(event),
        )
    elif drawn and recording.unsteady:
        yield Finding(
            name="random-in-forward",
            said=f"random numbers are drawn in forward ({drawn[0].op.rstrip('_')}): two calls differ",
            instead="make parameters and layers in the constructor",
            place=_place(drawn[0]),
        )
    elif recording.unsteady:
        yield Finding(name="unsteady", said="two calls in eval() give different scores", instead="the same every time")


def _missing_attention(recording: Recording, match: Match) -> Iterator[Finding]:
    roles = match.roles
    if not roles.attends and recording.runs[0].raised is not None:
        return  # not written yet
    if not roles.attends:
        yield Finding(
            name="no-attention", said="no attention was found: no scores that lead to values", stage="attention"
        )
        return
    for side in ("queries", "keys", "values"):
        if getattr(roles, side).weight is None:
            yield Finding(
                name=f"{side}-not-projected",
                said=f"{side} that are not projected: the states themselves are used",
                instead=f"{side} are x times a matrix of their own",
                stage="attention",
                place=roles.places.get("scores" if side != "values" else "context", NOWHERE),
            )


def _feed_forward_missing(recording: Recording, match: Match) -> Iterator[Finding]:
    if recording.runs[0].raised is not None:
        return
    if match.roles.inner is None:
        yield Finding(name="feed-forward-missing", said="no feed-forward part", stage="feed-forward")
    elif match.roles.outer is None:
        yield Finding(name="outer-missing", said="a feed-forward part of one layer only", stage="feed-forward")


def _slices(recording: Recording, match: Match) -> Iterator[Finding]:
    if match.roles.sliced:
        yield Finding(
            name="heads-see-a-slice",
            said="each head reads only its own slice of the states, through one small matrix that all heads share",
            instead="project the whole state first, width to heads * d, and split the result into heads",
            stage="attention",
            place=match.roles.places.get("scores", NOWHERE),
        )


def _shared_matrices(recording: Recording, match: Match) -> Iterator[Finding]:
    roles = match.roles
    sides = {side: getattr(roles, side).weight for side in ("queries", "keys", "values")}
    for first, second in combinations(sides, 2):
        if _share_a_head(sides[first], sides[second], roles.heads):
            yield Finding(
                name=f"{second}-share-{first}",
                said=f"{second} and {first} read with the same matrix",
                instead="queries, keys and values have a matrix each",
                stage="attention",
                place=roles.places.get("scores" if second != "values" else "context", NOWHERE),
            )
    yield from _shared_heads(roles, sides)
    if (
        roles.inner is not None
        and roles.outer is not None
        and _equal(roles.inner.weight, _transpose(roles.outer.weight))
    ):
        yield Finding(
            name="feed-forward-shared", said="one matrix for both layers of the feed-forward part", stage="feed-forward"
        )
    shared = set(roles.token_parameters) & set(roles.position_parameters)
    if shared and any(_equal(table, roles.tokens) for table in roles.tables):  # not words, then places, in one table
        yield Finding(
            name="positions-share-tokens",
            said="positions are looked up in the table of the words",
            instead="a table of positions of its own",
            stage="embedding",
            place=roles.places.get("positions", NOWHERE),
        )


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
        yield Finding(
            name="one-head-twice",
            said="one head is used several times",
            instead="each head has queries, keys and values of its own",
            stage="attention",
            place=roles.places.get("scores", NOWHERE),
        )
    elif same:
        yield Finding(
            name=f"heads-share-{'-'.join(same)}",
            said=f"several heads share their {' and '.join(same)}",
            instead="each head has queries, keys and values of its own",
            stage="attention",
            place=roles.places.get("scores", NOWHERE),
        )


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
        yield Finding(
            name="norm-shared",
            said="one norm is used after both sums"
            if first.norm.same(second.norm)
            else "the two norms share a gain or a shift",
            instead="two norms, each with its own gain and shift",
            stage="second sum and norm",
            place=match.roles.places.get("norm 2", NOWHERE),
        )


def _half_norms(recording: Recording, match: Match) -> Iterator[Finding]:
    for number, switch in enumerate(("first norm", "second norm"), 1):
        choice = match.switches.get(switch)
        if match.mistake_at(switch.replace("norm", "sum")).endswith(("no-norm", "neither")):
            continue
        norm = choice.norm if isinstance(choice, NormChoice) else None
        if norm is not None and norm.gain is not None and norm.gain.size == 1:
            yield one_gain_finding(match.roles.places.get(f"norm {number}", NOWHERE))
        if norm is not None and norm.gain is not None and norm.shift is None:
            yield Finding(
                name="norm-without-shift",
                said="a norm with a gain and no shift",
                instead=NORM_INSTEAD,
                place=match.roles.places.get(f"norm {number}", NOWHERE),
                weight=Weight.DEPARTURE,
            )


def one_gain_finding(place: Place) -> Finding:
    """A norm whose gain and shift are one number each."""
    return Finding(
        name="norm-one-gain",
        said="a norm with one gain and one shift for the whole width",
        instead=NORM_INSTEAD,
        place=place,
    )


def _unused_parameters(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    if run.result is None:
        return
    reached = set(run.nodes[run.result].parameters)
    unused = [name for name in recording.parameters if name not in reached]
    if not unused:
        return
    listed = ", ".join(unused[:4]) + (", ..." if len(unused) > 4 else "")
    needed = match.roles.mixing is None and match.roles.attends
    said = f"{listed}: the scores do not depend on {'it' if len(unused) == 1 else 'them'}"
    if needed:
        yield Finding(
            name="mixing-unused" if len(unused) <= 2 else "parameters-unused",
            said=f"parameters that are never used ({listed}), and no mixing matrix after the heads",
            instead="the heads side by side times W_O",
            stage="mixing",
        )
    else:
        # too many parameters change no score: no mistake
        yield Finding(name="parameters-unused", said=f"parameters that are never used: {said}", weight=Weight.VARIATION)


def _discarded_results(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    read = {node for event in run.events for node in event.inputs} | {run.result}
    for event in run.events:
        if event.op not in THROWN or event.line is None or not run.nodes[event.outputs[0]].live:
            continue
        step, missing = MISSED[THROWN[event.op]]
        if match.complete and match.mistake_at(step) != missing:
            continue  # dead code beside the line that does it
        if event.outputs[0] not in read and run.raised is None:
            yield Finding(
                name=f"{THROWN[event.op].lower()}-thrown-away",
                said=f"the result of a {THROWN[event.op]} ({event.op}) is thrown away",
                instead=f"x = x.{event.op}(...): it returns a new tensor and leaves x as it is",
                place=_place(event),
                stage="attention" if THROWN[event.op] == "mask" else "",
            )
            return


def _heads(recording: Recording, match: Match) -> Iterator[Finding]:
    asked = recording.sizes.get("heads")
    if asked and match.roles.attends and match.roles.heads == 1 < asked and match.roles.queries.weight is not None:
        yield Finding(
            name="one-wide-head",
            said=f"one head over the whole width where {asked} were asked for",
            instead="split the width into heads before the scores",
            stage="attention",
            place=match.roles.places.get("scores", NOWHERE),
        )


def _biases(recording: Recording, match: Match) -> Iterator[Finding]:
    if recording.runs[0].raised is not None:
        return
    for role, letter in (("inner", "b_1"), ("outer", "b_2"), ("output", "b")):
        part = getattr(match.roles, role)
        if part is not None and part.bias is None:
            yield Finding(
                name=f"{role}-bias-missing",
                said=f"no bias {letter} in the {role} layer",
                instead=f"the model asked for adds {letter} there",
                stage="output" if role == "output" else "feed-forward",
                place=match.roles.places.get(role, NOWHERE),
                weight=Weight.DEPARTURE,
            )


def _odd_operations(recording: Recording, match: Match) -> Iterator[Finding]:
    run = recording.runs[0]
    if run.output is not None and np.isnan(run.output).any():
        yield Finding(
            name="nan",
            said="NaN among the scores of a padded input: a softmax with every key forbidden gives NaN",
            instead="never forbid every key of a query",
            stage="attention",
            place=match.roles.places.get("softmax", NOWHERE),
        )


def _few_digits(recording: Recording, match: Match) -> Iterator[Finding]:
    """Numbers that leave an operation with 11 bits or fewer, where they came with more: float16, or bfloat16."""
    run = recording.runs[0]
    for event in () if match.complete else run.events:  # scores that are explained to 2e-5 have more than 11 bits
        values = [run.nodes[node].value for node in (*event.inputs, *event.outputs) if run.nodes[node].live]
        if len(event.inputs) == 1 and len(values) == 2 and has_few_digits(values[1]) and not has_few_digits(values[0]):
            yield Finding(
                name="half-precision",
                said="numbers are cut to 16 bits here (float16 or bfloat16)",
                instead="float32 throughout; autocast, outside of the model, is for speed",
                place=_place(event),
            )
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
    if not wrong:
        return
    listed = ", ".join(slope.parameter for slope in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
    none = all(slope.backward is None or slope.backward == 0 for slope in wrong)
    yield Finding(
        name="gradient-wrong",
        said=f"the scores depend on {listed}, but "
        + ("no gradient arrives there" if none else "backward gives another slope than differences of forward"),
        instead="no .data, .detach(), .item(), numpy or torch.tensor(...) between the input and the output, and in a "
        "backward of your own the derivative of its forward",
    )


def _largest_number(run: ForwardPass) -> float:
    values = [n.value[np.isfinite(n.value)] for n in run.nodes if n.value is not None and n.value.dtype.kind == "f"]
    return max((float(np.abs(value).max(initial=0.0)) for value in values), default=0.0)


CONDITIONS = {  # how far from itself a model may be; what it is called, and how it is said
    "gradients": (1e-9, "only-without-gradients", "the scores are others when gradients are on"),
    "train": (1e-9, "only-in-eval", "in train() the scores are others than in eval(), with no dropout at all"),
    "float32": (1e-4, "only-in-float64", "in float32, as it will be trained, the scores are others, or forward fails"),
    "training": (1e-4, "only-outside-training", "in train(), in float32 and with gradients, the scores are others"),
    "later": (1e-9, "changes-with-calls", "the same input has other scores after some calls than at first"),
}


def _conditions(recording: Recording, match: Match) -> Iterator[Finding]:
    """Right in float64, in eval() or at first only: measured on the model against itself."""
    # batch norm differs in train() by design
    normed_by_batch = any("batch_norm" in event.op for event in recording.runs[0].events)
    # the single conditions first: "training" is three of them at once
    for condition, (allowed, name, said) in CONDITIONS.items():
        if recording.conditions.get(condition, 0.0) > allowed and not recording.unsteady and not normed_by_batch:
            yield Finding(name=name, said=said, instead="the same computation in every mode and dtype")
            return
    # where the reference gives every output, all that is left is what hangs on the calls before
    explained = match.complete and any(one.cost for one in match.mistakes)
    if not explained and not recording.unsteady and not normed_by_batch and "alone" in recording.conditions:
        yield from _between_sentences_and_places(recording.conditions)


def _between_sentences_and_places(measured: dict[str, float]) -> Iterator[Finding]:
    """What needs no role: on which words the scores of a place depend."""
    if measured["alone"] > SINGLE:
        yield Finding(
            name="sentences-mixed",
            said=f"a sentence has other scores alone than in a batch (by {measured['alone']:.2g})",
            instead="nothing is kept from one call for the next, and no step reads across the first axis: look at each "
            "view, reshape, transpose and dim=",
        )
    elif measured["order"] < 1e-9:
        yield Finding(
            name="positions-missing",
            said="exchanging two words exchanges their scores and nothing else: positions have no effect",
            instead="add row t of the table at place t",
            stage="embedding",
        )
    elif measured["future"] == 0 == measured["past"]:
        yield Finding(
            name="reads-itself-only",
            said="the scores of a place depend on its own word alone: attention brings nothing from the other places",
            instead="each query meets the keys of all places, and the softmax goes over them",
            stage="attention",
        )
    elif measured["future"] == 0:
        yield Finding(
            name="mask-hides-future",
            said="the scores of a place do not depend on later words",
            instead="an encoder reads the whole sentence",
            stage="attention",
        )


def _other_shapes(recording: Recording, match: Match, stages: tuple[str, ...]) -> Iterator[Finding]:
    if recording.runs[0].raised is not None or recording.wavers:
        return
    for run in recording.fresh:
        shape = tuple(next(iter(run.inputs.values())).shape[:2])
        if run.raised is not None:
            longest = max(one.inputs[next(iter(one.inputs))].shape[1] for one in recording.runs)
            whole = all(
                one.raised is not None for one in recording.fresh if next(iter(one.inputs.values())).shape[1] < longest
            )
            yield Finding(
                name="full-length-only" if whole else "fails-on-a-shape",
                said=f"forward fails on {shape[0]} sentence{'s' * (shape[0] != 1)} of {shape[1]} places ({run.raised})",
                instead="any number of sentences and places up to the longest",
                place=Place(line=run.raised.line, method=run.raised.method),
                weight=Weight.VARIATION if whole else Weight.MISTAKE,
            )
            return
        if match.complete and output_difference(match, run, recording.pad, stages):
            yield Finding(
                name="differs-on-a-shape",
                said=f"on {shape[0]} sentence{'s' * (shape[0] != 1)} of {shape[1]} places the scores differ from what "
                "explains them elsewhere",
                instead="the same computation whatever the batch and the length",
            )
            return


def _place(event: Event) -> Place:
    return Place(line=event.line, method=event.method)


def _equal(first: Array | None, second: Array | None) -> bool:
    return first is not None and second is not None and first.shape == second.shape and np.array_equal(first, second)


def _transpose(weight: Array | None) -> Array | None:
    return None if weight is None else weight.T
