"""What a page draws, before it is stored: one layer for every record, its heads, its words, and what kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from regard.array_types import Single
from regard.errors import InputError
from regard_models.capturing.records import AttentionRecord, Capture, format_ranges, is_cross
from regard_models.head_measures.head_measurements import allowed_keys
from regard_models.head_measures.weight_patterns import CLEAR, has_influence, pattern_scores, value_lengths

_PADDING = ("<pad>", "[PAD]")
_MOST = 2_000_000  # weights of a layer in which a pattern is looked for: a longer input would wait for it
_READS = {
    "previous": "the token before",
    "same": "the token itself",
    "next": "the token after",
    "first": "the first token",
    "separator": "full stops and other marks",
    "duplicate": "the same word elsewhere",
    "induction": "what followed the same word earlier",
}
_SLACK = 1e-6  # rounding may leave a weight this far below zero


class Kind(StrEnum):
    """Who reads whom."""

    SELF = "self"
    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """One attention call in one example: the heads that are drawn, their words, and what makes influence of weights.

    ``norms`` are |v_j W_O| for every head and key, None where they are not known: a weight times its norm is how long
    a vector the query got from that key.
    """

    record: AttentionRecord
    example: int
    places: tuple[int, ...]
    kind: Kind
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    norms: Single | None = None

    @property
    def label(self) -> str:
        """What stands beside its row of heads."""
        return f"{self.record.index}" + (f" · {self.record.step}" if self.record.step else "")

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads' numbers in the model."""
        return tuple(self.record.heads[place] for place in self.places)

    def weights(self, number: int) -> Single:
        """Queries x keys of the head in this place; read when asked for, because all of them may be gigabytes."""
        whole = self.record.weights[self.example, self.places[number]]
        weights = np.asarray(whole[: len(self.queries), : len(self.keys)], dtype=np.float32)
        _refuse_numbers(self.record.index, self.heads[number], weights)
        return np.maximum(weights, 0)

    def vectors(self, number: int) -> tuple[Single, Single] | None:
        """The queries and the keys of that head, as its scores are made of them."""
        q, k, place = self.record.q, self.record.k, self.places[number]
        if q is None or k is None:
            return None
        return q[self.example, place, : len(self.queries)], k[self.example, place, : len(self.keys)]


def layers_of(
    recorded: Capture,
    *,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    example: int = 0,
) -> tuple[Layer, ...]:
    """The layers of a capture that were asked for."""
    _refuse(recorded, layers, example)
    several = any(_side(record) is not Kind.SELF for record in recorded.records)
    chosen = [record for record in recorded.records if _is_selected(record, layers)]
    return tuple(_layer(recorded, record, heads, example, several) for record in chosen)


def _layer(
    recorded: Capture, record: AttentionRecord, heads: Sequence[int] | None, example: int, several: bool
) -> Layer:
    if 0 in record.shape:
        raise InputError(f"Layer {record.index} has no weights: its shape is {record.shape}.")
    places = tuple(range(len(record.heads)) if heads is None else (_place(record, head) for head in heads))
    queries, keys = _without_padding(record, example, *recorded.labels(record, example=example))
    return Layer(
        record=record,
        example=example,
        places=places,
        kind=_kind(record, several),
        queries=tuple(map(printable_token, queries)),
        keys=tuple(map(printable_token, keys)),
        norms=_norms(record, places, example, len(keys)),
    )


def _without_padding(
    record: AttentionRecord, example: int, queries: list[str], keys: list[str]
) -> tuple[list[str], list[str]]:
    """The words without the padding at their end; keys that some other word reads stay."""
    rows, columns = (len(words) - _padding(words) for words in (queries, keys))
    if rows and np.asarray(record.weights[example][:, :rows, columns:]).any():
        columns = len(keys)
    return (queries[:rows], keys[:columns]) if rows and columns else (queries, keys)


def _padding(words: list[str]) -> int:
    """How many words at the end are padding.

    >>> _padding(["<pad>", "a", "<pad>", "<pad>"])
    2
    """
    return next((n for n, word in enumerate(reversed(words)) if word not in _PADDING), len(words))


def striking_head(layers: Sequence[Layer]) -> tuple[int, int, str]:
    """The head that follows a pattern furthest above chance: its layer's place, its own, and a sentence on it.

    Reading the first token or the marks is what heads do that have nothing to do: it counts half. A head between two
    texts is measured by its largest weights. Without any that is clear, the first head of the middle layer.
    """
    best = (CLEAR, len(layers) // 2, 0, "")
    for number, layer in enumerate(layers):
        if len(layer.heads) * len(layer.queries) * len(layer.keys) > _MOST:
            continue
        weights = np.stack([layer.weights(place) for place in range(len(layer.heads))])
        best = max([best, *_strengths(number, layer, weights)], key=lambda one: one[0])
    return best[1:]


def _strengths(number: int, layer: Layer, weights: Single) -> list[tuple[float, int, int, str]]:
    """For each head and pattern how far it is above chance, of 1; the head's place; and a sentence."""
    found = []
    if layer.kind is Kind.CROSS or layer.queries != layer.keys:
        for place, largest in enumerate(weights.max(axis=2).mean(axis=1).tolist()):
            said = f"reads one word at a time: its largest weight is {largest:.2f} on average"
            found.append(((largest - 1 / len(layer.keys)), number, place, _sentence(layer, place, said)))
        return found
    allowed = allowed_keys(layer.record, layer.example)[list(layer.places), : len(layer.queries), : len(layer.keys)]
    measured = pattern_scores(weights, allowed, words=layer.queries, key_words=layer.keys, cross=False)
    for pattern, scores in measured.scores.items():
        chance = measured.chance[pattern]
        for place, score in enumerate(scores.tolist()):
            if not chance < score:  # also where there is no chance to speak of
                continue
            lift = (score - chance) / (1 - chance) * (0.5 if pattern in ("first", "separator") else 1.0)
            said = f"reads {_READS[pattern]}: {score:.0%} of its weight, where chance would give {chance:.0%}"
            found.append((lift, number, place, _sentence(layer, place, said)))
    return found


def _sentence(layer: Layer, place: int, said: str) -> str:
    return f"Layer {layer.label}, head {layer.heads[place]} {said}."


def _norms(record: AttentionRecord, places: Sequence[int], example: int, keys: int) -> Single | None:
    if not has_influence(record) or record.v is None or record.w_o is None:
        return None
    lengths = value_lengths(record.v[example], record.w_o)[list(places), :keys]
    return lengths.astype(np.float32) if np.isfinite(lengths).all() else None


def _place(record: AttentionRecord, head: int) -> int:
    if head not in record.heads:
        raise InputError(f"Layer {record.index} has no head {head}; it has {format_ranges(record.heads)}.")
    return record.heads.index(head)


def _is_selected(record: AttentionRecord, layers: Sequence[int | str] | None) -> bool:
    if layers is None:
        return True
    return any(record.index == one if isinstance(one, int) else record.module.startswith(one) for one in layers)


def _refuse(recorded: Capture, layers: Sequence[int | str] | None, example: int) -> None:
    if not recorded.records:
        raise InputError(f"{recorded.name} holds no attention: there is nothing to look at.")
    for one in layers or ():
        if not any(_is_selected(record, [one]) for record in recorded.records):
            raise InputError(
                f"There is no layer {one!r} in {recorded.name}; it has layers {format_ranges(recorded.layers)}."
            )
    batch = min(record.shape[0] for record in recorded.records)
    if not 0 <= example < batch:
        raise InputError(f"There is no example {example}; the batch has {batch}, counted from 0.")


def _refuse_numbers(layer: int, head: int, weights: Single) -> None:
    bad = weights < -_SLACK if np.isfinite(weights.sum()) else ~np.isfinite(weights)
    if bad.any():
        query, key = (int(n) for n in np.argwhere(bad)[0])
        raise InputError(
            f"Layer {layer}, head {head} holds {weights[query, key]:g} at query {query}, key {key}; a page can only "
            "show weights that are finite and not negative."
        )


def _side(record: AttentionRecord) -> Kind:
    if is_cross(record.module):
        return Kind.CROSS
    return Kind.DECODER if "decoder" in record.module.lower() else Kind.SELF


def _kind(record: AttentionRecord, several: bool) -> Kind:
    side = _side(record)
    return Kind.ENCODER if several and side is Kind.SELF else side


_MARKS = {"Ġ": "·", "▁": "·", "Ċ": "↵", "\n": "↵", "\t": "→", "\r": "↵", "ĉ": "→"}
_LONGEST = 40


def printable_token(word: str) -> str:
    """A token as it is drawn: blanks and line ends visible, control characters gone, nothing endless.

    >>> printable_token("Ġdog"), printable_token("a\\x00b"), printable_token("")
    ('·dog', 'a\\ufffdb', '∅')
    """
    for mark, sign in _MARKS.items():
        word = word.replace(mark, sign)
    if word.isspace():
        word = "·" * len(word)
    word = "".join(sign if sign.isprintable() else "\ufffd" for sign in word)
    return (word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…") or "∅"
