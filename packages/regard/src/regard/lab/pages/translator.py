"""Translator: a sentence through a run and what it read, runs as they train, and runs side by side.

Where the lab's folder has no run, the one that comes with the package is there, and its sentences are computed here and
at once, in NumPy. Opening any other model takes torch and some seconds, so that is a task; what a run has written
about itself is read here.
"""

from __future__ import annotations

import math
import shlex
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import regard
from regard.errors import InputError, similar_names
from regard.lab.page import Answer, Number, Page, State, tex
from regard.lab.run_list import (
    ListedRun,
    known_words,
    modification_time,
    run_numbers,
    scan_runs_with_example,
)
from regard.strict_json import JsonObject
from regard.translator.data.sources import fresh_pairs
from regard.translator.data.vocabulary import MARKERS, UNK
from regard.translator.runs.files import BEST, is_packaged
from regard.translator.runs.settings import load_settings
from regard.web.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from regard.translator.models.run import Run
    from regard.translator.models.sentence_attention import NumpyRun

NAMED = 5  # runs that cannot be read
DRAWN = 6  # runs in one chart: as many as colours tell apart
WORDS = 400  # letters of a sentence
OFFERED = 1500  # words of a vocabulary
FIRST = 1  # of the fresh sentences, the one to begin with: its verb stands at the end
NEAR = 5  # unknown words for which known ones are looked up

tasks = BackgroundTasks("regard.lab.pages.translator")


def answer(state: State) -> Answer:
    """The runs of the lab's folder, and a sentence through the chosen one."""
    runs, damaged = scan_runs_with_example(state.runs)
    if not runs:
        raise InputError(f"There is no run in {state.runs}, and the package's own is damaged; install Regard again.")
    run = _find_run(state.text("run"), runs)
    drawn = _runs_to_draw(state.text("with"), runs, run)
    text = _sentence(state.text("text"), run)
    said = _translation(run, text) if text else None
    layer, head = _head(state, said)
    numbers = run_numbers(runs)
    return Answer(
        picture={
            "runs": [{**_row(one, one in drawn), "number": numbers[one.name]} for one in runs],
            "chosen": run.name,
            "curves": {**_curves(drawn, run), "numbers": [numbers[one.name] for one in drawn]},
            "examples": examples(run.folder),
            "direction": _direction(run.folder),
            "words": known_words(run.folder)[:OFFERED],
            "said": said and {**said, **_heads(said["weights"], layer, head)},
            "running": bool(text) and said is None,
            "live": any(not one.record.finished for one in runs),
        },
        numbers=_numbers(run, said),
        say=(*_say(state.runs, runs, run, text, said), *_damage_sentences(damaged)),
        formulas=_formulas(run, said),
        python=_python(drawn, run, text, layer, head),
        shell=_shell(state.runs, drawn, run, text),
        state={"run": run.name, "text": text, "layer": str(layer), "head": str(head)},
    )


def _direction(folder: Path) -> str:
    """From which language into which, where we know it."""
    if not examples(folder):
        return ""
    return "English to German" if load_settings(folder / "settings.toml").data.source == "en" else "German to English"


@lru_cache(maxsize=64)
def examples(folder: Path) -> list[str]:
    """Sentences to try, where the run was trained on the built-in corpus: those of its file that no run has seen."""
    try:
        data = load_settings(folder / "settings.toml").data
    except InputError:
        return []
    if data.path != "builtin":
        return []
    return fresh_pairs(6).target if data.source == "en" else fresh_pairs(6).source


# What is chosen ------------------------------------------------------------------------------------------------------


def _find_run(name: str, runs: list[ListedRun]) -> ListedRun:
    """The run of that name; where none is named, the one that has learned most: the lowest perplexity."""
    if not name:
        return min(
            runs,
            key=lambda run: (not run.has_weights, run.is_from_package, run.best.perplexity if run.best else math.inf),
        )
    for run in runs:
        if run.name == name:
            return run
    raise InputError(f"There is no run {name!r} in the lab's folder; it has {', '.join(r.name for r in runs[:5])} ...")


def _sentence(typed: str, run: ListedRun) -> str:
    """What was typed; where nothing was, a sentence to begin with, if the run can be opened here.

    Every sentence of the built-in corpus ends with a mark, and a run of it writes nonsense for one that does not: a
    full stop is put there, where everybody sees it.
    """
    text = " ".join(typed.split())
    if len(text) > WORDS:
        raise InputError(f"A sentence may have {WORDS} letters, not {len(text)}.")
    if not text:
        return first_sentence(run.folder) if run.has_weights and (run.is_from_package or find_spec("torch")) else ""
    return f"{text}." if text[-1].isalpha() and examples(run.folder) else text


def first_sentence(folder: Path) -> str:
    """The sentence that a run begins with; none where we know nothing of its corpus."""
    return examples(folder)[FIRST] if examples(folder) else ""


def _runs_to_draw(names: str, runs: list[ListedRun], run: ListedRun) -> list[ListedRun]:
    """The runs in the chart: those named, or the newest of one's own; the chosen one always."""
    wanted = [one for one in runs if (one.name in names.split(",") if names else not one.is_from_package)]
    others = [one for one in wanted if one is not run]
    return [run, *others[: DRAWN - 1]]


def _translation(run: ListedRun, text: str) -> JsonObject | None:
    """What the run makes of the text; None while another process works on it."""
    when = modification_time(run.folder / BEST)
    if run.is_from_package:
        return translate_sentence(str(run.folder), text, when)
    return tasks.ask("translate_sentence", folder=str(run.folder), text=text, stamp=when)


def _head(state: State, said: JsonObject | None) -> tuple[int, int]:
    """The layer and head that are shown, as far as the run has as many."""
    layer, head = state.whole_number("layer", least=0, most=99), state.whole_number("head", least=0, most=99)
    if said is None:
        return layer, head
    return min(layer, len(said["weights"]) - 1), min(head, len(said["weights"][0]) - 1)


# What is shown -------------------------------------------------------------------------------------------------------


def _row(run: ListedRun, drawn: bool) -> JsonObject:
    best = run.best
    return {
        "name": run.name,
        "label": run.label,
        "drawn": drawn,
        "epochs": run.epoch_progress,
        "finished": run.record.finished,
        "perplexity": best and best.perplexity,
        "bleu": run.bleu,
    }


def _curves(drawn: list[ListedRun], run: ListedRun) -> JsonObject:
    """Validation perplexity of every run over its steps, and the training loss of the chosen one, as a perplexity."""
    ends = [{epoch.step: epoch.perplexity for epoch in one.epochs} for one in drawn]
    training = {step: math.exp(min(loss, 50.0)) for step, loss in run.steps}
    steps = sorted({step for curve in [*ends, training] for step in curve})
    return {
        "names": [one.label for one in drawn],
        "steps": steps,
        "validation": [[curve.get(step) for step in steps] for curve in ends],
        "training": [training.get(step) for step in steps],
    }


def _heads(weights: list[list[list[list[float]]]], layer: int, head: int) -> JsonObject:
    """The chosen head with every digit, all heads with three, and the largest weight of all: one scale for them all."""
    rounded = [[[[round(w, 3) for w in row] for row in one] for one in heads] for heads in weights]
    darkest = max((w for heads in weights for one in heads for row in one for w in row), default=0.0) or 1.0
    return {"weights": weights[layer][head], "heads": rounded, "darkest": darkest, "layer": layer, "head": head}


def _numbers(run: ListedRun, said: JsonObject | None) -> tuple[Number, ...]:
    numbers = []
    if run.best is not None:
        best = run.best.perplexity
        numbers.append(Number(name="perplexity", label="best perplexity", value=best, form=".2f"))
        without = run.best.perplexity_without_sos
        numbers.append(Number(name="perplexity-without-sos", label="without <sos>", value=without, form=".2f"))
    if run.bleu is not None:
        numbers.append(Number(name="bleu", label="BLEU", value=run.bleu, form=".1f"))
    if said is not None:
        value = said["log_probability"]
        numbers.append(Number(name="log-probability", label="ln p(translation)", value=value, form=".4f"))
    return tuple(numbers)


_NO_OWN = (
    "There is no run in {folder} yet: this is the small translator that comes with the package. Train one of your own "
    "with the last line under Shell, and watch it here."
)


def _say(folder: Path, runs: list[ListedRun], run: ListedRun, text: str, said: JsonObject | None) -> tuple[str, ...]:
    state = "finished" if run.record.finished else "training, or stopped"
    direction = _direction(run.folder)
    first = f"{run.label}{', ' * bool(direction)}{direction}: {state}, {run.epoch_progress} epochs" + (
        f", best after epoch {run.best.epoch}." if run.best else "."
    )
    loss = f" Training loss at step {run.steps[-1][0]:,}: {run.steps[-1][1]:.3f}." if run.steps else ""
    own = [one for one in runs if not one.is_from_package]
    more = [f"{len(own)} run{'s' * (len(own) != 1)} in {folder}."] if own else [_NO_OWN.format(folder=folder)]
    if not text and run.has_weights and not run.is_from_package and not find_spec("torch"):
        more.append("Translating needs torch, which is not installed: pip install 'regard[translator]'.")
    if text and said is None:
        more.append("Opening the model (the first time takes some seconds) …")
    if said is not None and said["cut"]:
        more.append("The sentence was too long for this run: its beginning was translated.")
    if said is not None and said["unknown"]:
        more.append(f"Not in its vocabulary: {', '.join(said['unknown'])}.")
    return (first + loss, *more)


def _damage_sentences(damaged: list[str]) -> tuple[str, ...]:
    """What is said about runs that cannot be read."""
    more = [f"{len(damaged) - NAMED} more runs cannot be read."] if len(damaged) > NAMED else []
    return (*(f"Left out: {reason}" for reason in damaged[:NAMED]), *more)


def _formulas(run: ListedRun, said: JsonObject | None) -> tuple[str, ...]:
    perplexity = r"\text{perplexity} = \exp\left(-\tfrac1N \sum_t \ln p(w_t)\right)"
    if run.best is not None:
        value = run.best.perplexity
        perplexity += rf" = e^{{{tex(math.log(value))}}} = {tex(value)}"
    if said is None:
        return (perplexity,)
    value = said["log_probability"]
    return (perplexity, rf"p(\text{{translation}}) = e^{{{tex(value)}}} = {tex(math.exp(value), 3)}")


def _python(drawn: list[ListedRun], run: ListedRun, text: str, layer: int, head: int) -> str:
    lines = [
        "from regard.translator.runs.records import read_record",
        f"for folder in {[one.folder_argument for one in drawn if one.epochs]}:",
        "    print(folder, read_record(folder).best.perplexity)",
    ]
    if text:
        lines += [
            "from regard.translator import load_run",
            f"said = load_run({run.folder_argument!r}).attention({text!r}, cut=True)",
            "print(said.target, said.log_probability)",
            f"print(said.weights[{layer}, {head}].tolist())  # layer, head; a row for each written word",
        ]
    return "\n".join(lines)


def _shell(folder: Path, drawn: list[ListedRun], run: ListedRun, text: str) -> str:
    given = shlex.quote(run.folder_argument)
    lines = [f"regard translator translate {given} {shlex.quote(text)} --cut"] if text else []
    finished = [shlex.quote(one.folder_argument) for one in drawn if one.epochs]
    lines.append(f"regard translator report {' '.join(finished or [given])} --out report.html")
    if all(one.is_from_package for one in drawn):
        lines.append(f"regard translator train --out {shlex.quote(str(folder / 'first'))}")
    return "\n".join(lines)


# a task, in a process of its own, unless the run is the package's --------------------------------------------------


@lru_cache(maxsize=64)
def translate_sentence(folder: str, text: str, stamp: float) -> JsonObject:
    """A sentence's translation, what each written word read, and which words the run does not know."""
    run = _load_run(folder, stamp)
    said = run.attention(text, cut=True).to_dict()
    typed = ["<sos>", *run.source.tokens(text)]  # where the table of weights has the marker of unknown words
    missed = [word == MARKERS[UNK] for word in said["columns"]]
    columns = [typed[place] if missed[place] else word for place, word in enumerate(said["columns"])]
    unknown = list(dict.fromkeys(word for word, miss in zip(columns, missed, strict=True) if miss))
    known = [word for word in run.source.words if word.isalpha()]
    near = {word: similar_names(word, known, most=3) for word in unknown[:NEAR]}
    return {**said, "columns": columns, "missed": missed, "unknown": unknown, "near": near}


@lru_cache(maxsize=2)
def _load_run(folder: str, stamp: float) -> Run | NumpyRun:
    if is_packaged(Path(folder)):
        from regard.translator.models.sentence_attention import load_numpy_run

        return load_numpy_run(Path(folder))
    return regard.translator.load_run(folder)


PAGE = Page(
    place=5,
    title="Translator",
    hint="Type a sentence and see which words each written word read, in every head; or watch a run while it trains.",
    about="Which words each word of a translation read, in every head of a small trained model.",
    start={"run": "", "with": "", "text": "", "layer": "0", "head": "0"},
    answer=answer,
    close=tasks.close,
)
