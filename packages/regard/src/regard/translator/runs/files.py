"""The files of a run, written so that a stop at any moment loses nothing.

| file | what |
|---|---|
| ``run.json`` | versions, seed, data fingerprint, sizes: everything that makes the run what it is |
| ``settings.toml`` | every setting, commented |
| ``vocabulary.json`` | both vocabularies |
| ``last.safetensors`` | weights, their averages, optimiser, and how far the run is: what a resumed run continues from |
| ``best.safetensors`` | weights (averaged, if the run averages) with the lowest validation perplexity so far |
| ``usual.json`` | the words it was trained on and how sure it is of ordinary sentences; from the end of the training |
| ``log.jsonl`` | one JSON object per line: steps and epochs (:mod:`regard.translator.runs.records`) |

All are written by :func:`regard.files.write_file`, whole or not at all, and all but the settings, which people may read
and write, carry a SHA-256 that is checked when they are read. No random state is stored because none is needed: order
and dropout are functions of the seed and the step.

One run comes with the package: wherever a run folder is asked for, the word ``example`` means it. It was trained from
the built-in corpus by one command, ``regard translator train example``, and put into the package by ``make example``.
Its folder is a run's, without ``last.safetensors``, which only a run that goes on needs: the best weights say
themselves that the run is finished.

In JSON, a file or a line ends with the digest of what is before it.

    {"event": "epoch", "epoch": 1, ..., "sha256": "9f86d0..."}

In a file of lines the digest of each also covers all lines before it, so a line that was changed, lost, moved or
written twice is noticed, and so is any flipped bit. A line without its newline was cut short by a stop: what it says
was not done yet, and it is left out; ``cut`` says so. That lines are missing at the end no digest can tell: whoever
knows from elsewhere what was done compares (:func:`regard.translator.runs.records.read_log`). Files of earlier versions
have no digests and are read as they are; lines that are added to one are sealed, and from then on all of it is covered.

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
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError, RegardError
from regard.files import PARTIAL, Lock, append_file, read_file
from regard.strict_json import parse_json

RUN, SETTINGS, VOCABULARY, USUAL = "run.json", "settings.toml", "vocabulary.json", "usual.json"
LAST, BEST = "last.safetensors", "best.safetensors"
TRIALS = "trials"  # of a study: the folder of its runs


def json_file(content: dict[str, Any]) -> bytes:
    """A JSON file that knows its own digest."""
    return seal(json.dumps(content, indent=1, ensure_ascii=False))


def read_json(path: Path, *, otherwise: str = "train the run again") -> Any:
    """A JSON file of ours, if nothing in it has changed since it was written; ``otherwise``: the other way out."""
    try:
        return unseal(read_file(path))
    except InputError:  # it is no file at all
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}: {path.parent} is not a run; give the folder that train wrote.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damage_error(path, str(error)[:120], otherwise) from None


def read_description(
    path: Path, what: str, wanted: set[str], *, otherwise: str, give: str = "another folder"
) -> dict[str, Any]:
    """What a file says about ``what`` its folder is, such as a study, with all that this cannot do without."""
    if not path.exists():
        raise InputError(f"{path.parent} is not {what}: it has no {path.name}; give {give}.")
    content = read_json(path, otherwise=otherwise)
    if not isinstance(content, dict) or not wanted <= content.keys():
        raise InputError(f"{path} does not describe {what}; restore it from a copy, or {otherwise}.")
    return content


@contextlib.contextmanager
def explain_errors(folder: Path, what: str) -> Iterator[None]:
    """One sentence where what a folder says cannot be; files of earlier versions have no digest to tell sooner."""
    try:
        yield
    except RegardError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder} does not describe a {what} ({type(error).__name__}: {str(error)[:80]}); restore its files "
            "from a copy, or give another folder."
        ) from error


def is_begun(folder: Path) -> bool:
    """Whether a folder has something in it; a file in its place is refused."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another --out.")
    return folder.exists() and any(folder.iterdir())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process, and clear away what a killed one was writing."""
    lock = Lock(folder)
    if not lock.acquire(wait=False):
        raise InputError(f"Another process is training in {folder}; wait for it, stop it, or give another --out.")
    try:
        for leftover in folder.glob(f".*{PARTIAL}"):
            leftover.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


EXAMPLE = "example"
FOLDER = Path(__file__).parent.parent / EXAMPLE


def run_folder(given: str | Path) -> Path:
    """The folder that a word means; a folder of yours called ``example`` comes before ours.

    >>> run_folder("runs/one") == Path("runs/one"), run_folder("example") == FOLDER
    (True, True)
    """
    folder = Path(given)
    return FOLDER if folder == Path(EXAMPLE) and not folder.exists() else folder


def is_packaged(folder: Path) -> bool:
    """Whether a folder is the package's own, into which nothing may be written."""
    return folder.resolve() == FOLDER.resolve()


_SEAL = b', "sha256": "%s"}'
_LENGTH = len(_SEAL) - 2 + 64  # bytes: two for %s, and 64 digits
_ALMOST = re.compile(rb'"[^"]{6}": "[^"]{64}"\}$')  # a seal whose own name was hit


def seal(text: str, *, before: bytes = b"") -> bytes:
    """A JSON object with the digest of itself, and of what came ``before``, as its last entry.

    >>> unseal(seal('{"a": 1}'))
    {'a': 1}
    >>> unseal(seal('{"a": 1}').replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its SHA-256 is not the one it was written with
    """
    body = text.encode("utf-8", "surrogatepass")  # a command may name a file that is not UTF-8
    return body[:-1] + _SEAL % hashlib.sha256(before + body).hexdigest().encode()


def unseal(data: bytes, *, before: bytes = b"") -> Any:
    """What :func:`seal` was given, as values; ValueError where it is not whole. Unsealed JSON is taken as it is."""
    if is_sealed(data):
        body = data[:-_LENGTH] + b"}"
        if data != body[:-1] + _SEAL % hashlib.sha256(before + body).hexdigest().encode():
            raise ValueError("its SHA-256 is not the one it was written with")
        return parse_json(body, constants=True)
    if _ALMOST.search(data):
        raise ValueError("its SHA-256 has lost its name")
    return parse_json(data, constants=True)


def is_sealed(data: bytes) -> bool:
    # 13 bytes: up to the quote before the digits
    return data[-_LENGTH:].startswith(_SEAL[:13])


def damage_error(path: Path, reason: object, otherwise: str = "train the run again") -> InputError:
    """One sentence about a file of ours that is not as it was written, and the ways out."""
    return InputError(f"{path} is damaged ({reason}); restore it from a copy, or {otherwise}.")


class SealedLines:
    """A file of sealed JSON objects, one per line, read and added to as it grows; several processes need a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        self.cut = False  # whether a part of a line comes after those that were read
        self._seals = 0
        self._end = 0  # bytes of whole lines that were read
        self._chain = b""  # the digest of all of them

    @property
    def has_all_seals(self) -> bool:
        """Whether every line that was read has its digest; those of earlier versions have none."""
        return self._seals == len(self.entries)

    def read(self) -> list[dict[str, Any]]:
        """All entries so far; InputError names the first line that is not whole."""
        try:
            data = read_file(self.path, start=self._end)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}; check the folder.") from None
        *whole, rest = data.split(b"\n")
        self.cut = bool(rest)
        for line in whole:
            self._take(line)
        if rest and _is_whole(rest):  # a line that was cut short never has anything after its end
            raise self._damage_error(f"line {len(self.entries) + 1} does not end where it should")
        return self.entries

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Add entries, in place of a line that was cut short."""
        self.read()
        append_file(self.path, lines_of(entries, chain=self._chain), at=self._end)

    def _take(self, line: bytes) -> None:
        number = len(self.entries) + 1
        try:
            entry = unseal(line, before=self._chain)
        except (ValueError, RecursionError) as error:
            raise self._damage_error(f"line {number}: {str(error)[:80]}") from None
        if not isinstance(entry, dict):
            raise self._damage_error(f"line {number} is no JSON object")
        # once lines are sealed they stay so; without this, cutting a seal off would hide a change
        if self._seals and not is_sealed(line):
            raise self._damage_error(f"line {number} has lost its SHA-256")
        self._seals += is_sealed(line)
        self.entries.append(entry)
        self._end, self._chain = self._end + len(line) + 1, _next_digest(self._chain, line)

    def _damage_error(self, reason: str) -> InputError:
        return damage_error(self.path, reason, "give another --out")


def lines_of(entries: Sequence[Mapping[str, Any]], *, chain: bytes = b"") -> bytes:
    """The lines of these entries; ``chain`` is the digest of the lines before them."""
    data = b""
    for entry in entries:
        line = seal(json.dumps(entry), before=chain)
        data, chain = data + line + b"\n", _next_digest(chain, line)
    return data


def _next_digest(chain: bytes, line: bytes) -> bytes:
    return hashlib.sha256(chain + line).digest()


def _is_whole(rest: bytes) -> bool:
    """Whether an object ends inside these bytes and something else follows."""
    try:
        text = rest.decode("latin-1")  # any byte is a letter of it; ours are ASCII
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end < len(text)


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
        raise checkpoint_error(path, error) from None


def checkpoint_error(path: Path, error: Exception) -> InputError:
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
