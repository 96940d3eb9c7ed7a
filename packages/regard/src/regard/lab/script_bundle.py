"""The lab's scripts as one, for pages that are files: browsers load no modules from ``file://``.

Every module becomes a function's body that returns what it exports, in an order in which each stands behind those that
it uses. Only the forms that our own scripts use are understood, one import or export per line; anything else is
refused, and the tests open the result in a browser.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from regard.lab.server import static_files

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (async function|function|const|class) (\w+)", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
HEAD = '"use strict";\nconst modules = {};\nconst importModule = (name) => Promise.resolve(modules[name]);\n'


def bundle(names: Sequence[str]) -> str:
    """The modules of these addresses, and all that they import, as one script."""
    done: dict[str, str] = {}
    for name in names:
        _add(name, done)
    return HEAD + "\n".join(done.values())


def _add(name: str, done: dict[str, str]) -> None:
    if name in done:
        return
    text = static_files()[name].read_text(encoding="utf-8")
    for _, source in IMPORT.findall(text):
        _add(_resolve_import(source, name), done)
    done[name] = f'modules["{name}"] = (() => {{\n{_body(text, name)}}})();'


def _body(text: str, name: str) -> str:
    """A module's lines with its imports as constants and its exports as what is returned."""
    exports = [match[1] for match in EXPORT.findall(text)]
    text = IMPORT.sub(
        lambda match: f'const {{{_destructuring_names(match[1])}}} = modules["{_resolve_import(match[2], name)}"];',
        text,
    )
    text = EXPORT.sub(r"\1 \2", text).replace(" import(", " importModule(")
    if left := LEFT.search(text):
        raise ValueError(f"{name}: {left.group()!r} cannot be bundled; write imports and exports as the others do")
    return f"{text}\nreturn {{ {', '.join(exports)} }};\n"


def _destructuring_names(names: str) -> str:
    """`a as b` of an import is `a: b` of a constant.

    >>> _destructuring_names(" element, shape as drawn ")
    ' element, shape: drawn '
    """
    return names.replace(" as ", ": ")


def _resolve_import(source: str, name: str) -> str:
    """The address that an import in a module means.

    >>> _resolve_import("../parts.js", "/pages/copy.js"), _resolve_import("/look/look.js", "/pages/models.js")
    ('/parts.js', '/look/look.js')
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), source))
