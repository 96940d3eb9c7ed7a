"""``regard design``: the query that copies, shares or matches, or the proof that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard.cli import winnable
from regard.cli.output import AsJson, Details, Group, Progress, as_typed, echo, note, show
from regard.written_numbers import real_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.design import Ceiling, Ceilings, Design, Designs

app = typer.Typer(
    cls=Group,
    help="Queries that copy, share or match, the shortest ones, with certificates; or the proof that none exists.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

KEYS_HELP = (
    "A .npy, .npz:NAME, .csv, .tsv or .safetensors:NAME file, one key per row; - for standard input; example:NAME for "
    'a built-in set; or the numbers themselves, "1,0; 0,1".'
)
Words = Annotated[list[str] | None, typer.Argument(metavar="KEYS INDEX...", help=KEYS_HELP + " Then the keys, from 0.")]
Keys = Annotated[str | None, typer.Option("--keys", metavar="KEYS", help="The keys, instead of the first argument.")]
Eps = Annotated[float | None, typer.Option(help="How much the rest may have. Default 0.01.")]
MaxNorm = Annotated[float | None, typer.Option(help="The most that a query of this norm can do.")]
Scale = Annotated[str, typer.Option(metavar="NUMBER", help='Multiplies every score; "1/sqrt(d)" is understood.')]
Allowed = Annotated[str | None, typer.Option(metavar="MASK", help="One 1 or 0 per key: may it be attended to?")]
Out = Annotated[str | None, typer.Option(metavar="FILE", help="Write the certificate to this .json file.")]
Plot = Annotated[str | None, typer.Option(metavar="FILE", help="Draw the answer (.svg, .png, .pdf).")]


@app.command()
def copy(
    words: Words = None,
    keys: Keys = None,
    eps: Eps = None,
    max_norm: MaxNorm = None,
    scale: Scale = "1",
    allowed: Allowed = None,
    out: Out = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The shortest query that gives one key attention 1/(1+eps) or more; several keys are answered together.

    With --max-norm: the most attention that a query of that norm can give it. If no query does it, the answer is no
    (exit code 1), with the proof and the most attention that the key can ever get.

    Example, three keys in the plane; key 2 is (1,1), and the answer has norm 7.49295:

    regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01
    """
    from regard import design

    eps = 0.01 if eps is None and max_norm is None else eps
    array, options, indices = _read(words, keys, scale, allowed, "copy")
    if len(indices) > 1:
        if eps is None or max_norm is not None:
            raise typer.BadParameter("several keys are copied together with --eps only; ask for --max-norm one by one.")
        _refuse_files(out, plot)
        _show_several(design.copy_many(array, indices, eps=eps, **options), as_json)
    _answer(
        lambda: design.copy(array, indices[0], eps=eps, max_norm=max_norm, **options),
        array,
        out,
        plot,
        as_json,
        details,
    )


@app.command()
def share(
    words: Words = None,
    keys: Keys = None,
    eps: Eps = None,
    max_norm: MaxNorm = None,
    scale: Scale = "1",
    allowed: Allowed = None,
    out: Out = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The shortest query that gives each of s keys at least 1/(s+eps) of the attention.

    With --max-norm: the best least share that a query of that norm can give. If no query does it, the answer is no
    (exit code 1), with the proof.

    Example, two of ten orthonormal keys; the textbook query has norm 9.453, the shortest 8.455:

    regard design share example:orthonormal 1 4 --eps 0.01
    """
    from regard import design

    eps = 0.01 if eps is None and max_norm is None else eps
    array, options, indices = _read(words, keys, scale, allowed, "share")
    _answer(
        lambda: design.share(array, indices, eps=eps, max_norm=max_norm, **options), array, out, plot, as_json, details
    )


@app.command()
def match(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEYS TARGET", help=KEYS_HELP + " Then the distribution.")
    ] = None,
    keys: Keys = None,
    kl: Annotated[float | None, typer.Option(help="KL(target || weights) allowed, in nats. Default 0.01.")] = None,
    max_norm: MaxNorm = None,
    scale: Scale = "1",
    allowed: Allowed = None,
    out: Out = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The shortest query whose weights come within a KL divergence of a target distribution.

    With --max-norm: the nearest that a query of that norm can come. If no query comes so close, the answer is no
    (exit code 1), with the least divergence there is.

    Example, two keys and the shares 0.9 and 0.1; the answer has norm 1.23952:

    regard design match --keys "1,0; 0,1" "0.9,0.1" --kl 0.01
    """
    from regard import design
    from regard.arrays import load_array

    kl = 0.01 if kl is None and max_norm is None else kl
    spec, rest = _split(words, keys, "match")
    if len(rest) != 1:
        raise typer.BadParameter("match takes the keys and one target distribution, a file or the shares themselves.")
    array, options = _load(spec, scale, allowed)
    target = load_array(rest[0], what="target", ndim=1)
    for message in target.notes:
        note(message)
    _answer(
        lambda: design.match(array, target.array, kl=kl, max_norm=max_norm, **options),
        array,
        out,
        plot,
        as_json,
        details,
    )


@app.command()
def ceiling(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEYS [INDEX...]", help=KEYS_HELP + " Then keys, from 0.")
    ] = None,
    keys: Keys = None,
    everything: Annotated[bool, typer.Option("--all", help="Every key: a table of the ten lowest.")] = False,
    every_row: Annotated[bool, typer.Option("--all-rows", help="Every key: a table of all of them.")] = False,
    max_norm: Annotated[float | None, typer.Option(help="Also the ceiling for queries up to this norm.")] = None,
    scale: Scale = "1",
    allowed: Allowed = None,
    out: Out = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The most attention a key can ever get, with the proof, and a query that comes within 1e-6 of it.

    Example, the centre of a square; it can get one fifth, like everybody else, and never more:

    regard design ceiling example:square 4
    """
    from regard import design

    everything = everything or every_row
    array, options, indices = _read(words, keys, scale, allowed, "ceiling", least=0 if everything else 1)
    if everything and indices:
        raise typer.BadParameter("--all and --all-rows are every key; leave the numbers out, or these options.")
    if everything or len(indices) > 1:
        _refuse_files(out, plot)
        chosen = None if everything else indices
        table = design.ceilings(array, chosen, max_norm=max_norm, progress=Progress("ceilings"), **options)
        _show_several(table, as_json, whole=every_row or not everything or details)
    _answer(lambda: design.ceiling(array, indices[0], max_norm=max_norm, **options), array, out, plot, as_json, details)


@app.command()
def verify(
    result: Annotated[str, typer.Argument(metavar="RESULT.json", help="What --json printed or --out wrote.")],
    keys: Annotated[str, typer.Option("--keys", metavar="KEYS", help="The keys it is about.")],
    as_json: AsJson = False,
) -> None:
    """Recheck a saved certificate from the keys alone, and nothing else; exit code 1 if it does not hold.

    In what --json printed, the query, norm and other figures around the certificate are held against it too.

    The check is code of its own and trusts no figure of the solvers'; exponentials and logarithms run in
    arbitrary-precision balls.

    Example, first a certificate, then its check, which confirms that the norm is at most 4.03396763:

    regard design copy example:square 0 --out square.json

    regard design verify square.json --keys example:square
    """
    from regard.design import verify as check
    from regard.design.certificate import read_answers

    # a certificate carries its own scale and mask
    array = _load(keys, "1", None)[0]
    *first, last = [check(answer, array) for answer in read_answers(result)]
    for checked in first:
        echo(checked.to_json() if as_json else f"{checked}\n")
    if not all(checked.holds for checked in first):
        echo(last.to_json() if as_json else str(last))
        raise typer.Exit(1)
    show(last, as_json=as_json)


app.command()(winnable.winnable)


def _read(
    words: list[str] | None, keys: str | None, scale: str, allowed: str | None, verb: str, *, least: int = 1
) -> tuple[Any, dict[str, Any], list[int]]:
    """The key array, the options of all verbs, and the chosen keys."""
    spec, rest = _split(words, keys, verb)
    if len(rest) < least:
        raise typer.BadParameter(f"{verb} which key? Name it by its number, counted from 0, after the keys.")
    indices = [_index(word) for word in rest]
    return *_load(spec, scale, allowed), indices


def _index(word: str) -> int:
    try:
        return whole_number(word)
    except ValueError:
        raise typer.BadParameter(f"A key is named by a whole number counted from 0; {word!r} is not one.") from None


def _split(words: list[str] | None, keys: str | None, verb: str) -> tuple[str, list[str]]:
    if keys is not None:
        return keys, words or []
    if not words:
        raise typer.BadParameter(f'{verb} needs keys: a file, example:NAME, or --keys "1,0; 0,1".')
    return words[0], words[1:]


def _load(spec: str, scale: str, allowed: str | None) -> tuple[Any, dict[str, Any]]:
    from regard.arrays import load_array
    from regard.errors import InputError

    loaded = load_array(spec, what="keys", ndim=2)
    for message in loaded.notes:
        note(message)
    options: dict[str, Any] = {}
    if scale.replace(" ", "") == "1/sqrt(d)":
        options["scale"] = loaded.array.shape[1] ** -0.5
    else:
        try:
            options["scale"] = real_number(scale)
        except ValueError as error:
            raise InputError(f'The scale must be a positive number or "1/sqrt(d)"; {error}.') from None
    if allowed is not None:
        mask = load_array(allowed, what="the mask", ndim=1).array
        if not ((mask == 0) | (mask == 1)).all():
            raise InputError("The mask must be one 1 (may be attended to) or 0 per key; it has other numbers.")
        options["allowed"] = mask == 1
    return loaded.array, options


def _show_several(answers: Designs | Ceilings, as_json: bool, *, whole: bool = False) -> NoReturn:
    """A table; one row that is missing makes the exit code 3, and costs the others nothing."""
    said = (whole and answers.details()) or str(answers)
    echo(answers.to_json() if as_json else as_typed(said))
    raise typer.Exit(3 if answers.unanswered else 0 if answers.answer else 1)


def _refuse_files(*paths: str | None) -> None:
    if any(path is not None for path in paths):
        raise typer.BadParameter("--out and --plot are for one key at a time; several keys go to --json.")


def _answer(
    ask: Callable[[], Design | Ceiling], keys: Any, out: str | None, plot: str | None, as_json: bool, details: bool
) -> None:
    """Ask, write what was asked for, and print."""
    from regard.arrays import check_target
    from regard.design.certificate import write_certificate
    from regard.pictures import ENDINGS

    # before the question, which may take minutes: a name that cannot be written is refused at once
    for path, endings in ((out, (".json",)), (plot, ENDINGS)):
        if path is not None:
            check_target(path, endings)
    answer = ask()
    if out is not None:
        write_certificate(out, answer.certificate)
        note(f"certificate written to {out}")
    if plot is not None:
        from regard.design import pictures

        pictures.draw(answer, keys, plot)
        note(f"picture written to {plot}")
    show(answer, as_json=as_json, details=details)
