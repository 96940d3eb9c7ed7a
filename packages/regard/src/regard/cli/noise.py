"""regard noise: random keys, one head or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard import noise
from regard.arrays import WRITTEN, save_array
from regard.cli.output import AsJson, Details, Group, Plot, Progress, check_file, check_plot, echo, load, show
from regard.errors import InputError
from regard.noise import EXAMPLE, pictures
from regard.written_numbers import real_number, whole_number

if TYPE_CHECKING:
    from regard.noise import NoiseModel

app = typer.Typer(
    cls=Group,
    help="Random keys: what noise does to attention, by integrals and not only by samples.\n\n"
    "Try: regard noise compare --keys 10 --spread 0.5 --iso 0.01 --scale 20",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Seed = Annotated[int, typer.Option(min=0, help="The seed of points and draws.")]
Target = Annotated[str, typer.Option(help="The keys whose values are to be averaged, e.g. 0,1.")]
ValuesFile = Annotated[str | None, typer.Option("--values", help="n x m values; unit vectors if left out.")]


@app.command()
def compare(
    keys: Annotated[int, typer.Option(help="How many keys, with orthonormal means.")] = 10,
    spread: Annotated[float, typer.Option(help="Extra variance of key 0 along its mean.")] = 0.5,
    iso: Annotated[float, typer.Option(help="The variance a of a I, for every key.")] = 0.01,
    scale: Annotated[float, typer.Option(help="The scale T of the designed queries.")] = 20.0,
    share: Annotated[float, typer.Option(help="Report how often a weight exceeds this.")] = 0.9,
    plot: Plot = None,
    plot_keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the mean of key 0 and realisations, for both noises.")
    ] = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """One head against two in the coursework's setting: one swings, two are steady, and what the scale does.

    regard noise compare --keys 10 --spread 0.5 --iso 0.01 --scale 20

    says: Two heads are 11 x steadier here: E‖c - target‖² is 0.04045 with two and 0.4461 with one.
    """
    check_plot(plot, plot_keys)
    result = noise.compare(
        keys=keys, spread=spread, iso=iso, scale=scale, share=share, progress=Progress("conditioning")
    )
    if plot_keys:
        pictures.plot_keys(plot_keys, iso=iso, spread=spread)
    show(result, as_json=as_json, details=details, plot=plot)


@app.command()
def study(
    model: Annotated[str, typer.Argument(help="A TOML file; `regard noise example` prints one.")],
    queries: Annotated[str, typer.Option(help="H x d queries: a file, or rows such as '20,0; 0,20'.")],
    target: Target = "0,1",
    values: ValuesFile = None,
    share: Annotated[float, typer.Option(help="Report P(weight > share).")] = 0.9,
    quantiles: Annotated[str, typer.Option(help="Levels, e.g. 0.05,0.5,0.95.")] = "",
    method: Annotated[str, typer.Option(help="auto, integral, enumeration, qmc or sampling.")] = "auto",
    points: Annotated[int, typer.Option(help="Sobol points per scramble, a power of two.")] = 2**13,
    accuracy: Annotated[float | None, typer.Option(help="Continue until the intervals are this narrow.")] = None,
    seed: Seed = 0,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Any noise model, any heads: moments, error, shares and quantiles, each with its method and accuracy.

    regard noise example > model.toml

    regard noise study model.toml --queries 20,20,0,0,0,0,0,0,0,0

    says: E‖c - target‖² = 0.4461087037, and key 0 takes more than 0.9 with probability 0.4405776.
    """
    check_plot(plot)
    result = noise.study(
        noise.read_model(model),
        load(queries, "queries", ndim=(1, 2)),
        target=_numbers(target, "target", int),
        values=None if values is None else load(values, "values", ndim=2),
        share=share,
        quantiles=_numbers(quantiles, "quantiles", float),
        method=method,
        points=points,
        accuracy=accuracy,
        seed=seed,
        progress=Progress("studying"),
    )
    show(result, as_json=as_json, details=details, plot=plot)


@app.command()
def optimise(
    model: Annotated[str | None, typer.Argument(help="A TOML file; the coursework's setting if left out.")] = None,
    heads: Annotated[int, typer.Option(help="How many queries.")] = 2,
    max_norm: Annotated[float, typer.Option(help="The largest norm of a query.")] = 20.0,
    keys: Annotated[int, typer.Option(help="Without a file: how many keys.")] = 10,
    spread: Annotated[float, typer.Option(help="Without a file: extra variance of key 0 along its mean.")] = 0.5,
    iso: Annotated[float, typer.Option(help="Without a file: the variance a of a I.")] = 0.01,
    target: Target = "0,1",
    values: ValuesFile = None,
    starts: Annotated[int, typer.Option(help="Random starts beside the designed ones.")] = 4,
    points: Annotated[int, typer.Option(help="Sobol points of the surrogate.")] = 2**11,
    seed: Seed = 0,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Save the queries (.npy, .csv).")] = None,
    plot: Plot = None,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """The best queries found for a noise model under a norm budget: a local optimum, beside the designed ones.

    regard noise optimise --heads 2 --max-norm 20

    says: E‖c - target‖² = 0.00732, where the designed queries reach 0.037855739 at best: 5.17 times as much.
    """
    check_plot(plot)
    check_file(out, WRITTEN)
    law: NoiseModel
    law = noise.gaussian_setting(keys, spread=spread, iso=iso) if model is None else noise.read_model(model)
    result = noise.optimise(
        law,
        heads=heads,
        max_norm=max_norm,
        target=_numbers(target, "target", int),
        values=None if values is None else load(values, "values", ndim=2),
        starts=starts,
        points=points,
        seed=seed,
        progress=Progress("descending"),
    )
    if out:
        save_array(out, result.queries)
    show(result, as_json=as_json, details=details, plot=plot)


@app.command()
def example() -> None:
    """Print a noise model as TOML, every key explained.

    regard noise example > model.toml
    """
    echo(EXAMPLE, nl=False)


def _numbers(text: str, what: str, kind: type[int] | type[float]) -> list[Any]:
    try:
        read = whole_number if kind is int else real_number
        return [read(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{what} must be numbers separated by commas, not {text!r}.") from None
