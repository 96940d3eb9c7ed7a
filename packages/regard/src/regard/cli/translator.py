"""`regard translator`: train, score and translate; the work is in :mod:`regard.translator`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.output import AsJson, Group, Progress, note, show
from regard.cli.translator_inputs import (
    OwnModel,
    Split,
    TrainingWatch,
    everything_in_runs,
    finished_runs,
    open_run,
    own_code,
    own_model_run,
    raise_once,
    read_sentences,
    read_settings,
    scored_pairs,
    settings_without_run,
)
from regard.errors import InputError

app = typer.Typer(
    cls=Group,
    help="A translator to train, score and use: a one-layer Transformer encoder, or an encoder-decoder.\n\n"
    'Try: regard translator translate example "der Hund sieht die Katze"    (a small one, in the package)\n\n'
    "Then: regard translator train    (built-in German-English corpus, a few minutes)\n\n"
    "The configurations builtin and coursework have one layer; good is the encoder-decoder.",
    no_args_is_help=True,
)
RunFolder = Annotated[
    Path, typer.Argument(help="A folder that train wrote, or example: the one in the package.", show_default=False)
]

Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: --set width=256; repeat for more.")
]

EngineName = Annotated[
    str, typer.Option("--engine", help="eager, or an export: ctranslate2, ctranslate2-int8, or its folder.")
]

Beam = Annotated[
    int, typer.Option(help="How many partial translations the encoder-decoder's search keeps; 1 = greedy.")
]

Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: auto (a graphics card if there is one), cpu, cuda, mps.", show_default="auto"),
]

Weights = Annotated[str, typer.Option(help="best (by validation perplexity) or last.")]


@app.command()
def train(
    config: Annotated[
        str,
        typer.Argument(
            help="A settings file, or a built-in one: "
            "builtin, coursework, coursework-as-described, good, best, example."
        ),
    ] = "builtin",
    data: Annotated[str | None, typer.Option(help="Folder of train.de, train.en, ..., a .tsv, hf:NAME.")] = None,
    source: Annotated[str | None, typer.Option(help="Language translated from: the ending of its files.")] = None,
    target: Annotated[str | None, typer.Option(help="Language translated into.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write; default runs/NAME of the settings.")] = None,
    model: OwnModel = None,
    device: Device = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Train a translator into a run folder; the same command goes on with a run that was stopped.

    regard translator train configs/coursework.toml --data multi30k --source de --target en --out runs/one

    regard translator train configs/good.toml --data multi30k --source de --target en --out runs/good

    Nothing is overwritten: a finished run, or one with other settings or data, is refused (exit code 2).

    A model of your own, which maps ids (N, T) to scores (N, T, target words), with the same data, loop and report:

    regard translator train coursework --model my.py:TransformerTranslator --data multi30k --out runs/mine

    Several processes share the work: torchrun --nproc-per-node 2 -m regard translator train ...
    """
    try:
        settings = read_settings(config, changes, model, data=data, source=source, target=target, device=device)
        code = own_code(model)
    except InputError:
        raise_once()
        raise
    folder = out if out is not None else Path("runs") / Path(config).stem
    from regard.translator.training.loop import train as run
    from regard.translator.training.parallel import join_team

    command = shlex.join(["regard", *sys.argv[1:]])
    with join_team() as team:
        watch, say = (TrainingWatch(), note) if team.leads else (None, None)
        try:
            trained = run(settings, folder, watch=watch, say=say, command=team.prefix + command, team=team, own=code)
        except KeyboardInterrupt:
            if team.leads:
                note("stopped; the same command goes on from the last checkpoint.")
            raise typer.Exit(130) from None
    if team.leads:
        show(trained, as_json=as_json)


@app.command()
def score(
    run: Annotated[
        Path | None, typer.Argument(help="A folder that train wrote, or example.", show_default=False)
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Two files, source and target, one sentence on each line; default: the run's test set."),
    ] = None,
    split: Split = "test",
    model: OwnModel = None,
    data: Annotated[str | None, typer.Option(help="Without a run folder: as for train.")] = None,
    source: Annotated[str | None, typer.Option(help="Language translated from.")] = None,
    target: Annotated[str | None, typer.Option(help="Language translated into.")] = None,
    changes: Changes = None,
    beam: Beam = 1,
    engine: EngineName = "eager",
    weights: Weights = "best",
    device: Device = None,
    scoring: Annotated[
        str,
        typer.Option(help="sacrebleu, or literature: BLEU as papers on Multi30k count it, too."),
    ] = "sacrebleu",
    as_json: AsJson = False,
) -> None:
    """Perplexity both ways of counting, nats per character, BLEU and chrF with signatures, by length and phenomenon.

    regard translator score runs/one --test test_2016_flickr.de test_2016_flickr.en

    regard translator score runs/good --beam 5 --scoring literature

    A model of your own, with its own weights, on the same tokens as ours (words and lengths of the coursework; others
    with --set):

    regard translator score --model my.py:load --data multi30k --split validation
    """
    from regard.translator.scoring.scores import score as judged

    if scoring not in ("sacrebleu", "literature"):
        raise InputError(f"--scoring is sacrebleu or literature, not {scoring!r}.")
    settings = settings_without_run(run, model, changes, data=data, source=source, target=target)
    if run is not None:
        opened = open_run(run, weights, model, device)
        pairs = scored_pairs(test, opened.settings, split)
    else:
        opened, pairs = own_model_run(str(model), settings, split, device or "auto")
        pairs = pairs if test is None else scored_pairs(test, opened.settings, split)
    judgement = judged(
        opened, pairs, beam=beam, engine=engine, literature=scoring == "literature", progress=Progress("translating")
    )
    show(judgement, as_json=as_json)


@app.command()
def translate(
    run: RunFolder,
    text: Annotated[
        str | None,
        typer.Argument(
            help="A sentence, or a file with one on each line; default: standard input.", show_default=False
        ),
    ] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Translate the beginning of sentences that are too long.")] = False,
    model: OwnModel = None,
    beam: Beam = 1,
    engine: EngineName = "eager",
    weights: Weights = "best",
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Translate a sentence, a file, or standard input.

    regard translator translate example "der Hund sieht die Katze"

    regard translator translate runs/one "zwei junge hunde spielen im schnee"

    With --engine ctranslate2 an exported run translates several times faster; see regard translator export --help.
    """
    sentences = read_sentences(text)
    opened = open_run(run, weights, model, device)
    translation = opened.translate(sentences, cut=cut, beam=beam, engine=engine, progress=Progress("translating"))
    if translation.cut:
        note(f"{len(translation.cut)} of {len(sentences)} sentences were too long; their beginning was translated.")
    for line in [*translation.left_out[:5], *translation.doubts[:5]]:
        note(line)
    if len(translation.doubts) > 5:
        note(f"{len(translation.doubts) - 5} more translations are doubtful; --json lists them under doubts.")
    show(translation, as_json=as_json)


@app.command()
def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="The engine: ctranslate2.")] = "ctranslate2",
    quantization: Annotated[
        str, typer.Option(help="float32 (the same translations) or int8 (smaller and faster).")
    ] = "float32",
    out: Annotated[Path | None, typer.Option(help="Folder to write; default RUN/ctranslate2-float32 or -int8.")] = None,
    weights: Weights = "best",
    as_json: AsJson = False,
) -> None:
    """Write an encoder-decoder for a fast engine in C++; translate and score then take --engine.

    regard translator export runs/good --to ctranslate2 && regard translator translate runs/good --engine ctranslate2

    Needs pip install 'regard[engine]'. An export is refused once the run has other weights: give the command again.
    """
    from regard.translator.models.export import export as write

    show(write(run, to=to, quantization=quantization, out=out, weights=weights), as_json=as_json)


@app.command()
def compare(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A settings file (or builtin, coursework, good); or run folders; default: those in runs.",
            show_default=False,
        ),
    ] = None,
    embeddings: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="Input embeddings, with commas between: learned,glove:FILE,word2vec:train,bert:DIR."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each embedding; 2 or more give intervals.")] = 3,
    beam: Beam = 1,
    model: OwnModel = None,
    data: Annotated[str | None, typer.Option(help="As for train.")] = None,
    source: Annotated[str | None, typer.Option(help="Language translated from.")] = None,
    target: Annotated[str | None, typer.Option(help="Language translated into.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default runs/NAME-compared.")] = None,
    device: Device = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """The same model, data and budget with each embedding: perplexity and BLEU with intervals, and what is noise.

    regard translator compare configs/coursework.toml --with learned,word2vec:train --data multi30k --out runs/vectors

    A bare name is the input embedding; target=glove:FILE is the output layer's, both=word2vec:train are both. Add
    +frozen=true or +positions=none to a variant. A comparison that was stopped goes on. With run folders: regard
    translator compare runs/a runs/b compares what is there, with a paired bootstrap over the test sentences; where
    tokens differ, nats per character stand in for perplexity. Runs of different data are refused.

    In a model of your own the vectors take the place of its own input table:

    regard translator compare coursework --model my.py:TransformerTranslator --with learned,word2vec:train --data DIR
    """
    from regard.translator.studies.comparison import compare as contest
    from regard.translator.studies.comparison import compare_runs, split_variants

    what = what or finished_runs()
    if len(what) > 1 or Path(what[0]).is_dir():
        if changes or any(option is not None for option in (embeddings, data, source, target, out)):
            raise InputError(
                "Run folders are compared as they are; --with, --data, --source, --target, --out and --set are for "
                "training."
            )
        own = own_code(model)
        comparison = compare_runs([Path(f) for f in what], beam=beam, say=note, own=own, device=device or "auto")
        show(comparison, as_json=as_json)
    if not embeddings:
        raise InputError("--with says what to compare, for instance --with learned,word2vec:train.")
    if beam != 1:
        raise InputError(f"A beam of {beam} is for run folders; embeddings are compared greedily: leave --beam out.")
    settings = read_settings(what[0], changes, model, data=data, source=source, target=target, device=device)
    folder = out if out is not None else Path("runs") / f"{Path(what[0]).stem}-compared"
    variants = [variant for text in embeddings for variant in split_variants(text)]
    command = shlex.join(["regard", *sys.argv[1:]])
    comparison = contest(
        settings, variants, folder, seeds=seeds, watch=TrainingWatch(), say=note, command=command, own=own_code(model)
    )
    show(comparison, as_json=as_json)


NO_SEARCH = (
    "A search trains one model after another, so say which and how many: regard translator tune builtin --trials 4 "
    "(some ten minutes), or the coursework's, regard translator tune coursework --data DIR --trials 40 (some hours). "
    "Either says first how long it will take, and goes on where Ctrl-C stopped it."
)


@app.command()
def tune(
    config: Annotated[
        str | None, typer.Argument(help="The settings to start from, as for train.", show_default=False)
    ] = None,
    trials: Annotated[int, typer.Option(help="How many trials in all; a study continues until it has that many.")] = 40,
    space: Annotated[
        str | None,
        typer.Option(help="What to try: a .toml file, or coursework, quick, good; default: by the kind of model."),
    ] = None,
    pruner: Annotated[str, typer.Option(help="What stops hopeless trials early: median, hyperband, none.")] = "median",
    confirm: Annotated[
        int, typer.Option(help="Then compare default and best with this many new seeds; 0 = do not.")
    ] = 0,
    first: Annotated[
        Path | None, typer.Option(help="An earlier study of the same space: begin with its best trials, in order.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="postgresql://USER@HOST/DATABASE, for workers on many machines.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="As for train.")] = None,
    source: Annotated[str | None, typer.Option(help="Language translated from.")] = None,
    target: Annotated[str | None, typer.Option(help="Language translated into.")] = None,
    out: Annotated[Path | None, typer.Option(help="Study folder to write; default runs/NAME-tuned.")] = None,
    model: OwnModel = None,
    device: Device = None,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Search for better settings: same data, vocabulary and epochs; judged on validation alone.

    regard translator tune configs/coursework.toml --data multi30k --trials 40 --confirm 3 --out runs/tuned

    One layer stays one layer; for configs/good.toml the number of layers is tried too.

    Stop it whenever you like: the same command goes on, and no finished trial is lost. --confirm opens the test
    set, once, and closes the study.

    Cheap trials first, on a quarter of the training pairs, then the best of them on all:

    regard translator tune coursework --data multi30k --set data.share=0.25 --trials 30 --out runs/cheap

    regard translator tune coursework --data multi30k --first runs/cheap --trials 5 --confirm 3 --out runs/tuned

    Of a model of your own (--model my.py:NAME) the sizes that its constructor takes are tried, and how it is trained.

    The same command in several processes at once shares the work; on several machines, add --storage:

    regard translator tune configs/good.toml --data multi30k --storage postgresql://ann@db/studies
    """
    if config is None:
        raise InputError(NO_SEARCH)
    from regard.translator.studies.tuning import tune as search

    settings = read_settings(config, changes, model, data=data, source=source, target=target, device=device)
    folder = out if out is not None else Path("runs") / f"{Path(config).stem}-tuned"
    command = shlex.join(["regard", *sys.argv[1:]])
    study = search(
        settings, folder, trials=trials, space=space, pruner=pruner, confirm=confirm, first=first,
        storage=storage, watch=TrainingWatch(), say=note, command=command, own=own_code(model),
    )  # fmt: skip
    show(study, as_json=as_json)


@app.command()
def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders that train, compare or tune wrote; default: all in runs.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; default report.html or report.pdf.")] = None,
    format: Annotated[
        str | None, typer.Option(help="html (a page) or pdf; default: by the ending of --out, else html.")
    ] = None,
    title: Annotated[str, typer.Option(help="The title.")] = "Translator report",
    author: Annotated[str, typer.Option(help="The author, in a line under the title.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a file that exists.")] = False,
    model: OwnModel = None,
    as_json: AsJson = False,
) -> None:
    """A report about runs, comparisons and studies: curves, tables, translations, attention, settings.

    regard translator report runs/* --out report.html

    regard translator report runs/* --format pdf --title "Homework 4" --author "Ada Lovelace"

    The page is one file and needs no network. The PDF says the same on numbered sheets of A4; it needs
    pip install 'regard[reports]'.
    """
    from regard.translator.reports import report as write

    command = shlex.join(["regard", *sys.argv[1:]])
    own = own_code(model)
    file = out if out is not None else Path(f"report.{format or 'html'}")
    written = write(
        folders or everything_in_runs(),
        file,
        replace=replace,
        say=note,
        command=command,
        own=own,
        format=format,
        title=title,
        author=author,
    )
    show(written, as_json=as_json)
