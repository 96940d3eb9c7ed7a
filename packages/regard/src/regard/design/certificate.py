"""Certificates: what an answer claims, in numbers from which anybody can recheck it. `verification` does.

A certificate is one frozen object with typed fields; a dictionary only where it becomes JSON or comes from there
(docs/certificates.md describes every field). Reading is strict: a field that the claim does not use is refused, so
that nothing can stand in a certificate unchecked.

Vectors are float64 numbers, or rationals (in JSON strings such as "1/3") where floats have too few digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import flint
import numpy as np

from regard.array_types import Float
from regard.errors import InputError
from regard.files import read_file, write_file
from regard.strict_json import parse_json
from regard.written_numbers import is_exact_float, is_finite_number, rounded_integer_error

Exact = tuple[flint.fmpq, ...]
Numbers = Float | Exact

FORMAT = "regard-certificate/1"
LARGE = 1 << 20  # bytes of keys: below, a thread takes longer to start than the digest
LARGEST = 1 << 28  # bytes of a file of certificates
MOST_DIGITS = 20_000  # of one rational: what a proof needs has hundreds, and reading more could take minutes
# a denominator of zeros alone is no number
RATIONAL = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?")


class Verb(StrEnum):
    """What is asked of the attention."""

    COPY = "copy"
    SHARE = "share"
    MATCH = "match"


class Statement(StrEnum):
    """What a certificate proves: the shortest query, the strongest within a norm, that none does it, the ceiling."""

    SHORTEST = "shortest"
    STRONGEST = "strongest"
    UNREACHABLE = "unreachable"
    CEILING = "ceiling"


NOTHING = type(None)
FIGURE, VECTOR = (int, float, NOTHING), (np.ndarray, tuple)
LISTS = {"designs", "ceilings"}  # what a file of several answers calls them
PROOFS = ("dual", "combination", "direction")  # the fields that nothing but a certificate has
HEAD = ("format", "question", "claim", "scale", "allowed", "data")
FIGURES = ("norm", "lower_bound", "gap", "reached", "bound", "ceiling")
# which further fields each claim uses; every other one is refused
USED = {
    Statement.SHORTEST: ("query", "dual", "norm", "lower_bound", "gap"),
    Statement.STRONGEST: ("query", "dual", "reached", "bound", "gap"),
    Statement.UNREACHABLE: ("combination", "bound"),
    Statement.CEILING: ("query", "direction", "combination", "ceiling", "reached", "gap"),
}


def _check_kinds(part: object, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Refuse fields of another kind than declared: `dataclasses.replace` lets anybody put anything into them."""
    fields = vars(part)  # quicker than getattr, and a certificate has many
    for name, kind in kinds.items():
        value = fields[name]
        if type(value) not in kind and (isinstance(value, bool) or not isinstance(value, kind)):
            wanted = " or ".join("None" if one is NOTHING else one.__name__ for one in kind)
            what = f"A certificate's {name!r} must be of type {wanted}; it is {_short(value)}"
            raise InputError(f"{what}: leave it as the verb returned it.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The question: copy one key, share several, or match a target; to reach eps or kl, or within a norm."""

    verb: Verb
    keys: tuple[int, ...] = ()  # counted from 0; none for match
    target: Float | None = None  # one share per key
    eps: float | None = None
    kl: float | None = None
    max_norm: float | None = None

    def __post_init__(self) -> None:
        _check_kinds(self, REQUEST_KINDS)

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {"verb": self.verb.value}
        said |= {"keys": list(self.keys)} if self.target is None else {"target": self.target.tolist()}
        demand = {"eps": self.eps, "kl": self.kl, "max_norm": self.max_norm}
        return said | {name: value for name, value in demand.items() if value is not None}


@dataclass(frozen=True, kw_only=True, eq=False)
class Balance:
    """Weights over the competing keys and a mixture over the anchors, both non-negative and in any scale.

    As a combination the two must balance exactly: rationals do as they stand; of floats the weights in `basis` are
    solved for.
    """

    weights: Numbers
    mixture: Numbers
    basis: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check_kinds(self, BALANCE_KINDS)

    def non_negative(self) -> bool:
        """Reading sees to it that both are; what a solver has made, nobody has read."""
        return all(
            all(x >= 0 for x in numbers) if isinstance(numbers, tuple) else bool(numbers.min(initial=0.0) >= 0)
            for numbers in (self.weights, self.mixture)
        )

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {"weights": spell_numbers(self.weights), "mixture": spell_numbers(self.mixture)}
        return said if self.basis is None else {**said, "basis": list(self.basis)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """What is claimed of which keys, and the numbers that prove it."""

    question: Request
    claim: Statement
    scale: float
    allowed: tuple[int, ...] | None  # the keys that may be attended to; None: all
    shape: tuple[int, int]
    sha256: str
    query: Numbers | None = None  # d numbers
    dual: Balance | None = None
    combination: Balance | None = None
    direction: tuple[int, ...] | Float | None = None  # d numbers
    norm: float | None = None
    lower_bound: float | None = None
    gap: float | None = None
    reached: float | None = None
    bound: float | None = None
    ceiling: float | None = None

    def __post_init__(self) -> None:
        _check_kinds(self, CERTIFICATE_KINDS)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as JSON holds it."""
        said: dict[str, Any] = {
            "format": FORMAT,
            "question": self.question.to_dict(),
            "claim": self.claim.value,
            "scale": self.scale,
            "allowed": None if self.allowed is None else list(self.allowed),
            "data": {"shape": list(self.shape), "sha256": self.sha256},
        }
        if self.query is not None:
            said["query"] = spell_numbers(self.query)
        for name in ("dual", "combination"):
            part: Balance | None = getattr(self, name)
            if part is not None:
                said[name] = part.to_dict()
        if self.direction is not None:
            said["direction"] = list(self.direction) if isinstance(self.direction, tuple) else self.direction.tolist()
        return said | {name: value for name in FIGURES if (value := getattr(self, name)) is not None}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Certificate:
        """Read strictly; whatever is missing, malformed or not used by the claim is refused in one sentence."""
        return _Reader(given).certificate()


REQUEST_KINDS: dict[str, tuple[type, ...]] = {"verb": (Verb,), "keys": (tuple,), "target": (np.ndarray, NOTHING)}
REQUEST_KINDS |= dict.fromkeys(("eps", "kl", "max_norm"), FIGURE)
BALANCE_KINDS: dict[str, tuple[type, ...]] = {"weights": VECTOR, "mixture": VECTOR, "basis": (tuple, NOTHING)}
CERTIFICATE_KINDS: dict[str, tuple[type, ...]] = {
    "question": (Request,),
    "claim": (Statement,),
    "scale": (int, float),
    "allowed": (tuple, NOTHING),
    "shape": (tuple,),
    "sha256": (str,),
    **dict.fromkeys(("query", "direction"), (*VECTOR, NOTHING)),
    **dict.fromkeys(("dual", "combination"), (Balance, NOTHING)),
    **dict.fromkeys(FIGURES, FIGURE),
}


def fingerprint(keys: Float) -> str:
    """SHA-256 of the shape and the float64 numbers, so that a certificate cannot be held against other keys."""
    digest = hashlib.sha256(repr(keys.shape).encode())
    digest.update(np.ascontiguousarray(keys, dtype="<f8").data)  # as they lie in memory: no copy
    return digest.hexdigest()


class Digest:
    """The fingerprint of some keys, taken beside other work: hashing and products of matrices leave Python alone.

    It begins here and `text` waits for it, so a verb asks for it before it returns: the keys are still those it used.
    """

    def __init__(self, keys: Float) -> None:
        self._keys, self._text, self._thread = keys, "", None
        if keys.nbytes >= LARGE:
            thread = threading.Thread(target=self._take, daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads here: then as for small keys
                thread.start()
                self._thread = thread

    def _take(self) -> None:
        self._text = fingerprint(self._keys)

    @property
    def text(self) -> str:
        """In hexadecimal digits."""
        if self._thread is not None:
            self._thread.join()
        if not self._text:
            self._take()
        return self._text


def rationals(numbers: Numbers) -> Exact:
    """The same numbers, exactly."""
    if isinstance(numbers, tuple):
        return numbers
    return tuple(flint.fmpq(*float(x).as_integer_ratio()) for x in numbers)


def floats(numbers: Numbers) -> Float:
    """The same numbers, each rounded to float64 where it is a rational."""
    if not isinstance(numbers, tuple):
        return numbers
    return np.array([int(x.p) / int(x.q) for x in numbers], dtype=np.float64)


def spell_numbers(numbers: Numbers) -> list[float] | list[str]:
    """As JSON holds them: floats with all their digits, rationals as strings."""
    return [str(x) for x in numbers] if isinstance(numbers, tuple) else numbers.tolist()


class _Reader:
    """The fields of a certificate, each checked before it is used."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if not isinstance(given, Mapping) or given.get("format") != FORMAT:
            raise InputError(
                f'This is not a certificate: its "format" must be {FORMAT!r}; pass the JSON that a design verb printed.'
            )
        self.given, self.asked = given, _part(given, "question")
        verb, claim = self.asked.get("verb"), given.get("claim")
        if verb not in [v.value for v in Verb] or claim not in [c.value for c in Statement]:
            raise InputError(f"The certificate's verb {verb!r} or claim {claim!r} is not one that exists.")
        self.verb, self.claim = Verb(verb), Statement(claim)
        self.shape, self.sha256 = _data(_part(given, "data"))

    def certificate(self) -> Certificate:
        scale = _number(self.given.get("scale"), "scale")
        if not scale > 0:
            raise InputError(f"The certificate's 'scale' must be a positive number; it is {scale!r}.")
        allowed = None if self.given.get("allowed") is None else _indices(self.given["allowed"], self.shape[0])
        question = self._question(allowed)
        _refuse_others(self.given, (*HEAD, *USED[self.claim]), f"its claim {self.claim.value!r}")
        rows = self.shape[0] if allowed is None else len(allowed)
        sizes = rows - (self.verb is Verb.COPY), len(question.keys)
        return Certificate(
            question=question,
            claim=self.claim,
            scale=scale,
            allowed=allowed,
            shape=self.shape,
            sha256=self.sha256,
            query=self._query(),
            dual=self._balance("dual", sizes),
            combination=self._balance("combination", sizes),
            direction=self._direction(),
            **self._figures(),
        )

    def _question(self, allowed: tuple[int, ...] | None) -> Request:
        asked, count = self.asked, self.shape[0]
        demand = {Statement.STRONGEST: ("max_norm",), Statement.CEILING: ()}.get(
            self.claim, ("kl",) if self.verb is Verb.MATCH else ("eps",)
        )
        about = "target" if self.verb is Verb.MATCH else "keys"
        values: dict[str, Any] = {name: _positive(asked.get(name), name) for name in demand}
        if self.verb is Verb.MATCH:
            target = _distribution(_vector(asked.get("target"), "target", count), allowed)
            question = Request(verb=self.verb, target=target, **values)
        else:
            keys = _indices(asked.get("keys"), count)
            if self.verb is Verb.COPY and len(keys) != 1:
                raise InputError(f"The certificate is about copying {len(keys)} keys at once; copying is of one key.")
            if allowed is not None and not set(keys) <= set(allowed):
                raise InputError("The certificate names a key that its own mask forbids.")
            question = Request(verb=self.verb, keys=keys, **values)
        _refuse_others(asked, ("verb", about, *demand), "its question")
        return question

    def _query(self) -> Numbers | None:
        needed = "query" in USED[self.claim] and self.claim is not Statement.CEILING
        if not needed and self.given.get("query") is None:
            return None
        return _numbers(self.given.get("query"), "query", self.shape[1])

    def _direction(self) -> tuple[int, ...] | Float | None:
        """A direction in floats, or in whole numbers where floats have too few digits for it."""
        if self.claim is not Statement.CEILING:
            return None
        if self.given.get("query") is not None:
            if "direction" in self.given:
                raise InputError("The certificate has a query and a direction; a ceiling is shown by one of them.")
            return None
        value, length = self.given.get("direction"), self.shape[1]
        if not isinstance(value, list):
            raise InputError("The certificate's 'direction' is missing or not a list; it cannot be checked.")
        if len(value) == length and all(type(x) is int for x in value):
            return tuple(value)
        return _vector(value, "direction", length)

    def _balance(self, name: str, sizes: tuple[int, int]) -> Balance | None:
        needed = name == "dual" and self.claim in (Statement.SHORTEST, Statement.STRONGEST)
        if not needed and self.given.get(name) is None:
            return None
        entry = _part(self.given, name)
        basis = None
        if name == "combination" and entry.get("basis") is not None:
            basis = _indices(entry["basis"], sizes[0])
        _refuse_others(entry, ("weights", "mixture", *(["basis"] if name == "combination" else [])), f"its {name}")
        balance = Balance(
            weights=_weights(entry.get("weights"), f"{name} weights", sizes[0]),
            mixture=_weights(entry.get("mixture", []), f"{name} mixture", sizes[1]),
            basis=basis,
        )
        if name == "combination" and (basis is None) != isinstance(balance.weights, tuple):
            raise InputError("The certificate's combination must be rationals, or floats with the basis to solve for.")
        return balance

    def _figures(self) -> dict[str, float]:
        needed = {Statement.SHORTEST: ("norm", "gap"), Statement.UNREACHABLE: ()}.get(self.claim, ("gap",))
        names = [name for name in FIGURES if name in needed or self.given.get(name) is not None]
        return {name: _number(self.given.get(name), name) for name in names}


def _part(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name)
    if not isinstance(value, dict):
        raise InputError(f"The certificate's {name!r} is missing or not a dict; it cannot be checked.")
    return value


def _data(data: dict[str, Any]) -> tuple[tuple[int, int], str]:
    shape, sha256 = data.get("shape"), data.get("sha256")
    good = isinstance(shape, list) and len(shape) == 2 and all(type(x) is int and x > 0 for x in shape)
    if not good or not isinstance(shape, list) or not isinstance(sha256, str):
        raise InputError("The certificate's 'data' must give the 'shape' of its keys and their 'sha256'.")
    _refuse_others(data, ("shape", "sha256"), "its data")
    return (shape[0], shape[1]), sha256


def _refuse_others(given: Mapping[str, Any], used: Sequence[str], whose: str) -> None:
    """Nothing may stand in a certificate that is not checked."""
    for name in given:
        if name not in used:
            raise InputError(
                f"The certificate has a field {str(name)[:40]!r} that {whose} does not use, so that it would stand "
                "there unchecked; take it out."
            )


def _is_number(value: object, name: str) -> bool:
    """Is it a finite float64 number? An integer that float64 would round is refused."""
    if not is_finite_number(value):
        return False
    if isinstance(value, int) and not is_exact_float(value):
        raise rounded_integer_error(value, f"The certificate's {name!r}")
    return True


def _short(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, (int, str, list, dict)) else repr(value)


def _number(value: Any, name: str) -> float:
    if not _is_number(value, name):
        raise InputError(f"The certificate's {name!r} must be a finite number; it is {_short(value)}.")
    return float(value)


def _positive(value: Any, name: str) -> float:
    if not _is_number(value, name) or value <= 0:
        raise InputError(f"The certificate's question must give {name!r} as a positive number; it is {_short(value)}.")
    return float(value)


def _vector(value: object, name: str, length: int) -> Float:
    good = isinstance(value, list) and len(value) == length and all(_is_number(x, name) for x in value)
    if not good:
        raise InputError(f"The certificate's {name!r} must be {length} finite numbers.")
    return np.array(value, dtype=np.float64)


def _numbers(value: object, name: str, length: int) -> Numbers:
    """Floats, or rationals as strings; not both in one list."""
    if not isinstance(value, list) or not value or not all(isinstance(x, str) for x in value):
        return _vector(value, name, length)
    short = all(len(text) <= MOST_DIGITS and RATIONAL.fullmatch(text) for text in value)
    if len(value) != length or not short:
        raise InputError(f"The certificate's {name!r} must be {length} finite numbers, or as many rationals like 1/3.")
    pairs = [text.partition("/") for text in value]
    return tuple(flint.fmpq(flint.fmpz(above), flint.fmpz(below or "1")) for above, _, below in pairs)


def _weights(value: object, name: str, length: int) -> Numbers:
    """Non-negative, with a positive sum."""
    weights = _numbers(value, name, length)
    if isinstance(weights, tuple):
        if any(x < 0 for x in weights) or not any(x > 0 for x in weights):
            raise InputError(f"The certificate's {name} must be non-negative, and some of them positive.")
    elif len(weights) and not (weights.min() >= 0 and 1e-100 < weights.max() < 1e100):
        # far outside that range their own sums would overflow or underflow
        raise InputError(f"The certificate's {name} must be non-negative, the largest near 1.")
    return weights


def _indices(value: Any, count: int) -> tuple[int, ...]:
    # type, not isinstance: JSON's true would pass for 1
    good = isinstance(value, list) and all(type(i) is int for i in value)
    if not good or not value or min(value) < 0 or max(value) >= count or len(set(value)) < len(value):
        raise InputError(f"The certificate's list of keys must be distinct whole numbers from 0 to {count - 1}.")
    return tuple(value)


def _distribution(target: Float, allowed: tuple[int, ...] | None) -> Float:
    """One share per key, with sum 1 and nothing on forbidden keys."""
    elsewhere = np.full(len(target), allowed is not None)
    elsewhere[list(allowed or ())] = False
    if target.min() < 0 or abs(target.sum() - 1) > 1e-5 or target[elsewhere].any():
        raise InputError("The certificate's target must be a distribution over the allowed keys, with sum 1.")
    return target


def read_answers(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The certificates in a JSON file: the file itself, or the whole result of one answer or of several."""
    try:
        read = parse_json(read_file(path, most=LARGEST))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; pass what --out wrote or --json printed.") from None
    except InputError:  # it is no file, or too large a one
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the path.") from None
    except ValueError as error:  # not text, or not JSON
        raise InputError(f"{path} is not JSON ({str(error)[:80]}); pass what --out wrote or --json printed.") from None
    if isinstance(read, dict) and read.get("format") == "regard winnable 1":
        raise InputError(f"{path} is a certificate of winnable; recheck it with: winnable ROWS --verify {path}.")
    answers = _answer_list(read, path) if isinstance(read, dict) and not LISTS.isdisjoint(read) else [read]
    if not answers or not all(isinstance(answer, dict) for answer in answers):
        raise InputError(f"{path} holds no certificate: it must be a JSON object; pass what --out wrote.")
    return answers


def _answer_list(read: dict[str, Any], path: str | os.PathLike[str]) -> list[Any]:
    """The answers of a file of several; beside their list nothing else may stand, since nobody would check it."""
    name = "designs" if "designs" in read else "ceilings"
    beside = [str(other)[:40] for other in read if other not in (name, "unanswered")]
    if beside:
        raise InputError(
            f"{path} has a list of {name} and beside it {', '.join(map(repr, beside))}, which nobody would check; "
            "keep one of the two."
        )
    return read[name] if isinstance(read[name], list) else []


def write_certificate(path: str | os.PathLike[str], certificate: Certificate) -> None:
    """Write a certificate as JSON; floats keep every digit. The file appears whole or not at all."""
    write_file(path, json.dumps(certificate.to_dict(), indent=1, allow_nan=False).encode("ascii"))
