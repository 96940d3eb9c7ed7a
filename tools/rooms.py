"""What a successor has to take in, room by room: ``python -m tools.rooms packages/regard/src/regard ...``.

For every room (a folder under the package; ``.`` for the files beside them): files, lines, public names, functions and
classes named by a bare past participle, functions that say ``Any``, imports inside functions, and how many of a
hundred lines have a comment. The same script counts any package, so that two states can be compared
(docs/results/rooms.txt).
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IRREGULAR = """
    begun bent bound broken brought built caught chosen dealt done drawn driven fallen felt found frozen given
    gone grown heard held hidden kept known laid learnt left lent lost made meant met paid said seen sent shown
    sold spent spoken stood stuck taken taught thought thrown told torn understood undone woken won worn woven
    written
"""
NO_PARTICIPLE = "embed exceed feed need proceed seed speed succeed unembed"
NO_NOUN = "in of by to from at on with as for out up again back down there once apart alike alone before after"


@dataclass
class Room:
    """The counts of a room; ``comments`` counts lines, and is printed as a share of them."""

    files: int = 0
    lines: int = 0
    public: int = 0
    participles: int = 0
    any: int = 0
    inside: int = 0
    comments: int = 0

    def add(self, other: Room) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def is_bare_participle(name: str) -> bool:
    """Does a name begin with a past participle that no noun follows?

    >>> [is_bare_participle(name) for name in ("kept", "_told_apart", "looked_at", "masked_softmax", "read", "seed")]
    [True, True, True, False, False, False]
    """
    first, *rest = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    regular = first.endswith("ed") and len(first) > 3 and first not in NO_PARTICIPLE.split()
    participle = regular or first in IRREGULAR.split()
    return participle and (not rest or rest[0] in NO_NOUN.split() or (len(rest) == 1 and is_bare_participle(rest[0])))


def count_file(path: Path) -> Room:
    """The counts of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
    named = [node for node in nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    top = [node.name for node in tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    within = {id(node) for function in functions for node in ast.walk(function)}
    with path.open("rb") as stream:
        comments = sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(stream.readline))
    return Room(
        files=1,
        lines=len(text.splitlines()),
        public=sum(not name.startswith("_") for name in top),
        participles=sum(is_bare_participle(node.name) for node in named),
        any=sum(any(isinstance(one, ast.Name) and one.id == "Any" for one in _annotations(node)) for node in functions),
        inside=sum(isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) in within for node in nodes),
        comments=comments,
    )


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.AST]:
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for one in [function.returns, *(argument.annotation for argument in given if argument is not None)]:
        yield from ast.walk(one) if one is not None else ()


def count_rooms(package: Path) -> dict[str, Room]:
    """Every room of a package, and all of them."""
    rooms: dict[str, Room] = defaultdict(Room)
    for path in sorted(package.rglob("*.py")):
        below = path.relative_to(package).parts
        counted = count_file(path)
        rooms[below[0] if len(below) > 1 else "."].add(counted)
        rooms["all"].add(counted)
    return dict(sorted(rooms.items(), key=lambda item: (item[0] == "all", item[0])))


def main(folders: list[str]) -> None:
    for folder in folders:
        print(f"{Path(folder).name}: files, lines, public names, participles, Any, imports inside functions, comments")
        for name, room in count_rooms(Path(folder)).items():
            counts = [room.files, room.lines, room.public, room.participles, room.any, room.inside]
            print(f"  {name:<16}" + "".join(f"{count:>8,}" for count in counts) + f"{room.comments / room.lines:>8.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
