"""Translator: runs as they train, a sentence through a finished one, what it read, and runs side by side.

Opening a model takes torch and some seconds, so that is an errand; what a run has written about itself is read here.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.lab.background import Errands
from regard.lab.page import Answer, Number, Page, tex
from regard.lab.state import State
from regard.translator.runs.files import LAST, RUN, SETTINGS, VOCABULARY, read_json
from regard.translator.runs.log import LOG, Epoch, real
from regard.translator.runs.records import Record, check_name, read_record

if TYPE_CHECKING:
    from regard.translator.models.run import Run

MOST = 100  # runs that are listed
_SCORE_AGAIN = "remove it and give the compare command again"
NAMED = 5  # runs that cannot be read
DRAWN = 6  # runs in one chart: as many as colours tell apart
WORDS = 400  # letters of a sentence
WHERE = ("run.json", "*/run.json", "runs/*/run.json", "*/runs/*/run.json")

errands = Errands("regard.lab.pages.translator")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A run as its folder tells it."""

    name: str
    record: Record
    bleu: float | None  # where a comparison scored it

    @property
    def folder(self) -> Path:
        return self.record.folder

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Those that can be drawn: a run that diverged may have a perplexity beyond all floats."""
        return tuple(epoch for epoch in self.record.epochs if math.isfinite(epoch.perplexity))

    @property
    def best(self) -> Epoch | None:
        return min(self.epochs, key=lambda epoch: epoch.perplexity, default=None)

    @property
    def steps(self) -> tuple[tuple[int, float], ...]:
        """Step and training loss."""
        return self.record.log.steps

    @property
    def label(self) -> str:
        """Its name, without the folder that every comparison has."""
        return self.folder.name if self.name == "." else self.name.replace("/runs/", "/").removeprefix("runs/")

    @property
    def done(self) -> str:
        return f"{len(self.record.epochs)} of {self.record.settings.training.epochs}"


def answer(state: State) -> Answer:
    """The runs of the lab's folder, and a sentence through the chosen one."""
    runs, damaged = looked(state.runs)
    if not runs:
        return _nothing(state.runs, damaged)
    run = _chosen(state.text("run"), runs)
    drawn = _drawn(state.text("with"), runs, run)
    text = " ".join(state.text("text").split())
    if len(text) > WORDS:
        raise InputError(f"A sentence may have {WORDS} letters, not {len(text)}.")
    asked = {"folder": str(run.folder), "text": text, "stamp": _stamp(run.folder / "best.safetensors")}
    said = errands.ask("translated", **asked) if text else None
    layer, head = _head(state, said)
    return Answer(
        picture={
            "runs": [_row(one, one in drawn) for one in runs],
            "chosen": run.name,
            "curves": _curves(drawn, run),
            "examples": _examples(run.folder),
            "said": said and {**said, **_shades(said["weights"][layer][head])},
            "shape": said and [len(said["weights"]), len(said["weights"][0])],
            "running": bool(text) and said is None,
            "live": any(not one.record.finished for one in runs),
        },
        numbers=_numbers(run, said),
        say=(*_say(state.runs, runs, run, text, said), *_left_out(damaged)),
        formulas=_formulas(run, said),
        python=_python(drawn, run, text, layer, head),
        shell=_shell(drawn, run, text),
        state={"run": run.name, "text": text, "layer": str(layer), "head": str(head)},
    )


# What the runs have written ------------------------------------------------------------------------------------------


def seen(folder: Path) -> list[Seen]:
    """The runs in a folder, which may itself be a run or a comparison, and in its comparisons; newest first."""
    return looked(folder)[0]


def looked(folder: Path) -> tuple[list[Seen], list[str]]:
    """The runs in a folder, and one sentence about each that cannot be read: it must not hide the others."""
    there = {path for pattern in WHERE for path in folder.glob(pattern)}
    runs, damaged = [], []
    for path in sorted(there, key=lambda path: (-_stamp(path), str(path)))[:MOST]:
        run = path.parent
        try:
            check_name(run)
            scores = run.parent.parent / "scores" / f"{run.name}.json"
            record = _record(run, tuple(_stamp(run / name) for name in (RUN, VOCABULARY, SETTINGS, LOG, LAST)))
            name = run.relative_to(folder).as_posix()
            runs.append(Seen(name=name, record=record, bleu=_bleu(scores, _stamp(scores))))
        except InputError as error:
            damaged.append(str(error))
    return runs, damaged


def _stamp(path: Path) -> float:
    """When a file was written; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=2 * MOST)
def _record(folder: Path, stamps: tuple[float, ...]) -> Record:
    """A run's record, read again when one of its files was written."""
    return read_record(folder)


@lru_cache(maxsize=2 * MOST)
def _bleu(path: Path, stamp: float) -> float | None:
    """BLEU, if the run is one of a comparison that has scored it."""
    if not stamp:
        return None
    try:
        return real("BLEU", read_json(path, otherwise=_SCORE_AGAIN)["all"]["bleu"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); {_SCORE_AGAIN}.") from None


@lru_cache(maxsize=2 * MOST)
def _examples(folder: Path) -> list[str]:
    """Sentences to try, where the run was trained on the built-in corpus: those of its file that no run has seen."""
    from regard.translator.data.builtin import fresh_pairs
    from regard.translator.runs.settings import load_settings

    try:
        data = load_settings(folder / "settings.toml").data
    except InputError:
        return []
    if data.path != "builtin":
        return []
    return fresh_pairs(6).target if data.source == "en" else fresh_pairs(6).source


# What is chosen ------------------------------------------------------------------------------------------------------


def _chosen(name: str, runs: list[Seen]) -> Seen:
    for run in runs:
        if run.name == name or not name:
            return run
    raise InputError(f"There is no run {name!r} in the lab's folder; it has {', '.join(r.name for r in runs[:5])} ...")


def _drawn(names: str, runs: list[Seen], run: Seen) -> list[Seen]:
    """The runs in the chart: those named, or the newest; the chosen one always."""
    wanted = [one for one in runs if one.name in names.split(",")] if names else runs
    others = [one for one in wanted if one is not run]
    return [run, *others[: DRAWN - 1]]


def _head(state: State, said: dict[str, Any] | None) -> tuple[int, int]:
    """The layer and head that are shown, as far as the run has as many."""
    layer, head = state.whole("layer", least=0, most=99), state.whole("head", least=0, most=99)
    if said is None:
        return layer, head
    return min(layer, len(said["weights"]) - 1), min(head, len(said["weights"][0]) - 1)


# What is shown -------------------------------------------------------------------------------------------------------


def _row(run: Seen, drawn: bool) -> dict[str, Any]:
    best = run.best
    return {
        "name": run.name,
        "label": run.label,
        "drawn": drawn,
        "epochs": run.done,
        "finished": run.record.finished,
        "perplexity": best and best.perplexity,
        "bleu": run.bleu,
    }


def _curves(drawn: list[Seen], run: Seen) -> dict[str, Any]:
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


def _shades(weights: list[list[float]]) -> dict[str, Any]:
    """The weights of one head, and how dark each is drawn: the largest is the darkest, for some heads spread thinly."""
    darkest = max((weight for row in weights for weight in row), default=0.0) or 1.0
    return {"weights": weights, "shades": [[weight / darkest for weight in row] for row in weights], "darkest": darkest}


def _numbers(run: Seen, said: dict[str, Any] | None) -> tuple[Number, ...]:
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


def _say(folder: Path, runs: list[Seen], run: Seen, text: str, said: dict[str, Any] | None) -> tuple[str, ...]:
    state = "finished" if run.record.finished else "training, or stopped"
    first = f"{run.label}: {state}, {run.done} epochs" + (f", best after epoch {run.best.epoch}." if run.best else ".")
    loss = f" Training loss at step {run.steps[-1][0]:,}: {run.steps[-1][1]:.3f}." if run.steps else ""
    more = [f"{len(runs)} run{'s' * (len(runs) != 1)} in {folder}."]
    if text and said is None:
        more.append("Opening the model (the first time takes some seconds) …")
    if said is not None and said["cut"]:
        more.append("The sentence was too long for this run: its beginning was translated.")
    if said is not None and said["unknown"]:
        more.append(f"Not in its vocabulary: {', '.join(said['unknown'])}.")
    return (first + loss, *more)


def _left_out(damaged: list[str]) -> tuple[str, ...]:
    """What is said about runs that cannot be read."""
    more = [f"{len(damaged) - NAMED} more runs cannot be read."] if len(damaged) > NAMED else []
    return (*(f"Left out: {reason}" for reason in damaged[:NAMED]), *more)


def _formulas(run: Seen, said: dict[str, Any] | None) -> tuple[str, ...]:
    perplexity = r"\text{perplexity} = \exp\left(-\tfrac1N \sum_t \ln p(w_t)\right)"
    if run.best is not None:
        value = run.best.perplexity
        perplexity += rf" = e^{{{tex(math.log(value))}}} = {tex(value)}"
    if said is None:
        return (perplexity,)
    value = said["log_probability"]
    return (perplexity, rf"p(\text{{translation}}) = e^{{{tex(value)}}} = {tex(math.exp(value), 3)}")


def _python(drawn: list[Seen], run: Seen, text: str, layer: int, head: int) -> str:
    lines = [
        "from regard.translator.runs.records import read_record",
        f"for folder in {[str(one.folder) for one in drawn if one.epochs]}:",
        "    print(folder, read_record(folder).best.perplexity)",
    ]
    if text:
        lines += [
            "from regard.translator import load_run",
            f"said = load_run({str(run.folder)!r}).attention({text!r}, cut=True)",
            "print(said.target, said.log_probability)",
            f"print(said.weights[{layer}, {head}].tolist())  # layer, head; a row for each written word",
        ]
    return "\n".join(lines)


def _shell(drawn: list[Seen], run: Seen, text: str) -> str:
    folder = shlex.quote(str(run.folder))
    lines = [f"regard translator translate {folder} {shlex.quote(text)} --cut"] if text else []
    finished = [shlex.quote(str(one.folder)) for one in drawn if one.epochs]
    return "\n".join([*lines, f"regard translator report {' '.join(finished or [folder])} --out report.html"])


def _nothing(folder: Path, damaged: list[str]) -> Answer:
    first = str(folder / "first")
    lines = [
        "from regard.translator import load_settings, train",
        f'print(train(load_settings("builtin"), {first!r}))',
    ]
    return Answer(
        picture={"runs": [], "live": True, "running": False, "said": None},
        say=(
            f"There is no run in {folder} yet. Train one with the lines below, and watch it here.",
            *_left_out(damaged),
        ),
        formulas=(r"\text{perplexity} = \exp\left(-\tfrac1N \sum_t \ln p(w_t)\right)",),
        python="\n".join(lines),
        shell=f"regard translator train --out {shlex.quote(first)}",
    )


# an errand, in a process of its own ----------------------------------------------------------------------------------


def translated(folder: str, text: str, stamp: float) -> dict[str, Any]:
    """A sentence's translation, what each written word read, and which words the run does not know."""
    from regard.translator.data.vocabulary import UNK

    run = _opened(folder, stamp)
    unknown = [word for word in text.split() if UNK in run.source.encode(word)]
    return {**run.attention(text, cut=True).to_dict(), "unknown": unknown}


@lru_cache(maxsize=2)
def _opened(folder: str, stamp: float) -> Run:
    from regard.translator import load_run

    return load_run(folder)


PAGE = Page(
    place=5,
    title="Translator",
    hint="Watch a run while it trains; then type a sentence, and see which words each written word read.",
    start={"run": "", "with": "", "text": "", "layer": "0", "head": "0"},
    answer=answer,
)
