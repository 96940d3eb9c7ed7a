"""``regard design``: the query that copies, shares or matches, or the proof that there is none."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import regard  # its rooms load when they are first used: no --help needs NumPy
from regard.cli.output import AsJson, Details, Group, Plot, Progress, as_typed, check_file, echo, load, note, show
from regard.errors import InputError
from regard.pictures import ENDINGS
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
Eps = Annotated[float | None, typer.Option(help="How much attention the other keys may get. Default 0.01.")]


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The options that the verbs about keys have in common."""

    keys: Annotated[str | None, typer.Option(metavar="KEYS", help="The keys, instead of the first argument.")] = None
    max_norm: Annotated[
        float | None, typer.Option(help="Limit the query to this norm, and find the best that it can do.")
    ] = None
    scale: Annotated[str, typer.Option(metavar="NUMBER", help='Multiplies every score: a number, or "1/sqrt(d)".')] = (
        "1"
    )
    allowed: Annotated[str | None, typer.Option(metavar="MASK", help="For each key 1 (may be attended to) or 0.")] = (
        None
    )
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write the certificate to this .json file.")] = None
    plot: Plot = None
    details: Details = False
    as_json: AsJson = False

    def split(self, words: list[str] | None, verb: str) -> tuple[str, list[str]]:
        """What names the keys, and the words behind it."""
        if self.keys is not None:
            return self.keys, words or []
        if not words:
            raise typer.BadParameter(f'{verb} needs keys: a file, example:NAME, or --keys "1,0; 0,1".')
        return words[0], words[1:]

    def read(self, words: list[str] | None, verb: str, *, least: int = 1) -> tuple[Any, dict[str, Any], list[int]]:
        """The key array, what every function of :mod:`regard.design` takes, and the chosen keys."""
        spec, rest = self.split(words, verb)
        if len(rest) < least:
            raise typer.BadParameter(f"{verb} which key? Name it by its number, counted from 0, after the keys.")
        indices = [_index(word) for word in rest]
        return *self.load(spec), indices

    def load(self, spec: str) -> tuple[Any, dict[str, Any]]:
        array = load(spec, "keys", ndim=2)
        options: dict[str, Any] = {"max_norm": self.max_norm, "scale": _scale(self.scale, array.shape[1])}
        if self.allowed is not None:
            mask = load(self.allowed, "the mask", ndim=1)
            if not ((mask == 0) | (mask == 1)).all():
                raise InputError(
                    "The mask must have a 1 (may be attended to) or a 0 for each key; it has other numbers."
                )
            options["allowed"] = mask == 1
        return array, options

    def refuse_files(self) -> None:
        if self.out is not None or self.plot is not None:
            raise typer.BadParameter("--out and --plot are for one key at a time; several keys go to --json.")

    def answer(self, ask: Callable[[], Design | Ceiling], keys: Any) -> NoReturn:
        """Ask, write what was asked for, and print."""
        # before the question, which may take minutes: a name that cannot be written is refused at once
        check_file(self.out, (".json",))
        check_file(self.plot, ENDINGS)
        answer = ask()
        if self.out is not None:
            regard.design.certificate.write_certificate(self.out, answer.certificate)
            note(f"certificate written to {self.out}")
        if self.plot is not None:
            from regard.design import pictures  # slow to import

            pictures.draw(answer, keys, self.plot)
            note(f"picture written to {self.plot}")
        show(answer, as_json=self.as_json, details=self.details)


def _with_shared_options(verb: Callable[..., None]) -> Callable[..., None]:
    """A command with the verb's own options, and behind them those of its last argument, a SharedOptions."""
    *own, _ = inspect.signature(verb, eval_str=True).parameters.values()
    common = inspect.signature(SharedOptions, eval_str=True).parameters.values()

    def run(**given: Any) -> None:
        shared = SharedOptions(**{field.name: given.pop(field.name) for field in fields(SharedOptions)})
        verb(**given, shared=shared)

    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    run.__signature__ = inspect.Signature([one.replace(kind=one.KEYWORD_ONLY) for one in (*own, *common)])  # type: ignore[attr-defined]
    return run


@app.command()
@_with_shared_options
def copy(words: Words = None, eps: Eps = None, *, shared: SharedOptions) -> None:
    """The shortest query that gives one key attention 1/(1+eps) or more; several keys are answered together.

    With --max-norm: the most attention that a query of that norm can give it. If no query does it, the answer is no
    (exit code 1), with the proof and the most attention that the key can ever get.

    Example, three keys in the plane; key 2 is (1,1), and the answer has norm 7.49295:

    regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01
    """
    eps = 0.01 if eps is None and shared.max_norm is None else eps
    array, options, indices = shared.read(words, "copy")
    if len(indices) > 1:
        if eps is None or shared.max_norm is not None:
            raise typer.BadParameter(
                "several keys are answered together for --eps only; with --max-norm, ask for one key at a time."
            )
        shared.refuse_files()
        del options["max_norm"]
        _show_several(regard.design.copy_many(array, indices, eps=eps, **options), shared.as_json)
    shared.answer(lambda: regard.design.copy(array, indices[0], eps=eps, **options), array)


@app.command()
@_with_shared_options
def share(words: Words = None, eps: Eps = None, *, shared: SharedOptions) -> None:
    """The shortest query that gives each of s keys at least 1/(s+eps) of the attention.

    With --max-norm: the best least share that a query of that norm can give. If no query does it, the answer is no
    (exit code 1), with the proof.

    Example, two of ten orthonormal keys; the textbook query has norm 9.453, the shortest 8.455:

    regard design share example:orthonormal 1 4 --eps 0.01
    """
    eps = 0.01 if eps is None and shared.max_norm is None else eps
    array, options, indices = shared.read(words, "share")
    shared.answer(lambda: regard.design.share(array, indices, eps=eps, **options), array)


@app.command()
@_with_shared_options
def match(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEYS TARGET", help=KEYS_HELP + " Then the distribution.")
    ] = None,
    kl: Annotated[float | None, typer.Option(help="KL(target || weights) allowed, in nats. Default 0.01.")] = None,
    *,
    shared: SharedOptions,
) -> None:
    """The shortest query whose weights come within a KL divergence of a target distribution.

    With --max-norm: the nearest that a query of that norm can come. If no query comes so close, the answer is no
    (exit code 1), with the least divergence there is.

    Example, two keys and the shares 0.9 and 0.1; the answer has norm 1.23952:

    regard design match --keys "1,0; 0,1" "0.9,0.1" --kl 0.01
    """
    kl = 0.01 if kl is None and shared.max_norm is None else kl
    spec, rest = shared.split(words, "match")
    if len(rest) != 1:
        raise typer.BadParameter("match takes the keys and one target distribution, a file or the shares themselves.")
    array, options = shared.load(spec)
    target = load(rest[0], "target", ndim=1)
    shared.answer(lambda: regard.design.match(array, target, kl=kl, **options), array)


@app.command()
@_with_shared_options
def ceiling(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEYS [INDEX...]", help=KEYS_HELP + " Then keys, from 0.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every key: a table of the ten lowest.")] = False,
    every_row: Annotated[bool, typer.Option("--all-rows", help="Every key: a table of all of them.")] = False,
    *,
    shared: SharedOptions,
) -> None:
    """The most attention a key can ever get, with the proof, and a query that comes within 1e-6 of it.

    With --max-norm: also the most that a query up to that norm can give it.

    Example, the centre of a square; it can get one fifth, like everybody else, and never more:

    regard design ceiling example:square 4
    """
    everything = everything or every_row
    array, options, indices = shared.read(words, "ceiling", least=0 if everything else 1)
    if everything and indices:
        raise typer.BadParameter("--all and --all-rows are every key; leave the numbers out, or these options.")
    if everything or len(indices) > 1:
        shared.refuse_files()
        table = regard.design.ceilings(array, None if everything else indices, progress=Progress("ceilings"), **options)
        _show_several(table, shared.as_json, whole=every_row or not everything or shared.details)
    shared.answer(lambda: regard.design.ceiling(array, indices[0], **options), array)


@app.command()
def verify(
    result: Annotated[str, typer.Argument(metavar="RESULT.json", help="What --json printed or --out wrote.")],
    keys: Annotated[str, typer.Option("--keys", metavar="KEYS", help="The keys it is about.")],
    as_json: AsJson = False,
) -> None:
    """Recheck a saved certificate from the keys alone; exit code 1 if it does not hold.

    In what --json printed, the query, norm and other figures around the certificate are held against it too.

    The check is code of its own and trusts no figure of the solvers'; exponentials and logarithms run in
    arbitrary-precision balls.

    Example, first a certificate, then its check, which confirms that the norm is at most 4.03396763:

    regard design copy example:square 0 --out square.json

    regard design verify square.json --keys example:square
    """
    # a certificate carries its own scale and mask
    array = load(keys, "keys", ndim=2)
    *first, last = [regard.design.verify(answer, array) for answer in regard.design.certificate.read_answers(result)]
    for checked in first:
        echo(checked.to_json() if as_json else f"{checked}\n")
    if not all(checked.holds for checked in first):
        echo(last.to_json() if as_json else str(last))
        raise typer.Exit(1)
    show(last, as_json=as_json)


@app.command()
def winnable(
    rows: Annotated[
        str,
        typer.Argument(
            metavar="ROWS", help="The matrix: .npy, .npz:NAME, .safetensors:NAME, .csv, .tsv, or the numbers."
        ),
    ],
    out: Annotated[
        str | None, typer.Option(metavar="FILE.json", help="Write the certificate: every verdict with its proof.")
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", help="Prove a saved certificate again from the rows alone."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", help="Save progress in this file; a later run continues from it."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes; -1 takes every core.")] = -1,
    seconds: Annotated[
        float, typer.Option(metavar="S", help="The most seconds that exact arithmetic may take on one row.")
    ] = 60.0,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Which rows can win: for some query, score higher than every other row?

    Both answers are proved in exact arithmetic on the stored numbers: a row wins with a query that beats every other
    row, or never wins, because it is a mixture of other rows. Exit code 0: every row can win; 1: some never can; 3:
    some could not be decided.

    Example, the corners of a square can win; its centre, row 4, never can, as it is half of row 0 and half of row 2:

    regard design winnable "0,0; 2,0; 2,2; 0,2; 1,1" --json

    A model's embedding: regard design winnable model.safetensors:embeddings.word_embeddings.weight --out proof.json
    """
    for path in (out, resume):
        check_file(path, (".json",))
    array = load(rows, "rows", dtype=None)
    if verify is not None:
        show(regard.design.verify_winnable(array, verify), as_json=as_json, details=details)
    result = regard.design.winnable(array, jobs=jobs, seconds=seconds, checkpoint=resume, progress=Progress("Rows"))
    if out is not None:
        result.save(out)
    show(result, as_json=as_json, details=details, code=3 if result.undecided_rows else None)


def _index(word: str) -> int:
    try:
        return whole_number(word)
    except ValueError:
        raise typer.BadParameter(f"A key is named by a whole number counted from 0; {word!r} is not one.") from None


def _scale(text: str, dim: int) -> float:
    if text.replace(" ", "") == "1/sqrt(d)":
        return float(dim**-0.5)
    try:
        return real_number(text)
    except ValueError as error:
        raise InputError(f'The scale must be a positive number or "1/sqrt(d)"; {error}.') from None


def _show_several(answers: Designs | Ceilings, as_json: bool, *, whole: bool = False) -> NoReturn:
    """A table; one row that is missing makes the exit code 3, and costs the others nothing."""
    said = (whole and answers.details()) or str(answers)
    echo(answers.to_json() if as_json else as_typed(said))
    raise typer.Exit(3 if answers.unanswered else 0 if answers.answer else 1)
