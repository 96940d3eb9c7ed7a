"""Look at a model's attention: one page that opens offline, and figures of one head with its words, or of many."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error
from regard.files import check_target, write_file
from regard.markup import element
from regard.pictures import figure as new_figure
from regard.progress import Progress
from regard.results import Result
from regard.written_numbers import at_most
from regard_models.attention_page.html_document import (
    MOST,
    PageContents,
    Window,
    colormap,
    encode_page,
    html_page,
    max_pool,
)
from regard_models.attention_page.layers import Layer, layers_of
from regard_models.capturing.attention_capture import Run, capture
from regard_models.capturing.records import Capture
from regard_models.head_measures.pattern_reader import read_patterns
from regard_models.head_measures.weight_patterns import NEEDS
from regard_models.inputs.model_input import ModelInput, model_input, original

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LONG = 1024  # tokens from which on weights go to the disk while the model runs: they may be gigabytes
WRITTEN = 24  # tokens that a decoder writes where nobody says what it wrote


def capture_module(
    module: nn.Module,
    inputs: Any,
    *,
    text: str | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    name: str = "",
) -> Capture:
    """The attention of a module on a text or on inputs, in eval mode."""
    given = model_input(module, inputs, text=text, tokenizer=tokenizer, name=name or None)
    return capture_for_page(given, target=target, layers=layers, heads=heads)


def capture_for_page(
    given: ModelInput,
    *,
    target: str | None = None,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    run: Run | None = None,
) -> Capture:
    """The attention of a given model, with everything that a page shows of it."""
    given, notes = with_target(given, target)
    with in_eval_mode(given.module), torch.no_grad(), folder_for(given) as folder:
        keep = NEEDS if folder else (*NEEDS, "q", "k")  # of a long input the page shows no queries and keys
        recorded = capture(
            given.module, given.inputs, layers=layers, heads=heads, keep=keep, run=run, name=given.name,
            stream=None if folder is None else folder / "weights.safetensors",
            tokens=given.tokens, target_tokens=given.target_tokens,
        )  # fmt: skip
    return replace(recorded, notes=(*recorded.notes, *notes))


def with_target(given: ModelInput, target: str | None) -> tuple[ModelInput, tuple[str, ...]]:
    """What the decoder of a Hugging Face model has written: the words given, or else its own; with a note on it."""
    model: Any = original(given.module)
    decodes = "decoder_input_ids" in given.inputs and given.tokenizer is not None and given.tokens is not None
    if not decodes:
        if target is not None:
            raise InputError(f"A target is for a model with a decoder, a tokenizer and a text; {given.name} has not.")
        return given, ()
    note: tuple[str, ...] = ()
    if target is not None:
        ids = _shift_target(model, given.tokenizer, target, given.name)
    else:
        ids = _generate_target(model, given.inputs, given.name)
        note = ("the decoder reads what the model itself writes for this text; a target gives it other words",)
    words = [list(map(str, given.tokenizer.convert_ids_to_tokens(row))) for row in ids.tolist()]
    return replace(given, inputs={**given.inputs, "decoder_input_ids": ids}, target_tokens=words), note


def _shift_target(model: Any, tokenizer: Any, target: str, name: str) -> Tensor:
    if not target.strip():
        raise InputError("The target is empty; give a few words, or leave it out.")
    ids = tokenizer(target, return_tensors="pt")["input_ids"]
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        raise InputError(f"{name} does not say with which token its decoder starts; leave the target out.")
    device = next(model.parameters()).device
    return torch.cat([torch.tensor([[start]]), ids[:, :-1]], dim=1).to(device)


def _generate_target(model: Any, inputs: dict[str, Any], name: str) -> Tensor:
    """What the model writes, or what was drawn where it cannot write."""
    drawn: Tensor = inputs["decoder_input_ids"]
    if not hasattr(model, "generate"):
        return drawn
    source = {key: inputs[key] for key in ("input_ids", "attention_mask") if key in inputs}
    try:
        with in_eval_mode(model), torch.no_grad():
            written: Tensor = model.generate(**source, max_new_tokens=WRITTEN, do_sample=False, num_beams=1)
    except Exception as error:  # somebody's code: whatever it raises is about their model
        raise InputError(
            f"{name} cannot write by itself ({describe_error(error)}); give the target that it has written."
        ) from None
    return written[:, :-1] if written.shape[1] > 2 else written


@contextmanager
def in_eval_mode(module: nn.Module) -> Iterator[None]:
    """Without dropout, and afterwards as it was."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def folder_for(given: ModelInput) -> Iterator[Path | None]:
    """A folder for the weights of a long input, None for a short one; they are mapped before it goes."""
    lengths = [size for value in given.inputs.values() if isinstance(value, Tensor) for size in value.shape[1:2]]
    if max(lengths, default=0) < LONG:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


__all__ = ["AttentionPage", "look"]

VIEWS = ("map", "lines")
LONGEST = 8192  # tokens: beyond, even the small pictures take minutes


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionPage(Result):
    """A page of attention: in a notebook it shows itself, :meth:`to_html` writes it to a file.

    ``worst_weight`` is the largest error of a stored weight, ``worst_row`` the largest share of a row's mass that is
    off; both were measured. ``window`` are the first and the last token (and one) that are stored in full, None where
    all are. ``influence`` says whether the switch between weights and influence is there.
    """

    name: str
    layers: tuple[str, ...]
    heads: int
    queries: int
    keys: int
    influence: bool
    worst_weight: float
    worst_row: float
    window: tuple[int, int] | None = None
    file: str | None = None
    notes: tuple[str, ...] = ()
    _drawn: PageContents
    _layers: tuple[Layer, ...]

    @property
    def page(self) -> str:
        """The whole page as HTML."""
        return html_page(self._drawn)

    @property
    def contents(self) -> PageContents:
        """Facts and streams, for a page that has the scripts already: the lab's."""
        return self._drawn

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        write_file(check_target(path, (".html", ".htm")), self.page.encode())

    def figure(self) -> Figure:
        """One head as a heat map with its words; several as small maps, layers down and heads across."""
        return sketch(self._layers, title=self.name)

    def plot(self, path: str | os.PathLike[str], /) -> None:
        """Write the figure to an .svg, .png or .pdf file; letters that its fonts lack are boxes."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
            super().plot(path)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that neither its styles nor its keys touch the notebook."""
        size = "width: 100%; height: 760px; border: 0; border-radius: 8px"
        return element("iframe", title=f"Attention of {self.name}", style=size, srcdoc=self.page)

    def __str__(self) -> str:
        count = f"{_count(len(self.layers), 'layer')}, {_count(self.heads, 'head')} in all"
        lines = [f"{self.name}: {count}, up to {self.queries:,} queries and {self.keys:,} keys."]
        lines.append(
            f"Stored in 8 bits: no weight is off by more than {at_most(self.worst_weight, 2)}, no row by more than "
            f"{at_most(self.worst_row, 2, percent=True)} of its mass."
        )
        if self.window is not None:
            lines.append(f"Stored in full are tokens {self.window[0]:,} to {self.window[1] - 1:,}; the rest in blocks.")
        lines += [f"Note: {note}." for note in self.notes]
        if self.file is not None:
            lines.append(f"The page is in {self.file}: open it in a browser.")
        return "\n".join(lines)


def look(  # noqa: PLR0913 - a verb's options, each with a default
    given: Any,
    inputs: Any = None,
    *,
    text: str | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    tokens: Sequence[Any] | None = None,
    target_tokens: Sequence[Any] | None = None,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    window: tuple[int, int] | None = None,
    view: str = "map",
    example: int = 0,
    name: str = "",
    progress: Progress | None = None,
) -> AttentionPage:
    """Look at attention: a model's, on a text or on inputs, or weights that there are already.

    ``given`` is a torch module (with ``inputs``, or with ``text`` and a ``tokenizer``), a capture, or whatever
    :func:`.read_patterns` takes: arrays, files, outputs with their
    attentions. ``target`` is what a decoder has written. ``window`` are the tokens, from one up to another, that a long
    input keeps in full. ``view`` is what the page opens with: the "map" of one head, or the "lines" of all heads of a
    layer.

    >>> import numpy as np
    >>> print(look(np.full((2, 3, 4, 4), 0.25), tokens=["a", "b", "c", "d"], name="even"))
    even: 2 layers, 6 heads in all, up to 4 queries and 4 keys.
    Stored in 8 bits: no weight is off by more than 0, no row by more than 0 % of its mass.
    Note: given as arrays, so nothing could be checked.
    Note: influence needs the values and the output projection, which are not there.
    """
    _refuse_inputs(given, inputs, text, target)
    if _is_module(given):
        example = example if text is None else 0
        asked = {"text": text, "target": target, "tokenizer": tokenizer, "layers": layers, "heads": heads}
        recorded = capture_module(given, inputs, name=name, **asked)
        recorded = read_patterns(recorded, tokens=tokens, target_tokens=target_tokens)
    else:
        recorded = read_patterns(given, tokens=tokens, target_tokens=target_tokens, name=name)
    chosen = layers_of(recorded, layers=layers, heads=heads, example=example)
    return page_of(recorded, chosen, window=window, view=view, progress=progress)


def page_of(
    recorded: Capture,
    chosen: tuple[Layer, ...],
    *,
    window: tuple[int, int] | None = None,
    view: str = "map",
    most: int = MOST,
    progress: Progress | None = None,
) -> AttentionPage:
    """The page of some layers of a capture, with at most so many letters of streams."""
    queries, keys = (
        max(len(words) for words in side) for side in zip(*((c.queries, c.keys) for c in chosen), strict=True)
    )
    _refuse_window(window, max(queries, keys))
    if view not in VIEWS:
        raise InputError(f"The view {view!r} is not known; the page opens with: {', '.join(VIEWS)}.")
    notes = [*recorded.notes, *(f"not captured: {miss.module}: {miss.why}" for miss in recorded.missed)]
    if not recorded.answer:
        notes.append("the checks of this capture failed: do not trust its weights")
    influence = all(layer.norms is not None for layer in chosen)
    if not influence:
        some = any(layer.norms is not None for layer in chosen)
        lacking = "in some layers are" if some else "are"
        notes.append(f"influence needs the values and the output projection, which {lacking} not there")
    trimmed = max(
        max(layer.record.shape[2] - len(layer.queries), layer.record.shape[3] - len(layer.keys)) for layer in chosen
    )
    if trimmed:
        notes.append(f"padding at the end is left out: {_count(trimmed, 'token')}")
    drawn = encode_page(
        chosen,
        title=recorded.name,
        remarks=notes,
        window=None if window is None else Window(*window),
        view=view,
        most=most,
        progress=progress,
    )
    full = drawn.window is None or drawn.window.stop - drawn.window.start >= max(queries, keys)
    return AttentionPage(
        name=recorded.name,
        layers=tuple(layer.label for layer in chosen),
        heads=sum(len(layer.heads) for layer in chosen),
        queries=queries,
        keys=keys,
        influence=influence,
        worst_weight=drawn.errors.entry,
        worst_row=drawn.errors.row,
        window=None if full or drawn.window is None else (drawn.window.start, drawn.window.stop),
        notes=tuple(notes),
        _drawn=drawn,
        _layers=chosen,
    )


def _refuse_inputs(given: Any, inputs: Any, text: str | None, target: str | None) -> None:
    if not _is_module(given) and not (inputs is None and text is None and target is None):
        raise InputError("A text and inputs are for a model; weights that are there already need neither.")


def _refuse_window(window: tuple[int, int] | None, longest: int) -> None:
    if longest > LONGEST:
        raise InputError(f"The input has {longest:,} tokens, and a page shows at most {LONGEST:,}; shorten it.")
    if window is not None and not 0 <= window[0] < window[1] <= longest:
        raise InputError(
            f"The window {window[0]}:{window[1]} does not fit: it must start at 0 or later, and end after its start "
            f"and at {longest} at the latest."
        )


def _is_module(given: Any) -> bool:
    """Whether it is a torch module; nothing is imported to find out."""
    return any(kind.__module__ == "torch.nn.modules.module" for kind in type(given).__mro__)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


MANY = 60  # words that get their own label
_SMALL = 64  # places across a small map


def sketch(layers: Sequence[Layer], *, title: str) -> Figure:
    """A heat map where there is one head, otherwise layers down and heads across."""
    short = title if len(title) <= 50 else "…" + title[-49:]
    if len(layers) == 1 and len(layers[0].heads) == 1:
        return _head_figure(layers[0], short)
    return _grid_figure(layers, short)


def _head_figure(layer: Layer, title: str) -> Figure:
    from matplotlib.colors import PowerNorm

    weights = layer.weights(0)
    rows, columns = weights.shape
    cell = max(0.02, min(0.24, 6.5 / max(rows, columns)))
    made = new_figure(2.4 + cell * columns, 1.9 + cell * rows)
    axes = made.subplots()
    # The root of the weight, as on the page: small weights are seen, and the numbers of the scale say what they are.
    norm = PowerNorm(0.5, vmin=0, vmax=float(weights.max()) or 1.0)
    drawn = axes.imshow(weights, cmap=colormap(), norm=norm, interpolation="none")
    _label_axis(axes.xaxis, layer.keys, columns, rotation=90)
    _label_axis(axes.yaxis, layer.queries, rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_color("#b9c1c5")
    axes.set_ylabel("queries")
    axes.set_xlabel(f"{title}: layer {layer.label}, head {layer.heads[0]}", fontsize=9.5, parse_math=False)
    bar = made.colorbar(drawn, ax=axes, shrink=max(0.5, min(1.0, 1.6 / (cell * rows + 0.1))), label="weight")
    bar.outline.set_visible(False)
    return made


def _label_axis(axis: Any, words: Sequence[str], count: int, **style: Any) -> None:
    every = math.ceil(count / MANY)
    places = range(0, count, every)
    axis.set_ticks(list(places), [words[place] for place in places], fontsize=8, parse_math=False, **style)


def _grid_figure(layers: Sequence[Layer], title: str) -> Figure:
    most = max(len(layer.heads) for layer in layers)
    size = max(0.28, min(0.9, 9.0 / most, 12.0 / len(layers)))
    made = new_figure(1.0 + size * most, 0.9 + size * len(layers))
    grid = made.subplots(len(layers), most, squeeze=False)
    for row, layer in zip(grid, layers, strict=True):
        for place, axes in enumerate(row):
            axes.set(xticks=[], yticks=[])
            if place >= len(layer.heads):
                axes.set_axis_off()
                continue
            small = max_pool(layer.weights(place), _SMALL)
            axes.imshow(small**0.5, cmap=colormap(), vmin=0, vmax=float(small.max()) ** 0.5 or 1.0, aspect="auto")
            axes.spines[:].set_color("#b9c1c5")
        label = layer.label if layer.kind == "self" else f"{layer.kind[:5]} {layer.label}"
        row[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
    for place, axes in enumerate(grid[0]):
        if place < len(layers[0].heads):
            axes.set_title(str(layers[0].heads[place]), fontsize=8)
    made.suptitle(f"{title}: layers down, heads across; each to its own largest weight, square roots", fontsize=9.5,
                  parse_math=False)  # fmt: skip
    return made
