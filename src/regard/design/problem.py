"""The question of a certificate, rebuilt from it and the keys: what competes, with whom, and what each side proves.

Every field is checked before it is used; every quantity is bounded from the safe side (see `certificate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from regard import rigor
from regard.design import evaluate
from regard.errors import InputError

Array = NDArray[np.float64]

FORMAT = "regard-certificate/1"
VERBS = ("copy", "share", "match")
CLAIMS = ("shortest", "strongest", "unreachable", "ceiling")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 10**308


def _short(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, (int, str, list, dict)) else repr(value)


def _distribution(target: Array, rows: NDArray[np.intp]) -> Array:
    """The target on the allowed keys; it must be a distribution, with nothing on the others."""
    elsewhere = np.ones(len(target), dtype=bool)
    elsewhere[rows] = False
    if target.min() < 0 or abs(target.sum() - 1) > 1e-5 or target[elsewhere].any():
        raise InputError("The certificate's target must be a distribution over the allowed keys, with sum 1.")
    return target[rows]


class Problem:
    """The question rebuilt from the certificate and the keys; every field is checked before it is used."""

    def __init__(self, certificate: Mapping[str, Any], keys: Array, strict: bool, tiers: tuple[bool, ...]) -> None:
        if not isinstance(certificate, Mapping) or certificate.get("format") != FORMAT:
            raise InputError(
                f'This is not a certificate: its "format" must be {FORMAT!r}; pass the JSON that a design verb printed.'
            )
        self.certificate, self.strict, self.tiers = certificate, strict, tiers
        question = self.get("question", dict)
        self.verb, self.claim = question.get("verb"), certificate.get("claim")
        if self.verb not in VERBS or self.claim not in CLAIMS:
            raise InputError(f"The certificate's verb {self.verb!r} or claim {self.claim!r} is not one that exists.")
        self.get("data", dict)
        self.scale = self.number("scale")
        if not self.scale > 0:
            raise InputError(f"The certificate's 'scale' must be a positive number; it is {self.scale!r}.")
        self.eps, self.kl, self.max_norm = (question.get(name) for name in ("eps", "kl", "max_norm"))
        allowed = certificate.get("allowed")
        rows = np.arange(len(keys)) if allowed is None else self.indices(allowed, len(keys))
        self._place(keys, rows, question)

    def _place(self, keys: Array, rows: NDArray[np.intp], question: Mapping[str, Any]) -> None:
        """Points that compete, anchors, and for matching the target."""
        self.target, self.chosen = None, np.zeros(0, dtype=np.intp)
        if self.verb == "match":
            self.target = _distribution(self._vector(question.get("target"), "target", len(keys)), rows)
            self.points, self.anchors = keys[rows], np.zeros((0, keys.shape[1]))
            return
        chosen = self.indices(question.get("keys"), len(keys))
        if self.verb == "copy" and len(chosen) != 1:
            raise InputError(f"The certificate is about copying {len(chosen)} keys at once; copying is of one key.")
        if not np.isin(chosen, rows).all():
            raise InputError("The certificate names a key that its own mask forbids.")
        self.chosen, self.anchors = chosen, keys[chosen]
        self.points = keys[np.setdiff1d(rows, chosen)] if self.verb == "copy" else keys[rows]

    def get(self, name: str, kind: type) -> Any:
        value = self.certificate.get(name)
        if not isinstance(value, kind):
            raise InputError(f"The certificate's {name!r} is missing or not a {kind.__name__}; it cannot be checked.")
        return value

    def number(self, name: str) -> float:
        value: Any = self.certificate.get(name)
        if not _is_number(value):
            raise InputError(f"The certificate's {name!r} must be a finite number; it is {_short(value)}.")
        return float(value)

    def honest(self, name: str, proved: float, *, upper: bool) -> bool:
        """Is the number that the certificate may state under this name no sharper than the one proved?"""
        if self.certificate.get(name) is None:
            return True
        return self.number(name) >= proved if upper else self.number(name) <= proved

    def _vector(self, value: Any, name: str, length: int) -> Array:
        try:
            vector = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            vector = np.empty(0)
        if vector.shape != (length,) or not np.isfinite(vector).all():
            raise InputError(f"The certificate's {name!r} must be {length} finite numbers.")
        return vector

    def indices(self, value: Any, count: int) -> NDArray[np.intp]:
        good = isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
        if not good or not value or min(value) < 0 or max(value) >= count or len(set(value)) < len(value):
            raise InputError(f"The certificate's list of keys must be distinct whole numbers from 0 to {count - 1}.")
        return np.array(value, dtype=np.intp)

    def query(self) -> Array:
        return self._vector(self.certificate.get("query"), "query", self.points.shape[1])

    def direction(self) -> Array | list[int]:
        """A direction in floats, or in whole numbers where floats have too few digits for it."""
        value, length = self.get("direction", list), self.points.shape[1]
        if len(value) == length and all(type(x) is int for x in value):
            return list(value)
        return self._vector(value, "direction", length)

    def dual(self, name: str) -> tuple[Array, Array]:
        """Non-negative weights over the points and a mixture over the anchors, each with a positive sum."""
        entry = self.get(name, dict)
        weights = self._vector(entry.get("weights"), f"{name} weights", len(self.points))
        mixture = self._vector(entry.get("mixture", []), f"{name} mixture", len(self.anchors))
        for vector in (weights, mixture):  # far outside that range their own sums would overflow or underflow
            if len(vector) and not (vector.min() >= 0 and 1e-100 < vector.max() < 1e100):
                raise InputError(f"The certificate's {name} weights must be non-negative, the largest near 1.")
        return weights, mixture

    # What the two sides give, in nats ------------------------------------------------------------------------------

    def value(self, query: Array, *, refine: bool) -> flint.arb:
        """F(q), from above: for copying ln sum_i exp(s_i - s_j), for matching the divergence."""
        if self.target is not None:
            return self._divergence(self.target, query, refine=refine)
        totals = [self._total(anchor, query, refine=refine) for anchor in self.anchors]
        worst = max(total.upper() for total in totals)  # exact numbers, so that the order is certain
        return worst.log() if len(self.points) else flint.arb(-math.inf)

    def meets(self, query: Array, *, refine: bool) -> bool:
        """Does the query meet the demand? The zero query weighs all keys alike, so counting decides it exactly."""
        if self.target is None and not query.any():
            eps = Fraction(self.asked(self.eps, "eps"))
            return len(self.points) <= (eps if self.verb == "copy" else eps + len(self.anchors))
        return bool(self.value(query, refine=refine) <= self.limit())

    def copies(self) -> int:
        """How many competing keys equal the key to be copied, number for number."""
        return int((self.points == self.anchors[0]).all(axis=1).sum()) if self.verb == "copy" else 0

    def _total(self, anchor: Array, query: Array, *, refine: bool) -> flint.arb:
        """sum over the points of exp(s_i - s_anchor), from above."""
        lead, rad = self._lead(anchor, query, refine=refine)
        return evaluate.sum_exp(-lead, rad, strict=self.strict)

    def _lead(self, anchor: Array, query: Array, *, refine: bool) -> tuple[Array, Array]:
        """scale (anchor - k_i).q for every point, as an enclosure."""
        if refine:
            mid, rad = rigor.margins(self.points, anchor, query)
        else:
            both, error = rigor.dot_enclosure(np.concatenate([self.points, anchor[None, :]]), query)
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not a number, and proves nothing
                mid = both[-1] - both[:-1]
                rad = (error[:-1] + error[-1]) * (1 + 4 * rigor.U) + 2 * rigor.U * np.abs(mid)
        if self.scale == 1:
            return mid, rad
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.scale * mid
            return scaled, (self.scale * rad + 2 * rigor.U * np.abs(scaled)) * (1 + 4 * rigor.U) + rigor.TINY

    def _divergence(self, target: Array, query: Array, *, refine: bool) -> flint.arb:
        """KL(p || softmax) = ln sum exp(s_i - s_0) + sum p_i (s_0 - s_i) - H(p), from above."""
        lead, rad = self._lead(self.points[int(np.argmax(target))], query, refine=refine)
        total = evaluate.sum_exp(-lead, rad, strict=self.strict)
        share, high, error = flint.arb(0), flint.arb(0), rad[target > 0]
        for p, x, r in zip(target[target > 0], lead[target > 0], error, strict=True):
            share += flint.arb(float(p))
            high += flint.arb(float(p)) * (flint.arb(float(x)) + flint.arb(float(r)))
        return total.log() + high / share - evaluate.entropy_ball(target[target > 0])

    def entropy(self, weights: Array) -> flint.arb:
        """What the weights prove in nats, from below: H(w), less the target's entropy where one is matched."""
        entropy = evaluate.entropy(weights, strict=self.strict)
        if self.target is None:
            return entropy
        return entropy - evaluate.entropy_ball(self.target[self.target > 0])

    def slack_above(self, weights: Array, mixture: Array, *, refine: bool) -> float:
        """scale ||P^T w - A^T mu||, from above."""
        if self.target is not None:
            length = evaluate.slack_to_target_above(self.points, weights, self.target, refine=refine)
        else:
            length = evaluate.slack_above(self.points, weights, self.anchors, mixture, refine=refine)
        return self.scale * length * (1 + 4 * rigor.U) + rigor.TINY

    def limit(self) -> flint.arb:
        """The value of F that the question asks for: ln eps, ln(|S| + eps), or the KL itself."""
        if self.verb == "match":
            return flint.arb(float(self.asked(self.kl, "kl")))
        eps = flint.arb(float(self.asked(self.eps, "eps")))
        return eps.log() if self.verb == "copy" else (eps + len(self.anchors)).log()

    def asked(self, value: Any, name: str) -> float:
        if not _is_number(value) or value <= 0:
            raise InputError(
                f"The certificate's question must give {name!r} as a positive number; it is {_short(value)}."
            )
        return float(value)

    def attention(self, value: float, *, up: bool) -> float:
        """The attention that a value F stands for (the divergence itself for matching), rounded to the safe side."""
        if self.verb == "match":
            return value
        if value == math.inf:
            return 0.0
        growth = flint.arb(value).exp()
        share = 1 / (1 + growth) if self.verb == "copy" else 1 / growth
        return min(evaluate.above(share), 1.0) if up else max(evaluate.below(share), 0.0)

    def words(self) -> str:
        """The question that the certificate answers, so that nobody takes it for the answer to another."""
        asked = {"eps": self.eps, "kl": self.kl, "max_norm": self.max_norm}
        about = ", ".join(f"{name} {value:.12g}" for name, value in asked.items() if _is_number(value))
        chosen = ", ".join(map(str, self.chosen.tolist()))
        what = f"key{'s' * (len(self.chosen) > 1)} {chosen} (counted from 0)" if chosen else "the target stored in it"
        verb = f"the most that can ever be done: {self.verb}" if self.claim == "ceiling" else self.verb
        masked = "" if self.certificate.get("allowed") is None else ", with a mask"
        return f"{verb} {what}{', ' * bool(about)}{about}, scale {self.scale:.12g}{masked}"

    def measure(self) -> str:
        return {"copy": "attention", "share": "least attention", "match": "divergence"}[self.verb]
