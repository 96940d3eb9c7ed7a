"""Tests of other people's tests: every known mistake in the place of a person's attention, and their tests run on it.

    1. the tests as they are, which must pass; on the way the form of the function is found out
    2. the tests with our right function in the place of theirs, which must pass too: else nothing would follow from 3
    3. the tests once for every mistake: those that pass have let it through. One process forks for all of them where
       it imports the function, so that imports are paid once; what a fork cannot do gets a process of its own

Tests run in a copy of the project's folder, in a process group of their own, within a limit of time. No mistake is
tried that equals the right function: each differs from it on an input that is kept with it (``differs_on``).
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from regard.errors import CouldNotFindOut, InputError
from regard.mistakes.assertions import Assertion, as_written, callable_of, cover, fitting_assertions, run_assertion
from regard.mistakes.catalogue import catalogue, find_mistake
from regard.mistakes.mistake import Mistake
from regard.mistakes.skeletons import SKELETONS
from regard.mistakes.smallest import replaced_steps, stage_functions
from regard.mistakes.suite_runner import STAGES, Suite, causal_step, changed_files, first_names, list_files, right_code
from regard.progress import Progress
from regard.results import Result

ADAPTER = """\
    def adapt(attend, original):          # attend(q, k, v, allowed=None): (..., T, d), True may be read
        class Wrong(original):
            def forward(self, x):
                return self.out(attend(self.q(x), self.k(x), self.v(x)))
        return Wrong                      # what stands in the place of the original"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One mistake in the place of the function, and what the tests said."""

    name: str
    sentence: str
    caught: bool
    how: str  # "failed", "hung", or "" where it got through
    differs_on: str  # the input on which it differs from the right function
    differs_by: float | str


@dataclass(frozen=True, kw_only=True, eq=False)
class Suggestion:
    """An assertion that the tests lack."""

    sentence: str
    code: str
    catches: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class SuiteCheck(Result):
    """Which mistakes a person's tests let through, and the assertions that would catch them."""

    command: str
    function: str
    form: str
    seconds: float  # of the tests as they are
    trials: tuple[Trial, ...]
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...] = ()

    @property
    def survivors(self) -> list[Trial]:
        return [one for one in self.trials if not one.caught]

    @property
    def answer(self) -> bool:
        return not self.survivors

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "let_through": [one.name for one in self.survivors], "answer": self.answer}

    def __str__(self) -> str:
        lines = [f"{self.function} is {self.form}.", *self.notes]
        if self.answer:
            return "\n".join([*lines, f"The tests catch all {len(self.trials)} mistakes."])
        lines.append(f"The tests let {len(self.survivors)} of {len(self.trials)} mistakes through:")
        sentences = {one.name: one.sentence for one in self.survivors}
        wide = max(map(len, sentences))
        for one in self.suggestions:
            lines += ["", *(f"  {name:<{wide}}  {sentences.pop(name)}" for name in one.catches)]
            lines += [f"would fail with this assertion ({one.sentence}):", ""]
            lines += [f"    {line}" for line in one.code.splitlines()]
        if sentences:
            lines += ["", *(f"  {name:<{wide}}  {said}" for name, said in sentences.items())]
        return "\n".join([*lines, "", "One of them as a file: regard mistakes show NAME"])


def check_suite(
    command: str,
    function: str,
    *,
    adapter: str | None = None,
    only: Sequence[str] = (),
    limit: float = 600.0,
    in_place: bool = False,
    progress: Progress | None = None,
) -> SuiteCheck:
    """Run a command that tests a function once for every mistake in its place; ``limit`` is that of the first run."""
    module, name = _split_function(function)
    chosen = [find_mistake(one) for one in only] or list(catalogue().values())
    words, home = _command_words(command), Path.cwd()
    before = None if in_place else list_files(home)
    with tempfile.TemporaryDirectory(prefix="regard-mistakes-") as folder:
        suite = Suite(words, home, Path(folder), in_place=in_place)
        suite.task = {"module": module, "name": name, "act": "look", "adapter": _adapter_path(adapter), "form": None}
        form, seconds = _look(suite, command, function, limit)
        least = max(10.0, 5 * seconds)
        _try_right(suite, function, form, least)
        mutants = list(_mutants(form, chosen))
        codes = [code for _, code, _, _ in mutants]
        trials = [
            Trial(name=mistake.name, sentence=mistake.said, caught=how != "passed", differs_by=gap, differs_on=where,
                  how="" if how == "passed" else how)
            for (mistake, _, where, gap), how in zip(mutants, suite.run_each(codes, form, least, progress), strict=True)
        ]  # fmt: skip
        notes = suite.notes
    if hung := sum(one.how == "hung" for one in trials):
        notes.append(f"With {hung} of the mistakes the tests hung; they were stopped after {least:.0f} s (caught).")
    if before is not None and (changed := changed_files(before, list_files(home))):
        notes.append(
            f"While the tests ran, files of the folder itself changed, not of the copy: {first_names(changed)}."
        )
    survivors = [one.name for one in trials if not one.caught]
    return SuiteCheck(
        command=command, function=function, form=_describe_form(form), seconds=round(seconds, 3),
        trials=tuple(trials), suggestions=tuple(_suggest(form, survivors, name)), notes=tuple(notes),
    )  # fmt: skip


def _split_function(function: str) -> tuple[str, str]:
    module, colon, name = function.partition(":")
    if (
        not colon
        or module.endswith(".py")
        or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")])
    ):
        raise InputError(
            f"{function!r} must name a module as the tests import it, and a function or class in it, as in "
            "mypkg.attention:attend."
        )
    return module, name


def _adapter_path(adapter: str | None) -> tuple[str, str] | None:
    if adapter is None:
        return None
    path, colon, name = adapter.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise InputError(f"{adapter!r} must name a file and a function in it, as in adapter.py:adapt.")
    if not Path(path).is_file():
        raise InputError(f"{adapter}: there is no file {path!r}; it needs five lines:\n{ADAPTER}")
    return str(Path(path).absolute()), name


def _command_words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"The command {command!r} cannot be read: {error}; check its quotes.") from None
    if not words:
        raise InputError('There is no command; give the tests as you run them, as in "pytest tests/test_attention.py".')
    if words[0] in ("python", "python3", "pytest") and shutil.which(words[0]) is None:
        return [sys.executable, *(["-m", "pytest"] if words[0] == "pytest" else []), *words[1:]]
    if shutil.which(words[0]) is None:
        raise InputError(f"There is no program {words[0]!r} to run the tests with; give the command as you type it.")
    return words


def _look(suite: Suite, command: str, function: str, limit: float) -> tuple[dict[str, Any], float]:
    """The form of the function and the seconds of the tests as they are."""
    for causal, lib in ((causal, lib) for causal in (False, True) for lib in ("torch", "numpy")):
        suite.put(**{f"right{'_causal' * causal}_{lib}": right_code(causal, lib)})
    code, seconds = suite.run(limit)
    if code is None:
        raise InputError(f"The tests did not end within {limit:g} s as they are: {command!r}; give more by --limit.")
    if code != 0:
        where = "" if suite.in_place else ", run in a copy of this folder (--in-place runs them here)"
        raise InputError(
            f"The tests do not pass as they are (exit code {code}){where}, so nothing can be said about mistakes:\n"
            f"{suite.last_lines()}"
        )
    found = suite.answer("form.json")
    if found is None:
        raise InputError(
            f"The tests never import {function.partition(':')[0]}, so there is nothing to replace: check --function."
        )
    if "missing" in found:
        raise InputError(
            f"{function}: the module has no such name; it has {', '.join(found['missing'][:12]) or 'none'}."
        )
    if not found["called"]:
        raise InputError(f"The tests never call {function}: nothing in its place could be noticed.")
    if found["form"] is None:
        raise InputError(
            f"{function} is no attention that is known here: (q, k, v), (q, k, v, mask), or an nn.Module of those "
            "with its own linear maps; its answer differs from each on random input. If it is another kind, give an "
            f"adapter by --adapter FILE.py:NAME, as in\n{ADAPTER}"
        )
    return {"pair": False, "grouped": False, "mask_name": None, "weights": "", **found["form"]}, seconds


def _try_right(suite: Suite, function: str, form: dict[str, Any], limit: float) -> None:
    """The tests with the right function, which must pass; an adapter's calls tell what it uses."""
    how = suite.run_with(right_code(form["causal"], form["library"]), form, limit)
    if how != "passed":
        raise CouldNotFindOut(
            f"The tests fail with our right attention in the place of {function}, so they ask for more than attention "
            f"(or the adapter is wrong); nothing would follow from their failing with a mistake:\n{suite.last_lines()}"
        )
    seen = [suite.answer(path.name) for path in suite.tools.glob("calls.*.json")]
    if not seen:
        raise InputError(f"The tests never call {function}: nothing in its place could be noticed.")
    if form["kind"] == "adapter":
        form["mask"] = {"boolean": True} if any(one["mask"] for one in seen) else {}
        form["grouped"] = any(one["grouped"] for one in seen)
    elif form["mask"] and not any(one["mask"] for one in seen):
        suite.notes.append(f"The tests never pass a {form['mask_name']}.")


def _mutants(form: dict[str, Any], chosen: Sequence[Mistake]) -> Iterator[tuple[Mistake, str, str, float | str]]:
    """Each mistake that this form can have and that equals neither the right one nor an earlier one: its code, the
    input on which it differs from the right one, and by how much."""
    known = SKELETONS["multi_head" if form["kind"] == "module" else "attend"].steps | {"answer"}
    probes = _probes(form)
    right = [_result(_run_code(right_code(form["causal"], "numpy")), form, probe) for _, probe in probes]
    seen: list[list[Any]] = []
    for mistake in chosen:
        steps = set(replaced_steps(mistake))
        grouped = any(step.startswith("share") for step in steps)
        if not steps <= known or ("causal" in steps and not form["causal"]) or (grouped and not form["grouped"]):
            continue
        make = {lib: stage_functions(mistake, STAGES, causal_step(causal=form["causal"]), library=lib) for lib in
                {"numpy", form["library"]}}  # fmt: skip
        wrong = [_result(_run_code(make["numpy"]), form, probe) for _, probe in probes]
        if all(one is None for one in wrong) or any(all(map(_is_equal, wrong, other)) for other in [right, *seen]):
            continue
        seen.append(wrong)
        place = next(i for i, (one, other) in enumerate(zip(wrong, right, strict=True)) if not _is_equal(one, other))
        yield mistake, make[form["library"]], probes[place][0], _gap(wrong[place], right[place])


def _run_code(code: str) -> SimpleNamespace:
    space: dict[str, Any] = {}
    exec(compile(code, "<in the place of attention>", "exec"), space)
    return SimpleNamespace(**space)


def _probes(form: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Inputs that a function of this form takes, said and made."""
    rng = np.random.default_rng(0)
    every, padded = np.ones((2, 1, 1, 5), dtype=bool), np.ones((2, 1, 1, 5), dtype=bool)
    padded[1, ..., 3:] = False
    rows = np.tril(np.ones((1, 1, 5, 5), dtype=bool))
    groups = 2 if form["grouped"] else 4
    if form["kind"] == "module":
        made = {
            "q": rng.normal(size=(2, 5, 28)),
            "k": rng.normal(size=(2, 5, 7 * groups)),
            "v": rng.normal(size=(2, 5, 7 * groups)),
        }
        shape = f"2 examples of 5 places, 4 heads of width 7, {groups} of keys and values"
    else:
        made = {
            "q": rng.normal(size=(2, 4, 5, 7)),
            "k": rng.normal(size=(2, groups, 5, 7)),
            "v": rng.normal(size=(2, groups, 5, 7)),
        }
        shape = f"q (2, 4, 5, 7), k and v (2, {groups}, 5, 7)"
    said = f"normal numbers, {shape}"
    found = [(said, {**made, "allowed": every})]
    if form["mask"]:
        found += [(f"{said}; the last two keys of the second example hidden", {**made, "allowed": padded}),
                  (f"{said}; later keys hidden", {**made, "allowed": rows})]  # fmt: skip
    return found


def _result(put: SimpleNamespace, form: dict[str, Any], probe: dict[str, Any]) -> Any:
    """What it returns for the input; None where it raises, or is nowhere a number."""
    q, k, v, allowed = (probe[name] for name in ("q", "k", "v", "allowed"))
    try:
        with np.errstate(all="ignore"):
            if form["kind"] != "module":
                answer = put.attend(q, k, v, allowed)
            else:
                merged = put.multi_head(q, k, v, 4, allowed)
                turn = np.random.default_rng(1).normal(size=(28, 28))
                answer = put.answer(merged @ turn, 2 * q)
    except Exception:
        return None
    return answer if np.isfinite(answer).any() else None


def _is_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True))


def _gap(wrong: Any, right: Any) -> float | str:
    if wrong is None:
        return "it raises, or returns no number"
    if wrong.shape != right.shape:
        return f"shape {wrong.shape} instead of {right.shape}"
    gap = float(np.max(np.abs(wrong - right)))
    return gap if np.isfinite(gap) else "NaN"


def _suggest(form: dict[str, Any], survivors: list[str], name: str) -> Iterator[Suggestion]:
    """Few assertions that catch all that got through."""
    right = _run_code(right_code(form["causal"], "numpy"))
    caught: dict[Assertion, set[str]] = {one: set() for one in fitting_assertions(right, form)}
    for survivor in survivors:
        code = stage_functions(find_mistake(survivor), STAGES, causal_step(causal=form["causal"]), library="numpy")
        attend, layer = callable_of(_run_code(code), form)
        for one in caught:
            if not run_assertion(one, attend, form, layer):
                caught[one].add(survivor)
    for one, names in cover(caught, survivors):
        yield Suggestion(sentence=one.sentence, code=as_written(one, form, name), catches=tuple(names))


def _describe_form(form: dict[str, Any]) -> str:
    kinds = {
        "function": "attention of (q, k, v)",
        "plain module": "a module that is attention of (q, k, v)",
        "module": "a module with attention between its own linear maps",
        "adapter": "reached by an adapter",
    }
    said = kinds[form["kind"]] + (", causal" if form["causal"] else "")
    if form["grouped"]:
        said += ", with fewer heads of keys than of queries"
    if form["mask"]:
        meaning = "may be read" if form["mask"].get("boolean") else "is hidden"
        said += ", with a mask" + (f" (True {meaning})" if "boolean" in form["mask"] else "")
    return said
