"""Tables and lists of settings as strips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.translator.reports.markup import Node
from regard.translator.reports.paper import BAND, INK, RULE, Paper, Style
from regard.translator.reports.strips import ROOM, Draw, Strip, space, stack
from regard.translator.reports.typesetting import Cell, Line, break_lines, columns, pieces_of

_TABLE = (9.2, 8.4, 7.6, 6.8, 6.0, 5.4, 4.8, 4.2)  # sizes of letters to try, until a table fits
_GAP = 9.0  # between columns
_ABOVE, _BELOW = 1.6, 2.6  # the words of a row, inside it


def table_strips(node: Node) -> Iterator[Strip]:
    """A table, its head repeated on every sheet that it goes on to."""
    rows = [[*row.nodes()] for row in node.find("tr")]
    chosen = [row.kind == "chosen" for row in node.find("tr")]
    for size in _TABLE:
        cells = [[_cell(cell, size, bold=i == 0 or chosen[i]) for cell in row] for i, row in enumerate(rows)]
        gap = _GAP * size / _TABLE[0]
        widths = columns(cells, ROOM, gap=gap)
        if widths is not None:
            break
    else:  # more columns than a sheet can hold: each has an equal share, and words are broken anywhere
        widths = [ROOM / len(rows[0]) - gap] * len(rows[0])
    head: Strip | None = None
    for i, row in enumerate(cells):
        lines = [break_lines(cell.pieces, width) for cell, width in zip(row, widths, strict=True)]
        height = max(sum(line.height for line in cell) for cell in lines) + _ABOVE + _BELOW
        numbers = [cell.right for cell in row]
        draw = _row(lines, numbers, widths, gap, height, head=i == 0, band=chosen[i])
        # no head without its first two rows, no last row alone on a sheet
        strip = Strip(height=height, draw=draw, stays=i in (0, 1, len(cells) - 2), head=head)
        head = strip if i == 0 else head
        yield strip
    yield space(8, stays=False)


def _cell(node: Node, size: float, *, bold: bool) -> Cell:
    right = node.kind == "n"
    return Cell(
        pieces=tuple(pieces_of(node, Style(size=size, bold=bold))), whole=right and node.tag == "td", right=right
    )


def _row(
    cells: Sequence[Sequence[Line]], numbers: Sequence[bool], widths: Sequence[float], gap: float, height: float,
    *, head: bool, band: bool,
) -> Draw:  # fmt: skip
    def draw(paper: Paper, x: float, y: float) -> None:
        whole = sum(widths) + gap * (len(widths) - 1)
        if band:
            paper.box(x - 2, y, whole + 4, height, colour=BAND)
        left = x
        for i, (lines, width) in enumerate(zip(cells, widths, strict=True)):
            lower = height - _BELOW - sum(line.height for line in lines) if head else _ABOVE
            stack(paper, lines, left, y + lower, right=left + width if numbers[i] else None)
            left += width + gap
        rule = {"colour": INK, "linewidth": 0.8} if head else {"colour": RULE, "linewidth": 0.4}
        paper.line([(x, y + height), (x + whole, y + height)], **rule)  # type: ignore[arg-type]

    return draw


def settings_strips(node: Node) -> Iterator[Strip]:
    """Every setting, section by section, in three columns as even as they come."""
    width = (ROOM - 2 * 16) / 3
    blocks = [[_setting(row, width) for row in _setting_rows(div)] for div in node.nodes()]
    stacks: list[list[tuple[Line, Line | None]]] = [[], [], []]
    for block in blocks:
        shortest = min(stacks, key=len)
        shortest += [pair for lines in block for pair in lines]
        shortest.append((Line(pieces=(), width=0), None))
    height = max(sum(_pair_height(pair) for pair in column) for column in stacks)

    def draw(paper: Paper, x: float, y: float) -> None:
        for i, column in enumerate(stacks):
            base = y
            for first, second in column:
                base += _pair_height((first, second))
                first.draw(paper, x + i * (width + 16), base - 2.5)
                if second is not None:
                    second.draw(paper, x + i * (width + 16) + width * 0.5, base - 2.5)

    yield Strip(height=height + 4, draw=draw)


def _setting_rows(div: Node) -> Iterator[tuple[Node, Node | None]]:
    yield next(div.find("b")), None
    for row in div.find("tr"):
        key, value = row.nodes()
        yield key, value


def _setting(row: tuple[Node, Node | None], width: float) -> list[tuple[Line, Line | None]]:
    """A setting as lines, its value in as many as it needs."""
    key, value = row
    style = Style(size=8.2)
    first = break_lines(pieces_of(key, replace(style, bold=value is None)), width * 0.5 - 4)
    second = break_lines(pieces_of(value, style), width * 0.5) if value is not None else []
    empty = Line(pieces=(), width=0)
    count = max(len(first), len(second), 1)
    return [
        (first[i] if i < len(first) else empty, second[i] if i < len(second) else None) for i in range(count)
    ]  # fmt: skip


def _pair_height(pair: tuple[Line, Line | None]) -> float:
    return max(pair[0].height, pair[1].height if pair[1] is not None else 0.0, 6.0)
