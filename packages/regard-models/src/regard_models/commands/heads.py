"""``regard model heads``: what every head of a model does, measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import AsJson, Details, Progress, check_plot, show
from regard.errors import InputError
from regard.files import check_target, write_file
from regard.pictures import save
from regard_models.commands.capture import Heads, parsed_list, set_mode
from regard_models.commands.options import Device, Limit, Texts, contain_run, input_of_each, load_model_input

if TYPE_CHECKING:
    from regard_models.head_measures.head_report import Heads as Measured

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model as for the other commands, or a file with weights: a capture, .npy, .npz or .safetensors.",
    ),
]
Tokens = Annotated[str | None, typer.Option(metavar="WORDS", help="The tokens of a file with weights, blanks between.")]
Layers = Annotated[str | None, typer.Option(metavar="LIST", help="Which layers, as in 0,3-5 [default: all].")]
Example = Annotated[int, typer.Option(min=0, help="Which example of the batch to measure.")]
Ceilings = Annotated[bool, typer.Option("--ceilings", help="Which tokens can never win, or not be copied; proved.")]
Rank = Annotated[bool, typer.Option("--rank", help="Ranks of W_Q W_K^T and W_V W_O, and what lower ones cost.")]
Ablate = Annotated[bool, typer.Option("--ablate", help="The model without each head.")]
Direct = Annotated[bool, typer.Option("--direct", help="What each head itself adds to the output.")]
Noise = Annotated[bool, typer.Option("--noise", help="How fragile each head is when its keys' lengths swing.")]
Every = Annotated[bool, typer.Option("--all", help="All of these.")]
Eps = Annotated[float, typer.Option(help="A head copies where a weight is 1/(1 + eps) or more.")]
Cut = Annotated[int | None, typer.Option(metavar="RANK", min=1, help="With --rank: cut to this rank.")]
Csv = Annotated[str | None, typer.Option(metavar="FILE", help="Write the table there (.csv).")]
Figure = Annotated[str | None, typer.Option(metavar="FILE", help="Draw layers by heads (.svg, .png, .pdf).")]
Measure = Annotated[
    str | None, typer.Option(help="With --figure: which measure, as the CSV names them [default: effective].")
]


def heads(
    model: Source,
    text: Texts = None,
    tokens: Tokens = None,
    layers: Layers = None,
    heads: Heads = None,
    example: Example = 0,
    ceilings: Ceilings = False,
    rank: Rank = False,
    ablate: Ablate = False,
    direct: Direct = False,
    noise: Noise = False,
    every: Every = False,
    eps: Eps = 0.1,
    cut: Cut = None,
    csv: Csv = None,
    figure: Figure = None,
    measure: Measure = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """What every head does: how it spreads its weights, its pattern, its keys, what it adds, its twin.

    Example: regard model heads my_model.py:build --figure heads.svg

    --details has every measure. Those that take long have their own options: --ceilings, --rank, --ablate, --direct,
    --noise, or --all. A measure that this model or input does not allow is "not applicable", with the reason. With
    --text given several times, every text runs by itself, and each measure is the mean over them.
    """
    asked = {"ceilings": ceilings, "rank": rank, "ablation": ablate, "direct": direct, "noise": noise}
    _refuse(model, text, tokens, cut, rank or every, figure, measure)
    _check_targets(csv, figure)
    options: dict[str, Any] = {
        "layers": parsed_list(layers, "--layers"), "only": parsed_list(heads, "--heads"), "example": example,
        "also": [name for name, wanted in asked.items() if wanted or every], "eps": eps, "rank": cut,
    }  # fmt: skip
    measured = _measure_source(model, text, tokens, device, limit, options)
    if csv is not None:
        write_file(csv, measured.to_csv().encode())
    if figure is not None:
        save(measured.picture(measure or "effective"), figure)
    show(measured, as_json=as_json, details=details)


class Stages(Progress):
    """Progress that begins anew with every stage, so that the time left is that of the stage."""

    def __call__(self, done: int, total: int) -> None:
        if done <= 1:
            self.start, self.shown, self.ended = time.monotonic(), 0.0, None
        super().__call__(done, total)


def _measure_source(
    model: str, text: list[str] | None, tokens: str | None, device: str, limit: float, options: dict[str, Any]
) -> Measured:
    from regard_models.head_measures.model_heads import heads as measure_heads
    from regard_models.head_measures.pattern_reader import is_pattern_file, read_patterns

    options = {**options, "progress": Stages("Heads")}
    if is_pattern_file(model):
        words = None if tokens is None else tokens.split()
        return measure_heads(read_patterns(model, tokens=words), **options)
    given = load_model_input(model, text=text[0] if text else None, device=device, limit=limit)
    set_mode(given)
    with contain_run(model, limit):
        return measure_heads(input_of_each(given, text) if text and text[1:] else given, **options)


def _refuse(
    model: str, text: list[str] | None, tokens: str | None, cut: int | None, ranked: bool, figure: str | None,
    measure: str | None,
) -> None:  # fmt: skip
    from regard_models.head_measures.pattern_reader import is_pattern_file

    if is_pattern_file(model) and text is not None:
        raise InputError("--text needs a model to read it; for weights from a file, name their tokens with --tokens.")
    if not is_pattern_file(model) and tokens is not None:
        raise InputError("--tokens belongs to weights from a file; give a model its --text.")
    if cut is not None and not ranked:
        raise InputError("--cut does nothing without --rank: add --rank or leave --cut out.")
    if measure is not None and figure is None:
        raise InputError("--measure does nothing without --figure: add --figure or leave --measure out.")


def _check_targets(csv: str | None, figure: str | None) -> None:
    check_plot(figure)
    if csv is not None:
        check_target(csv, (".csv",))
