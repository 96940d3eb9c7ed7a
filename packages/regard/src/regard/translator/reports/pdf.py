"""The report as a PDF: the same sections as the page, set on A4 with numbered pages.

The page's HTML is the one source. Each element becomes strips, which are drawn from top to bottom and never cut; a
strip that asks for it stays on the sheet of the next one, as a heading does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.translator.reports.markup import Node, read_markup
from regard.translator.reports.paper import BAND, HEIGHT, MONO, RULE, SOFT, Paper, Style
from regard.translator.reports.strips import BOTTOM, LEFT, RIGHT, ROOM, TOP, Draw, Strip, space, stack
from regard.translator.reports.svg_drawing import PIXEL, draw_picture, picture_size
from regard.translator.reports.table_strips import settings_strips, table_strips
from regard.translator.reports.typesetting import LEADING, Line, break_lines, pieces_of

BODY = Style(size=10.5)
_HEADS = {"h1": 21.0, "h2": 15.0, "h3": 11.5}
_HIGHEST = BOTTOM - TOP - 90  # of a picture, so that its heading and its caption find room on the sheet


def report_pdf(page: str, *, title: str, author: str = "") -> bytes:
    """The PDF of a page of ours, which is given as HTML."""
    paper = Paper()
    nodes = [*next(read_markup(page).find("body")).nodes()]
    strips: list[Strip] = []
    for node, after in zip(nodes, [*nodes[1:], None], strict=True):
        leads = after is not None and after.kind == "settings"  # its words are on the sheet of what they are about
        strips += [replace(strip, stays=True) if leads else strip for strip in _strips(node)]
    _fill(paper, strips)
    _number(paper, title)
    return paper.pdf(title=title, author=author)


def _fill(paper: Paper, strips: Sequence[Strip]) -> None:
    """Put the strips on sheets."""
    y = TOP
    for i, strip in enumerate(strips):
        needed = strip.height
        for follower in strips[i + 1 :] if strip.stays else ():
            needed += follower.height
            if not follower.stays:
                break
        if needed > BOTTOM - TOP:  # what cannot be together on any sheet need not wait for a new one
            needed = strip.height
        if (strip.new_sheet or y + needed > BOTTOM) and y > TOP:
            paper.turn()
            y = TOP
            if strip.head is not None:
                strip.head.draw(paper, LEFT, y)
                y += strip.head.height
        strip.draw(paper, LEFT, y)
        y += strip.height


def _number(paper: Paper, title: str) -> None:
    """A line at the foot of every sheet: what it is, and which of how many."""
    written, style = paper.sheets, Style(size=8, colour=SOFT)
    for count, sheet in enumerate(written, 1):
        # paper writes on its last sheet: each is made the last in turn
        paper.sheets = [sheet]
        paper.text(LEFT, HEIGHT - 32, title, style)
        paper.text(RIGHT, HEIGHT - 32, f"{count} / {len(written)}", style, anchor="right")
    paper.sheets = written


def _strips(node: Node) -> Iterator[Strip]:
    """The strips of one element of the page."""
    match node.tag, node.kind:
        case (("h1" | "h2" | "h3"), _):
            yield from _heading(node)
        case "p", _:
            yield from _paragraph(node)
        case "figure", _:
            yield from _figure(node)
        case "div", "scroll":
            yield from table_strips(node)
        case "div", "facts":
            yield from _facts(node)
        case "div", "sample":
            yield from _sample(node)
        case "div", "settings":
            yield from settings_strips(node)
        case "pre", _:
            yield from _commands(node)
        case "footer", _:
            yield space(14)
            yield from _lines(break_lines(pieces_of(node, replace(BODY, size=8, colour=SOFT)), ROOM))
        case "nav", _:
            return


def _lines(lines: Sequence[Line], *, indent: float = 0.0, stays: bool = False) -> Iterator[Strip]:
    for line in lines:
        yield Strip(height=line.height, draw=_line(line, indent), stays=stays)


def _line(line: Line, indent: float) -> Draw:
    return lambda paper, x, y: line.draw(paper, x + indent, y + line.height / LEADING)


def _heading(node: Node) -> Iterator[Strip]:
    style = Style(size=_HEADS[node.tag], bold=True)
    new = node.tag == "h2" and node.kind != "first"
    yield Strip(height={"h1": 0.0, "h2": 16.0, "h3": 13.0}[node.tag], draw=_draw_nothing, stays=True, new_sheet=new)
    yield from _lines(break_lines(pieces_of(node, style), ROOM), stays=True)
    if node.tag != "h3":
        yield Strip(height=7, draw=lambda paper, x, y: paper.line([(x, y), (x + ROOM, y)], linewidth=0.9), stays=True)
    yield space(3)


def _draw_nothing(paper: Paper, x: float, y: float) -> None:
    return


def _paragraph(node: Node) -> Iterator[Strip]:
    style = replace(BODY, size=9, colour=SOFT) if node.kind == "lead" else BODY
    indent = 9.0 if node.kind == "warn" else 0.0
    lines = break_lines(pieces_of(node, style), ROOM - indent)
    for line in lines:
        yield Strip(height=line.height, draw=_warning_line(line, indent) if indent else _line(line, 0.0))
    yield space(5, stays=False)


def _warning_line(line: Line, indent: float) -> Draw:
    def draw(paper: Paper, x: float, y: float) -> None:
        paper.box(x, y - 1, 3, line.height, colour="#E69F00")
        line.draw(paper, x + indent, y + line.height / LEADING)

    return draw


def _facts(node: Node) -> Iterator[Strip]:
    """Boxes with a big number and what it is, four in a row."""
    boxes, gap = list(node.nodes()), 8.0
    across = 5 if len(boxes) in (5, 9, 10) else 4  # no box alone in its row
    width = (ROOM - gap * (across - 1)) / across
    for start in range(0, len(boxes), across):
        row = []
        for box in boxes[start : start + across]:
            number, name = box.nodes()
            big = break_lines(pieces_of(number, Style(size=14, bold=True)), width - 14)
            row.append([*big, *break_lines(pieces_of(name, Style(size=8.3, colour=SOFT)), width - 14)])
        height = max(sum(line.height for line in lines) for lines in row) + 12
        yield Strip(height=height + gap, draw=_boxes(row, width, height, gap))


def _boxes(row: Sequence[Sequence[Line]], width: float, height: float, gap: float) -> Draw:
    def draw(paper: Paper, x: float, y: float) -> None:
        for i, lines in enumerate(row):
            left = x + i * (width + gap)
            paper.box(left, y, width, height, colour="white", edge=RULE)
            stack(paper, lines, left + 7, y + 5)

    return draw


def _figure(node: Node) -> Iterator[Strip]:
    caption = next(node.find("figcaption"))
    maps = next((div for div in node.nodes() if div.kind == "maps"), None)
    yield space(2)
    if maps is None:
        for svg in node.find("svg"):
            width, height = picture_size(svg)
            scale = min(PIXEL, ROOM / width, _HIGHEST / height)
            yield Strip(height=height * scale + 3, draw=_picture(svg, scale), stays=bool(caption.text()))
    else:
        yield from _maps(maps)
    yield from _lines(break_lines(pieces_of(caption, Style(size=8.8, colour=SOFT)), ROOM))
    yield space(7, stays=False)


def _picture(svg: Node, scale: float) -> Draw:
    return lambda paper, x, y: draw_picture(paper, svg, left=x, top=y, scale=scale)


def _maps(node: Node) -> Iterator[Strip]:
    """Small pictures with their titles, two or three in a row."""
    panels = [(next(div.find("p"), None), next(div.find("svg"))) for div in node.nodes()]
    across = 3 if len(panels) > 2 else 2
    width = (ROOM - 12 * (across - 1)) / across
    for start in range(0, len(panels), across):
        row = panels[start : start + across]
        scales = [min(PIXEL, width / picture_size(svg)[0]) for _, svg in row]
        height = max(picture_size(svg)[1] * scale for (_, svg), scale in zip(row, scales, strict=True)) + 16
        yield Strip(height=height, draw=_panels(row, scales, width), stays=start + across >= len(panels))


def _panels(row: Sequence[tuple[Node | None, Node]], scales: Sequence[float], width: float) -> Draw:
    def draw(paper: Paper, x: float, y: float) -> None:
        for i, ((title, svg), scale) in enumerate(zip(row, scales, strict=True)):
            left = x + i * (width + 12)
            if title is not None:
                paper.text(left, y + 9, title.text(), Style(size=8.3, colour=SOFT))
            draw_picture(paper, svg, left=left, top=y + 12, scale=scale)

    return draw


def _sample(node: Node) -> Iterator[Strip]:
    """One sentence: source, reference, translations."""
    parts = list(next(node.find("dl")).nodes())
    names = [break_lines(pieces_of(part, Style(size=8.5, colour=SOFT)), 96) for part in parts[::2]]
    wide = 12 + max(line.width for lines in names for line in lines)
    said = [break_lines(pieces_of(part, replace(BODY, size=10)), ROOM - 12 - wide) for part in parts[1::2]]
    heights = [max(sum(x.height for x in a), sum(x.height for x in b)) for a, b in zip(names, said, strict=True)]

    def draw(paper: Paper, x: float, y: float) -> None:
        paper.box(x, y, 2, sum(heights), colour=RULE)
        for name, lines, height in zip(names, said, heights, strict=True):
            stack(paper, name, x + 10, y + 1.5)
            stack(paper, lines, x + 10 + wide, y)
            y += height

    yield Strip(height=sum(heights) + 9, draw=draw)


def _commands(node: Node) -> Iterator[Strip]:
    style = Style(font=MONO, size=7.4)
    lines = [line for text in node.text().split("\n") for line in break_lines([(text, style)], ROOM - 14)]
    height = sum(line.height for line in lines) + 10

    def draw(paper: Paper, x: float, y: float) -> None:
        paper.box(x, y, ROOM, height, colour=BAND)
        stack(paper, lines, x + 7, y + 5)

    yield Strip(height=height + 6, draw=draw)
