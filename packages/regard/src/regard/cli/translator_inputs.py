"""`regard translator`: settings, runs, sentences and models of your own that its verbs ask for; what training says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.output import note
from regard.errors import InputError
from regard.extras import require
from regard.progress import STOPPING, duration
from regard.terminal import printable

if TYPE_CHECKING:
    from regard.translator.data.corpus import Pairs
    from regard.translator.models.own_translator import OwnCode
    from regard.translator.models.run import Run
    from regard.translator.runs.records import Epoch
    from regard.translator.runs.settings import Settings
    from regard.translator.training.loop import Step


OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A model of your own, my.py:NAME: a class, or a function that returns a module. The file is run as your "
        "own code, with your rights: only name files that you trust.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option(help="Which pairs: test or validation.")]


def own_code(spec: str | None) -> OwnCode | None:
    """The code that --model names, if it was given; its file is run."""
    if spec is None:
        return None
    require("A model of your own", "torch", extra="translator")
    from regard.translator.models.own_translator import load_code

    return load_code(spec)


def own_model_run(spec: str, settings: Settings, split: str, device: str) -> tuple[Run, Pairs]:
    """A model without a run folder, and the pairs it is scored on, with the vocabularies that our runs would have."""
    from regard.translator.training.preparation import own_run, own_settings, tokens_of

    code = own_code(spec)
    words, pairs, scored_on = tokens_of(settings, split)
    note(f"{spec} is scored on {scored_on}, with {len(words[0]):,} source and {len(words[1]):,} target words.")
    if code is None:  # never: a spec was given
        raise InputError("There is no model to score.")
    return own_run(code, own_settings(settings), words, device=device), pairs


MEASURED = 10  # steps after which the time that is left is known well enough to be said


class TrainingWatch:
    """A line on standard error: every half second on a terminal, now and then elsewhere; every epoch always."""

    def __init__(self) -> None:
        self.terminal, self.shown = sys.stderr.isatty(), time.monotonic()
        self.steps = 0  # seen so far: the first few say how long the rest will take

    def __call__(self, event: Step | Epoch) -> None:
        from regard.translator.training.loop import Step

        if isinstance(event, Step):
            self._step(event)
        else:
            self._print_line(
                f"epoch {event.epoch}: validation perplexity {event.perplexity:.2f} counting <sos>, "
                f"{event.perplexity_without_sos:.2f} without; training loss {event.training_loss:.3f}; "
                f"{event.cpu_seconds:.0f} CPU-seconds so far",
                "\n",
            )

    def _step(self, event: Step) -> None:
        now = time.monotonic()
        self.steps += 1
        if self.steps == min(MEASURED, event.steps):
            self._print_line(f"about {duration(event.seconds_left)} to go here; {STOPPING}", "\n")
        if now - self.shown < (0.5 if self.terminal else 20):
            return
        self.shown = now
        self._print_line(
            f"epoch {event.epoch} of {event.epochs}, step {event.step:,} of {event.steps:,}, loss {event.loss:.3f}, "
            f"{event.rate:,.0f} target tokens per CPU-second, about {duration(event.seconds_left)} left",
            "\r" if self.terminal else "\n",
        )

    def _print_line(self, line: str, end: str) -> None:
        # padded, so that a shorter line leaves nothing of the one that it is written over
        print(f"{printable(line):<118}" if self.terminal else printable(line), end=end, file=sys.stderr, flush=True)


def open_run(folder: Path, weights: str, model: str | None, device: str | None) -> Run:
    from regard.translator.models.run import load_run

    run = load_run(folder, weights=weights, own=own_code(model), device=device or "auto")
    for line in run.notes:
        note(line)
    return run


def raise_once() -> None:
    """Raise the error at hand again; of several processes that found it, the first one speaks."""
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun's; without it torch is not imported for a typing mistake
        from regard.translator.training.parallel import join_team

        with join_team():
            raise


def read_settings(config: str, changes: list[str] | None, model: str | None = None, **named: str | None) -> Settings:
    """The settings file, then --set, then the options that have a name of their own."""
    from regard.translator.runs.settings import load_settings

    keys = {"data": "data.path", "source": "data.source", "target": "data.target", "device": "training.device"}
    quoted = [f"{keys[name]}={_quote(value)}" for name, value in named.items() if value is not None]
    kind = [] if model is None else ["model.kind=own"]
    notes: list[str] = []
    settings = load_settings(config, changes=[*(changes or []), *kind, *quoted], notes=notes)
    for line in notes:
        note(line)
    return settings


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # so that a folder called 2016 stays text


def settings_without_run(
    run: Path | None, model: str | None, changes: list[str] | None, **named: str | None
) -> Settings:
    """The coursework's settings with these changes, for a model that has no run folder; a run has its own settings."""
    if run is None and model is None:
        raise InputError("There is nothing to score; give a run folder, or --model my.py:NAME.")
    if run is not None and (changes or any(value is not None for value in named.values())):
        raise InputError(f"{run} has settings and data of its own; leave --data, --source, --target and --set out.")
    return read_settings("coursework", changes, **named)


def scored_pairs(test: tuple[Path, Path] | None, settings: Settings, split: str) -> Pairs:
    from regard.translator.data.corpus import Pairs, clean, read_pairs
    from regard.translator.training.preparation import load_data, split_pairs

    if test is not None:
        pairs = read_pairs(*test)
        return Pairs([clean(s) for s in pairs.source], [clean(t) for t in pairs.target])
    corpus = load_data(settings)
    if split == "test" and corpus.test is None:
        raise InputError(f"{settings.data.path} has no test set; give --test FILE FILE, or --split validation.")
    return split_pairs(corpus, split)[0]


def read_sentences(text: str | None) -> list[str]:
    from regard.translator.data.sources import read_lines

    if text is None:
        return _standard_input()
    try:
        is_file = Path(text).is_file()
    except (OSError, ValueError):  # a sentence may be longer than a file name can be
        is_file = False
    if not is_file and Path(text).suffix and not text.endswith(".") and len(text.split()) == 1:
        raise InputError(f"There is no file {text}; give a file that exists, or a sentence in quotes.")
    return read_lines(Path(text)) if is_file else [text]


def _standard_input() -> list[str]:
    if sys.stdin.isatty():
        note("reading sentences from the keyboard, one on each line; end with Ctrl-D.")
    try:
        lines = sys.stdin.buffer.read().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"Standard input is not UTF-8: the byte at offset {error.start} is {error.object[error.start]:#04x}."
        ) from None
    if not lines:
        raise InputError("Standard input is empty; give one sentence on each line.")
    return lines


def finished_runs() -> list[str]:
    """The finished runs in the folder runs, where there are two or more: what a bare `compare` is about."""
    from regard.translator.runs.records import is_finished

    finished = [str(folder) for folder in sorted(Path("runs").glob("*")) if is_finished(folder)]
    if len(finished) < 2:
        there = f"only {finished[0]}" if finished else "none"
        raise InputError(
            f"A comparison needs two finished runs, and in the folder runs there is {there}. To train two and compare "
            "them, some minutes: regard translator compare builtin --with learned,positions=none --seeds 1"
        )
    return finished


def everything_in_runs() -> list[Path]:
    """The runs, comparisons and studies in the folder runs that have results: what a bare `report` is about."""
    folders = [folder for folder in sorted(Path("runs").glob("*")) if folder.is_dir()]
    with_results = [folder for folder in folders if _has_results(folder)]
    if not with_results:
        raise InputError(
            "There is nothing to report on: the folder runs has no finished run. Make one, some minutes: "
            "regard translator train"
        )
    if len(with_results) < len(folders):
        left_out = ", ".join(str(folder) for folder in folders if folder not in with_results)
        note(f"left out, since nothing in them is finished: {left_out}")
    return with_results


def _has_results(folder: Path) -> bool:
    from regard.translator.runs.records import is_finished
    from regard.translator.studies.comparison_record import PLAN, read_comparison
    from regard.translator.studies.search_record import STUDY, read_study

    try:
        if (folder / PLAN).is_file():
            read_comparison(folder)
        elif (folder / STUDY).is_file():
            read_study(folder)
        else:
            return is_finished(folder)
    except InputError:  # begun, and not one result yet
        return False
    return True
