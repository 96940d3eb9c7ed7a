"""Attention patterns from wherever they are: one door for every instrument that needs no model.

| you have | how it is read |
|---|---|
| a :class:`~regard_models.capturing.records.Capture`, or the file that one was written to | as it is |
| ``weights.npy`` | an array (layers, heads, T, T) or (layers, batch, heads, T, T) |
| ``weights.npz``, ``weights.safetensors`` | the one such array, or one array (batch, heads, T, T) for every layer |
| ``example:textbook`` | heads as textbooks draw them (:mod:`regard_models.head_measures.textbook_heads`) |
| a Hugging Face output | its attentions; of an encoder and a decoder all three kinds |
| tuples of arrays, arrays, TransformerLens caches | by :mod:`regard_models.capturing.given_weights` |

Words may come with the arrays: ``tokens`` in a .npz archive (strings) or in the metadata of a .safetensors file (a JSON
list). Nothing is unpickled, and torch is not imported.

And heads as textbooks draw them, on one sentence: to look at when no model is at hand, and to know real ones by.

| layer 0 | head | reads |
|---|---|---|
| | 0 | the word before |
| | 1 | the word after |
| | 2 | the first word: where heads rest |
| | 3 | itself |
| | 4 | earlier words that are the same |
| | 5 | what followed the same word the last time (induction) |
| | 6 | its neighbours, the nearer the more |
| | 7 | everything alike |

Layer 1 has the same heads in a causal model: later words are not read, and what cannot be read is shared by the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard import formats
from regard.array_types import Float
from regard.arrays import load_array
from regard.errors import InputError
from regard.strict_json import parse_json
from regard_models.capturing.given_weights import from_arrays, is_cache
from regard_models.capturing.records import AttentionRecord, Capture, Tokens

WORDS = ["the", "cat", "saw", "the", "dog", "and", "then", "the", "cat", "ran", "after", "the", "dog"]


def textbook_heads() -> Capture:
    """Two layers of eight heads.

    >>> heads = textbook_heads()
    >>> heads.record(0).head(0)[3].argmax(), heads.tokens[0][2]
    (np.int64(2), 'saw')
    """
    weights = np.stack([_rows(scores) for scores in _scores()])
    causal = np.stack([_rows(np.where(np.tri(len(WORDS), dtype=bool), scores, 0)) for scores in _scores()])
    records = tuple(
        AttentionRecord(
            index=number, module=name, kernel="by hand", heads=tuple(range(len(some))), weights=some[None].astype("f")
        )
        for number, (name, some) in enumerate((("both directions", weights), ("causal", causal)))
    )
    notes = ("drawn by hand, from no model",)
    return Capture(records=records, tokens=[list(WORDS)], name="textbook heads", notes=notes)


def _scores() -> list[Float]:
    """How much each query likes each key, before the rows are made to sum to 1."""
    count = len(WORDS)
    query, key = np.arange(count)[:, None], np.arange(count)[None, :]
    same = np.array([[one == other for other in WORDS] for one in WORDS])
    earlier = same & (key < query)
    followed = np.roll(earlier, 1, axis=1) & (key <= query) & (key > 0)
    near = np.exp(-np.abs(query - key))
    patterns = (key == query - 1, key == query + 1, key == 0, key == query, earlier, followed, near, near > 0)
    return [np.asarray(pattern, dtype=np.float64) + np.zeros((count, count)) for pattern in patterns]


def _rows(scores: Float) -> Float:
    """Rows that sum to 1; one that likes nothing rests on the first word."""
    rest = np.zeros_like(scores)
    rest[:, 0] = scores.sum(axis=1) == 0
    whole = scores + rest
    rows: Float = whole / whole.sum(axis=1, keepdims=True)
    return rows


ENDINGS = (".npy", ".npz", ".safetensors")
_EXAMPLE = "example:"
_ARCHIVE = re.compile(r"(.*?\.(?:npz|safetensors))(?::(.*))?", re.IGNORECASE | re.DOTALL)
_HUGGING_FACE = ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")


def is_pattern_file(spec: str) -> bool:
    """Whether the words of a command line name a file of patterns, and not a model.

    >>> is_pattern_file("weights.npz:attention"), is_pattern_file("model.py:build")
    (True, False)
    """
    if spec.startswith(_EXAMPLE):
        return True
    path = match[1] if (match := _ARCHIVE.fullmatch(spec)) else spec
    return Path(path).suffix.lower() in ENDINGS and not Path(spec).is_dir()


def read_patterns(
    given: Any, *, tokens: Sequence[Any] | None = None, target_tokens: Sequence[Any] | None = None, name: str = ""
) -> Capture:
    """A capture from any of the things above; ``tokens`` are the words of the keys, of a decoder ``target_tokens``.

    >>> read_patterns(np.full((2, 3, 4, 4), 0.25), tokens=list("abcd")).records[1].shape
    (1, 3, 4, 4)
    """
    if isinstance(given, Capture):
        recorded = given
        if tokens is None and target_tokens is None:
            return recorded
    elif isinstance(given, (str, os.PathLike)):
        return _with_words(_from_file(os.fspath(given), tokens, name), None, target_tokens)
    elif any(getattr(given, kind, None) is not None for kind in _HUGGING_FACE):
        recorded = _from_output(given, name or type(given).__name__)
    else:
        recorded = from_arrays(given, tokens=tokens, name=name or "weights")
        return _with_words(recorded, None, target_tokens)
    return _with_words(recorded, tokens, target_tokens)


def _with_words(recorded: Capture, tokens: Sequence[Any] | None, target_tokens: Sequence[Any] | None) -> Capture:
    """The capture with words of the user's; they must fit some record, or they would label nothing."""
    read = recorded.tokens if tokens is None else _check_words(recorded, "tokens", tokens)
    written = (
        recorded.target_tokens if target_tokens is None else _check_words(recorded, "target_tokens", target_tokens)
    )
    return replace(recorded, tokens=read, target_tokens=written)


def _check_words(recorded: Capture, side: str, given: Sequence[Any]) -> Tokens:
    flat = all(isinstance(word, str) for word in given)
    rows = [[str(word) for word in row] for row in ([given] if flat else given)]
    lengths = sorted({length for record in recorded.records for length in record.shape[2:]})
    for row in rows:
        if len(row) not in lengths:
            raise InputError(
                f"{side} must be one word for every place, {' or '.join(map(str, lengths))} of them, but "
                f"{len(row)} came."
            )
    return rows


# Hugging Face outputs


def _from_output(output: Any, name: str) -> Capture:
    """Encoder, decoder and cross-attention one after another, each layer under a name that says which it is."""
    records: list[AttentionRecord] = []
    notes: tuple[str, ...] = ()
    for kind in _HUGGING_FACE:
        layers = getattr(output, kind, None)
        if not layers:
            continue
        side = kind.removesuffix("attentions").rstrip("_")
        part = from_arrays(layers, name=name)
        notes = part.notes
        for record in part.records:
            module = f"{side} layer {record.index}".lstrip()
            records.append(replace(record, index=len(records) if not record.step else record.index, module=module))
    if not records:
        raise InputError(f"{name} holds no attentions; run the model with output_attentions=True, or capture it.")
    return Capture(records=tuple(records), notes=notes, name=name)


# files


def _from_file(spec: str, tokens: Sequence[Any] | None, name: str) -> Capture:
    if spec.startswith(_EXAMPLE):
        return _example(spec)
    match = _ARCHIVE.fullmatch(spec) if not os.path.exists(spec) else None
    path, entry = (match[1], match[2]) if match else (spec, None)
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{spec!r} is no file of patterns: its name must end in .npy, .npz or .safetensors.")
    if not os.path.isfile(path):
        raise InputError(f"{path!r}: there is no such file; check the path.")
    if ending == ".safetensors" and _is_capture(path):
        recorded = Capture.read(path)
        return _with_words(replace(recorded, name=name) if name else recorded, tokens, None)
    arrays = _arrays(path, ending, entry)
    words = tokens if tokens is not None else _words(path, ending)
    return from_arrays(arrays, tokens=words, name=name or Path(path).name)


def _example(spec: str) -> Capture:
    if spec != f"{_EXAMPLE}textbook":
        raise InputError(f"There is no {spec!r}; there is example:textbook.")
    return textbook_heads()


def _arrays(path: str, ending: str, entry: str | None) -> Any:
    """The one array of a file, or the arrays of its layers."""
    if ending == ".npy" or entry:
        spec = path if entry is None else f"{path}:{entry}"
        return load_array(spec, what="weights", ndim=(4, 5), dtype=None).array
    names = [one for one in _names(path, ending) if one != "tokens"]
    if len(names) == 1 or "weights" in names:
        return _arrays(path, ending, names[0] if len(names) == 1 else "weights")
    if not names:
        raise InputError(f"{path} holds no array; it needs the weights (layers, heads, queries, keys).")
    loaded = {one: load_array(f"{path}:{one}", what="weights", ndim=None, dtype=None).array for one in names}
    if is_cache(loaded):  # of TransformerLens, with queries, keys and values where it has them
        return loaded
    if odd := [one for one, array in loaded.items() if array.ndim not in (3, 4)]:
        raise InputError(
            f"{path} holds {len(names)} arrays, and {odd[0]!r} has shape {loaded[odd[0]].shape}: give one array "
            "(layers, heads, queries, keys) as FILE:NAME, or one (batch, heads, queries, keys) for every layer."
        )
    return [loaded[one] for one in sorted(names, key=_natural_order)]


def _names(path: str, ending: str) -> list[str]:
    if ending == ".safetensors":
        entries, _ = formats.safetensors_entries(np.memmap(path, dtype=np.uint8, mode="r"), path)
        return list(entries)
    return formats.npz_names(path, path)


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Layer 10 after layer 9.

    >>> sorted(["layer10", "layer9"], key=_natural_order)
    ['layer9', 'layer10']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _is_capture(path: str) -> bool:
    return str(_metadata(path).get("format", "")).startswith("regard capture")


def _metadata(path: str) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:
            return dict(opened.metadata() or {})
    except (SafetensorError, OSError) as error:
        reason = (str(error) or type(error).__name__).partition("\n")[0][:120].rstrip(". ")
        raise InputError(f"{path} is not a readable .safetensors file: {reason}.") from None


def _words(path: str, ending: str) -> list[Any] | None:
    """The words that lie beside the arrays, if they do."""
    if ending == ".safetensors":
        text = _metadata(path).get("tokens")
        if text is None:
            return None
        try:
            words = parse_json(text)
        except ValueError:
            words = None
        if not isinstance(words, list):
            raise InputError(f"{path}: the metadata's tokens must be a JSON list of words.")
        return words
    if ending != ".npz" or "tokens" not in _names(path, ending):
        return None
    words = formats.from_npz(path, "tokens", f"tokens ({path})", [])
    if words.dtype.kind != "U":
        raise InputError(f"{path}: tokens must be an array of strings, as numpy.array(words) makes it.")
    listed: list[Any] = words.tolist()
    return listed
