"""Causality: no place reads later ones. By intervention (change later tokens) and by gradient.

Intervention sees what detached paths leak; the gradient sees leaks that one change of tokens happens to hide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.torch_arithmetic import FACTOR
from regard_models.auditing.experiment import Experiment, Gap, View, measure, protected_parts, view, worst_gap
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.padding import padded_question, real_length
from regard_models.auditing.question import Question
from regard_models.auditing.subject import PAD, Subject, tensors_of
from regard_models.auditing.trace import blame, first_to_differ, record_calls
from regard_models.inputs.model_input import call, original

NAME = "causality"
_CAUSE = (
    "a causal mask that is missing, transposed, shifted by one, or lost in one layer or one kernel; a norm, a mean "
)
_CAUSE += "or a convolution over places that looks ahead; a capacity that later tokens compete for."
_CURE = "Mask key j for query i whenever j > i, in every layer, and pad convolutions on the left only."


def check(subject: Subject) -> Iterator[Finding]:
    """Change everything after a place, for three places, and in a longer text for two; then the gradient."""
    if not subject.streams or subject.streams[-1].causal is False:
        yield _not_applicable("It does not claim to be causal.")
        return
    claimed = subject.streams[-1].causal is True
    base = subject.make()
    length = base.rows[-1].length
    if not any(o.stream == len(subject.streams) - 1 for o in subject.ask(base)):
        yield _not_applicable("No output has a row for every token.")
        return
    experiments = [change_after(subject, base, place) for place in sorted({1, length // 2, length - 1})]
    if subject.is_long:  # later places in one call; each in all examples only where something moves
        asked = [change_after(subject, _short_question(subject), 1), *_one_place_each(base, experiments[1:])]
        gaps = [(measure(subject, e), e) for e in asked]
    if not subject.is_long or any(gap.is_above_rounding for gap, _ in gaps):
        gaps = [(measure(subject, e), e) for e in experiments] + list(_in_longer_texts(subject))
    gap, experiment = max(gaps, key=lambda pair: pair[0].excess)
    if gap.is_above_rounding and not claimed:  # an encoder reads later tokens by design: a fault needs a claim
        yield _not_applicable(f"It reads later tokens ({gap.words()}), and it is not declared causal.")
        return
    yield _finding(subject, experiment, gap)
    if claimed and subject.streams[-1].masks and not gap.is_above_rounding:
        yield from _check_beside_padding(subject)
    if not subject.streams[-1].masks:  # where there are, the tests of padding ask it
        yield from _check_beginning(subject, base)
    yield from _check_gradient(subject, base, length // 2, claimed)
    if claimed and not gap.is_above_rounding:
        yield from _check_training(subject)


def _in_longer_texts(subject: Subject) -> Iterator[tuple[Gap, Experiment]]:
    """The same in a longer text: a mask may be lost where a table ends or another kernel is chosen."""
    lengths = subject.longer_lengths()
    if lengths is None:
        return
    try:
        base = subject.make(lengths=lengths)
        for place in (lengths[-1] // 2, lengths[-1] - 1):
            experiment = change_after(subject, base, place)
            yield measure(subject, experiment), experiment
    except Exception:  # too long for it
        return


def _check_beside_padding(subject: Subject) -> Iterator[Finding]:
    """The same beside padding on the left, where another mask is made."""
    last = len(subject.streams) - 1
    real = min(real_length(subject, last), subject.short_lengths()[last])
    if real < 2:
        return
    base = padded_question(subject, last, "left", real, fill=0, told=True)
    experiment = change_after(subject, base, PAD + real // 2, first=PAD)
    gap = measure(subject, experiment)
    if gap.is_above_rounding:
        yield gap.finding(
            NAME,
            "beside padding",
            Status.FAILED,
            f"Beside padding on the left, tokens before a change get something else: {gap.words()}.",
            example={"words": f"{PAD} tokens of padding, {real} real ones, the last {real - real // 2} exchanged"},
            culprit=blame(subject, experiment, lambda: experiment),
            cause="a mask for the future that is left out, or put together wrongly, where there is one of padding.",
            cure="Let a key be read only if it is no later one and no padding.",
        )


def _check_beginning(subject: Subject, base: Question) -> Iterator[Finding]:
    """The beginning of a text alone: what its tokens get must not hang on how many follow."""
    experiment = _beginning(base)
    try:
        gap = measure(subject, experiment)
    except Exception:  # it takes one length only
        return
    if gap.is_above_rounding:
        length, cut = base.rows[-1].length, experiment.other.rows[-1].length
        words = f"the first {cut} of {length} tokens"
        yield gap.finding(
            NAME,
            "length",
            Status.FAILED,
            f"Asked alone, {words} get something else: {gap.words()}.",
            example={"tokens": cut, "of": length, "words": words},
            culprit=blame(subject, experiment, lambda: _beginning(_short_question(subject))),
            cause="a scale, a mean or a position that is counted by the length of the whole text.",
            cure="Count by the token's own place, so that a text may grow without changing its beginning.",
        )


def _beginning(base: Question) -> Experiment:
    """A text, and the same without its last two tokens."""
    last, rows = len(base.rows) - 1, base.rows[-1]
    cut = rows.length - 2
    other = base.with_rows(last, rows.cut(0, cut))
    places = {last: torch.arange(cut)}
    views = {"base_view": view(base, places=places), "other_view": view(other, places=places)}
    return Experiment(base=base, other=other, stream=last, **views)


def _short_question(subject: Subject) -> Question:
    return subject.make(lengths=subject.short_lengths())


def change_after(subject: Subject, base: Question, place: int, *, first: int = 0) -> Experiment:
    """Every token from ``place`` on exchanged; what stands before, from ``first`` on, is protected."""
    last = len(base.rows) - 1
    rows = base.rows[last]
    fresh = subject.other_tokens(last, rows.values)
    values = torch.cat([rows.values[:, :place], fresh[:, place:]], 1)
    other = base.with_rows(last, replace(rows, values=values))
    before = {last: torch.arange(first, place)}
    return Experiment(
        base=base, base_view=view(base, places=before), other=other, other_view=view(other, places=before), stream=last
    )


def _one_place_each(base: Question, experiments: list[Experiment]) -> list[Experiment]:
    """The same in one question: the first example changed as in the first experiment, the second as in the second."""
    last, count = len(base.rows) - 1, len(experiments)
    changed = [e.other.rows[last].values[i : i + 1] for i, e in enumerate(experiments)]
    values = torch.cat([*changed, base.rows[last].values[count:]])
    other = base.with_rows(last, replace(base.rows[last], values=values))
    made = []
    for i, e in enumerate(experiments):
        seen = replace(e.base_view, rows=torch.tensor([i]))
        made.append(replace(e, base_view=seen, other=other, other_view=seen))
    return made


def _not_applicable(sentence: str) -> Finding:
    return Finding(property=NAME, check="intervention", status=Status.NOT_APPLICABLE, sentence=sentence)


def _finding(subject: Subject, experiment: Experiment, gap: Gap) -> Finding:
    if not gap.is_above_rounding:
        return gap.finding(NAME, "intervention", Status.PASSED, f"Tokens before a change get the same ({gap.words()}).")
    return gap.finding(
        NAME,
        "intervention",
        Status.FAILED,
        f"Tokens before a change get something else: {gap.words()}.",
        example=_smallest_example(subject, experiment),
        culprit=blame(
            subject,
            experiment,
            lambda: change_after(subject, _short_question(subject), subject.short_lengths()[-1] // 2),
        ),
        cause=_CAUSE,
        cure=_CURE,
    )


def _smallest_example(subject: Subject, experiment: Experiment) -> dict[str, Any]:
    """One example, as short as it may be, with one token changed, the place that moves, and by how much."""
    last = len(experiment.base.rows) - 1
    for length in range(2, min(experiment.base.rows[last].length, 6) + 1):  # longer ones nobody reads
        # the later the change, the more places it may not reach
        for changed in range(length - 1, max(0, length - 3), -1):
            example = _one_change(subject, experiment, length, changed)
            if example is not None:
                return example
    return {}


def _one_change(subject: Subject, experiment: Experiment, length: int, changed: int) -> dict[str, Any] | None:
    last = len(experiment.base.rows) - 1
    lengths = tuple(length if j == last else r.length for j, r in enumerate(experiment.base.rows))
    try:
        base = subject.make(1, lengths=lengths)
        rows = base.rows[last]
        values = rows.values.clone()
        values[:, changed] = subject.other_tokens(last, rows.values, seed=3)[:, changed]
        other = base.with_rows(last, replace(rows, values=values))
        before = {last: torch.arange(changed)}
        views = (view(base, places=before), view(other, places=before))
        pair = Experiment(base=base, base_view=views[0], other=other, other_view=views[1], stream=last)
        gap = measure(subject, pair)
    except Exception:  # too short for it
        return None
    if not gap.is_above_rounding:
        return None
    place = gap.where[1] if len(gap.where) > 1 else 0
    tokens = None if values.is_floating_point() else [rows.values[0].tolist(), values[0].tolist()]
    said = f"{tokens[0]} and {tokens[1]}" if tokens else f"{length} tokens, token {changed} changed"
    words = f"{said}: token {changed} differs, and place {place} moves by {gap.size:.2g}"
    return {"length": length, "changed": changed, "moved": place, "tokens": tokens, "size": gap.size, "words": words}


def _check_gradient(subject: Subject, base: Question, place: int, claimed: bool) -> Iterator[Finding]:
    question = subject.first_of(base) if subject.is_long else base  # what flows back takes room
    try:
        gradient = input_gradient(subject, question, place)
    except Exception:  # no gradient through it: the intervention has spoken
        gradient = None
    if gradient is None:
        sentence = "No gradient reaches the tokens' vectors, so only the intervention speaks."
        yield Finding(property=NAME, check="gradient", status=Status.NOT_APPLICABLE, sentence=sentence)
        return
    eps = torch.finfo(gradient.dtype).eps
    later, scale = float(gradient[:, place:].abs().max()), float(gradient.abs().max())
    rounding = FACTOR * eps * scale
    common: dict[str, Any] = {"property": NAME, "check": "gradient", "size": later, "rounding": rounding}
    if later <= rounding or not claimed:
        sentence = f"Outputs before place {place} have a gradient of {later:.2g} by later tokens."
        yield Finding(status=Status.PASSED if later <= rounding else Status.NOT_APPLICABLE, sentence=sentence, **common)
        return
    where = int(gradient[:, place:].abs().amax(dim=tuple(i for i in range(gradient.ndim) if i != 1)).argmax()) + place
    yield Finding(
        status=Status.FAILED,
        sentence=f"Outputs before place {place} have a gradient of {later:.2g} by the token at place {where} (the "
        f"largest by any token is {scale:.2g}).",
        example={"place": place, "token": where, "words": f"places below {place} and token {where}"},
        cause=_CAUSE,
        cure=_CURE,
        **common,
    )


def input_gradient(subject: Subject, question: Question, place: int) -> Tensor | None:
    """The gradient of a random sum of outputs before ``place`` by the tokens' vectors (batch x length x width)."""
    last = len(question.rows) - 1
    inputs, stream = subject.inputs(question), subject.streams[last]
    leaves: list[Tensor] = []
    ids = inputs[stream.name]

    def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        # the table that is given the ids themselves, and not one of positions or types
        if leaves or not any(g.shape == ids.shape and torch.equal(g, ids) for g in given if not g.is_floating_point()):
            return None
        leaves.append(output.detach().requires_grad_(True))
        return leaves[0]

    handles = []
    if ids.is_floating_point():
        leaves.append(ids.detach().requires_grad_(True))
        inputs.update(dict.fromkeys((stream.name, *stream.also), leaves[0]))
    else:
        tables = [m for m in original(subject.module).modules() if isinstance(m, nn.Embedding)]
        handles = [m.register_forward_hook(keep, with_kwargs=True) for m in tables]
    try:
        with torch.enable_grad(), subject.running():
            made = subject_outputs(subject, call(subject.module, inputs), question, last)
            if not leaves or not made:
                return None
            generator = torch.Generator().manual_seed(5)
            # random factors: a plain sum of probabilities is constant, and its gradient 0
            early = [v[:, :place].reshape(-1) for v in made]
            total = torch.stack([v @ torch.randn(v.shape, generator=generator).to(v) for v in early]).sum()
            grad = torch.autograd.grad(total, leaves[0], allow_unused=True)[0]
    finally:
        for handle in handles:
            handle.remove()
    if grad is None:
        return None
    return grad if subject.given.batch_first else grad.transpose(0, 1)


def _check_training(subject: Subject) -> Iterator[Finding]:
    """In train() too, where another branch may run: with the same random numbers, what is dropped is the same."""
    base = _short_question(subject)
    experiment = change_after(subject, base, base.rows[-1].length // 2)
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in subject.module.modules()):
        return  # its statistics are those of all places, by design
    asked = ((experiment.base, experiment.base_view), (experiment.other, experiment.other_view))
    with torch.random.fork_rng(devices=[]), subject.training():
        try:
            made = [_training_answer(subject, *pair) for pair in (*asked, asked[0])]
        except Exception:  # it wants targets in train()
            return
        gap = worst_gap(made[0], made[1], subject.rounding_noise(), subject)
        # the same question again: what differs by itself proves no leak
        steady = not worst_gap(made[0], made[2], subject.rounding_noise(), subject).is_above_rounding
        if not gap.is_above_rounding or not steady:
            return
        base_calls, other_calls = (record_calls(subject, subject.inputs(q), v, run=_call_seeded) for q, v in asked)
        yield gap.finding(
            NAME,
            "in train()",
            Status.FAILED,
            f"In train() tokens before a change get something else, and in eval() they do not: {gap.words()}.",
            culprit=first_to_differ(base_calls, other_calls, [], subject),
            cause="a branch for training that does without the mask, or another kernel there.",
            cure="Give both branches the same mask.",
            example={"words": f"{base.rows[-1].length} tokens, the second half exchanged, in train()"},
        )


def _training_answer(subject: Subject, question: Question, seen: View) -> dict[str, Tensor]:
    with torch.no_grad(), subject.running():
        made = _call_seeded(subject.module, subject.inputs(question))
    return protected_parts(subject.outputs(made, question), seen, len(question.rows) - 1)


def _call_seeded(module: nn.Module, inputs: dict[str, Any]) -> Any:
    torch.manual_seed(0)  # so that both questions drop the same entries
    return call(module, inputs)


def subject_outputs(subject: Subject, made: Any, question: Question, stream: int) -> list[Tensor]:
    """The outputs that follow a stream, with their gradients."""
    outputs = []
    for _, value in tensors_of(made):
        if not subject.given.batch_first and value.ndim > 1:
            value = value.transpose(0, 1)
        shape = (question.batch, question.rows[stream].length)
        if value.is_floating_point() and tuple(value.shape[:2]) == shape and value.requires_grad:
            outputs.append(value)
    return outputs
