"""What is compared: ways to embed, written in one line each.

| written | means |
|---|---|
| ``learned``, ``word2vec:train``, ``glove:FILE``, ``word2vec:FILE``, ``bert:DIR`` | the input embedding, nothing else |
| ``target=SPEC``, ``both=SPEC``, ``source=SPEC`` | the output layer, both sides, the input once more |
| ``...+frozen=true``, ``...+positions=none`` | and more of the settings' [embedding] section |

A model that is tied has one table for both sides, which a bare name then is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError
from regard.translator.models.embeddings import initial_vectors
from regard.translator.models.own_translator import KIND
from regard.translator.runs.settings import Settings
from regard.translator.training.preparation import PreparedData

_START = r"(?:learned\b|glove:|word2vec:|bert:|(?:source|target|both|frozen|positions)=)"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to do it: a name, the settings of it, and what was decided on the way."""

    name: str
    settings: Settings
    note: str = ""

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return re.sub(r"[^\w.=-]+", "-", self.name).strip("-.")


def split_variants(text: str) -> list[str]:
    """The variants of ``--with``: commas part them, but a comma inside a file name does not.

    >>> split_variants("learned,target=glove:a,b.txt,positions=none+source=learned")
    ['learned', 'target=glove:a,b.txt', 'positions=none+source=learned']
    """
    return [part.strip() for part in re.split(rf",\s*(?={_START})", text.strip()) if part.strip()]


def read_variants(texts: Sequence[str], settings: Settings, data: PreparedData) -> list[Variant]:
    """The variants that ``texts`` describe, on top of ``settings``; ``data`` decides the side of a file."""
    if not texts:
        raise InputError("There is nothing to compare; give for instance learned,word2vec:train.")
    variants = [_variant(text, settings, data) for text in texts]
    for i, one in enumerate(variants):
        for other in variants[:i]:
            if one.settings == other.settings:
                raise InputError(f"{texts[i]!r} is the same embedding as {other.name!r}; name every one once.")
            if one.slug == other.slug:
                variants[i] = one = Variant(name=f"{one.name} ({i + 1})", settings=one.settings, note=one.note)
    return variants


def _variant(text: str, settings: Settings, data: PreparedData) -> Variant:
    parts = re.split(rf"\+(?={_START})", text)
    changes: dict[str, str] = {}
    bare = ""  # a spec without a side
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not re.fullmatch(_START, f"{key}="):
            changes |= dict.fromkeys(("source", "target") if settings.model.tied else ("source",), part)
            bare = part
        elif key == "both":
            changes |= {"source": value, "target": value}
        else:
            changes[key] = value
    if settings.model.kind == KIND and "positions" in changes:
        raise InputError(f"{text!r}: a model of your own has its own positions; compare its embeddings only.")
    changed = settings.with_changes([f"embedding.{key}={_value(key, value)}" for key, value in changes.items()])
    note = _coverage_note(bare, settings, data) if bare else ""
    return Variant(name="+".join(_short(part) for part in parts), settings=changed, note=note)


def _coverage_note(spec: str, settings: Settings, data: PreparedData) -> str:
    """Of a vector file without a side: that it is for the input, and how much of the text it knows there and there."""
    kind, _, where = spec.partition(":")
    if settings.model.tied or kind in ("learned", "bert") or where == "train":
        return ""
    covered = {side: _coverage(spec, side, settings, data) for side in ("source", "target")}
    if not covered["source"]:
        raise InputError(
            f"{spec} has a vector for no word of the source, and a bare name is the input embedding; wrong file, or "
            f"the other language's: target={spec}?"
        )
    shares = " and ".join(f"{covered[side]:.1%} of the {side}'s" for side in covered)
    return f"{_short(spec)} has vectors for {shares} running words; it is the input embedding, the source's."


def _coverage(spec: str, side: str, settings: Settings, data: PreparedData) -> float:
    words, text = getattr(data, side), getattr(data.corpus.train, side)
    try:
        vectors = initial_vectors(spec, words, text, seed=settings.training.seed, width=settings.model.width)
    except InputError as error:
        if "has a vector for none" in str(error):
            return 0.0
        raise
    return vectors.tokens_covered / max(1, vectors.tokens)


def _value(key: str, value: str) -> str:
    return value if key == "frozen" else json.dumps(value, ensure_ascii=False)


def _short(part: str) -> str:
    """A file by its last name only.

    >>> _short("target=glove:vectors/glove.6B.100d.txt.gz")
    'target=glove:glove.6B.100d'
    """
    head, colon, where = part.rpartition(":")
    if not colon or where == "train":
        return part
    stem = re.sub(r"[.](txt|bin|vec|gz)\b", "", Path(where).name)
    return f"{head}:{stem}"
