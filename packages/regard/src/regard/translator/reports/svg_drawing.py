"""Our pictures, which are SVG text, on paper: lines, rectangles, circles, polygons, paths of M, L, H and V, words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.translator.reports.markup import Node
from regard.translator.reports.paper import INK, SANS, Paper, Style

PIXEL = 0.75  # points
_NARROWER = 0.9  # the paper's letters are wider than those of a browser
_NUMBER = r"-?\d+(?:\.\d+)?"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A picture at a place: its pixels become points by ``scale``."""

    paper: Paper
    left: float
    top: float
    scale: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        return self.left + self.scale * x, self.top + self.scale * y

    def draw(self, node: Node) -> None:
        """One element of the picture; what only a browser can use (titles) is passed over."""
        match node.tag:
            case "text":
                self._text(node)
            case "line":
                ends = [self.place(node.number(f"x{i}"), node.number(f"y{i}")) for i in (1, 2)]
                self.paper.line(ends, colour=_style_value(node, "stroke", INK), linewidth=self._stroke(node))
            case "path":
                self._path(node)
            case "rect":
                x, y = self.place(node.number("x"), node.number("y"))
                size = node.number("width") * self.scale, node.number("height") * self.scale
                self.paper.box(x, y, *size, colour=_style_value(node, "fill", INK))
            case "circle":
                x, y = self.place(node.number("cx"), node.number("cy"))
                edge, width = _style_value(node, "stroke", "none"), self._stroke(node)
                self.paper.circle(x, y, node.number("r") * self.scale, colour=_style_value(node, "fill", INK),
                    edge=edge,
                                  width=width)  # fmt: skip
            case "polygon":
                numbers = [float(v) for v in re.findall(_NUMBER, node.attributes["points"])]
                corners = [self.place(x, y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
                edge = _style_value(node, "stroke", "none")
                self.paper.area(corners, colour=_style_value(node, "fill", INK), edge=edge, width=self._stroke(node))

    def _stroke(self, node: Node) -> float:
        return node.number("stroke-width", 1.0) * self.scale

    def _text(self, node: Node) -> None:
        x, y = self.place(node.number("x"), node.number("y"))
        size = float(node.attributes.get("font-size", 12)) * self.scale * _NARROWER
        style = Style(
            font=SANS, size=size, colour=_style_value(node, "fill", INK), bold="600" in node.attributes.get("style", "")
        )
        turned = re.search(rf"rotate\(({_NUMBER})", node.attributes.get("transform", ""))
        anchor = {"middle": "center", "end": "right"}.get(node.attributes.get("text-anchor", ""), "left")
        self.paper.text(x, y, node.text(), style, anchor=anchor, angle=-float(turned[1]) if turned else 0.0)

    def _path(self, node: Node) -> None:
        points: list[tuple[float, float]] = []
        for command, rest in re.findall(r"([MLHV])([^MLHV]*)", node.attributes["d"]):
            numbers = [float(v) for v in re.findall(_NUMBER, rest)]
            x, y = points[-1] if points else (0.0, 0.0)
            points.append((numbers[0], y) if command == "H" else (x, numbers[0]) if command == "V" else
                          (numbers[0], numbers[1]))  # fmt: skip
        # matplotlib counts dashes in line widths, and ours are about 2 wide
        dashes = [float(v) / 2 for v in node.attributes.get("stroke-dasharray", "").split()]
        self.paper.line(
            [self.place(*point) for point in points],
            colour=_style_value(node, "stroke", INK),
            linewidth=self._stroke(node),
            alpha=float(node.attributes.get("opacity", 1)),
            linestyle=(0, tuple(dashes)) if dashes else "-",
        )


def picture_size(svg: Node) -> tuple[float, float]:
    """Width and height of a picture in its own pixels."""
    _, _, width, height = (float(v) for v in svg.attributes["viewbox"].split())
    return width, height


def draw_picture(paper: Paper, svg: Node, *, left: float, top: float, scale: float) -> None:
    """A whole picture with its upper left corner at (left, top)."""
    drawing = Drawing(paper=paper, left=left, top=top, scale=scale)
    for node in svg.nodes():
        drawing.draw(node)


def _style_value(node: Node, name: str, default: str) -> str:
    styled = re.search(rf"(?:^|;){name}:([^;]+)", node.attributes.get("style", ""))
    return styled[1] if styled else node.attributes.get(name, default)
