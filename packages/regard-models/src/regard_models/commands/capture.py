"""``regard model capture``: the attention that a model really used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import AsJson, note, show
from regard.errors import InputError
from regard.files import check_target
from regard.written_numbers import is_count
from regard_models.commands.options import Device, Limit, ModelArgument, Text, contain_run, load_model_input

if TYPE_CHECKING:
    from regard_models.inputs.model_input import ModelInput

Layers = Annotated[
    str | None, typer.Option(metavar="LIST", help="Which layers, as in 0,3-5, or names of modules [default: all].")
]
Heads = Annotated[str | None, typer.Option(metavar="LIST", help="Which heads, as in 0,3-5 [default: all].")]
Verify = Annotated[
    bool, typer.Option("--verify", help="Run every kernel again on an identity, which gives its weights themselves.")
]
Keep = Annotated[
    bool, typer.Option("--keep-qkv", help="Keep queries, keys and values too, and the matrices around them.")
]
Generate = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Capture while it writes N more tokens, with its cache.")
]
Train = Annotated[bool, typer.Option("--train", help="Run it in training mode, with its dropout.")]
Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the weights there (.safetensors) while the model runs; for long inputs."),
]


def capture(
    model: ModelArgument,
    text: Text = None,
    layers: Layers = None,
    heads: Heads = None,
    verify: Verify = False,
    keep_qkv: Keep = False,
    generate: Generate = None,
    train: Train = False,
    out: Out = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    as_json: AsJson = False,
) -> None:
    """The attention weights that a model really used: every layer, every head, whatever kernel ran.

    Example: regard model capture my_model.py:build --verify --out weights.safetensors

    The model runs once, as it always does. Every record is checked: weights times values must be the kernel's output.
    """
    if out is not None:
        check_target(out, (".safetensors",))
    wanted = {"layers": parsed_list(layers, "--layers", names=True), "heads": parsed_list(heads, "--heads")}
    given = load_model_input(model, text=text, device=device, limit=limit)
    set_mode(given, train=train, more="; --train keeps its dropout")
    import torch

    from regard_models.capturing.attention_capture import KEPT
    from regard_models.capturing.attention_capture import capture as record

    run = None if generate is None else token_writer(given, generate)
    keep = KEPT if keep_qkv else ()
    with torch.no_grad(), contain_run(model, limit):
        recorded = record(
            given.module, given.inputs, verify=verify, keep=keep, stream=out, run=run, tokens=given.tokens,
            target_tokens=given.target_tokens, name=given.name, **wanted,
        )  # fmt: skip
    show(recorded, as_json=as_json)


def set_mode(given: ModelInput, *, train: bool = False, more: str = "") -> None:
    """Eval mode unless it is asked otherwise, said where it is a change."""
    if not train and given.module.training:
        note(f"the model was in training mode and was put into eval mode{more}")
    given.module.train(train)


def token_writer(given: ModelInput, count: int) -> Any:
    """What writes ``count`` more tokens."""
    if not hasattr(given.module, "generate"):
        raise InputError(f"{given.name} cannot write: it has no method generate; leave --generate out.")
    return lambda module, inputs: module.generate(**inputs, max_new_tokens=count, do_sample=False)


def _is_small_number(word: str) -> bool:
    return is_count(word, digits=6)


def parsed_list(words: str | None, option: str, *, names: bool = False) -> list[Any] | None:
    """``0,3-5`` as numbers; where they are allowed, what is no number is a name.

    >>> parsed_list("0,3-5", "--layers")
    [0, 3, 4, 5]
    >>> parsed_list("encoder.layer.0", "--layers", names=True)
    ['encoder.layer.0']
    """
    if words is None:
        return None
    chosen: list[Any] = []
    for word in (part.strip() for part in words.split(",")):
        first, dash, last = word.partition("-")
        if is_count(word):
            chosen.append(int(word))
        elif dash and _is_small_number(first) and _is_small_number(last) and int(first) <= int(last):
            chosen.extend(range(int(first), int(last) + 1))
        elif names and word and not word[0].isdecimal() and not dash:
            chosen.append(word)
        else:
            raise InputError(f"{option} {words!r} is not understood at {word!r}; write numbers such as 0,3-5.")
    return chosen
