"""The report's page as a PDF: typst sets it on sheets of A4.

Every element of the page becomes one call of the typst function of its name, and ``sheets.typ`` says how each looks.
Text travels as string literals, so nothing in it can be taken for markup; pictures stay the SVG that they are. Words
can be searched and copied, and the same page gives the same file: nothing in it says when it was made.

Letters are Libertinus, which typst carries, and DejaVu, which comes with matplotlib. A character that both lack is set
in the first font of this machine that has it. One that no font has is drawn as matplotlib's "last resort" box, which
names its script, and a note says so.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import matplotlib
import typst
from matplotlib.ft2font import FT2Font

from regard.errors import InputError

_FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
_LETTERS = ("Libertinus Serif", "DejaVu Sans")
_LAST_RESORT = "Last Resort High-Efficiency"
_PICTURE = re.compile(r"<svg (.*?)</svg>", re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_LISTS = ("facts", "maps", "settings")  # the classes of elements whose children are handed over one by one
_ROWS = {"table", "tr", "thead", "tbody", "dl"}  # elements with no text of their own: blanks inside mean nothing
_SKIPPED = {"head", "nav", "style", "title"}


def report_pdf(page: str, *, title: str, author: str = "") -> tuple[bytes, list[str]]:
    """The PDF of a report's page, and a note about characters that no font on this machine has."""
    families, missing = choose_fonts(set(page))
    source = typst_source(page, families, title=title, author=author)
    try:
        made: bytes = typst.compile(source.encode(), font_paths=typst.Fonts(font_paths=[str(_FONTS)]))
    except typst.TypstError as error:
        raise InputError(f"The PDF could not be set ({str(error)[:200]}); write the page with --format html.") from None
    return made, [_missing_note(missing)] if missing else []


def typst_source(page: str, families: Iterable[str], *, title: str, author: str) -> str:
    """The page in typst's language."""
    translation = _Translation(page, families)
    facts = f"title: {_literal(title)}, author: ({_literal(author)},)" if author else f"title: {_literal(title)}"
    template = (resources.files("regard.translator.reports") / "sheets.typ").read_text(encoding="utf-8")
    listed = "(" + "".join(f"{_literal(family)}, " for family in families) + ")"
    # the date is left out, so that the same page gives the same file
    head = f"#set document({facts}, date: none)\n#show: sheets.with({listed})\n"
    return f"{template}\n{head}{''.join(translation.parts)}"


class _Translation(HTMLParser):
    """Reads our own page, in which every element is closed, and writes one call for each element."""

    def __init__(self, page: str, families: Iterable[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.families = ", ".join(reversed(list(families)[:2])) + "".join(f", {name}" for name in list(families)[2:])
        self.parts: list[str] = []
        self.ends: list[tuple[str, str, str]] = []  # of the open elements: name, class, what closes the call
        self.skipping = 0
        self.pictures = _PICTURE.findall(page)
        self.feed(_PICTURE.sub("<img>", page))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        if tag == "meta" or tag == "img":
            self.parts += [self._picture()] if tag == "img" else []
            return
        self.skipping += tag in _SKIPPED
        begin, end = self._call(tag, kind)
        self.parts.append("" if self.skipping else begin)
        self.ends.append((tag, kind, end))

    def handle_endtag(self, tag: str) -> None:
        _, _, end = self.ends.pop()
        self.parts.append("" if self.skipping else end)
        self.skipping -= tag in _SKIPPED

    def handle_data(self, data: str) -> None:
        inside = self.ends[-1][0] if self.ends else ""
        if not self.skipping and inside not in _ROWS and (data.strip() or inside not in ("", "html", "body", "main")):
            self.parts.append(f"#{_literal(data)};")

    def _call(self, tag: str, kind: str) -> tuple[str, str]:
        """What opens and what closes the call for an element."""
        parent, parent_kind = self.ends[-1][:2] if self.ends else ("", "")
        match tag, kind:
            case "div", "facts" | "maps" | "settings" | "sample":
                return f'#{kind}("{kind}", (', "));"
            case "div", _ if parent_kind in _LISTS:
                return "[", "],"
            case "dt" | "dd", _:
                return "[", "],"
            case "table", _:
                plain = any(held == "settings" for _, held, _ in self.ends)
                return f"#{'plain' if plain else 'html'}-table({_literal(kind)}, (", "));"
            case "tr", _:
                return f"(class: {_literal(kind)}, head: {str(parent == 'thead').lower()}, cells: (", ")),"
            case "td" | "th", _:
                return f"(class: {_literal(kind)}, body: [", "]),"
            case "small", _ if parent_kind == "n":
                return '#linebreak();#small("")[', "];"
            case (
                ("html" | "body" | "main" | "head" | "div" | "thead" | "tbody" | "dl" | "nav" | "ul" | "li" | "a"),
                _,
            ):
                return "", ""
        return f"#{tag}({_literal(kind)})[", "];"

    def _picture(self) -> str:
        svg = self.pictures.pop(0)
        width, height = _SIZE.search(svg).groups()  # type: ignore[union-attr]  # every picture of ours says its size
        svg = svg.replace("system-ui, sans-serif", self.families)
        whole = _literal(f'<svg xmlns="http://www.w3.org/2000/svg" {svg}</svg>')
        return f"#picture({whole}, {width}, {height});"


def _literal(text: str) -> str:
    """A string literal of typst."""
    return json.dumps(text, ensure_ascii=False)


def choose_fonts(characters: set[str]) -> tuple[list[str], list[str]]:
    """The font families that these characters need, in the order in which they are tried; and those that none has."""
    wanted = {c for c in characters if c.isprintable() and not c.isspace()}
    wanted -= _font_characters(_FONTS / "DejaVuSans.ttf")
    families = list(_LETTERS)
    for family, path in _other_fonts() if wanted else ():
        if covered := wanted & _font_characters(Path(path)):
            wanted -= covered
            families.append(family)
    return [*families, *([_LAST_RESORT] if wanted else [])], sorted(wanted)


def _missing_note(missing: list[str]) -> str:
    shown = ", ".join(f"{c} (U+{ord(c):04X})" for c in missing[:5]) + ", ..." * (len(missing) > 5)
    return (
        f"No font on this machine has {shown}: in the PDF a box stands in their place; install a font with them, or "
        "write the page with --format html."
    )


def _other_fonts() -> list[tuple[str, str]]:
    """The families of this machine with one file of each, the same order every time."""
    held = [font for font in typst.Fonts(include_embedded_fonts=False).fonts() if font.style == "normal" and font.path]
    plainest = sorted(held, key=lambda font: (font.family, abs(font.weight - 400), str(font.path)))
    return [(family, str(path)) for family, path in {font.family: font.path for font in reversed(plainest)}.items()][
        ::-1
    ]


@functools.cache
def _font_characters(path: Path) -> frozenset[str]:
    """The characters that a font file has."""
    try:
        return frozenset(map(chr, FT2Font(str(path)).get_charmap()))
    except (OSError, RuntimeError):  # a format that matplotlib does not read
        return frozenset()
