"""Checkpoints as files: tensors, the facts that belong to them, and the SHA-256 of both.

A checkpoint is a safetensors file. Its header carries, beside the tensors' names and places,

| key | what |
|---|---|
| ``facts`` | as JSON: how far the run is, or how good these weights are |
| ``facts_sha256`` | the digest of the facts, checked whenever they are read |
| ``sha256`` | the digest of the whole file with these 64 digits taken as zeros, checked whenever weights are read |

so weights and facts cannot come from different moments, and one flipped bit anywhere is refused. Files of earlier
versions have the facts alone; they are read, and the reader is told that nobody can check them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import read_file
from regard.strict_json import parse_json

_ZEROS = b"0" * 64
_PLACE = b'"sha256":"'
_HEADER = 1 << 24  # bytes; a run has some thousand, and read they take twenty times as many


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint says about itself; ``digest`` is empty in files of earlier versions."""

    facts: dict[str, Any]
    digest: str


def metadata(facts: Mapping[str, Any]) -> dict[str, str]:
    """What to put into the header of a new file, before :func:`seal_checkpoint`."""
    text = json.dumps(facts)
    return {"facts": text, "facts_sha256": hashlib.sha256(text.encode()).hexdigest(), "sha256": _ZEROS.decode()}


def seal_checkpoint(data: bytes) -> bytes:
    """A safetensors file with its digest in the place of the zeros."""
    # the header comes first in the file, so the first match is its own
    at = data.index(_PLACE + _ZEROS) + len(_PLACE)
    return data[:at] + hashlib.sha256(data).hexdigest().encode() + data[at + 64 :]


def read_header(path: Path) -> Header:
    """The facts of a checkpoint, without reading its tensors."""
    with _explain_damage(path):
        length = _length(read_file(path, most=8, part=True))
        return _header(read_file(path, start=8, most=length, part=True))


def read_checkpoint(path: Path) -> tuple[bytes, Header]:
    """A checkpoint whole, if nothing in it has changed since it was written."""
    with _explain_damage(path):
        data = read_file(path)
        length = _length(data[:8])
        header = _header(data[8 : 8 + length])
        if header.digest and header.digest != _digest(data, length, header.digest.encode()):
            raise ValueError("its SHA-256 is not the one it was written with")
        return data, header


def missing_digest_note(path: Path) -> str:
    """What to say about a file of an earlier version."""
    return f"{path} was written by an earlier version, without a SHA-256: nobody can say whether it is still the same."


@contextlib.contextmanager
def _explain_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:  # it is no file at all
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}; train the run first.") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise damage_error(path, error) from None


def damage_error(path: Path, error: Exception) -> InputError:
    """One sentence about a checkpoint that cannot be used, and the way out."""
    reason = str(error).splitlines()[0][:120].rstrip(".") if str(error) else type(error).__name__
    return InputError(
        f"{path} is damaged, cut short, or not ours ({reason}); restore it from a copy, or train the run again."
    )


def _length(beginning: bytes) -> int:
    length = int.from_bytes(beginning, "little")
    if len(beginning) < 8 or length > _HEADER:
        raise ValueError("it has no header")
    return length


def _header(data: bytes) -> Header:
    content = parse_json(data)["__metadata__"]
    if set(content) == {"facts"}:
        digest = ""
    elif set(content) == {"facts", "facts_sha256", "sha256"}:
        digest = content["sha256"]
        if hashlib.sha256(content["facts"].encode()).hexdigest() != content["facts_sha256"]:
            raise ValueError("the SHA-256 of its facts is not the one they were written with")
    else:
        raise ValueError(f"it does not know {sorted(set(content) ^ {'facts', 'facts_sha256', 'sha256'})}")
    facts = parse_json(content["facts"], constants=True)
    if not isinstance(facts, dict):
        raise ValueError("its facts are no table")
    return Header(facts=facts, digest=digest)


def _digest(data: bytes, length: int, written: bytes) -> str:
    """The digest of the file with ``written``, its own digest, taken as zeros."""
    at = data.index(_PLACE + written, 8, 8 + length) + len(_PLACE)
    whole = hashlib.sha256(data[:at])
    whole.update(_ZEROS)
    whole.update(memoryview(data)[at + 64 :])
    return whole.hexdigest()
