"""``regard model patch``: what each head does to the output, by switching it off or by exchanging it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import AsJson, Progress, check_plot, show
from regard.errors import InputError
from regard.files import check_target, write_file
from regard_models.commands.capture import Layers, parsed_list, set_mode
from regard_models.commands.options import (
    Device,
    Limit,
    ModelArgument,
    Texts,
    contain_run,
    input_of_each,
    load_model_input,
)

if TYPE_CHECKING:
    from regard_models.editing.patching import Metric
    from regard_models.inputs.model_input import ModelInput

Against = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT", help="The corrupted text: each head in turn gets what it had for --text; one for every --text."
    ),
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
    text: Texts = None,
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

    The model runs once for every head, and for every --text, over which effects are averaged. Works for every kernel,
    also where heads share keys.
    """
    _refuse(text, against, ablate, what, token, over)
    _check_targets(csv, plot)
    chosen = parsed_list(layers, "--layers")
    given = load_model_input(model, text=text[0] if text else None, device=device, limit=limit)
    set_mode(given)
    prompts = input_of_each(given, text)
    metrics = [None if token is None else logit_metric(one, token, over) for one in prompts]
    with contain_run(model, limit):
        corrupted = None if against is None else _corrupted_inputs(given, against)
        result = _patch_heads(prompts, corrupted, metrics, ablate or what or "output", chosen)
    if csv is not None:
        write_file(csv, result.to_csv().encode())
    if plot is not None:
        result.plot(plot)
    show(result, as_json=as_json)


def _corrupted_inputs(given: ModelInput, texts: list[str]) -> list[Any]:
    return [one.inputs for one in input_of_each(given, ["", *texts])[1:]]


def _patch_heads(
    prompts: list[ModelInput], corrupted: list[Any] | None, metrics: list[Metric | None], how: str,
    layers: list[int] | None,
) -> Any:  # fmt: skip
    from regard_models.editing.patching import ablate as switch_off
    from regard_models.editing.patching import mean_effects, pair_prompts
    from regard_models.editing.patching import patch as exchange

    options: dict[str, Any] = {"layers": layers, "progress": Progress("Heads")}
    module = prompts[0].module
    if corrupted is None:
        results = [switch_off(module, one.inputs, by=how, metric=metric, **options)
                   for one, metric in zip(prompts, metrics, strict=True)]  # fmt: skip
    else:
        pairs = pair_prompts([one.inputs for one in prompts], corrupted)
        results = [exchange(module, *pair, what=how, metric=metric, **options)
                   for pair, metric in zip(pairs, metrics, strict=True)]  # fmt: skip
    return replace(results[0] if len(results) == 1 else mean_effects(results), name=prompts[0].name)


def logit_metric(given: ModelInput, token: str, over: str | None) -> Metric:
    """A token's logit in the first example, less another's, at the mask or else at the last place."""
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
    ids = tokenizer.encode(word, add_special_tokens=False)
    if len(ids) != 1:
        raise InputError(f"{word!r} is {len(ids)} tokens to this tokenizer; give a word that is one (mind the blank).")
    return int(ids[0])


def _refuse(
    text: list[str] | None, against: list[str] | None, ablate: str | None, what: str | None, token: str | None,
    over: str | None,
) -> None:  # fmt: skip
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
    check_plot(plot)
    if csv is not None:
        check_target(csv, (".csv",))
