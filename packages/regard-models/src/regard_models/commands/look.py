"""``regard model look``: attention on one page that opens offline, and as a figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import AsJson, Progress, check_plot, show
from regard.errors import InputError
from regard.files import check_target
from regard.written_numbers import is_count
from regard_models.commands.capture import Generate, Heads, Layers, parsed_list, set_mode, token_writer
from regard_models.commands.options import Device, Limit, Text, contain_run, load_model_input

if TYPE_CHECKING:
    from regard_models.capturing.records import Capture

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model (FILE.py:build, a Hugging Face or run folder, huggingface:NAME@REVISION), or weights: a capture, "
        "a .npy, .npz or .safetensors file, or example:textbook.",
    ),
]
Out = Annotated[str | None, typer.Option(metavar="FILE", help="Write the page there (.html).")]
Figure = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw a figure for print there (.pdf, .svg, .png): one head large.")
]
Target = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What the decoder has written [default: what it writes itself].")
]
TokensOption = Annotated[
    str | None, typer.Option("--tokens", metavar="WORDS", help="The words of given weights, with blanks between them.")
]
WindowOption = Annotated[
    str | None,
    typer.Option("--window", metavar="FROM:TO", help="Tokens of a long input to store in full [default: what fits]."),
]
ViewOption = Annotated[
    str, typer.Option("--view", metavar="VIEW", help="What the page opens with: map (a head), lines (a layer's heads).")
]
Example = Annotated[int, typer.Option(metavar="N", help="Which example of the batch, counted from 0.")]


def look(
    model: Source,
    text: Text = None,
    out: Out = None,
    figure: Figure = None,
    layers: Layers = None,
    heads: Heads = None,
    target: Target = None,
    tokens: TokensOption = None,
    window: WindowOption = None,
    view: ViewOption = "map",
    example: Example = 0,
    generate: Generate = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """Look at attention: one page with every layer and head, which opens offline by a double click.

    Example: regard model look my_model.py:build --out look.html

    Heat maps, lines from words to words, all heads at a glance; weights, or influence: how much of each word arrives.
    """
    _refuse(out, figure)
    asked = {"layers": parsed_list(layers, "--layers", names=True), "heads": parsed_list(heads, "--heads")}
    full = None if window is None else parsed_window(window)
    # not above: a mistyped option is refused without waiting for torch
    from regard_models.attention_page.layers import layers_of
    from regard_models.attention_page.page_result import page_of
    from regard_models.head_measures.pattern_reader import is_pattern_file

    if is_pattern_file(model):
        recorded = _read(model, tokens, {"--text": text, "--target": target, "--generate": generate})
    else:
        recorded = _run(model, text, target, generate, {"device": device, "limit": limit, "tokens": tokens}, asked)
    chosen = layers_of(recorded, **asked, example=example)
    result = page_of(recorded, chosen, window=full, view=view, progress=Progress("Encoding"))
    if figure is not None:
        result.plot(figure)
    if out is not None:
        result.to_html(out)
        result = replace(result, file=out)
    show(result, as_json=as_json)


def _refuse(out: str | None, figure: str | None) -> None:
    if out is None and figure is None:
        raise InputError("Say where it should go: --out look.html for the page, --figure FILE for a figure, or both.")
    check_plot(figure)
    if out is not None:
        check_target(out, (".html", ".htm"))


def _read(model: str, tokens: str | None, others: dict[str, Any]) -> Capture:
    from regard_models.head_measures.pattern_reader import read_patterns

    for option, given in others.items():
        if given is not None:
            raise InputError(f"{option} is for a model, and {model} holds weights: leave {option} out.")
    return read_patterns(model, tokens=None if tokens is None else tokens.split())


def _run(
    model: str, text: str | None, target: str | None, generate: int | None, how: dict[str, Any], asked: dict[str, Any]
) -> Capture:
    if how.pop("tokens") is not None:
        raise InputError("--tokens are for weights from a file; a model has its words from --text.")
    given = load_model_input(model, text=text, **how)
    set_mode(given)
    from regard_models.attention_page.page_result import capture_for_page

    run = None if generate is None else token_writer(given, generate)
    with contain_run(model, how["limit"]):
        recorded = capture_for_page(given, target=target, run=run, **asked)
    return replace(recorded, name="/".join(Path(model).parts[-2:]))  # a page may be shown to others: no whole path


def parsed_window(words: str) -> tuple[int, int]:
    """FROM:TO as numbers.

    >>> parsed_window("512:1024")
    (512, 1024)
    """
    first, colon, last = words.partition(":")
    if not colon or not all(is_count(part) for part in (first, last)):
        raise InputError(f"--window {words!r} is not understood; write FROM:TO, as in 512:1024.")
    return int(first), int(last)
