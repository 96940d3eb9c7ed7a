"""Pieces of a page: pictures as SVG text, drawn by hand, and the tables, boxes and paragraphs around them.

The pictures are curves, dots with intervals, points, and maps of attention.

Colours are Okabe and Ito's, safe for colour-blind eyes; lines differ in their dashes too, so a grey print is readable.
Every picture scales with the page and has a title that screen readers say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.markup import Html, element, escape, join
from regard.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from regard.translator.runs.settings import Settings
from regard.translator.scoring.significance import Interval

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "#555555")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "1 4", "12 4")
_TEXT = 12  # pixels of the drawing; a digit is about half as wide
_TICK, _GRID = 'fill="#59636e" font-size="11"', 'stroke="#e3e7eb"'  # in every picture: it may be shown without our page


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve: its points, and thinner ones that it is the mean of."""

    name: str
    y: Sequence[float]
    members: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value on a row, with its interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a cloud; ``kind`` picks its look."""

    x: float
    y: float
    kind: int = 0
    title: str = ""


@dataclass(kw_only=True)
class _Frame:
    """A plot's inner rectangle, its scales, and what has been drawn."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x: Callable[[float], float] = field(default=lambda v: v)
    y: Callable[[float], float] = field(default=lambda v: v)
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>')

    def svg(self, title: str) -> Html:
        look = f'font-size="{_TEXT}" font-family="system-ui, sans-serif" fill="#1b1f24"'
        size = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" style="max-width:{self.width:.0f}px"'
        parts = "".join(self.parts)
        return Html(f'<svg {size} role="img" {look}>{element("title", title)}{parts}</svg>')


def curves(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> Html:
    """Curves over 1, 2, 3, ..., on a logarithmic height; the name of each at its end."""
    every = [v for line in lines for ys in (line.y, *line.members) for v in ys if math.isfinite(v) and v > 0]
    longest = max(len(line.y) for line in lines)
    label, size = _label_size([line.name for line in lines], 0.66)
    frame = _Frame(width=720, height=300, left=52, right=720 - label, top=14, bottom=256)
    _log_height(frame, min(every), max(every), y_label)
    span = max(longest - 1, 1)
    frame.x = lambda v: frame.left + (frame.right - frame.left) * (v - 1) / span
    for epoch in _tick_numbers(longest):
        frame.text(frame.x(epoch), frame.bottom + 17, str(epoch), "middle", _TICK)
    frame.text((frame.left + frame.right) / 2, frame.bottom + 36, x_label, "middle")
    ends = []
    for i, line in enumerate(lines):
        for member in line.members:
            _path(frame, member, COLOURS[i % 7], "", 0.8, 0.45)
        _path(frame, line.y, COLOURS[i % 7], DASHES[i % 7], 2.2, 1)
        last = next((v for v in reversed(line.y) if math.isfinite(v) and v > 0), min(every))
        ends.append((frame.y(last), i))
    for y, i in _spread_labels(ends):
        look = f'font-size="{size:.1f}" style="fill:{COLOURS[i % 7]};font-weight:600"'
        frame.text(frame.right + 8, y + 4, lines[i].name, "start", look)
    return frame.svg(title)


def dots(
    rows: Sequence[tuple[str, Sequence[Dot]]],
    *,
    title: str,
    names: Sequence[str] = (),
    x_label: str = "",
    zero: bool = False,
    least: float = -math.inf,
    note: Callable[[int], str] | None = None,
) -> Html:
    """One row for each thing, one dot for each variant, whiskers for intervals; ``note`` writes at the end of a row.

    ``zero`` brings 0 into the picture; whiskers are cut at ``least``, below which the measure cannot be.
    """
    several = max(len(row) for _, row in rows)
    pitch = max(22, 11 * several + 8)
    label, size = _label_size([name for name, _ in rows], 0.6)
    tail = max([len(note(i)) for i in range(len(rows))] if note else [0]) * _TEXT * 0.56 + 14
    legend = _legend(names, min(label, 60))
    top = 30 + 18 * legend[-1][1] if legend else 10
    frame = _Frame(
        width=720, height=top + pitch * len(rows) + 44, left=label, right=720 - tail, top=top,
        bottom=top + pitch * len(rows),
    )  # fmt: skip
    rows = [(name, [_cut(d, least) for d in row]) for name, row in rows]
    values = [v for _, row in rows for d in row for v in (d.value, d.low, d.high) if v is not None] + [0.0] * zero
    low, high = _padded_range(min(values), max(values), zero=zero)
    _flat_width(frame, low, high, x_label)
    for r, (name, row) in enumerate(rows):
        middle = frame.top + pitch * (r + 0.5)
        if r % 2:
            stripe = f'<rect x="0" y="{middle - pitch / 2:.1f}" width="720" height="{pitch:.1f}" fill="#f4f6f8"/>'
            frame.parts.insert(0, stripe)
        frame.text(frame.left - 10, middle + 4, name, "end", f'font-size="{size:.1f}"')
        for i, dot in enumerate(row):
            _dot(frame, dot, middle + (i - (len(row) - 1) / 2) * 11, i)
        if note is not None:
            frame.text(frame.right + 10, middle + 4, note(r), "start", _TICK)
    for i, (x, line) in enumerate(legend):
        frame.parts.append(_mark(x + 5, 12 + 18 * line, i, ""))
        frame.text(x + 15, 16 + 18 * line, names[i], "start", f'style="fill:{COLOURS[i % 7]};font-weight:600"')
    return frame.svg(title)


def cloud(
    points: Sequence[Point],
    *,
    title: str,
    x_label: str,
    y_label: str,
    ticks: Sequence[tuple[float, str]] | None = None,
    width: float = 720,
    height: float = 270,
    steps: Sequence[tuple[float, float]] = (),
) -> Html:
    """Points over a logarithmic height; ``steps`` is a staircase (the best so far), ``ticks`` names places below."""
    frame = _Frame(width=width, height=height, left=50, right=width - 14, top=12, bottom=height - 44)
    ys = [p.y for p in points]
    _log_height(frame, min(ys), max(ys), y_label)
    xs = [p.x for p in points] + [x for x, _ in ticks or ()]
    low, high = min(xs), max(xs)
    pad = (high - low) * 0.06 or 0.5
    frame.x = lambda v: frame.left + (frame.right - frame.left) * (v - low + pad) / (high - low + 2 * pad)
    for x, name in ticks if ticks is not None else [(float(t), f"{t:g}") for t in nice_ticks(low, high, 6)]:
        frame.text(frame.x(x), frame.bottom + 17, name, "middle", _TICK)
    frame.text((frame.left + frame.right) / 2, frame.bottom + 36, x_label, "middle")
    if steps:
        path = f"M{frame.x(steps[0][0]):.1f} {frame.y(steps[0][1]):.1f}" + "".join(
            f"H{frame.x(x):.1f}V{frame.y(y):.1f}" for x, y in steps[1:]
        )
        frame.parts.append(f'<path d="{path}" fill="none" stroke="#999" stroke-width="1.2"/>')
    for p in points:
        frame.parts.append(_mark(frame.x(p.x), frame.y(p.y), p.kind, p.title))
    return frame.svg(title)


def attention_map(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, title: str
) -> Html:
    """One square per weight, darker for more: which source token (columns) each written token (rows) read."""
    size = 22
    left = max(len(r) for r in rows) * _TEXT * 0.56 + 10
    top = max(len(c) for c in columns) * _TEXT * 0.48 + 14
    lean = top * 0.62  # names lean to the right past the last column
    frame = _Frame(width=left + size * len(columns) + lean, height=top + size * len(rows) + 6, left=left, right=0,
                   top=top, bottom=0)  # fmt: skip
    for c, name in enumerate(columns):
        x, y = left + size * (c + 0.55), top - 6
        frame.text(x, y, name, "start", f'transform="rotate(-50 {x:.1f} {y:.1f})"')
    for r, row in enumerate(weights):
        frame.text(left - 6, top + size * (r + 0.68), rows[r], "end")
        for c, weight in enumerate(row):
            label = f"{rows[r]} reads {columns[c]}: {weight:.2f}"
            frame.parts.append(
                f'<rect x="{left + size * c:.1f}" y="{top + size * r:.1f}" width="{size - 1}" height="{size - 1}" '
                f'fill="{_blue(weight)}">{element("title", label)}</rect>'
            )
    return frame.svg(title)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two, about ``count`` of them.

    >>> nice_ticks(0, 10, 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, *, most: int = 9) -> list[float]:
    """Round numbers for a logarithmic scale: 1, 2, 5, 10, ...; evenly spaced ones where the span is small.

    >>> log_ticks(3, 70)
    [5.0, 10.0, 20.0, 50.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for marks in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**p for p in powers for m in marks if low <= m * 10.0**p <= high]
        if len(ticks) <= most:
            break
    return ticks if len(ticks) >= 3 else nice_ticks(low, high, 4)


def _log_height(frame: _Frame, low: float, high: float, label: str) -> None:
    # a margin of 4 % of the logarithm's span; 1.005 keeps a flat curve from a span of 0
    low, high = low / (high / low) ** 0.04 / 1.005, high * (high / low) ** 0.04 * 1.005
    span = math.log(high / low)
    frame.y = lambda v: frame.bottom - (frame.bottom - frame.top) * math.log(max(v, low) / low) / span
    for tick in log_ticks(low, high):
        frame.line(frame.left, frame.y(tick), frame.right, frame.y(tick), _GRID)
        frame.text(frame.left - 7, frame.y(tick) + 4, f"{tick:g}", "end", _TICK)
    middle = (frame.top + frame.bottom) / 2
    frame.text(13, middle, label, "middle", f'transform="rotate(-90 13 {middle:.1f})"')


def _flat_width(frame: _Frame, low: float, high: float, label: str) -> None:
    frame.x = lambda v: frame.left + (frame.right - frame.left) * (v - low) / (high - low)
    for tick in nice_ticks(low, high, 6):
        frame.line(frame.x(tick), frame.top, frame.x(tick), frame.bottom, _GRID)
        frame.text(frame.x(tick), frame.bottom + 16, f"{tick:g}", "middle", _TICK)
    if low < 0 < high:
        frame.line(frame.x(0), frame.top, frame.x(0), frame.bottom, 'stroke="#555" stroke-width="1.2"')
    frame.text((frame.left + frame.right) / 2, frame.bottom + 35, label, "middle")


def _padded_range(low: float, high: float, *, zero: bool) -> tuple[float, float]:
    pad = (high - low) * 0.06 or max(abs(high), 1) * 0.05
    return (low if zero and low == 0 else low - pad), high + pad


def _path(frame: _Frame, ys: Sequence[float], colour: str, dash: str, width: float, opacity: float) -> None:
    places = [f"{frame.x(i):.1f} {frame.y(v):.1f}" for i, v in enumerate(ys, 1) if math.isfinite(v) and v > 0]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    if len(places) == 1:
        x, y = places[0].split()
        frame.parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')
    elif places:
        frame.parts.append(
            f'<path d="M{" L".join(places)}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'opacity="{opacity}" stroke-linejoin="round"{dashes}/>'
        )


def _cut(dot: Dot, least: float) -> Dot:
    return dot if dot.low is None else Dot(value=dot.value, low=max(dot.low, least), high=dot.high)


def _dot(frame: _Frame, dot: Dot, y: float, kind: int) -> None:
    colour = COLOURS[kind % 7]
    if dot.low is not None and dot.high is not None:
        frame.line(frame.x(dot.low), y, frame.x(dot.high), y, f'stroke="{colour}" stroke-width="1.8"')
    span = "" if dot.low is None or dot.high is None else f" ({dot.low:.3g} to {dot.high:.3g})"
    frame.parts.append(_mark(frame.x(dot.value), y, kind, f"{dot.value:.4g}{span}"))


def _mark(x: float, y: float, kind: int, title: str) -> str:
    """A circle, square, triangle or diamond, in the colour of its kind."""
    colour, r = COLOURS[kind % 7], 4.3
    said = element("title", title) if title else ""
    style = f'fill="{colour}" stroke="white" stroke-width="0.8"'
    if kind % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {style}>{said}</circle>'
    square, triangle, diamond = (
        [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        [(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
        [(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)],
    )
    shape = (square, triangle, diamond)[kind % 4 - 1]
    corners = " ".join(f"{x + a * r * 0.92:.1f},{y + b * r * 0.92:.1f}" for a, b in shape)
    return f'<polygon points="{corners}" {style}>{said}</polygon>'


def _legend(names: Sequence[str], left: float) -> list[tuple[float, int]]:
    """Where each name stands above the rows: how far from the left, and in which line; none where one needs no name."""
    places: list[tuple[float, int]] = []
    x, line = left, 0
    for name in names if len(names) > 1 else ():
        wide = 34 + len(name) * _TEXT * 0.62
        if x > left and x + wide > 720:
            x, line = left, line + 1
        places.append((x, line))
        x += wide
    return places


def _label_size(names: Sequence[str], letter: float) -> tuple[float, float]:
    """Width for these names and the size of their letters, which are `letter` times as wide: long names are smaller."""
    count, most = max(map(len, names)), 330
    size = min(float(_TEXT), most / (count * letter))
    return count * size * letter + 14, size


def _spread_labels(ends: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Labels pushed apart until none covers another."""
    placed: list[tuple[float, int]] = []
    for y, i in sorted(ends):
        placed.append((max(y, placed[-1][0] + 15) if placed else y, i))
    # the lowest label just below the axis: all move up together by what they stick out
    over = max(0.0, placed[-1][0] - 262)
    return [(y - over, i) for y, i in placed]


def _tick_numbers(count: int) -> list[int]:
    step = max(1, math.ceil(count / 12))
    return list(range(1, count + 1, step))


def _blue(weight: float) -> str:
    """White for 0, dark blue for 1, so that a grey print keeps the order."""
    # below 1: small weights, of which there are many, can still be told from 0
    share = min(max(weight, 0.0), 1.0) ** 0.7
    ends = ((247, 250, 253), (0, 54, 107))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*ends, strict=True))


_SHORT = 14  # rows that stay on one printed page


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 1, chosen: int | None = None) -> Html:
    """A table; columns from ``numbers`` on are numbers."""
    kinds = [None if i < numbers else "n" for i in range(len(head))]
    top = [element("th", text, class_=kind) if text else element("td") for text, kind in zip(head, kinds, strict=True)]
    body = [
        element(
            "tr",
            *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
            class_="chosen" if number == chosen else None,
        )
        for number, row in enumerate(rows)
    ]
    parts = element("thead", element("tr", *top)), element("tbody", *body)
    whole = element("table", *parts, class_="short" if len(rows) <= _SHORT else None)
    return element("div", whole, class_="scroll", tabindex=0, role="group", aria_label="Table")


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """Boxes with a big number and what it is."""
    return element("div", *(element("div", element("b", v), element("span", k)) for v, k in pairs), class_="facts")


def interval(given: Interval, digits: int = 2) -> Html:
    """A mean and, smaller, its interval."""
    mean, _, span = given.text(digits).partition(" ")
    return join(mean, " ", element("small", span)) if span else escape(mean)


def figure(picture: Html, caption: str) -> Html:
    return element("figure", picture, element("figcaption", caption))


def paragraph(text: str, kind: str | None = None) -> Html:
    return element("p", text, class_=kind)


def commands(lines: Sequence[str]) -> Html:
    return element("pre", "\n".join(line for line in lines if line))


def settings_table(settings: Settings) -> Html:
    """Every setting, section by section; what differs from the coursework's defaults is bold."""
    default = Settings().to_dict()
    parts = []
    for section, content in settings.to_dict().items():
        rows = (_setting(key, value, default[section][key]) for key, value in content.items())
        parts.append(element("div", element("b", f"[{section}]"), element("table", element("tbody", *rows))))
    return element("div", *parts, class_="settings")


def _setting(key: str, value: Any, default: Any) -> Html:
    shown = str(value).lower() if isinstance(value, bool) else str(value) or "(empty)"
    return element("tr", element("td", key), element("td", bold_if(value != default, shown)))


def bold_if(differs: bool, text: str) -> Html:
    """A value that differs from the one it is compared with, in bold."""
    return element("b", text) if differs else escape(text)
