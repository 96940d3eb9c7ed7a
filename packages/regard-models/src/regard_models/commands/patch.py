"""``regard model patch``: what each head does to the output, by switching it off or by exchanging it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import AsJson, Progress, check_plot, show
from regard_models.commands.capture import Layers, parsed_list, set_mode
from regard_models.commands.options import Device, Limit, ModelArgument, Text, contain_run, load_model_input

if TYPE_CHECKING:
    from regard_models.editing.patching import Metric
    from regard_models.inputs.model_input import ModelInput

Against = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The corrupted text: each head in turn gets what it had for --text.")
]
Ablate = Annotated[
    str | None,
    typer.Option(metavar="zero|mean|uniform", help="Switch heads off instead: zero, their mean, or equal weights."),
]
What = Annotated[
    str | None, typer.Option(metavar="output|pattern", help="What is exchanged with --against [default: output].")
]
Token = Annotated[
    str | None,
    typer.Option(help="Measure this token's logit, at the mask or at the end, instead of the whole output."),
]
Over = Annotated[str | None, typer.Option(help="With --token: less this token's logit.")]
Csv = Annotated[str | None, typer.Option(metavar="FILE", help="Write the table there (.csv).")]
Plot = Annotated[str | None, typer.Option(metavar="FILE", help="Draw a heat map, layers by heads (.svg, .png, .pdf).")]


def patch(
    model: ModelArgument,
    text: Text = None,
    against: Against = None,
    ablate: Ablate = None,
    what: What = None,
    token: Token = None,
    over: Over = None,
    layers: Layers = None,
    csv: Csv = None,
    plot: Plot = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """What each head does: switch it off (--ablate), or give it what it had for another text (--text, --against).

    Example: regard model patch my_model.py:build --ablate zero --plot heads.svg

    The model runs once for every head. Works for every kernel, also where heads share keys.
    """
    _refuse(text, against, ablate, what, token, over)
    _check_targets(csv, plot)
    chosen = parsed_list(layers, "--layers")
    given = load_model_input(model, text=text, device=device, limit=limit)
    set_mode(given)
    metric = None if token is None else logit_metric(given, token, over)
    options = {"layers": chosen, "metric": metric, "progress": Progress("Heads")}
    with contain_run(model, limit):
        result = _patch_heads(given, against, ablate, what, options)
    if csv is not None:
        from regard.files import write_file

        write_file(csv, result.to_csv().encode())
    if plot is not None:
        result.plot(plot)
    show(result, as_json=as_json)


def _patch_heads(
    given: ModelInput, against: str | None, ablate: str | None, what: str | None, options: dict[str, Any]
) -> Any:
    from dataclasses import replace

    from regard_models.editing.patching import ablate as switch_off
    from regard_models.editing.patching import patch as exchange
    from regard_models.inputs.devices import move_inputs
    from regard_models.inputs.model_input import model_input

    if ablate is not None:
        result = switch_off(given.module, given.inputs, by=ablate, **options)
    else:
        other = model_input(given.module, text=against, tokenizer=given.tokenizer, name=given.name)
        device = str(next(given.module.parameters()).device)
        corrupted = move_inputs(other.inputs, device)
        result = exchange(given.module, given.inputs, corrupted, what=what or "output", **options)
    return replace(result, name=given.name)


def logit_metric(given: ModelInput, token: str, over: str | None) -> Metric:
    """A token's logit in the first example, less another's, at the mask or else at the last place."""
    from regard.errors import InputError

    if given.tokens is None or not hasattr(given.tokenizer, "mask_token_id"):  # our runs have words, and no such ids
        raise InputError("--token needs a model with a tokenizer, and --text.")
    ids = given.inputs["input_ids"][0].tolist()
    mask = given.tokenizer.mask_token_id
    # a masked model speaks where the mask is, a causal one after the last token
    place = ids.index(mask) if mask in ids else len(ids) - 1
    wanted, other = (None if word is None else _id_of(given.tokenizer, word) for word in (token, over))

    def read(output: Any) -> float:
        logits = getattr(output, "logits", None)
        if logits is None or logits.dim() != 3 or logits.shape[1] <= place:
            raise InputError(f"{given.name} gives no logit for every place and token; leave --token out.")
        row = logits[0, place]
        return float(row[wanted]) - (0.0 if other is None else float(row[other]))

    return read


def _id_of(tokenizer: Any, word: str) -> int:
    from regard.errors import InputError

    ids = tokenizer.encode(word, add_special_tokens=False)
    if len(ids) != 1:
        raise InputError(f"{word!r} is {len(ids)} tokens to this tokenizer; give a word that is one (mind the blank).")
    return int(ids[0])


def _refuse(
    text: str | None, against: str | None, ablate: str | None, what: str | None, token: str | None, over: str | None
) -> None:
    from regard.errors import InputError

    if (against is None) == (ablate is None):
        raise InputError("Give --against TEXT to exchange heads, or --ablate zero, mean or uniform, and not both.")
    needs = [
        ("--against", against, "--text", text),
        ("--what", what, "--against", against),
        ("--over", over, "--token", token),
        ("--token", token, "--text", text),
    ]
    for option, given, other, there in needs:
        if given is not None and there is None:
            raise InputError(f"{option} does nothing without {other}: add {other} or leave {option} out.")
    for option, given, known in (
        ("--ablate", ablate, ("zero", "mean", "uniform")),
        ("--what", what, ("output", "pattern")),
    ):
        if given is not None and given not in known:
            raise InputError(f"{option} is {given!r}; it must be {', '.join(known[:-1])} or {known[-1]}.")


def _check_targets(csv: str | None, plot: str | None) -> None:
    from regard.arrays import check_target

    check_plot(plot)
    if csv is not None:
        check_target(csv, (".csv",))
