"""The tool that audits a student's model: it runs beside their code, in the jail if there is one.

Two things are asked of it: the audit, whose findings are what this process says; and the model's answers to questions
that were made outside, from which part of the audit is done again there (:mod:`.audit_recheck`).
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import InputError
from regard.sandbox.child import pack_array, unpack_array
from regard_models.auditing import Audit, audit
from regard_models.auditing.question import Question
from regard_models.auditing.subject import Subject
from regard_models.inputs.model_input import ModelInput, model_input

kept: dict[str, Subject] = {}  # the model, between two questions


def fix_seeds() -> None:
    """Whatever the code draws it draws again in another process: the same model twice, if it wants nothing else."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


fix_seeds()  # for what the file draws while it is imported


def respond(thing: Any, file: ModuleType, asked: dict[str, Any]) -> bytes:
    """What was asked for, as a JSON text."""
    if asked["wanted"] != "answers":
        given = _build_input(thing, asked)
        kept["model"] = Subject(given, seed=int(asked["seed"]))
        told = _finding_rows(audit(given, seed=int(asked["seed"]))) if asked["wanted"] == "audit" else []
        return json.dumps({"findings": told, "streams": _streams(kept["model"])}).encode("ascii")
    subject, sent = kept["model"], [torch.from_numpy(unpack_array(one)) for one in asked["rows"]]
    like = subject.make(int(sent[0].shape[0]), lengths=tuple(int(one.shape[1]) for one in sent))
    rows = tuple(replace(own, values=values) for own, values in zip(like.rows, sent, strict=True))
    outputs = subject.ask(Question(rows=rows, others=like.others))
    return json.dumps({one.name: pack_array(one.values.double().numpy()) for one in outputs}).encode("ascii")


def _build_input(thing: Any, asked: dict[str, Any]) -> ModelInput:
    fix_seeds()
    built = thing if isinstance(thing, nn.Module) or not callable(thing) else thing()
    module, example = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(module, nn.Module):
        kind = type(built).__name__
        raise InputError(f"it gives something of type {kind}; return a torch module, or (module, example).")
    return model_input(module, example, name=str(asked["name"]))


def _finding_rows(audited: Audit) -> list[list[str]]:
    return [[one.property, one.check, str(one.status), one.sentence] for one in audited.findings]


def _streams(subject: Subject) -> list[dict[str, Any]]:
    """What a question is made of: for each row of tokens its length, and how many words there are or how wide it is."""
    told = []
    for stream, length in zip(subject.streams, subject.lengths, strict=True):
        width = None if stream.vocabulary is not None else int(subject.given.inputs[stream.name].shape[-1])
        words = None if stream.vocabulary is None else min(int(stream.vocabulary), 50_000)
        avoid = sorted(stream.avoid) if words is not None else []
        told.append({"length": length, "words": words, "avoid": avoid, "width": width, "causal": bool(stream.causal)})
    return told
