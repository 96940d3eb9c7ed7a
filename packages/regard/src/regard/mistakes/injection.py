"""Runs inside other people's tests: puts a function in the place of theirs as soon as its module is imported.

This file is copied into a folder beside ``sitecustomize.py`` and knows nothing but Python, and torch or NumPy where the
tests have loaded them: regard need not be installed there. ``task.py`` says what to do:

    look      nothing is replaced; which form the function has is found out and written to ``form.json``
    replace   the function calls what ``put_0.py`` defines, right or wrong; ``calls.PID.json`` says how it was called
    fork      the process forks there, once for every ``put_N.py``: imports are paid once; ``trials.txt`` has exit codes

A form is taken for known only if the person's own function equals the right one on random input.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MASKS = ("boolean", "numbers", "added")  # kinds of masks: True/False, 1/0, and numbers added to the scores


def install() -> None:
    """Called by sitecustomize, at the start of every Python that the tests run."""
    sys.meta_path.insert(0, Finder(load("task").TASK))


class Finder:
    """Finds one module as everybody does, and replaces one name in it after it is executed."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.task["module"]:
            return None
        for other in sys.meta_path:
            if other is not self and (spec := other.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = Loader(spec.loader, self.task)  # type: ignore[assignment]
                return spec
        return None


class Loader:
    """Another loader, and one step more."""

    def __init__(self, loader: Any, task: dict[str, Any]) -> None:
        self.loader, self.task = loader, task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        owner = module
        *outer, name = self.task["name"].split(".")
        for one in outer:
            owner = getattr(owner, one, None)
        found = inspect.getattr_static(owner, name, None)
        original = getattr(owner, name, None)
        if original is None:
            write("form.json", {"missing": sorted(k for k, v in vars(module).items() if callable(v) and k[0] != "_")})
            return
        number = fork_trials(self.task) if self.task["act"] == "fork" else 0
        put = look(self.task, original) if self.task["act"] == "look" else replace(self.task, original, number)
        if put is not None:
            setattr(owner, name, staticmethod(put) if isinstance(found, staticmethod) else put)


def write(name: str, value: Any) -> None:
    """A file beside this one, whole or not at all."""
    partial = HERE / f"{name}.{os.getpid()}"
    partial.write_text(json.dumps(value), encoding="utf-8")
    partial.replace(HERE / name)


def load(name: str) -> Any:
    """A module beside this one."""
    return load_file(HERE / f"{name}.py")


def load_file(path: Any) -> Any:
    """A Python file as a module. python_files does more (it names what is wrong): regard need not be installed here."""
    spec = importlib.util.spec_from_file_location(f"regard_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# looking: which form is it?


def look(task: dict[str, Any], function: Any) -> Any:
    """Write down the form of a function now, of a class when it is first called; nothing is replaced."""
    library, is_class = "torch" if "torch" in sys.modules else "numpy", inspect.isclass(function)
    write("form.json", {"form": None, "called": not is_class})
    if task["adapter"]:
        form = {"kind": "adapter", "library": library, "causal": False, "mask": {}}
        write("form.json", {"form": form, "called": True})
    elif is_class:
        forward = function.forward

        def first_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            function.forward = forward
            with keep_random_state(library):
                write("form.json", {"form": module_form(self, forward, args, kwargs), "called": True})
            return forward(self, *args, **kwargs)

        if hasattr(function, "forward"):
            function.forward = first_forward
    else:
        with keep_random_state(library):
            write("form.json", {"form": function_form(function, library), "called": True})
    return None


@contextlib.contextmanager
def keep_random_state(library: str) -> Iterator[None]:
    """Random numbers go on afterwards as if nothing had been drawn."""
    before = sys.modules["torch"].get_rng_state() if library == "torch" else None
    try:
        yield
    finally:
        if before is not None:
            sys.modules["torch"].set_rng_state(before)


def parameters(function: Any) -> list[inspect.Parameter]:
    """The named parameters, without self."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [one for one in inspect.signature(function).parameters.values() if one.kind in kinds]
    return named[1:] if named and named[0].name == "self" else named


def mask_parameter(names: list[inspect.Parameter], after: int) -> inspect.Parameter | None:
    """The one that is called a mask."""
    return next((one for one in names[after:] if any(word in one.name.lower() for word in ("mask", "allowed"))), None)


class Arrays:
    """The few words that torch and NumPy do not share."""

    def __init__(self, library: str) -> None:
        self.np = sys.modules["torch"] if library == "torch" else importlib.import_module("numpy")
        self.torch = library == "torch"
        self.generator = self.np.Generator().manual_seed(1) if self.torch else self.np.random.default_rng(1)

    def random(self, *shape: int, like: Any = None) -> Any:
        if self.torch:
            made = self.np.randn(*shape, generator=self.generator)
            return made if like is None else made.to(dtype=like.dtype, device=like.device)
        return self.generator.normal(size=shape)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.np.Tensor if self.torch else self.np.ndarray)

    def is_equal(self, one: Any, other: Any) -> bool:
        if not (self.is_array(one) and self.is_array(other)) or tuple(one.shape) != tuple(other.shape):
            return False
        return bool(self.np.allclose(one + 0.0, other + 0.0, rtol=1e-3, atol=1e-4))

    def ones(self, *shape: int) -> Any:
        return self.np.ones(shape, dtype=bool)


def function_form(function: Any, library: str) -> dict[str, Any] | None:
    """(q, k, v) or (q, k, v, mask), of two, three or four axes; with a causal mask of its own or without."""
    np = Arrays(library)
    names = parameters(function)
    if len(names) < 3:
        return None
    mask = mask_parameter(names, 3)
    fillers = [{}] if mask is None or mask.default is not inspect.Parameter.empty else [
        {mask.name: value} for value in (None, np.ones(5, 5), ~np.ones(5, 5))]  # fmt: skip
    for causal, filler in itertools.product((False, True), fillers):
        right = load(f"right{'_causal' * causal}_{library}")
        form: dict[str, Any] = {"kind": "function", "library": library, "causal": causal, "layout": [], "pair": False}
        for lead in ((2,), (2, 3), ()):
            q, k, v = (np.random(*lead, 5, 7) for _ in range(3))
            for turned in (False, True) if len(lead) == 2 else (False,):
                answer, weights = split(quietly(function, *([turn(x, turned) for x in (q, k, v)]), **filler))
                ours = drop_axes(right.attend(*map(raise_axes, (q, k, v)), np.ones(1, 1, 1, 1)), q)
                if np.is_equal(answer, turn(ours, turned)):
                    form["layout"].append([len(lead) + 2, turned])
                    form["pair"] |= weights is not None
        if form["layout"]:
            form["mask"] = function_masks(function, right, np, form["layout"][0], mask)
            form["mask_name"] = mask.name if mask is not None else None
            form["grouped"] = is_grouped(function, right, np, form["layout"], filler)
            return form
    return None


def function_masks(function: Any, right: Any, np: Arrays, layout: list[Any], mask: Any) -> dict[str, bool]:
    """For every kind of mask that the function takes: whether True (1) lets a key be read."""
    if mask is None:
        return {}
    axes, turned = layout
    lead = (2, 3)[: axes - 2]
    q, k, v = (np.random(*lead, 5, 7) for _ in range(3))
    allowed = np.np.tril(np.ones(5, 5))
    allowed[0, 3] = allowed[4, 1] = allowed[2, 4] = True
    allowed[3, 0] = False
    answer = turn(drop_axes(right.attend(*map(raise_axes, (q, k, v)), allowed[None, None]), q), turned)
    return mask_meanings(function, [turn(x, turned) for x in (q, k, v)], mask.name, allowed, answer, np)


def mask_meanings(call: Any, given: list[Any], name: str, allowed: Any, answer: Any, np: Arrays) -> dict[str, bool]:
    """The kinds of mask with which the call returns the answer, each with whether True (1) lets a key be read."""
    found: dict[str, bool] = {}
    for kind, meaning in itertools.product(MASKS, (True, False)):
        keep = allowed if meaning else ~allowed
        mask = np.np.where(keep, 0.0, -np.np.inf) if kind == "added" else keep if kind == "boolean" else keep * 1
        got, _ = split(quietly(call, *given, **{name: mask}))
        if np.is_equal(got, answer):
            found.setdefault(kind, meaning)
    return found


def is_grouped(function: Any, right: Any, np: Arrays, layouts: list[Any], filler: dict[str, Any]) -> bool:
    """Whether it takes fewer heads of keys and values than of queries."""
    turned = next((turned for axes, turned in layouts if axes == 4), None)
    if turned is None:
        return False
    q, k, v = np.random(2, 4, 5, 7), np.random(2, 2, 5, 7), np.random(2, 2, 5, 7)
    answer, _ = split(quietly(function, *(turn(x, turned) for x in (q, k, v)), **filler))
    return np.is_equal(answer, turn(right.attend(q, k, v, np.ones(1, 1, 1, 1)), turned))


def module_form(layer: Any, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """An nn.Module of (x), (x, y) or (q, k, v): linear maps around attention in heads, or no weights at all."""
    np = Arrays("torch")
    names = parameters(forward)
    bound = inspect.signature(forward).bind(layer, *args, **kwargs).arguments
    mask = mask_parameter(names, 1)
    states = [bound[one.name] for one in names if one is not mask and np.is_array(bound.get(one.name))]
    if not states or len(states) > 3 or any(x.ndim != states[0].ndim or not x.is_floating_point() for x in states):
        return None
    linear = [name for name, one in layer.named_modules() if isinstance(one, np.np.nn.Linear)]
    was_training = layer.training
    layer.eval()
    try:
        if not linear and not list(layer.parameters()) and len(states) == 3:
            form = function_form(forward.__get__(layer), "torch")
            return None if form is None else {**form, "kind": "plain module"}
        if states[0].ndim != 3:
            return None
        fresh = [np.random(*x.shape, like=x) for x in states]
        heads = ["", *(name for name, value in vars(layer).items() if type(value) is int and value > 1)]
        needed = {} if mask is None or mask.default is not inspect.Parameter.empty else {mask.name: None}
        answer, weights = split(quietly(forward, layer, *fresh, **needed))
        for causal, names_of, head in itertools.product((False, True), orders(linear), heads):
            form = {
                "kind": "module", "library": "torch", "causal": causal, "linear": names_of, "heads": head, "mask": {},
                "states": len(states), "mask_name": mask.name if mask is not None else None,
            }  # fmt: skip
            right = load(f"right{'_causal' * causal}_torch")
            ours = quietly(run_module, right, form, layer, fresh, np.ones(1, 1, 1, 1))
            if ours is not None and np.is_equal(answer, ours[0]):
                return finish_module_form(form, layer, forward, fresh, weights, ours, right, np)
        return None
    finally:
        layer.train(was_training)


def finish_module_form(
    form: dict[str, Any], layer: Any, forward: Any, fresh: list[Any], weights: Any, ours: Any, right: Any, np: Arrays
) -> dict[str, Any] | None:
    """What masks it takes, and whether it returns weights beside the answer."""
    kinds = [kind for kind in ("heads", "mean") if np.is_equal(weights, weights_of(right, ours[1], kind, np))]
    if weights is not None and not kinds:
        return None
    form["weights"] = kinds[0] if kinds else ""
    form["grouped"] = ours[1][0].shape[-1] != ours[1][1].shape[-1]  # of its queries and its keys
    length, keys = fresh[0].shape[1], fresh[-1].shape[1]
    if form["mask_name"] is None or length < 2:
        return form
    allowed = np.np.tril(np.ones(length, keys))
    answer = run_module(right, form, layer, fresh, allowed[None, None])[0]
    form["mask"] = mask_meanings(forward, [layer, *fresh], form["mask_name"], allowed, answer, np)
    return form


def orders(linear: list[str]) -> list[list[str]]:
    """Which linear map may be which: queries, keys, values, output; one for the first three; or no output."""
    return [list(one) for one in itertools.permutations(linear)] if len(linear) in (1, 2, 3, 4) else []


def run_module(put: Any, form: dict[str, Any], layer: Any, states: list[Any], allowed: Any) -> tuple[Any, Any]:
    """The module computed with somebody's multi_head, and what that was given."""
    maps = [layer.get_submodule(name) for name in form["linear"]]
    x, y, z = states if len(states) == 3 else [states[0], states[-1], states[-1]]
    if len(maps) >= 3:
        q, k, v = maps[0](x), maps[1](y), maps[2](z)
    else:
        q, k, v = maps[0](x).chunk(3, dim=-1)
    last = maps[-1] if len(maps) in (2, 4) else None
    heads = getattr(layer, form["heads"]) if form["heads"] else 1
    out = put.multi_head(q, k, v, heads, allowed.to(q.device))
    return put.answer(out if last is None else last(out), x), (q, k, heads, allowed)


def weights_of(put: Any, given: Any, kind: str, np: Arrays) -> Any:
    """Attention is linear in the values: with the identity as values it returns its weights."""
    q, k, heads, allowed = given
    n, keys = k.shape[:2]
    groups = heads * k.shape[2] // q.shape[2]
    eye = np.np.eye(keys, dtype=k.dtype).repeat(1, groups)[None].expand(n, -1, -1)
    merged = put.multi_head(q, k, eye, heads, allowed)
    weights = merged.reshape(n, q.shape[1], heads, keys).transpose(1, 2)
    return weights.mean(dim=1) if kind == "mean" else weights


# replacing


def fork_trials(task: dict[str, Any]) -> int:
    """In each child the number of its trial; the process itself waits for them one by one and then ends."""
    if os.getppid() != task["parent"] or "PYTEST_XDIST_WORKER" in os.environ or not hasattr(os, "fork"):
        os._exit(0)  # somebody's helper process, or a system without forks: regard then starts a process per trial
    for number in range(task["count"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a fork with threads may hang: then it is stopped and tried alone
            child = os.fork()
        if child == 0:
            return number
        status = wait_for(child, task["limit"])
        with open(HERE / "trials.txt", "a", encoding="utf-8") as stream:
            stream.write(f"{number} {status}\n")
    os._exit(0)


def wait_for(child: int, limit: float) -> str:
    """Its exit code, or "hung"."""
    end = time.monotonic() + limit
    pause = 0.002
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def replace(task: dict[str, Any], original: Any, number: int = 0) -> Any:
    """What stands in the place of the person's function from now on; of a class, its forward changes."""
    put, form = load(f"put_{number}"), task["form"]
    calls = Calls()
    if form["kind"] == "adapter":
        path, name = task["adapter"]
        return getattr(load_file(path), name)(plain_attend(put, form, calls), original)
    if form["kind"] == "function":
        return function_replacement(put, form, parameters(original), calls)
    forward = original.forward
    if form["kind"] == "plain module":
        attend = function_replacement(put, form, parameters(forward), calls)
        original.forward = lambda self, *args, **kwargs: attend(*args, **kwargs)
    else:
        original.forward = module_replacement(put, form, forward, calls)
    return None


class Calls:
    """How the function was called: with a mask, with fewer heads of keys."""

    def __init__(self) -> None:
        self.seen: dict[str, bool] = {}

    def note(self, *, mask: bool, grouped: bool) -> None:
        now = {"called": True, "mask": mask or self.seen.get("mask", False)}
        now["grouped"] = grouped or self.seen.get("grouped", False)
        if now != self.seen:
            self.seen = now
            write(f"calls.{os.getpid()}.json", now)


def plain_attend(put: Any, form: dict[str, Any], calls: Calls) -> Any:
    """For an adapter: attend(q, k, v, allowed=None) on any number of axes; True may be read."""

    def attend(q: Any, k: Any, v: Any, allowed: Any = None) -> Any:
        np = Arrays(form["library"])
        q4, k4, v4 = map(raise_axes, (q, k, v))
        calls.note(mask=allowed is not None, grouped=q4.shape[1] != k4.shape[1])
        keep = np.ones(1, 1, 1, 1) if allowed is None else with_axes(allowed, q4, k4)
        return drop_axes(put.attend(q4, k4, v4, keep), q)

    return attend


def function_replacement(put: Any, form: dict[str, Any], named: list[inspect.Parameter], calls: Calls) -> Any:
    """(q, k, v) or (q, k, v, mask), whatever else is passed."""
    signature = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in named])

    def attend(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        q, k, v = (bound[one.name] for one in named[:3])
        np = Arrays(form["library"])
        turned = dict(map(tuple, form["layout"])).get(q.ndim, False)
        q4, k4, v4 = (raise_axes(turn(x, turned)) for x in (q, k, v))
        mask = bound.get(form["mask_name"]) if form["mask_name"] else None
        calls.note(mask=mask is not None, grouped=q4.shape[1] != k4.shape[1])
        allowed = read_mask(mask, form["mask"], q4, k4, np)
        answer = turn(drop_axes(put.attend(q4, k4, v4, allowed), turn(q, turned)), turned)
        if not form["pair"]:
            return answer
        eye = np.np.eye(k4.shape[2], dtype=k4.dtype)[None, None]
        eye = np.np.broadcast_to(eye, (*k4.shape[:2], *eye.shape[2:]))
        return answer, drop_axes(put.attend(q4, k4, eye, allowed), turn(q, turned))

    return attend


def module_replacement(put: Any, form: dict[str, Any], forward: Any, calls: Calls) -> Any:
    """The module's own linear maps around somebody's attention."""
    named = parameters(forward)
    signature = inspect.signature(forward)

    def wrong_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        np = Arrays("torch")
        bound = signature.bind(self, *args, **kwargs).arguments
        states = [
            bound[one.name] for one in named if one.name != form["mask_name"] and np.is_array(bound.get(one.name))
        ]
        mask = bound.get(form["mask_name"]) if form["mask_name"] else None
        calls.note(mask=mask is not None, grouped=form["grouped"])
        allowed = read_mask(mask, form["mask"], states[0][:, None], states[-1][:, None], np)
        answer, given = run_module(put, form, self, states, allowed)
        return (answer, weights_of(put, given, form["weights"], np)) if form["weights"] else answer

    return wrong_forward


def read_mask(mask: Any, meanings: dict[str, bool], q: Any, k: Any, np: Arrays) -> Any:
    """A mask as a person passes it, as True where a key may be read, (N or 1, heads or 1, T or 1, S)."""
    if mask is None:
        return np.ones(1, 1, 1, 1)
    boolean = mask.dtype in (bool, getattr(np.np, "bool", bool)) or str(mask.dtype) == "bool"
    added = not boolean and bool((mask < 0).any())
    kind = "boolean" if boolean else "added" if added else "numbers"
    keep = mask if boolean else mask > -1e4 if added else mask != 0
    meaning = True if added else meanings.get(kind, next(iter(meanings.values()), True))
    return with_axes(keep if meaning else ~keep, q, k)


def with_axes(keep: Any, q: Any, k: Any) -> Any:
    """Four axes for a mask of (S), (T, S), (N, S), (N, T, S) or (N, heads, T, S)."""
    if keep.ndim == 1:
        return keep[None, None, None]
    if keep.ndim == 2:
        of_pairs = keep.shape[0] in (1, q.shape[2])
        return keep[None, None] if of_pairs or keep.shape[0] != q.shape[0] else keep[:, None, None]
    return keep[:, None] if keep.ndim == 3 else keep


def raise_axes(x: Any) -> Any:
    """Four axes: N, heads, places, width."""
    return x[None, None] if x.ndim == 2 else x[:, None] if x.ndim == 3 else x


def drop_axes(answer: Any, like: Any) -> Any:
    """Back to as many axes as ``like`` has."""
    return answer[0, 0] if like.ndim == 2 else answer[:, 0] if like.ndim == 3 else answer


def turn(x: Any, turned: bool) -> Any:
    """Heads behind places, (N, T, heads, d), and back."""
    return x.swapaxes(1, 2) if turned else x


def split(returned: Any) -> tuple[Any, Any]:
    """The answer, and the weights where they are returned beside it."""
    return (returned[0], returned[1]) if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)


def quietly(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What it returns; None where it refuses: then it has another form."""
    try:
        with sys.modules["torch"].no_grad() if "torch" in sys.modules else contextlib.nullcontext():
            return function(*args, **kwargs)
    except Exception:
        return None
