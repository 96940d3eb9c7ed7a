"""The page: facts as JSON, a stream for every head, the scripts and the styles, in one file that asks for nothing.

What a browser gets to run is ours alone: words of the model and of its text stand in JSON, without any ``<``, and
are drawn as text. The page's own policy forbids every request, so that a mistake could not make one either.

A long input has more weights than a page can carry. Then every head keeps a window of tokens at full resolution, and of
the whole a picture of the largest weights of blocks: :class:`Window` says which, and the page says so too.

Weights are kept in eight bits, as square roots, each row measured by its largest weight:

    code = round(255 sqrt(w / m)),   m = the largest weight of the row;      w' = m (code / 255)^2

With t = sqrt(w / m) and c = code / 255, |c - t| <= 1/510 and c + t <= 2, so |w' - w| = m |c - t| (c + t) <= m / 255: no
weight is off by more than 1/255 of the largest in its row, and the smaller it is, the less. A linear code would send
everything below m / 510 to zero, which is a tenth of the mass of some rows; the square root keeps what is above
m / 260,100. The errors that a page states are not this bound but measured, entry by entry, on what was stored.

A stream holds the rows' largest weights (float32, little-endian), then the codes row by row, deflated without a header:
what ``DecompressionStream("deflate-raw")`` of a browser opens, without a request.

Colours: one ramp for light pages and one for dark ones, from nothing to the largest. Lightness runs one way along each,
so that it is read right by every colour sight and in a grey print; on a light page much is dark, on a dark page much is
light, and nothing is the colour of the page.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Single
from regard.errors import InputError
from regard.markup import escape
from regard.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from regard.progress import Progress
from regard.written_numbers import at_most
from regard_models.attention_page.layers import Layer, striking_head

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap


Codes = npt.NDArray[np.uint8]
_LEVELS = 255
_EFFORT = 6  # of zlib: 9 takes thrice the time for 1 % less


@dataclass(frozen=True, kw_only=True)
class Errors:
    """How far stored weights are from the given ones, at worst: one weight, and all of a row against its sum."""

    entry: float = 0.0
    row: float = 0.0

    def maximum(self, other: Errors) -> Errors:
        """The larger of each."""
        return Errors(entry=max(self.entry, other.entry), row=max(self.row, other.row))


def encode(weights: Single) -> tuple[Single, Codes]:
    """The largest weight of every row, and the codes.

    >>> largest, codes = encode(np.array([[0.64, 0.16, 0.0]], np.float32))
    >>> codes.tolist()
    [[255, 128, 0]]
    """
    largest = weights.max(axis=1, initial=0.0).astype(np.float32)
    scale = np.where(largest > 0, largest, 1)[:, None]
    return largest, np.rint(_LEVELS * np.sqrt(weights / scale)).astype(np.uint8)


def decode(largest: Single, codes: Codes) -> Single:
    """The weights that are stored, as the page has them.

    >>> [round(float(w), 2) for w in decode(np.array([1], np.float32), np.array([[255, 51, 0]], np.uint8))[0]]
    [1.0, 0.04, 0.0]
    """
    return (largest[:, None] * np.square(codes.astype(np.float32) / _LEVELS)).astype(np.float32)


def measure_errors(weights: Single, stored: Single) -> Errors:
    """The worst entry and the worst row."""
    off = np.abs(stored.astype(np.float64) - weights)
    mass = weights.sum(axis=1, dtype=np.float64)
    rows = off.sum(axis=1)[mass > 0] / mass[mass > 0]
    return Errors(entry=float(off.max(initial=0.0)), row=float(rows.max(initial=0.0)))


def max_pool(weights: Single, size: int) -> Single:
    """The largest weight of every block, in at most ``size`` x ``size`` blocks: nothing bright is lost.

    >>> max_pool(np.arange(12, dtype=np.float32).reshape(3, 4), 2).tolist()
    [[1.0, 3.0], [9.0, 11.0]]
    """
    for axis in (0, 1):
        count = weights.shape[axis]
        if count > size:
            starts = np.arange(size) * count // size
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def encode_whole(weights: Single, peak: float) -> Codes:
    """Codes of a small picture, all measured by one number."""
    codes: Codes = np.rint(_LEVELS * np.sqrt(np.clip(weights / (peak or 1.0), 0, 1))).astype(np.uint8)
    return codes


def pack(*arrays: npt.NDArray[np.generic]) -> str:
    """Arrays one after another, deflated, as letters that may stand in a page."""
    deflater = zlib.compressobj(_EFFORT, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [deflater.compress(np.ascontiguousarray(array).tobytes()) for array in arrays]
    return base64.b64encode(b"".join([*parts, deflater.flush()])).decode("ascii")


def unpack(letters: str) -> bytes:
    """The bytes of a stream."""
    return zlib.decompress(base64.b64decode(letters), -zlib.MAX_WBITS)


LIGHT = ("#ffffff", "#dbe9f3", "#a3cbe3", "#5aa3cd", "#1f75af", "#0b4a85", "#06244d")
DARK = ("#14181b", "#16304a", "#1d5280", "#2f7ea8", "#67adb0", "#bdd79b", "#fdf3bf")
# Heads side by side: Okabe and Ito's first, then lighter and darker ones; a head is also told by its number
HEADS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "#8c564b", "#7f7f7f",
         "#8fc3e3", "#f0a878", "#7fd0b6", "#8f3f74", "#9a6a00", "#1f4e79", "#c9a79f", "#4d4d4d")  # fmt: skip


def colormap() -> LinearSegmentedColormap:
    """The light ramp for matplotlib: figures are for paper."""
    from matplotlib.colors import LinearSegmentedColormap as Made

    return Made.from_list("regard", list(LIGHT))


THUMBNAIL = 32  # places across the small picture of a head
WIDE = 128  # places across the picture of a whole head where only a window is stored in full
MOST = 46_000_000  # letters of streams in a page; a browser opens as many in two seconds
# The order in which the scripts stand in the page: each uses only those before it.
SCRIPTS = ("streams.js", "colours.js", "pens.js", "parts.js", "grid.js", "heatmap.js", "lines.js", "scores.js",
           "readings.js", "controls.js", "look.js")  # fmt: skip


@dataclass(frozen=True)
class Window:
    """Places that are stored in full: ``start`` up to ``stop``, of the queries and of the keys."""

    start: int
    stop: int

    def of(self, length: int) -> tuple[int, int]:
        """The part of a sequence that it covers; of a shorter one the end."""
        size = min(self.stop - self.start, length)
        start = min(self.start, length - size)
        return start, start + size


@dataclass(frozen=True, kw_only=True)
class PageContents:
    """What goes into a page: facts for its scripts, streams by name, and how far the stored weights are off."""

    facts: dict[str, Any]
    streams: dict[str, str]
    errors: Errors
    window: Window | None

    @property
    def letters(self) -> int:
        return sum(map(len, self.streams.values()))


def encode_page(
    layers: Sequence[Layer],
    *,
    title: str,
    remarks: Sequence[str] = (),
    window: Window | None = None,
    view: str = "map",
    most: int = MOST,
    progress: Progress | None = None,
) -> PageContents:
    """Encode the layers; where they are too much for a page, only a window of each, as large as fits."""
    longest = max(len(words) for layer in layers for words in (layer.queries, layer.keys))
    chosen = window or _fitting_window(layers, longest, most)
    while True:
        drawn = _encode_window(layers, title, remarks, chosen, progress)
        if drawn.letters <= most:
            return _with_vectors(replace(drawn, facts={**drawn.facts, "view": view}), layers, most)
        if window is not None:
            raise InputError(
                f"A page of these weights would have {drawn.letters / 1e6:.0f} MB, and {most / 1e6:.0f} is the most; "
                "choose layers, heads or a smaller window."
            )
        size = (longest if chosen is None else chosen.stop - chosen.start) * math.sqrt(0.97 * most / drawn.letters)
        chosen = _window(layers, int(size), longest)


def _fitting_window(layers: Sequence[Layer], longest: int, most: int) -> Window | None:
    """None where everything may fit, otherwise a first guess: eight bits deflate to about three quarters."""
    places = sum(len(layer.heads) * len(layer.queries) * len(layer.keys) for layer in layers)
    if places <= most:
        return None
    heads = sum(len(layer.heads) for layer in layers)
    return _window(layers, int(math.sqrt(max(0, most - heads * WIDE * WIDE) / heads)), longest)


def _window(layers: Sequence[Layer], size: int, longest: int) -> Window:
    if size < THUMBNAIL:  # less than a small picture shows is no window
        heads = sum(len(layer.heads) for layer in layers)
        raise InputError(f"{heads:,} heads of {longest:,} tokens are too many for one page; choose layers or heads.")
    return Window(0, min(size, longest))


def _encode_window(
    layers: Sequence[Layer],
    title: str,
    remarks: Sequence[str],
    window: Window | None,
    progress: Progress | None,
) -> PageContents:
    words: dict[tuple[str, ...], int] = {}
    streams: dict[str, str] = {}
    errors = Errors()
    listed = []
    for number, layer in enumerate(layers):
        about = {
            "label": layer.label,
            "module": layer.record.module,
            "kind": str(layer.kind),
            "heads": list(layer.heads),
            "queries": words.setdefault(layer.queries, len(words)),
            "keys": words.setdefault(layer.keys, len(words)),
            "notes": list(layer.record.notes),
            "scale": layer.record.scale,
        }
        more, worst = _encode_layer(number, layer, window, streams)
        listed.append({**about, **more})
        errors = errors.maximum(worst)
        if progress is not None:
            progress(number + 1, len(layers))
    first, place, sentence = striking_head(layers)
    facts = {
        "title": title,
        "striking": {"layer": first, "place": place, "sentence": sentence},
        "remarks": list(remarks),
        "layers": listed,
        "words": [list(one) for one in words],
        "errors": {"entry": errors.entry, "row": errors.row},
        "off": [at_most(errors.entry, 3), at_most(errors.row, 3, percent=True)],  # the page rounds no bound itself
        "ramps": {"light": LIGHT, "dark": DARK},
        "colours": HEADS,
    }
    return PageContents(facts=facts, streams=streams, errors=errors, window=window)


def _encode_layer(
    number: int, layer: Layer, window: Window | None, streams: dict[str, str]
) -> tuple[dict[str, Any], Errors]:
    """The streams of a layer's heads; and what the scripts must know to read them."""
    shape = len(layer.queries), len(layer.keys)
    rows, columns = ((0, n) if window is None else window.of(n) for n in shape)
    whole = (rows, columns) == ((0, shape[0]), (0, shape[1]))
    small, peaks, errors = [], [], Errors()
    for place in range(len(layer.heads)):
        weights = layer.weights(place)
        part = weights[slice(*rows), slice(*columns)]
        largest, codes = encode(part)
        errors = errors.maximum(measure_errors(part, decode(largest, codes)))
        streams[f"head-{number}-{place}"] = pack(largest.astype("<f4"), codes)
        peaks.append(float(weights.max()))
        small.append(encode_whole(max_pool(weights, THUMBNAIL), peaks[-1]))
        if not whole:
            streams[f"wide-{number}-{place}"] = pack(encode_whole(max_pool(weights, WIDE), peaks[-1]))
    lengths, strongest = _encode_influence(number, layer, small, streams)
    streams[f"small-{number}"] = pack(*small)
    sizes = {"small": [min(THUMBNAIL, n) for n in shape], "wide": None if whole else [min(WIDE, n) for n in shape]}
    peak = {"weights": peaks, "influence": strongest}
    return {"rows": list(rows), "columns": list(columns), "peaks": peak, "norms": lengths, **sizes}, errors


def _encode_influence(
    number: int, layer: Layer, small: list[Any], streams: dict[str, str]
) -> tuple[bool, list[float] | None]:
    """Small pictures of the influence behind those of the weights, and the norms that the rest is made from."""
    if layer.norms is None:
        return False, None
    peaks = []
    for place in range(len(layer.heads)):
        influence: Single = layer.weights(place) * layer.norms[place]
        peaks.append(float(influence.max()))
        small.append(encode_whole(max_pool(influence, THUMBNAIL), peaks[-1]))
    streams[f"norms-{number}"] = pack(layer.norms.astype("<f4"))
    return True, peaks


def _with_vectors(drawn: PageContents, layers: Sequence[Layer], most: int) -> PageContents:
    """With the queries and keys of every head in 16 bits, where they leave the page small enough."""
    more = {}
    for number, layer in enumerate(layers):
        for place in range(len(layer.heads)):
            with np.errstate(over="ignore"):  # what 16 bits cannot hold is not shown
                pair = [vectors.astype("<f2") for vectors in layer.vectors(place) or ()]
            if pair and all(np.isfinite(vectors).all() for vectors in pair):
                more[f"vectors-{number}-{place}"] = pack(*pair)
    if drawn.letters + sum(map(len, more.values())) > most:
        more = {}
    return replace(drawn, facts={**drawn.facts, "vectors": list(more)}, streams={**drawn.streams, **more})


# the file


def html_page(drawn: PageContents) -> str:
    """All of it as one document."""
    frame = static("page.html")
    streams = "\n".join(
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in drawn.streams.items()
    )
    parts = {
        "TITLE": escape(str(drawn.facts["title"])),
        "STYLES": static("look.css"),
        "FACTS": safe_json(drawn.facts),
        "STREAMS": streams,
        "SCRIPTS": joined_scripts(),
    }
    return re.sub("|".join(f"<!--{name}-->" for name in parts), lambda match: parts[match[0][4:-3]], frame)


def safe_json(value: Any) -> str:
    """JSON that can end no element: letters that HTML knows are written by their numbers.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_number)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def joined_scripts() -> str:
    """The modules as one script: each in a function of its own, which hands out what the module exports."""
    return "\n".join(_as_function(static(name)) for name in SCRIPTS)


_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)


def _as_function(script: str) -> str:
    """A module without imports, since what they name is there already; its own names do not touch another's.

    >>> print(_as_function('import { a } from "./a.js";\\nconst c = 1;\\nexport const b = a + c;\\n'))
    const { b } = (() => {
    const c = 1;
    const b = a + c;
    return { b };
    })();
    """
    names = ", ".join(match[2] for match in _EXPORT.finditer(script))
    body = _EXPORT.sub(r"\1", _IMPORT.sub("", script)).strip()
    return f"const {{ {names} }} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


@cache
def static(name: str) -> str:
    """A file of the page."""
    return (resources.files("regard_models.attention_page") / "static" / name).read_text(encoding="utf-8")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else list(value)
