"""Assertions that tests of attention should have, the plainest first, and which of them catch a mistake.

Each is a few lines in words that NumPy and torch share. One counts for a form of attention only if the right function
passes it, and for a mistake only if the wrong one fails it: both are run, in NumPy.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from regard.mistakes import injection


@dataclass(frozen=True)
class Assertion:
    """A sentence, and the lines that end in the assertion."""

    sentence: str
    code: str


_QKV = "q, k, v = random(size=(3, 2, 5, 7))\n"
_SOFTMAX = "weights = np.exp(scores) / np.sum(np.exp(scores), axis=-1, keepdims=True)\n"
_CAUSAL = "scores = np.where(np.tril(np.ones((5, 5), dtype=bool)), scores, -np.inf)\n"
_HAND = (
    "q = np.asarray([[[2 * math.log(3), 0, 0, 0]] * 2])\nk = np.asarray([[[1.0, 0, 0, 0], [0, 0, 0, 0]]])\n"
    "v = np.asarray([[[4.0], [0.0]]])\nassert np.allclose(attend(q, k, v), np.asarray([[[{}.0], [3.0]]]), atol=1e-5)"
)
_SAID_HAND = "scores ln 3 and 0 give the weights 3/4 and 1/4, by hand"
_SAID_REFERENCE = "the formula itself, on a width whose root is not whole"


def _reference(extra: str) -> str:
    scores = "scores = q @ np.swapaxes(k, -1, -2) / 7**0.5\n"
    return f"{_QKV}{scores}{extra}{_SOFTMAX}assert np.allclose(attend(q, k, v), weights @ v, atol=1e-5)"


FUNCTION = (
    Assertion("keys matter", f"{_QKV}assert not np.allclose(attend(q, k, v), attend(q, -k, v), atol=1e-3)"),
    Assertion(
        "the weights of a query sum to 1: equal values come back",
        "q, k = random(size=(2, 2, 5, 7))\nv = np.ones((2, 5, 3)) + 0 * q[:, :, :3]\n"
        "assert np.allclose(attend(q, k, v), v, atol=1e-5)",
    ),
    Assertion(_SAID_HAND, _HAND.format(3)),
    Assertion(f"{_SAID_HAND}; the first place sees itself alone", _HAND.format(4)),
    Assertion(
        "the order of keys does not matter, if values go with them",
        f"{_QKV}turned = attend(q, np.flip(k, (1,)), np.flip(v, (1,)))\n"
        "assert np.allclose(attend(q, k, v), turned, atol=1e-5)",
    ),
    Assertion(
        "later places do not change earlier answers",
        f"{_QKV}assert np.allclose(attend(q, k, v)[:, :3], attend(q[:, :3], k[:, :3], v[:, :3]), atol=1e-5)",
    ),
    Assertion(
        "an example alone gives what it gives in a batch",
        f"{_QKV}assert np.allclose(attend(q, k, v)[:1], attend(q[:1], k[:1], v[:1]), atol=1e-5)",
    ),
    Assertion(_SAID_REFERENCE, _reference("")),
    Assertion(f"{_SAID_REFERENCE}, later places hidden", _reference(_CAUSAL)),
    Assertion(
        "a hidden key is as good as none",
        f"{_QKV}allowed = np.ones((5, 5), dtype=bool)\nallowed[:, :2] = False\n"
        "shorter = attend(q[:, 2:], k[:, 2:], v[:, 2:])\n"
        "assert np.allclose(attend(q, k, v, MASK)[:, 2:], shorter, atol=1e-5)",
    ),
    Assertion(
        "each query has its own row of the mask",
        f"{_QKV}allowed = np.tril(np.ones((5, 5), dtype=bool))\n"
        "assert np.allclose(attend(q, k, v, MASK)[:, :3], attend(q[:, :3], k[:, :3], v[:, :3], MASK3), atol=1e-5)",
    ),
    Assertion(
        "each example has its own mask, in every head",
        "q, k, v = random(size=(3, 2, 3, 5, 7))\nallowed = np.ones((2, 1, 1, 5), dtype=bool)\n"
        "allowed[1, :, :, 3:] = False\nalone = attend(q[:1], k[:1], v[:1])\n"
        "assert np.allclose(attend(q, k, v, MASK)[:1], alone, atol=1e-5)",
    ),
    Assertion(
        "heads do not see one another",
        "q, k, v = random(size=(3, 2, 3, 5, 7))\n"
        "assert np.allclose(attend(q, k, v)[:, :1], attend(q[:, :1], k[:, :1], v[:, :1]), atol=1e-5)",
    ),
    Assertion(
        "the scale is that of one head, not of all",
        "q, k, v = random(size=(3, 2, 3, 5, 7))\n"
        "assert np.allclose(attend(q, k, v)[:, 1], attend(q[:, 1], k[:, 1], v[:, 1]), atol=1e-5)",
    ),
    Assertion(
        "two query heads in a row share a head of keys and values",
        "q, (k, v) = random(size=(2, 4, 5, 7)), random(size=(2, 2, 2, 5, 7))\n"
        "assert np.allclose(attend(q, k, v)[:, 2:], attend(q[:, 2:], k[:, 1:], v[:, 1:]), atol=1e-5)",
    ),
)
_X = "x = random(size=(2, 5, 12))\n"
_SPLIT = "q, k, v = (np.swapaxes(part.reshape(2, 5, -1, 3), 1, 2) for part in (QUERIES, KEYS, VALUES))\n"
_GROUPS = "k, v = np.repeat(k, 2, 1), np.repeat(v, 2, 1)\n"


def _module_reference(extra: str, causal: str) -> str:
    scores = "scores = q @ np.swapaxes(k, -1, -2) / 3**0.5\n"
    merged = "expected = OUTPUT(np.swapaxes(weights @ v, 1, 2).reshape(2, 5, 12))\n"
    return f"{_X}{_SPLIT}{extra}{scores}{causal}{_SOFTMAX}{merged}assert np.allclose(attend(x), expected, atol=1e-5)"


MODULE = (
    Assertion(
        "a token changes what others get",
        f"{_X}other = np.concatenate([x[:, :1] + 1, x[:, 1:]], 1)\n"
        "assert not np.allclose(attend(x)[:, 1:], attend(other)[:, 1:], atol=1e-4)",
    ),
    Assertion(
        "an example alone gives what it gives in a batch",
        f"{_X}assert np.allclose(attend(x)[:1], attend(x[:1]), atol=1e-5)",
    ),
    Assertion(
        "later places do not change earlier answers",
        f"{_X}assert np.allclose(attend(x)[:, :3], attend(x[:, :3]), atol=1e-5)",
    ),
    Assertion(
        "the order of tokens does not matter, but for the order of answers",
        f"{_X}assert np.allclose(np.flip(attend(x), (1,)), attend(np.flip(x, (1,))), atol=1e-5)",
    ),
    *(
        Assertion("the formula itself, from the layer's own matrices", _module_reference(extra, causal))
        for extra in ("", _GROUPS)
        for causal in ("", _CAUSAL)
    ),
    Assertion(
        "a hidden token is as good as none",
        f"{_X}allowed = np.ones((5, 5), dtype=bool)\nallowed[:, :2] = False\n"
        "assert np.allclose(attend(x, MASK)[:, 2:], attend(x[:, 2:]), atol=1e-5)",
    ),
    Assertion(
        "each query has its own row of the mask",
        f"{_X}allowed = np.tril(np.ones((5, 5), dtype=bool))\n"
        "assert np.allclose(attend(x, MASK)[:, :3], attend(x[:, :3], MASK3), atol=1e-5)",
    ),
    Assertion(
        "each example has its own mask, in every head",
        f"{_X}allowed = np.ones((2, 1, 1, 5), dtype=bool)\nallowed[1, :, :, 3:] = False\n"
        "assert np.allclose(attend(x, MASK)[:1], attend(x[:1]), atol=1e-5)",
    ),
)


def run_assertion(one: Assertion, attend: Callable[..., Any], form: dict[str, Any], layer: Any) -> bool:
    """Whether a function in NumPy passes; one that raises does not."""
    space: dict[str, Any] = {"np": np, "math": math, "attend": attend, "layer": layer}
    space["random"] = np.random.default_rng(0).normal
    code = _with_masks(one.code, form)
    for part, place in (("QUERIES", "q"), ("KEYS", "k"), ("VALUES", "v")):
        code = code.replace(part, f"layer.project(x, {place!r})")
    try:
        with np.errstate(all="ignore"):
            exec(compile(code.replace("OUTPUT", "layer.output"), "<assertion>", "exec"), space)
    except Exception:
        return False
    return True


def _with_masks(code: str, form: dict[str, Any]) -> str:
    """The mask as the form wants it; a form without masks has none of these."""
    kind, meaning = next(iter(form["mask"].items()), ("boolean", True))
    keep = "allowed" if meaning else "~allowed"
    wanted = f"np.where({keep}, 0.0, -np.inf)" if kind == "added" else keep if kind == "boolean" else f"{keep} * 1"
    return code.replace("MASK3", f"({wanted})[:3, :3]").replace("MASK", wanted)


def callable_of(put: SimpleNamespace, form: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
    """A function in NumPy that is called as the assertions call it, and the layer that it stands for, if it does."""
    if form["kind"] == "module":
        layer = _Layer(put, form)
        return layer, layer
    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("q", "k", "v")]
    names.append(inspect.Parameter("mask", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
    plain = {**form, "library": "numpy", "layout": [], "pair": False, "mask_name": "mask"}
    silent: Any = SimpleNamespace(note=lambda **_: None)
    return injection.function_replacement(put, plain, names, silent), None


class _Layer:
    """A module of four linear maps, in NumPy: 12 wide, 4 heads."""

    def __init__(self, put: SimpleNamespace, form: dict[str, Any]) -> None:
        rng = np.random.default_rng(2)
        keys = 6 if form["grouped"] else 12
        self.put, self.form = put, form
        self.maps = {name: rng.normal(size=(12, wide)) / 3 for name, wide in (("q", 12), ("k", keys), ("v", keys))}
        self.last = rng.normal(size=(12, 12))

    def project(self, x: Any, name: str) -> Any:
        return x @ self.maps[name]

    def output(self, merged: Any) -> Any:
        return merged @ self.last

    def __call__(self, x: Any, mask: Any = None) -> Any:
        q, k, v = (self.project(x, name) for name in "qkv")
        arrays = injection.Arrays("numpy")
        allowed = injection.read_mask(mask, self.form["mask"], x[:, None], x[:, None], arrays)
        return self.put.answer(self.output(self.put.multi_head(q, k, v, 4, allowed)), x)


def fitting_assertions(right: SimpleNamespace, form: dict[str, Any]) -> list[Assertion]:
    """Those that the right function of this form passes."""
    attend, layer = callable_of(right, form)
    known = MODULE if form["kind"] == "module" else FUNCTION
    usable = [one for one in known if form["mask"] or "MASK" not in one.code]
    return [one for one in usable if run_assertion(one, attend, form, layer)]


def cover(caught: dict[Assertion, set[str]], wanted: Iterable[str]) -> list[tuple[Assertion, list[str]]]:
    """Few assertions that catch all that is wanted, each mistake under one of them.

    >>> one, other = Assertion("", "1"), Assertion("", "2")
    >>> [(a.code, names) for a, names in cover({one: {"a"}, other: {"a", "b"}}, ["a", "b"])]
    [('2', ['a', 'b'])]
    """
    left, chosen = list(wanted), []
    while left:
        best = max(caught, key=lambda one: len(caught[one] & set(left)), default=None)
        if best is None or not caught[best] & set(left):
            break
        chosen.append((best, [name for name in left if name in caught[best]]))
        left = [name for name in left if name not in caught[best]]
    return chosen


def as_written(one: Assertion, form: dict[str, Any], name: str) -> str:
    """The lines as a person puts them into a test of their own."""
    code = _with_masks(one.code, form)
    lines = []
    if form["kind"] == "module":
        call = ", ".join(["x"] * form["states"])
        mask = ", mask=None" if form["mask"] and "mask" in code + one.code.lower() else ""
        passed = f", {form['mask_name']}=mask" if mask else ""
        lines.append(f"layer = {name}(...)  # 12 wide, 4 heads" + (", 2 of keys and values" if form["grouped"] else ""))
        lines.append(f"attend = lambda x{mask}: layer({call}{passed})" + ("[0]" if form["weights"] else ""))
        code = _with_layer_names(code, form["linear"])
    elif form["kind"] == "plain module" or form["pair"]:
        called = f"{name}()" if form["kind"] == "plain module" else name
        lines.append(f"attend = lambda *given: {called}(*given)" + ("[0]" if form["pair"] else ""))
    else:
        code = re.sub(r"\battend\(", f"{name}(", code)
    random = "random = torch.randn" if form["library"] == "torch" else "random = np.random.default_rng(0).normal"
    lines = [*(["import math"] if "math." in code else []), *([random] if "random(" in code else []), *lines]
    text = "\n".join([*lines, code])
    if form["library"] == "torch":
        text = re.sub(r"\bnp\.", "torch.", text.replace("np.repeat(", "torch.repeat_interleave("))
    return text


def _with_layer_names(code: str, linear: Sequence[str]) -> str:
    names = [f"layer.{name}" for name in linear]
    if len(names) >= 3:
        parts = [f"{name}(x)" for name in names[:3]]
    else:
        parts = [f"{names[0]}(x).chunk(3, dim=-1)[{place}]" for place in range(3)]
    for word, part in zip(("QUERIES", "KEYS", "VALUES"), parts, strict=True):
        code = code.replace(word, part)
    return code.replace("OUTPUT(", f"{names[-1]}(" if len(names) in (2, 4) else "(")
