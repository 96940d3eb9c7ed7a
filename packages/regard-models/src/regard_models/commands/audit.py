"""``regard model audit``: does a model keep the properties that every Transformer should have."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import AsJson, Details, Progress, note, show
from regard_models.commands.options import (
    Causal,
    Device,
    Limit,
    Masks,
    ModelArgument,
    Text,
    contain_run,
    load_model_input,
)

_WORTH_SAYING = 20.0  # seconds


def audit(
    model: ModelArgument,
    text: Text = None,
    causal: Causal = None,
    mask: Masks = None,
    only: Annotated[
        list[str] | None, typer.Option("--property", help="Test only this property; may be given several times.")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:advance",
            help="advance(module, inputs, past, start) writes with a cache that forward has no parameter for.",
        ),
    ] = None,
    pad: Annotated[
        int | None, typer.Option(metavar="ID", help="The id by which a model without a mask knows padding.")
    ] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of the examples; left out, a small prime.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the drawn tokens.")] = 0,
    baseline: Annotated[str | None, typer.Option(metavar="FILE.json", help="Failures that are known.")] = None,
    write_baseline: Annotated[
        str | None, typer.Option(metavar="FILE.json", help="Write today's failures down as known.")
    ] = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write a JUnit file.")] = None,
    sarif: Annotated[str | None, typer.Option(metavar="FILE.sarif", help="Write a SARIF file.")] = None,
    page: Annotated[str | None, typer.Option(metavar="FILE.html", help="Write a page that opens offline.")] = None,
    device: Device = "cpu",
    limit: Limit = 60.0,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Does a model keep the properties that every Transformer should have?

    Batch, padding, causality, cache, order, weights, determinism, precision, gradients: each is tested in a float64
    copy of the model against its own measured rounding, and a failure names the guilty submodule.

    A FILE.py is run as your own code, with your rights: only name files that you trust.

    Example, with def build(): return torch.nn.TransformerEncoderLayer(16, 4, batch_first=True) in my_model.py:

    regard model audit my_model.py:build

    Exit code 0: nothing failed (which is no proof); 1: a check failed that no baseline knows; 3: nothing failed, but
    the model raised an exception, so that some checks could not be made.
    """
    from regard_models.auditing.reports import check_files, read_baseline, write_text
    from regard_models.auditing.reports import write_baseline as write_known

    # before the model is run for minutes
    check_files([(write_baseline, ".json"), (junit, ".xml"), (sarif, ".sarif"), (page, ".html")])
    known = read_baseline(baseline) if baseline is not None else ()
    given = load_model_input(
        model, text=text, device=device, limit=limit, causal=causal, masks=mask, cache=cache, pad=pad
    )
    from regard_models.auditing import audit as examine
    from regard_models.auditing import expected_cost

    with contain_run(model, limit):
        seconds, memory = expected_cost(given)
        if seconds > _WORTH_SAYING or memory > 2**30:
            note(f"this takes about {seconds:.0f} s and {memory / 2**30:.1f} GB of memory.")
        audited = examine(given, length=length, properties=only, known=known, seed=seed, report=Progress("audit"))
    if junit is not None:
        from regard_models.auditing.reports import junit as as_junit

        write_text(junit, as_junit(audited))
    if sarif is not None:
        from regard_models.auditing.reports import sarif as as_sarif

        write_text(sarif, as_sarif(audited))
    if page is not None:
        from regard_models.auditing.reports import audit_page as as_page

        write_text(page, as_page(audited))
    if write_baseline is not None:
        write_known(write_baseline, audited)
        note(f"{len(audited.failures)} failures are written down as known in {write_baseline}.")
    undecided = bool(audited.open_questions) and not audited.failures
    show(audited, as_json=as_json, details=details, code=3 if undecided else None)
