"""Order: is the model order-blind, and if not, where does order enter?

The tokens are permuted. An order-blind model gives the same, permuted. In the other models something ignores the
permutation: position ids, a table of positions, the cosines of a rotation. The first module whose output does so is
the source of order, and the first whose output neither follows nor ignores the permutation is where it enters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard_models.auditing.experiment import Experiment, View, largest, measure, view
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.question import Question
from regard_models.auditing.subject import Subject, takes
from regard_models.auditing.trace import Record, culprit, first_to_differ, record_calls, record_views
from regard_models.inputs.model_input import call, original

NAME = "order"
_POSITIONS = re.compile(
    r"(^|[._])(wpe|pe|pos|posi?tion\w*|rope|rotary\w*|relative\w*|alibi|inv_freq)([._]|$)|pos_emb|rotary"
)
_CANDIDATES = 8
_CAUSE = "positions that are made and never added, position ids that are all alike, or a rotation by angle 0."
_CURE = "Add positions to the tokens' vectors, or rotate queries and keys, by the place of each token."


def check(subject: Subject) -> Iterator[Finding]:
    """Permute the first stream."""
    if not subject.streams:
        yield _finding(Status.NOT_APPLICABLE, "No input is a row of tokens.")
        return
    experiment = permute_tokens(subject, lengths=subject.short_lengths())
    gap = measure(subject, experiment)
    if gap.name == "nothing":
        yield _finding(Status.NOT_APPLICABLE, "No output can be compared under a permutation.")
        return
    numbers: dict[str, Any] = {"size": gap.size, "rounding": gap.rounding}
    parts = position_parts(original(subject.module))
    if gap.is_above_rounding:
        source, place = _trace(subject, experiment)
        yield _order_finding(subject, source, place, gap.words(), numbers)
        known = [(subject.names.get(id(source), ""), source)] if source is not None else []
        yield from _check_swaps(subject, parts or known)  # by what it does, where its name says nothing
        # Without a causal mask order came from somewhere else than these ids: relative positions, say.
        hidden = source is None and subject.streams[-1].causal is True
        yield from _check_position_ids(subject, parts if hidden else [])
        return
    parts = parts or _constant_tables(subject)
    if not parts or subject.hangs_on_ties():
        sentence = f"It is order-blind: permuted tokens get the same, permuted ({gap.words()})."
        yield _finding(Status.NOTE, sentence, **numbers)
        return
    named, module = parts[0]
    yield _finding(
        Status.FAILED,
        f"It is order-blind ({gap.words()}), though it has {named}.",
        culprit=culprit(module, subject),
        cause=_CAUSE,
        cure=_CURE,
        **numbers,
    )


def permute_tokens(subject: Subject, *, lengths: tuple[int, ...]) -> Experiment:
    """All tokens of the first stream in another order; where the output follows them, it is permuted back."""
    base = subject.make(lengths=lengths)
    rows = base.rows[0]
    order = torch.randperm(rows.length, generator=torch.Generator().manual_seed(3))
    other = base.with_rows(0, rows.at((slice(None), order)))
    return Experiment(
        base=base,
        base_view=view(base, places={0: order}),
        other=other,
        other_view=view(other),
        stream=_compared_stream(subject, base),
    )


def _compared_stream(subject: Subject, base: Question) -> int | None:
    """0 where an output follows the tokens (a pooled one beside it may read a fixed place), else None: all count."""
    follows = len(subject.streams) == 1 and any(o.stream == 0 for o in subject.ask(base))
    return 0 if follows else None


def position_parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Submodules, parameters and buffers whose name speaks of positions, with the module that they belong to."""
    parts = []
    for name, part in module.named_modules():
        holds = next(part.parameters(), None) is not None or next(part.buffers(), None) is not None
        if name and holds and _POSITIONS.search(name) and not isinstance(part, nn.LayerNorm):
            parts.append((name, part))
        own = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        parts += [(f"{name}.{n}".lstrip("."), part) for n, _ in own if _POSITIONS.search(n) and "ids" not in n]
    return parts


def _constant_tables(subject: Subject) -> list[tuple[str, nn.Module]]:
    """Tables with a row for every place that are asked for one and the same row at all of them."""
    base, found = subject.make(lengths=subject.short_lengths()), list[tuple[str, nn.Module]]()

    def look(module: nn.Module, args: Any, output: Any) -> None:
        ids = next((a for a in args if isinstance(a, torch.Tensor)), None)
        # smaller tables are of types or segments, which may well be the same everywhere
        enough = isinstance(module, nn.Embedding) and module.num_embeddings >= max(subject.lengths)
        if enough and ids is not None and ids.numel() > 1 and bool((ids == ids.flatten()[0]).all()):
            found.append((subject.names.get(id(module), ""), module))

    handles = [m.register_forward_hook(look) for m in original(subject.module).modules() if isinstance(m, nn.Embedding)]
    try:
        with torch.no_grad(), subject.running():
            call(subject.module, subject.inputs(base))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _order_finding(
    subject: Subject, source: nn.Module | None, place: Culprit | None, words: str, numbers: dict[str, Any]
) -> Finding:
    causal = subject.streams[-1].causal
    if source is not None:
        where = f"Order comes from {subject.names.get(id(source), '') or type(source).__name__}"
    elif causal:
        where = "Order enters only through the causal mask"
    else:
        where = "Order enters"
    at = "" if place is None else f", first seen after {place.module or place.kind} ({place.kind})"
    return _finding(Status.PASSED, f"Order matters ({words}). {where}{at}.", culprit=place, **numbers)


def _trace(subject: Subject, experiment: Experiment) -> tuple[nn.Module | None, Culprit | None]:
    base_inputs, other_inputs = subject.inputs(experiment.base), subject.inputs(experiment.other)
    plain = View(batch=experiment.base.batch, places={r.length: None for r in experiment.base.rows})
    base, still = record_views(subject, base_inputs, [experiment.base_view, plain])
    other = record_calls(subject, other_inputs, plain)
    noise = [
        record_calls(subject, base_inputs, experiment.base_view, jitter=jitter) for jitter in range(subject.jitters)
    ]
    return _first_to_ignore(base, still, other), first_to_differ(base, other, noise, subject, promote=False)


def _first_to_ignore(base: list[Record], still: list[Record], other: list[Record]) -> nn.Module | None:
    """The first module whose output stays where it is while the tokens move: a source of positions."""
    theirs = {(r.name, r.call): r for r in other}  # by call, too: a shared layer runs several times
    for moved, unmoved in zip(base, still, strict=True):
        answer = theirs.get((moved.name, moved.call))
        if answer is None:
            continue
        for a, b, c in zip(moved.outputs, unmoved.outputs, answer.outputs, strict=False):
            # what it was before the tokens moved, bit for bit, and not the same at every place, as a constant is
            ignores = torch.equal(b, c) and float((a - b).abs().max()) > 1e-9 * float(b[-2])
            if ignores:
                return unmoved.module
    return None


def _check_swaps(subject: Subject, parts: list[tuple[str, nn.Module]]) -> Iterator[Finding]:
    """Swap neighbours, and places that look alike, one pair for each example: two that share a position are seen so."""
    if not parts or len(subject.streams) > 1:
        why = "it has two rows of tokens" if parts else "nothing in it is seen to bring positions in"
        sentence = f"Whether two places share a position was not asked: {why}."
        yield Finding(property=NAME, check="neighbours", status=Status.NOT_APPLICABLE, sentence=sentence)
        return
    length = subject.lengths[0]
    # The last places first: ids that are clamped or run out of their table share a position there.
    neighbours = [(p, p + 1) for p in range(length - 2, -1, -1)]
    # Of a long text the last two and the first two places: where all at the end share a position, those do not.
    neighbours = neighbours[:16] if length <= 32 else [neighbours[0], neighbours[-1]]
    pairs = [*neighbours, *(pair for pair in _similar_places(subject) if pair not in neighbours)]
    most = subject.at_once(length)
    unseen = [pair for i in range(0, len(pairs), most) for pair in _unseen_swaps(subject, pairs[i : i + most])]
    if unseen and len(unseen) < len(pairs):  # where no swap at all is seen, the permutation has said so already
        (one, other), (name, module) = unseen[0], parts[0]
        yield Finding(
            property=NAME,
            check="neighbours",
            status=Status.FAILED,
            sentence=f"Swapping the tokens at places {one} and {other} is not seen, though other swaps are "
            f"({len(unseen)} of {len(pairs)} unseen): these places share a position.",
            example={"places": [list(pair) for pair in unseen], "words": f"places {one} and {other}"},
            culprit=culprit(module, subject),
            cause=f"position ids that are clamped, start again, are counted wrongly, or run out of the table ({name}).",
            cure="Give every place a position of its own.",
        )
    else:
        sentence = f"Every swap of neighbours is seen ({len(pairs)} tried)."
        yield Finding(property=NAME, check="neighbours", status=Status.PASSED, sentence=sentence)


def _similar_places(subject: Subject) -> list[tuple[int, int]]:
    """Places that get the same when one token stands at all of them; a few, for a swap to decide.

    Two places with one position do. So do all places where positions are relative.
    """
    base = subject.first_of(subject.make())
    rows = base.rows[0]
    same = base.with_rows(0, replace(rows, values=rows.values[:, :1].expand_as(rows.values).clone()))
    answer = next((o.values for o in subject.ask(same) if o.stream == 0), None)
    if answer is None:
        return []
    flat, scale = answer[0].flatten(1), largest(answer.abs())
    apart = torch.cdist(flat, flat, p=torch.inf)
    alike = (apart <= 1e-9 * scale).triu(1).nonzero().tolist()
    return [] if len(alike) == rows.length * (rows.length - 1) // 2 else [(i, j) for i, j in alike[:_CANDIDATES]]


def _check_position_ids(subject: Subject, parts: list[tuple[str, nn.Module]]) -> Iterator[Finding]:
    """Other position ids must change something, where they are taken and nothing else was seen to bring order in."""
    stream = subject.streams[-1]
    if stream.positions is None or not takes(subject.module, stream.positions):
        return
    base = subject.make(lengths=subject.short_lengths())
    rows = base.rows[-1]
    places = torch.arange(rows.length).expand(base.batch, -1)
    told = [
        base.with_rows(len(base.rows) - 1, replace(rows, positions=positions.clone()))
        for positions in (places, places.flip(1))  # the same ids turned round, so that none is outside of a table
    ]
    gap = measure(subject, Experiment(base=told[0], base_view=view(told[0]), other=told[1], other_view=view(told[1])))
    check = "position ids"
    if gap.is_above_rounding:
        yield gap.finding(NAME, check, Status.PASSED, f"Other position ids are seen ({gap.words()}).")
    elif not parts:
        yield gap.finding(NAME, check, Status.NOTE, f"It takes {stream.positions} and ignores them.")
    else:
        yield gap.finding(
            NAME,
            check,
            Status.FAILED,
            f"It takes {stream.positions} and ignores them ({gap.words()}), though it has {parts[0][0]}.",
            culprit=culprit(parts[0][1], subject),
            cause=_CAUSE,
            cure=_CURE,
        )


def _unseen_swaps(subject: Subject, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    base = subject.first_of(subject.make())
    rows, question = base.rows[0], subject.repeat_first(base, len(pairs))
    orders = torch.arange(rows.length).repeat(len(pairs), 1)
    for order, (i, j) in zip(orders, pairs, strict=True):
        order[[i, j]] = order[[j, i]]
    other = question.with_rows(0, rows.at((0, orders)))
    unseen = []
    for example, (i, j) in enumerate(pairs):
        if torch.equal(rows.values[0, i], rows.values[0, j]):  # swapping equal tokens changes nothing
            continue
        experiment = Experiment(
            base=base,
            base_view=view(base, places={0: orders[example]}),
            other=other,
            other_view=view(other, rows=[example]),
            stream=_compared_stream(subject, base),
        )
        if not measure(subject, experiment).is_above_rounding:
            unseen.append((i, j))
    return unseen


def _finding(status: Status, sentence: str, **more: Any) -> Finding:
    return Finding(property=NAME, check="permutation", status=status, sentence=sentence, **more)
