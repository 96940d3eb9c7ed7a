"""The smallest module with one mistake in it: plain code that runs alone, beside the right one, on an input.

A *skeleton* is a stage of a Transformer whose lines call ``step["name"](...)``. Each call is replaced by the
expression of the function that stands there, right or wrong, as it is written in the catalogue; lines that then do
nothing go. So what is shown is the catalogue's own code, in torch or in NumPy, whose words they share.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from regard.errors import CouldNotFindOut
from regard.mistakes.grouped_and_causal import hide_future
from regard.mistakes.mistake import Mistake, Steps
from regard.mistakes.skeletons import NORM_FIRST, RIGHT, SKELETONS, Skeleton, answer, norm
from regard.results import Result


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallestModule(Result):
    """A file that runs: the mistake, the right version, and an input on which they differ."""

    name: str
    sentence: str
    instead: str
    code: str
    differs_by: float | str  # on the input in the file; a sentence where not even the shapes agree

    def __str__(self) -> str:
        return self.code


def smallest_module(mistake: Mistake, *, library: str = "torch") -> SmallestModule:
    """The mistake as a file in torch or NumPy; run here, in NumPy, before it is handed out."""
    skeleton = _skeleton_of(mistake)
    for given in skeleton.inputs:
        code = _write_module(mistake, skeleton, given, "numpy")
        difference = run_difference(code)
        if difference:
            shown = code if library == "numpy" else _write_module(mistake, skeleton, given, library)
            return SmallestModule(
                name=mistake.name, sentence=mistake.said, instead=mistake.instead, code=shown, differs_by=difference
            )
    raise CouldNotFindOut(f"{mistake.name} differs from the right version on no input that was tried.")


def run_difference(code: str) -> float | str:
    """By how much the two versions of a module in NumPy differ on its input: 0.0 is not at all."""
    space: dict[str, Any] = {"__name__": "smallest"}
    exec(compile(code, "<smallest module>", "exec"), space)
    with np.errstate(all="ignore"):
        wrong, right = space["compare"]()
    if wrong.shape != right.shape:
        return f"shape {tuple(wrong.shape)} instead of {tuple(right.shape)}"
    gap = float(np.max(np.abs(np.nan_to_num(wrong - right, nan=np.inf))))
    return gap if gap > 1e-6 else 0.0


def stage_functions(mistake: Mistake | None, names: Iterable[str], steps: Steps, *, library: str) -> str:
    """The named stages with every line, as a module to import: what stands in the place of a person's function."""
    replaced = replaced_steps(mistake) if mistake is not None else {}
    writer = _Writer(steps={**RIGHT, **steps, **replaced}, wrong=set(replaced), library=library)
    functions = [writer.write(SKELETONS[name].function if name in SKELETONS else answer, name) for name in names]
    return writer.module(functions)


def replaced_steps(mistake: Mistake) -> dict[str, Any]:
    """What a mistake puts in the place of which step of the skeletons."""
    steps = {name: wrong for name, wrong in mistake.replaces.items() if name != "layout"}
    return {**steps, **NORM_FIRST} if "layout" in mistake.replaces else steps


def _skeleton_of(mistake: Mistake) -> Skeleton:
    wanted = set(replaced_steps(mistake))
    return next(one for one in SKELETONS.values() if wanted <= one.steps)


def _write_module(mistake: Mistake, skeleton: Skeleton, given: str, library: str) -> str:
    replaced = replaced_steps(mistake)
    masks = {"late mask", "causal"} & set(replaced)
    absent = [name for name in skeleton.optional if name not in replaced and not (name == "mask" and masks)]
    absent = [name for name in absent if not (name.startswith("share") and any("share" in one for one in replaced))]
    name = skeleton.function.__name__
    right_steps = {**RIGHT, "causal": hide_future}
    writer = _Writer(steps={**right_steps, **replaced}, wrong=set(replaced), library=library, absent=set(absent))
    wrong = writer.write(skeleton.function, name)
    writer.steps, writer.wrong = right_steps, set()
    right = writer.write(skeleton.function, f"right_{name}")
    asked = [one for one in _arguments(wrong) if one in _arguments(right) or one in given]
    call, right_call = ", ".join(asked), ", ".join(_arguments(right))
    needed = "\n".join(line for line in given.splitlines() if "allowed" not in line or "allowed" in (call + right_call))
    seed = "torch.manual_seed(0)\nrandom = torch.randn"
    if library == "numpy":
        seed = "random = np.random.default_rng(0).normal"
    body = f"{seed}\n{needed}\nreturn {name}({call}), right_{name}({right_call})"
    compare = "def compare():\n" + textwrap.indent(body, "    ")
    words = f'"""{mistake.name}: {mistake.said}.\n\nRight: {mistake.instead}.\n"""'
    main = (
        'if __name__ == "__main__":\n    wrong, right = compare()\n    if wrong.shape != right.shape:\n'
        '        print(f"the shape is {tuple(wrong.shape)} and should be {tuple(right.shape)}")\n    else:\n'
        '        print(f"largest difference from the right one: {abs(wrong - right).max():.3g}")'
    )
    text = writer.module([wrong, right, compare if library == "numpy" else _in_library(compare, library)])
    return f"{words}\n\n{text}\n\n\n{main}\n"


def _arguments(function: str) -> list[str]:
    made = ast.parse(function).body[0]
    return [one.arg for one in made.args.args] if isinstance(made, ast.FunctionDef) else []


def _in_library(text: str, library: str) -> str:
    return re.sub(r"\bnp\.", f"{library}.", text) if library != "numpy" else text


class _Writer:
    """Writes skeletons out: calls of steps become expressions, and what those call comes along."""

    def __init__(self, *, steps: Steps, wrong: set[str], library: str, absent: set[str] | None = None) -> None:
        """``absent`` steps are left out, and arguments that nothing then reads; None: everything stays."""
        self.steps, self.wrong, self.library, self.absent = steps, wrong, library, absent
        self.helpers: dict[str, str] = {}

    def write(self, skeleton: Callable[..., Any], name: str) -> str:
        """One function, its wrong lines marked."""
        made = _function_tree(skeleton)
        lines: list[str] = []
        for statement in made.body[1:]:  # the docstring is written below
            inliner = _Inliner(self)
            changed = _as_assignment(inliner.visit(statement))
            if inliner.drop or _does_nothing(changed):
                lines += ["# wrong: nothing is done here"] if inliner.is_wrong else []
                continue
            lines.append(ast.unparse(ast.fix_missing_locations(changed)) + ("  # wrong" if inliner.is_wrong else ""))
        lines = _without_unused(lines)
        text = "\n".join(lines)
        arguments = [one.arg for one in made.args.args if one.arg != "step"]
        if self.absent is not None:
            arguments = [one for one in arguments if re.search(rf"\b{one}\b", text)]
        head = f'def {name}({", ".join(arguments)}):\n    """{ast.get_docstring(made)}"""'
        return _in_library(f"{head}\n{textwrap.indent(text, '    ')}", self.library)

    def module(self, functions: list[str]) -> str:
        """The functions with their imports and helpers."""
        helpers = [_in_library(text, self.library) for text in self.helpers.values()]
        body = "\n\n\n".join([*helpers, *functions])
        imports = [f"import {name}" for name in ("math",) if f"{name}." in body]
        imports.append("import numpy as np" if self.library == "numpy" else f"import {self.library}")
        return "\n".join(imports) + "\n\n\n" + body

    def need(self, function: Callable[..., Any]) -> str:
        """A helper's name, once it and what it calls are written down."""
        name = function.__name__
        if name not in self.helpers:
            made = _function_tree(function)
            self.helpers[name] = ""  # a recursive one ends here
            if name == "erf" and self.library == "torch":
                text = "def erf(x):\n    return torch.erf(x)"
            else:
                _plain(made)
                self.need_names(made, function)
                text = ast.unparse(ast.fix_missing_locations(made))
            del self.helpers[name]  # what it calls stands before it
            self.helpers[name] = text
        return name

    def need_names(self, tree: ast.AST, function: Callable[..., Any]) -> None:
        """Whatever a piece of code calls by a global name."""
        own = set(function.__code__.co_varnames)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in own:
                known = function.__globals__.get(node.id)
                if isinstance(known, FunctionType):
                    self.need(known)


class _Inliner(ast.NodeTransformer):
    """Puts expressions in the place of ``step["name"](...)``."""

    def __init__(self, writer: _Writer) -> None:
        self.writer, self.is_wrong, self.drop = writer, False, False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Subscript) and isinstance(node.func.slice, ast.Constant)):
            return node
        name = str(node.func.slice.value)
        if name in (self.writer.absent or ()):
            self.drop = True
            return node
        function = self.writer.steps[name]
        self.is_wrong |= name in self.writer.wrong
        return self._expression(function, node.args)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "norm":
            self.writer.need(norm)
        return node

    def _expression(self, function: Callable[..., Any], given: list[ast.expr]) -> ast.expr:
        tree = _function_tree(function)
        body = [one for one in tree.body if not _is_docstring(one)]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
            return ast.Call(func=ast.Name(self.writer.need(function), ast.Load()), args=given, keywords=[])
        self.writer.need_names(body[0], function)
        defaults = tree.args.defaults[max(0, len(tree.args.defaults) + len(given) - len(tree.args.args)) :]
        values = dict(zip([one.arg for one in tree.args.args], [*given, *defaults], strict=True))
        expression: ast.expr = _Substitution(values).visit(body[0].value)
        return expression


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.values.get(node.id, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        own = {one.arg for one in node.args.args}
        inner = _Substitution({name: value for name, value in self.values.items() if name not in own})
        node.body = inner.visit(node.body)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return (
            ast.Name(node.attr, ast.Load()) if isinstance(node.value, ast.Name) and node.value.id == "sizes" else node
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "known" and isinstance(node.slice, ast.Constant):
            return ast.Name(str(node.slice.value), ast.Load())
        return node


def _plain(tree: ast.AST) -> None:
    """Annotations are for us."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for one in node.args.args:
                one.annotation = None
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, field, [_as_assignment(one) for one in value])


def _as_assignment(node: Any) -> Any:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return ast.Assign(targets=[node.target], value=node.value)
    return node


def _does_nothing(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Name)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == statement.value.id
    )


def _without_unused(lines: list[str]) -> list[str]:
    """Without sizes that nothing below reads."""
    kept: list[str] = []
    for line in reversed(lines):
        text = "\n".join(kept)
        if re.match(r"[\w, ]+ = q\.shape$|asked_heads, ", line):
            names = line.partition(" = ")[0]
            used = [one for one in names.split(", ") if re.search(rf"\b{one}\b", text)]
            if not used:
                continue
            line = _read_sizes(line, used)
        kept.append(line)
    return kept[::-1]


def _read_sizes(line: str, used: list[str]) -> str:
    """``a, b = q.shape`` with a line of its own for the few that are used."""
    statement = ast.parse(line).body[0]
    if not isinstance(statement, ast.Assign):
        return line
    value, names = statement.value, line.partition(" = ")[0].split(", ")
    if isinstance(value, ast.Tuple):
        return "\n".join(f"{n} = {ast.unparse(v)}" for n, v in zip(names, value.elts, strict=True) if n in used)
    return "\n".join(f"{n} = {ast.unparse(value)}[{place}]" for place, n in enumerate(names) if n in used)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@cache
def _module_tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _function_tree(function: Callable[..., Any]) -> ast.FunctionDef:
    """A fresh tree of a function or lambda."""
    made = ast.parse(_function_text(function)).body[0]
    if not isinstance(made, ast.FunctionDef):
        raise CouldNotFindOut(f"The source of {function} is not at hand.")
    return made


@cache
def _function_text(function: Callable[..., Any]) -> str:
    """The function as its module has it, a lambda as a function; found by where it stands."""
    module = inspect.getmodule(function)
    if module is not None and isinstance(function, FunctionType):
        for node in ast.walk(_module_tree(module)):
            if isinstance(node, ast.FunctionDef) and (node.name, node.lineno) == (function.__name__, _line(function)):
                return ast.unparse(node)
            if isinstance(node, ast.Lambda) and _is_code_of(node, function.__code__):
                return f"def wrong({ast.unparse(node.args)}):\n    return {ast.unparse(node.body)}"
    raise CouldNotFindOut(f"The source of {function} is not at hand.")


def _line(function: FunctionType) -> int:
    return function.__code__.co_firstlineno


def _is_code_of(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the code stands where the lambda's body stands."""
    body = node.body
    place = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return node.lineno == code.co_firstlineno and place in set(code.co_positions())
