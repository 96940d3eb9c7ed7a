"""``regard claims``: what the coursework states, whether it holds, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.output import AsJson, Progress, show
from regard.errors import InputError


def claims(
    name: Annotated[str | None, typer.Argument(help="A claim; without one, all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Decide every reading of it: HOLDS, REFUTED, ...")] = False,
    proof: Annotated[bool, typer.Option("--proof", help="The proof, with this instance's numbers.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="A parameter; may be given several times.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Write the picture (.svg, .png, .pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """What the coursework states, whether it holds, and why.

    Without a name: every claim, and with --check a table of every verdict (exit code 0; some ten seconds).

    Example: regard claims average-within-budget --check --set n=1000 --set eps=0.01

    Exit code 0: the statement's own (first) reading holds, is not refuted, or is explained; 1: it is refuted.
    """
    from regard.coursework.catalogue import claims as catalogue

    given = _parameters(set_ or [])
    if name is None:
        _all(check, alone=not (proof or plot or given), as_json=as_json)
    claim = catalogue[name or ""]
    claim.chosen(**given)  # bad parameters are refused before anything is written
    if plot is not None:
        claim.plot(plot, **given)
    if check and proof:
        show(claim.answered(**given), as_json=as_json)
    if check:
        show(claim.check(**given), as_json=as_json)
    show(claim.proof(**given) if proof else claim, as_json=as_json)


def _all(check: bool, *, alone: bool, as_json: bool) -> None:
    from regard.coursework.catalogue import claims as catalogue

    if not alone:
        raise InputError("--proof, --plot and --set are about one claim: name it, as in regard claims average-of-two.")
    show(catalogue.check(progress=Progress("claims")) if check else catalogue.listing(), as_json=as_json)


def _parameters(settings: list[str]) -> dict[str, Any]:
    """NAME=NUMBER pairs; the numbers are checked by the claim, which knows their ranges."""
    pairs = [setting.partition("=") for setting in settings]
    for (name, equals, value), setting in zip(pairs, settings, strict=True):
        if not name.strip().isidentifier() or not equals or not value.strip():
            raise InputError(f"--set {setting!r} must be a name and a number, as in --set n=1000.")
    return {name.strip(): value.strip() for name, _, value in pairs}
