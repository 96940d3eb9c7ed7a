"""Input: does anything hang on the tokens at all, and which tokens move which places?

Asked first, because a model that ignores its input passes every question about what must not matter. Where nothing
moves, the module is named in which the change dies; where examples are mixed on the way (an axis taken for another),
the one that mixes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.torch_arithmetic import FACTOR
from regard_models.auditing.batch import exchange_neighbours, exchange_signals
from regard_models.auditing.experiment import Experiment, Gap, measure, protected_parts, view, worst_gap
from regard_models.auditing.finding import Culprit, Finding, Status
from regard_models.auditing.packing import DOCUMENTS
from regard_models.auditing.question import Question, rows_of
from regard_models.auditing.subject import Subject, tensors_of
from regard_models.auditing.trace import Record, blame, culprit, record_calls
from regard_models.inputs.copies import copy_module
from regard_models.inputs.model_input import call, original

NAME = "input"
_CAUSE = "an axis taken for another (batch_first left out, so that one place reads that place in other examples), a "
_CAUSE += "factor of 0, an output that is computed and not added, or a result that is read from the wrong variable."
_CURE = "Follow the change from the module that is named, and compare shapes with what its parts expect."


def check(subject: Subject) -> Iterator[Finding]:
    """Change all tokens of a stream; then one token at a time."""
    base = subject.make()
    for stream in range(len(subject.streams)) if subject.streams else [None]:
        other = change_all(subject, base, stream)
        name = "it" if stream is None else subject.streams[stream].name
        check_name = "read" if len(subject.streams) < 2 else f"{name} is read"
        if other is None:
            sentence = "No input can be changed: there is one id only, or no numbers."
            yield Finding(property=NAME, check=check_name, status=Status.NOT_APPLICABLE, sentence=sentence)
            return
        experiment = Experiment(base=base, base_view=view(base), other=other, other_view=view(other))
        gap = measure(subject, experiment)
        if gap.is_above_rounding:
            yield gap.finding(NAME, check_name, Status.PASSED, f"Other input gives other output ({gap.words()}).")
        else:
            yield _unread_finding(subject, check_name, experiment, gap)
            return
    for i, rows in enumerate(base.rows):
        for extra in rows.extras:
            yield from _check_extra(subject, base, i, extra)
    if subject.streams and any(o.stream == len(subject.streams) - 1 for o in subject.ask(base)):
        yield _check_places(subject)


def _check_extra(subject: Subject, base: Question, stream: int, name: str) -> Iterator[Finding]:
    """What goes with every token (types, say), the other way round: something must move. Silent where it does."""
    rows = base.rows[stream]
    turned = rows.extras[name].flip(1)
    if name.rpartition(".")[2] in DOCUMENTS or torch.equal(turned, rows.extras[name]):
        return
    other = base.with_rows(stream, replace(rows, extras={**rows.extras, name: turned}))
    gap = measure(subject, Experiment(base=base, base_view=view(base), other=other, other_view=view(other)))
    if gap.is_above_rounding:
        return
    tables = [] if turned.is_floating_point() else _unused_tables(subject, base, rows=int(turned.max()) + 1)
    if not tables:
        yield gap.finding(NAME, name, Status.NOTE, f"It takes {name} and ignores it ({gap.words()}).")
        return
    path, table = tables[0]
    yield gap.finding(
        NAME,
        name,
        Status.FAILED,
        f"It takes {name} and ignores it ({gap.words()}), though it has {path}, which is not used.",
        culprit=culprit(table, subject),
        cause="a table of vectors that is made and never added.",
        cure="Add what it gives to the tokens' vectors, or do not take what is ignored.",
    )


def _unused_tables(subject: Subject, base: Question, *, rows: int) -> list[tuple[str, nn.Module]]:
    """Tables of so many vectors or more that no output hangs on."""
    named = original(subject.module).named_modules()
    tables = [(path, t) for path, t in named if isinstance(t, nn.Embedding) and t.num_embeddings >= rows]
    with torch.enable_grad(), subject.running():
        made = [v for _, v in tensors_of(call(subject.module, subject.inputs(base))) if v.requires_grad]
        grads = torch.autograd.grad([v.sum() for v in made], [t.weight for _, t in tables], allow_unused=True)
    return [table for table, grad in zip(tables, grads, strict=True) if grad is None]


def change_all(subject: Subject, base: Question, stream: int | None) -> Question | None:
    """Every token of a stream (None: every signal) exchanged; None where there is nothing else to give."""
    if stream is None:
        other = exchange_signals(base, None)
        return other if any(v is not base.others[k] for k, v in other.others.items()) else None
    rows = base.rows[stream]
    fresh = subject.other_tokens(stream, rows.values)
    return None if torch.equal(fresh, rows.values) else base.with_rows(stream, replace(rows, values=fresh))


def _unread_finding(subject: Subject, check_name: str, experiment: Experiment, gap: Gap) -> Finding:
    if gap.size and subject.hangs_on_ties():
        sentence = f"Whether other input gives other output cannot be told ({gap.words()}): its choices hang on ties."
        return gap.finding(NAME, check_name, Status.NOTE, sentence)
    if _moves_with_other_zeros(subject, experiment):
        sentence = f"Other input gives the same output ({gap.words()}), because some weights are all 0: it is fresh. "
        sentence += "What passes below says little; train it first, or fill them."
        return gap.finding(NAME, check_name, Status.NOTE, sentence)
    records = [record_calls(subject, subject.inputs(q), view(q)) for q in (experiment.base, experiment.other)]
    where, last = _death(subject, *records)
    said = f"It reaches the output of {last} and goes no further. " if last else "It reaches no submodule's output. "
    mixes = blame(subject, exchange_neighbours(subject, experiment.base, kept=0), lambda: experiment)
    if mixes is not None:
        where, said = mixes, f"{said}{mixes.module} gives an example what belongs to its neighbours. "
    sentence = f"Other input gives the same output: {gap.words()}. {said}What passes below says nothing."
    words = "any two inputs"
    return gap.finding(
        NAME, check_name, Status.FAILED, sentence, culprit=where, cause=_CAUSE, cure=_CURE, example={"words": words}
    )


def _moves_with_other_zeros(subject: Subject, experiment: Experiment) -> bool:
    """Whether the change is seen once weights that are all 0 (as a fresh gate or last layer is) hold something."""
    module = copy_module(subject.module)
    generator = torch.Generator().manual_seed(13)
    filled: dict[int, nn.Parameter] = {}
    for part in original(module).modules():
        for name, p in list(part.named_parameters(recurse=False)):
            if p.numel() and not bool(p.any()):  # replaced, not written into: a large copy shares its weights
                drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) / p.shape[-1] ** 0.5
                setattr(part, name, filled.setdefault(id(p), nn.Parameter(drawn.to(p))))
    if not filled:
        return False
    with torch.no_grad(), subject.running():
        made = [
            protected_parts(subject.outputs(call(module, subject.inputs(q)), q), view(q))
            for q in (experiment.base, experiment.other)
        ]
    return worst_gap(made[0], made[1], subject.rounding_noise(), subject).is_above_rounding


def _death(subject: Subject, base: list[Record], other: list[Record]) -> tuple[Culprit, str]:
    """The module in which the change dies, and the last one whose output it moves ("" for none)."""
    theirs = {(r.name, r.call): r for r in other}
    pairs = [(r, theirs[r.name, r.call]) for r in base if (r.name, r.call) in theirs]
    moved = [i for i, (a, b) in enumerate(pairs) if _differ(a.outputs, b.outputs)]
    root = original(subject.module)
    if not moved:
        return culprit(root, subject), ""
    last = pairs[moved[-1]][0]
    ids = pairs[-1][0].inputs if any(stream.vocabulary is not None for stream in subject.streams) else []
    for record, changed in pairs[moved[-1] + 1 :]:  # whoever was given what moved (not the ids), and returns the same
        given = [(a, b) for a, b in zip(record.inputs, changed.inputs, strict=False) if not _is_among(a, ids)]
        if _differ([a for a, _ in given], [b for _, b in given]):
            return culprit(record.module, subject), last.name
    return culprit(root.get_submodule(last.name.rpartition(".")[0]), subject), last.name


def _is_among(sketch: Tensor, others: list[Tensor]) -> bool:
    return any(torch.equal(sketch, other) for other in others)


def _differ(mine: list[Tensor], theirs: list[Tensor]) -> bool:
    return any(
        a.shape == b.shape and float((a - b).abs().max()) > 1e-9 * float(a[-2])
        for a, b in zip(mine, theirs, strict=False)
    )


def _check_places(subject: Subject) -> Finding:
    """One token at a time, many in one batch: which of them moves anything, and what."""
    last, lengths = len(subject.streams) - 1, subject.short_lengths()
    one = subject.first_of(subject.make(lengths=lengths))
    rows, length = one.rows[last], lengths[last]
    base = subject.repeat_first(one, length + 1)
    values = base.rows[last].values.clone()
    fresh = subject.other_tokens(last, rows.values)
    values[range(length), range(length)] = fresh[0]  # the example behind the last one is left as it is
    question = base.with_rows(last, replace(base.rows[last], values=values))
    parts = torch.split(torch.arange(length), subject.at_once(length))  # each beside the example that is left as it is
    moved = torch.cat([_moved_places(subject, rows_of(question, [*part.tolist(), length]), last) for part in parts])
    dead = [place for place in range(length) if not bool(moved[place].any())]
    if dead:
        sentence = f"Changing the token at place {', '.join(map(str, dead))} moves no output."
        return Finding(property=NAME, check="places", status=Status.NOTE, sentence=sentence)
    return Finding(property=NAME, check="places", status=Status.PASSED, sentence=_shape_words(moved))


def _moved_places(subject: Subject, question: Question, stream: int) -> Tensor:
    """changed x place: whether the place moves when that token is changed, in any output that follows the stream."""
    noise, moved = subject.rounding_noise(), torch.zeros(())
    for output in (o for o in subject.ask(question) if o.stream == stream):
        *changed, plain = output.values
        apart = torch.stack(
            [(one - plain).abs_().flatten(1).amax(1) for one in changed]
        )  # one at a time: they are large
        least = FACTOR * noise.get(output.name, 0.0) + 1e-12 * float(plain.abs().nan_to_num(nan=0.0, posinf=0.0).max())
        moved = moved + (apart > least)
    return moved > 0


def _shape_words(moved: Tensor) -> str:
    """Who reads whom, in words."""
    length = len(moved)
    before, after, others = moved.tril(-1), moved.triu(1), ~torch.eye(length, dtype=torch.bool)
    if not bool((moved & others.to(moved.device)).any()):
        return "Every token moves its own place and no other: places do not read one another."
    far = max(int((b - a).abs()) for a, b in moved.nonzero())
    reach = "" if far == length - 1 else f", up to {far} places away"
    if not bool(before.any()):
        return f"Every token moves an output; a token moves places from its own on{reach}."
    if not bool(after.any()):
        return f"Every token moves an output; a token moves places up to its own{reach}."
    return f"Every token moves an output; tokens move places before and behind them{reach}."
