"""The pages as files that need no Python: from a folder, from any web host, or in one piece inside a notebook.

| file | what |
|---|---|
| ``index.html`` | which pages there are |
| ``copy.html``, ``noise.html``, ... | the pages |
| ``404.html`` | what many web hosts show for an address that is not there |
| ``files/`` | the style sheet with its font in it, the chart library, and all scripts as one |
| ``data/PAGE-N.js`` | the answers of one grid of states (:mod:`regard.lab.grids`), packed |

Browsers load neither modules nor JSON nor fonts from ``file://``, but they load scripts: so the modules are made one
script (:mod:`regard.lab.offline_copy`), the font is part of the style sheet, and answers are scripts, deflated, each
written as what differs from the first of its grid. Nothing is ever requested from anywhere else.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import CouldNotFindOut, InputError
from regard.files import replace_folder, write_file
from regard.lab.grids import Grid, can_show, grids, nearby_grids, page_actions
from regard.lab.server import STATIC, Lab, static_files
from regard.markup import element, join
from regard.progress import Counter, Progress
from regard.results import Result, plain
from regard.strict_json import JsonObject
from regard.web.access import refusal_page

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (async function|function|const|class) (\w+)", re.MULTILINE)
SPARE = re.compile(r"^ *(?:(?://.*|/\*\*(?s:.)*?\*/)\n)?", re.MULTILINE)  # comments, and what lines begin with
LEFT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
NOT_HERE = re.compile(  # of the frame: what a copy has in its own files
    r'\s*(<link rel="modulepreload"[^>]*>|<script ((defer|type="module") src|id="cards").*?</script>)'
)
SCRIPT_HEAD = '"use strict";\nconst modules = {};\nconst importModule = (name) => Promise.resolve(modules[name]);\n'
MARK = '<meta name="generator" content="regard lab export">'
# No frame, no form, no connection: what a mistake of ours could not do either.
POLICY = "connect-src 'none'; form-action 'none'; base-uri 'none'; object-src 'none'"
HEAD = f'{MARK}<meta http-equiv="Content-Security-Policy" content="{POLICY}">'  # of every page
LOOKS, PAUSE = 6000, 0.05  # how often an answer that is under way is looked for, and the seconds in between
DIGITS = 6  # of the numbers of a picture; numbers beside it keep all of theirs
STYLES, LOOK = "/lab.css", "/look/look.css"
NO_RUNS = "runs-of-your-own"  # no folder of this machine is looked into
CHARTS = ("/charts/uPlot.iife.js", "/charts/uPlot.min.css")


@dataclass(frozen=True, kw_only=True, eq=False)
class LabExport(Result):
    """What :func:`export` wrote."""

    folder: str
    pages: list[str]
    states: int
    size: int  # bytes

    def __str__(self) -> str:
        several = f"{len(self.pages)} pages" if len(self.pages) != 1 else "1 page"
        states = f"{self.states:,} states" if self.states != 1 else "1 state"
        return (
            f"{self.folder}: {several} with {states}, {self.size / 1e6:.1f} MB. Open "
            f"{self.folder}/index.html, or put the folder on any web host: it needs no Python and asks nobody for "
            "anything."
        )


def export(
    out: str | Path,
    *,
    pages: Sequence[str] | None = None,
    hide: Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> LabExport:
    """Write the pages (all, or those named) into the folder ``out``, whole or not at all.

    A folder with something in it is refused; with ``force`` an earlier export is replaced, and nothing else.
    """
    out = Path(out)
    _check_target(out, force=force)
    with _offline_lab(pages, hide) as lab:
        held = {name: grids(name, lab.hidden) for name in lab.pages}
        total = sum(1 for page in held.values() for grid in page for _ in grid.states())
        counted = Counter(progress, total)
        cards = _cards(lab, held)
        files: dict[str, bytes] = {**_shared_files(lab, cards)}
        for name, page in held.items():
            files[f"{name}.html"] = _page(lab, name, page).encode()
            for index, grid in enumerate(page):
                letters = _pack_answers(_answers(lab, name, grid, counted))
                files[f"data/{name}-{index}.js"] = f'regardStored.put({index}, "{letters}");\n'.encode()
        files["index.html"] = _index(lab, cards).encode()
        lost = refusal_page(f"There is no such page here; the pages are {', '.join(held)}.", "index.html")
        files["404.html"] = lost.replace(STYLES, "files/lab.css").encode()
    _write_files(out, files)
    return LabExport(folder=str(out), pages=list(held), states=total, size=sum(map(len, files.values())))


def single_file_page(page: str, words: Mapping[str, str], *, hide: Sequence[str] = ()) -> str:
    """A page in one file: a state and a few beside it, with everything that it needs inside."""
    with _offline_lab([page], hide) as lab:
        held = nearby_grids(page, dict(words), lab.hidden)
        answers = [_pack_answers(_answers(lab, page, grid, Counter(None, 0))) for grid in held]
        text = _page(lab, page, held)
    data = "".join(
        f'<script id="answers-{index}" type="application/json">{letters}</script>'
        for index, letters in enumerate(answers)
    )
    for name, content in _shared_files(lab, [], inside=True).items():
        script = "<script>" + content.decode().replace("</script", "<\\/script") + "</script>"
        style = f"<style>{content.decode()}</style>"
        text = text.replace(f'<link rel="stylesheet" href="{name}">', style)
        text = text.replace(f'<script src="{name}"></script>', script)
    icon = "data:image/svg+xml;base64," + base64.b64encode(static_files()["/eye.svg"].read_bytes()).decode()
    return text.replace("files/eye.svg", icon).replace("</head>", data + "</head>")


# What a page says ----------------------------------------------------------------------------------------------------


def _offline_lab(names: Sequence[str] | None, hide: Sequence[str]) -> Lab:
    """A lab that nobody can reach from outside: it is asked, and never serves."""
    lab = Lab(port=0, hide=hide, runs=NO_RUNS, folders=())
    unknown = [name for name in names or [] if name not in lab.pages]
    if unknown or (names is not None and not names):
        lab.server_close()
        what = f"There is no page {', '.join(unknown)}" if unknown else "No page was named"
        raise InputError(f"{what}; the pages are {', '.join(lab.pages)}.")
    if names is not None:
        lab.pages = {name: page for name, page in lab.pages.items() if name in names}
    return lab


def _answers(lab: Lab, name: str, grid: Grid, counted: Counter) -> JsonObject:
    """The answers of a grid: the first whole, of the others what differs from it."""
    answers = []
    for words in grid.states():
        answers.append(_answer(lab, name, words))
        counted.add()
    base = answers[0]
    return {"base": base, "changes": [_change(base, one) for one in answers]}


def _answer(lab: Lab, name: str, words: dict[str, str]) -> JsonObject:
    for _ in range(LOOKS):
        shown: JsonObject = plain(lab.answer(name, words))
        if not shown["picture"].get("running"):
            return {**shown, "picture": _round_numbers({**shown["picture"], "live": False})}
        time.sleep(PAUSE)
    raise CouldNotFindOut(f"The page {name} did not come to an end with {words}; export fewer pages: --pages copy.")


def _round_numbers(value: Any) -> Any:
    """The same with fewer digits: a picture shows no more.

    >>> _round_numbers({"x": [0.123456789, 2, "a"]})
    {'x': [0.123457, 2, 'a']}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round_numbers(one) for key, one in value.items()}
    return [_round_numbers(one) for one in value] if isinstance(value, list) else value


def _change(base: Any, value: Any) -> Any:
    """What turns ``base`` into ``value``: nothing (None), keys that change (k), or a new value (v).

    >>> _change({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 2, "d": 4}})
    {'k': {'b': {'k': {'d': {'v': 4}}}}}
    """
    if base == value:
        return None
    if isinstance(base, dict) and isinstance(value, dict) and base.keys() == value.keys():
        changes = {key: _change(base[key], value[key]) for key in base}
        return {"k": {key: change for key, change in changes.items() if change is not None}}
    return {"v": value}


def _pack_answers(answers: JsonObject) -> str:
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


# The files -----------------------------------------------------------------------------------------------------------


def _cards(lab: Lab, held: Mapping[str, Sequence[Grid]]) -> list[JsonObject]:
    """The tour's cards on these pages, with files for addresses; what a task shows stays where it is held."""
    said = []
    for card in (card for card in lab.cards if card.page in held):
        whole = card.to_dict()
        for shown, task in zip(whole["tasks"], card.tasks, strict=True):
            if not can_show(task, card.start, held[card.page]):
                del shown["shown"]
        said.append({**whole, "address": f"{card.page}.html#{card.address.partition('?')[2]}"})
    return said


def _index(lab: Lab, cards: Sequence[JsonObject]) -> str:
    listed = [
        element("li", element("a", page.title, href=f"{name}.html"), f": {page.about}")
        for name, page in lab.pages.items()
    ]
    first = [f"{card['address']}#tour-{card['name']}" for card in cards[:1]]
    tour = [element("p", element("a", "Take the tour", href=one), f", {len(cards)} cards in order.") for one in first]
    text = (STATIC / "front.html").read_text(encoding="utf-8").replace("LISTED", join(element("ul", *listed), *tour))
    return text.replace("</head>", f"{HEAD}</head>")


def _shared_files(lab: Lab, cards: Sequence[JsonObject], *, inside: bool = False) -> dict[str, bytes]:
    """What all pages use; in a page of one file the attention page's styles stand in the script that asks for them."""
    given = {name: static_files()[name].read_text(encoding="utf-8") for name in (STYLES, LOOK, *CHARTS, "/stored.js")}
    alone = ["/copy_offline.js"] if "copy" in lab.pages else []
    script = bundle([*(f"/pages/{name}.js" for name in lab.pages), *alone, "/lab.js"])
    look = "data:text/css;base64," + base64.b64encode(given[LOOK].encode()).decode() if inside else "files/look.css"
    font = base64.b64encode(static_files()["/math.woff2"].read_bytes()).decode()
    given["/stored.js"] += f"regardStored.cards = {json.dumps(cards, ensure_ascii=False)};\n"
    given[STYLES] = given[STYLES].replace("/math.woff2", f"data:font/woff2;base64,{font}")
    files = {f"files/{Path(name).name}": text for name, text in given.items()}
    files["files/lab.js"] = script.replace('"/look/look.css"', json.dumps(look))
    files["files/eye.svg"] = static_files()["/eye.svg"].read_text(encoding="utf-8")
    return {name: text.encode() for name, text in files.items()}


def _page(lab: Lab, name: str, held: Sequence[Grid]) -> str:
    """The frame of a page, with files beside it in the place of the server's, and which states it holds."""
    text = NOT_HERE.sub("", lab.frame(name).decode())
    text = re.sub(r'href="/(?:\w+/)?([\w.]+\.\w+)"', r'href="files/\1"', text)
    stored = {"page": name, "actions": page_actions(name), "grids": [grid.to_dict() for grid in held]}
    inside = json.dumps(stored, ensure_ascii=False).replace("<", "\\u003c")
    head = f'{HEAD}<script id="stored" type="application/json">{inside}</script>'
    scripts = "".join(f'<script src="files/{file}"></script>' for file in ("uPlot.iife.js", "stored.js", "lab.js"))
    return text.replace("</head>", head + "</head>").replace("<body>", "<body data-stored>").replace(
        "</body>", scripts + "</body>"
    )  # fmt: skip


def _check_target(out: Path, *, force: bool) -> None:
    if not out.exists():
        if not out.absolute().parent.is_dir():
            raise InputError(f"There is no folder {out.absolute().parent} to write {out.name} into; make it first.")
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file, not a folder; name another.")
    if not any(out.iterdir()):
        return
    if not force:
        raise InputError(f"{out} is there already and not empty; name another, or --force replaces an earlier export.")
    if not _is_earlier_export(out):
        raise InputError(f"{out} is not an earlier export of the lab, and is left as it is; name another folder.")


def _is_earlier_export(out: Path) -> bool:
    try:
        return MARK in (out / "index.html").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _write_files(out: Path, files: Mapping[str, bytes]) -> None:
    """All files beside their place, then one rename; an earlier export goes when the new one is whole."""
    try:
        with replace_folder(out) as partial:
            for inner in sorted({(partial / name).parent for name in files}):
                inner.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                write_file(partial / name, data)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}; name another folder.") from error


# The lab's scripts as one --------------------------------------------------------------------------------------------
#
# Browsers load no modules from file://. Every module becomes a function's body that returns what it exports, in an
# order in which each stands behind those that it uses. Only the forms that our own scripts use are understood, one
# import or export per line; anything else is refused, and the tests open the result in a browser.


def bundle(names: Sequence[str]) -> str:
    """The modules of these addresses, and all that they import, as one script."""
    done: dict[str, str] = {}
    for name in names:
        _add(name, done)
    return SCRIPT_HEAD + "\n".join(done.values())


def _add(name: str, done: dict[str, str]) -> None:
    if name in done:
        return
    text = SPARE.sub("", static_files()[name].read_text(encoding="utf-8"))
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
