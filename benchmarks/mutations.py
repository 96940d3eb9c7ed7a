"""Small wrong programs: every one-step change of a module that a proof's test should notice.

A mutant is the module with one expression changed: a comparison moved by its boundary or turned round, a term left out,
a sign or an operator exchanged, `and` for `or`, a `not` left out, a constant set to 0 or moved by 1, a rounding step
left out, an extreme exchanged, a boolean answer fixed. Messages, annotations and docstrings are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {  # the boundary first, then the opposite
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
EXCHANGED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
OTHER_CALL = {"min": "max", "max": "min", "all": "any", "any": "all", "upper": "lower", "lower": "upper",
              "above": "below", "below": "above"}  # fmt: skip
LEFT_OUT = {"abs", "nextafter"}  # the call goes, its first argument stays


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: where it is (function and lines of its statement), what it was, and what it became."""

    function: str
    lines: range
    before: str
    after: str
    number: int  # among equal changes in one function
    _whole: ast.Module
    _old: ast.AST
    _new: ast.AST

    @property
    def name(self) -> str:
        again = f" ({self.number + 1})" if self.number else ""
        return f"{self.function}: {self.before} -> {self.after}{again}"

    def program(self) -> ast.Module:
        """The whole module with the change; a copy, made when asked for."""
        return _replaced(self._whole, self._old, self._new)


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its text."""
    tree = ast.parse(source)
    seen: dict[tuple[str, str, str], int] = {}
    made = []
    for place in _places(tree):
        for changed in _changes(place.node, place.answers):
            before, after = ast.unparse(place.node), ast.unparse(changed)
            key = (place.function, before, after)
            if before == after:
                continue
            seen[key] = seen.get(key, -1) + 1
            made.append(
                Mutant(function=place.function, lines=place.lines, before=before, after=after, number=seen[key],
                       _whole=tree, _old=place.node, _new=changed)
            )  # fmt: skip
    return made


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    function: str
    lines: range
    answers: bool  # in the return statement of a function that says it returns a bool


def _places(tree: ast.Module) -> Iterator[_Place]:
    """Every expression that may change, with where it is."""

    def walk(node: ast.AST, function: str, lines: range, answers: bool) -> Iterator[_Place]:
        for child in _inside(node):
            inner, own, answering = function, lines, answers
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inner = child.name if function == "module" else f"{function}.{child.name}"
            if isinstance(child, ast.FunctionDef):
                answering = isinstance(child.returns, ast.Name) and child.returns.id == "bool"
            if isinstance(child, ast.stmt):
                own = _head(child)
            yield _Place(child, inner, own, answering)
            yield from walk(child, inner, own, answering)

    return walk(tree, "module", range(0), False)


def _inside(node: ast.AST) -> list[ast.AST]:
    """The children of a node without annotations, decorators, messages, imports and docstrings."""
    if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)):
        return []
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.FunctionDef):
        return [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None], *node.body]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
        return []
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return []
    return children


def _head(statement: ast.stmt) -> range:
    """The lines of a statement that run as one: of an `if` or a loop, its condition only."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _changes(node: ast.AST, answers: bool) -> Iterator[ast.AST]:  # noqa: C901 - one case for each kind of node
    if isinstance(node, ast.Compare):
        for turned in TURNED.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [turned(), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in EXCHANGED:
            yield ast.BinOp(node.left, EXCHANGED[type(node.op)](), node.right)
        if isinstance(node.op, (ast.Add, ast.Sub)):  # a term left out
            yield node.left
        if isinstance(node.op, ast.Add):
            yield node.right
    elif isinstance(node, ast.AugAssign) and type(node.op) in EXCHANGED:
        yield ast.AugAssign(node.target, EXCHANGED[type(node.op)](), node.value)
        yield ast.Pass()
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Return) and answers and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(True))
        yield ast.Return(ast.Constant(False))
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse


def _constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value not in (0, 1):
            yield ast.Constant(0)
    elif isinstance(value, float) and value:
        yield ast.Constant(0.0)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in LEFT_OUT and node.args:
        yield node.args[0]
    if name in OTHER_CALL:
        other = copy.copy(node.func)
        setattr(other, "attr" if isinstance(other, ast.Attribute) else "id", OTHER_CALL[name])
        yield ast.Call(other, node.args, node.keywords)


def _replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is old:
                return ast.copy_location(copy.copy(new), old)
            copied = copy.copy(node)  # the other mutants keep the original
            for field, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(copied, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
                elif isinstance(value, ast.AST):
                    setattr(copied, field, self.visit(value))
            return copied

    made = Replace().visit(tree)
    return ast.fix_missing_locations(made)  # type: ignore[return-value]
