"""The arguments and options that all commands of ``regard model`` share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import InputError
from regard.extras import require
from regard.python_files import contain

if TYPE_CHECKING:
    from regard_models.inputs.model_input import ModelInput

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="FILE.py:build (the file is run), a Hugging Face folder, huggingface:NAME@REVISION, or a run folder.",
    ),
]
Text = Annotated[str | None, typer.Option(help="A text instead of drawn ids, where the model has a tokenizer.")]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        help="A text instead of drawn ids, where the model has a tokenizer; given several times: the mean over them.",
    ),
]
Device = Annotated[str, typer.Option(help="Where to run it, as torch names devices.")]
Limit = Annotated[float, typer.Option(metavar="SECONDS", help="The most time a FILE.py may take to build its model.")]
_WORK = 60  # times as long may the work with a FILE.py's model take: a forward that never ends is ended
Causal = Annotated[
    bool | None, typer.Option("--causal/--not-causal", help="Claim that no place reads later ones, or that it may.")
]
Masks = Annotated[
    list[str] | None,
    typer.Option("--mask", metavar="NAME=keep|hide|add", help="What True means in a mask: may be read, or must not."),
]


def load_model_input(
    model: str,
    *,
    text: str | None = None,
    device: str = "cpu",
    limit: float = 60.0,
    causal: bool | None = None,
    masks: list[str] | None = None,
    cache: str | None = None,
    pad: int | None = None,
) -> ModelInput:
    """The model that was named, with an example that it runs on."""
    require("A torch model", "torch", extra="models")
    if not limit > 0:
        raise InputError(f"--limit is {limit:g}; it must be above 0, in seconds.")
    from regard_models.inputs.model_input import load

    claims: dict[str, Any] = {"causal": causal, "masks": parsed_masks(masks), "cache": cache, "pad": pad}
    return load(model, text=text, device=device, limit=limit, **claims)


def input_of_each(given: ModelInput, texts: list[str] | None) -> list[ModelInput]:
    """The model once for every text; ``given`` has the first of them."""
    from regard_models.inputs.devices import move_inputs
    from regard_models.inputs.model_input import model_input

    others = [
        model_input(given.module, text=text, tokenizer=given.tokenizer, name=given.name) for text in (texts or [])[1:]
    ]
    device = str(next((one.device for one in given.module.parameters()), "cpu"))
    return [given, *(replace(one, inputs=move_inputs(one.inputs, device)) for one in others)]


@contextlib.contextmanager
def contain_run(model: str, limit: float) -> Iterator[None]:
    """What the model prints as it runs goes to standard error, and a FILE.py's model does not run for ever."""
    with contain(f"{model}, at work,", limit=_WORK * limit if ".py:" in model else None, errors=False):
        yield


def parsed_masks(words: list[str] | None) -> dict[str, str]:
    """NAME=keep and so on, as a dictionary.

    >>> parsed_masks(["padding_mask=hide"])
    {'padding_mask': 'hide'}
    """
    polarities = {}
    for word in words or []:
        name, equals, polarity = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--mask {word!r} is not understood; write NAME=keep, NAME=hide or NAME=add.")
        polarities[name] = polarity
    return polarities
