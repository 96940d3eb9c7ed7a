"""Packing: tokens that must not meet do not: documents packed into one row, a prefix, a mask of places by places.

Asked where the example says who may read whom: by document ids, by the length of a prefix, or by a square mask that is
more than causal. Over several layers a place reaches whatever its keys have read, so the question is about the closure
of the relation: tokens that a place cannot reach are changed, and it must get the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regard_models.auditing.experiment import Experiment, measure, view
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.question import Question
from regard_models.auditing.subject import Subject
from regard_models.auditing.trace import blame

NAME = "packing"
DOCUMENTS = ("document_ids", "document_id", "doc_ids", "doc_id", "documents", "sequence_ids", "seq_idx")
_PREFIXES = ("prefix_length", "prefix_lengths", "prefix_len", "prefix_lens")
_HIDDEN = -1e3  # what is added to a score that must not count is below this
_CAUSE = "a layer, a kernel or a cross product that is not given the mask, or that turns it round."
_CURE = "Build the mask once, from documents or prefix, and hand it to every layer."
_NOT_ASKED = (
    "No input says which tokens must not meet (document_ids, prefix_length, a square mask that is more than causal). "
    "Not asked at all: documents by cu_seqlens, tokens of a picture, weights that are tied in silence."
)


def check(subject: Subject) -> Iterator[Finding]:
    """Change what the first place cannot reach, then what the last place and one in the middle cannot."""
    base = subject.make()
    asked = list(_relations(subject, base)) if len(subject.streams) == 1 else []
    if not asked or not any(o.stream == 0 for o in subject.ask(base)):
        yield Finding(property=NAME, check="documents", status=Status.NOT_APPLICABLE, sentence=_NOT_ASKED)
        return
    for name, question, allowed in asked:
        yield _check_relation(subject, name, question, closure(allowed))


def _relations(subject: Subject, base: Question) -> Iterator[tuple[str, Question, Tensor]]:
    """(check, question, who may read whom) for all that the example declares."""
    rows, length = base.rows[0], base.rows[0].length
    places, middle = torch.arange(length), length // 2
    third = 3 * places // length  # three documents: a mask may know only whether two that touch are one
    for name, value in rows.extras.items():
        if name.rpartition(".")[2] in DOCUMENTS:
            ids = third.to(value).expand_as(value).clone()
            question = base.with_rows(0, replace(rows, extras={**rows.extras, name: ids}))
            yield "documents", question, third == third[:, None]
    for name, value in base.others.items():
        if name.rpartition(".")[2] in _PREFIXES:
            told = torch.full_like(value, middle) if isinstance(value, Tensor) else middle
            question = replace(base, others={**base.others, name: told})
            yield "prefix", question, (places <= places[:, None]) | (places < middle)
        elif isinstance(value, Tensor) and value.shape[-2:] == (length, length):
            allowed = mask_relation(value)
            causal = torch.ones(length, length, dtype=torch.bool).tril()
            if allowed is not None and not bool(allowed.all()) and not torch.equal(allowed, causal):
                yield f"mask {name}", base, allowed


def mask_relation(mask: Tensor) -> Tensor | None:
    """Who may read whom, by a mask whose last axes are queries and keys; None where it is no mask.

    A place may always read itself, so the diagonal tells what the entries mean.

    >>> mask_relation(torch.tensor([[False, True], [False, False]]))
    tensor([[ True, False],
            [ True,  True]])
    """
    own = mask.diagonal(dim1=-2, dim2=-1)
    if mask.is_floating_point():
        allowed = mask > _HIDDEN
        meant = bool((own > _HIDDEN).all()) and not bool(allowed.all())
    else:
        allowed = mask.bool() if bool(own.bool().all()) else ~mask.bool()
        meant = bool(own.bool().all()) or not bool(own.bool().any())
    return allowed.flatten(0, -3).any(0).cpu() if meant and mask.ndim > 2 else allowed.cpu() if meant else None


def closure(allowed: Tensor) -> Tensor:
    """Who reaches whom over any number of layers.

    >>> closure(torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]).bool()).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    reach = allowed | torch.eye(len(allowed), dtype=torch.bool)
    for _ in range(len(allowed).bit_length()):  # each square doubles the number of layers
        reach = (reach.double() @ reach.double()) > 0
    return reach


def _check_relation(subject: Subject, name: str, question: Question, reach: Tensor) -> Finding:
    sets = [~reach[place] for place in (0, -1, len(reach) // 2)]
    experiments = [change_places(subject, question, chosen, reach) for chosen in sets if bool(chosen.any())]
    if not experiments:
        sentence = "Every place may reach every token, over several layers."
        return Finding(property=NAME, check=name, status=Status.NOT_APPLICABLE, sentence=sentence)
    gap, experiment = max(((measure(subject, e), e) for e in experiments), key=lambda pair: pair[0].excess)
    if not gap.is_above_rounding:
        sentence = f"Tokens that a place cannot reach change nothing there ({gap.words()})."
        return gap.finding(NAME, name, Status.PASSED, sentence)
    return gap.finding(
        NAME,
        name,
        Status.FAILED,
        f"Tokens that a place must not read change what it gets: {gap.words()}.",
        culprit=blame(subject, experiment, partial(_same, experiment)),
        cause=_CAUSE,
        cure=_CURE,
        example={"words": f"{question.rows[0].length} tokens, those that a place cannot reach exchanged"},
    )


def change_places(subject: Subject, base: Question, chosen: Tensor, reach: Tensor) -> Experiment:
    """Some tokens exchanged; whoever reaches none of them is protected."""
    rows = base.rows[0]
    values = rows.values.clone()
    values[:, chosen] = subject.other_tokens(0, rows.values)[:, chosen]
    other = base.with_rows(0, replace(rows, values=values))
    safe = {0: (~reach[:, chosen].any(1)).nonzero().flatten()}
    views = {"base_view": view(base, places=safe), "other_view": view(other, places=safe)}
    return Experiment(base=base, other=other, stream=0, **views)


def _same(experiment: Experiment) -> Experiment:
    return experiment
