"""Write the record of training runs from their folders, so that no figure is typed.

    python -m tools.record_training defaults runs/default-seed0 runs/default-seed1
    python -m tools.record_training embeddings runs/vectors
    python -m tools.record_training sides runs/sides
    python -m tools.record_training tuned runs/tuned runs/best-seed0

The first word names the record; each folder is one that ``regard translator train``, ``compare`` or ``tune`` wrote, and
says itself which. The record goes to ``records/NAME.json`` of the coursework, the log to
``docs/results/translator-NAME.txt``. See :mod:`regard.coursework.training_figures` for the format.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.coursework import training_figures
from regard.errors import InputError, RegardError
from regard.files import write_file

if TYPE_CHECKING:
    from regard.translator.runs import records
    from regard.translator.studies.comparison_record import Comparison
    from regard.translator.studies.search_record import Tuning

ROOT = Path(__file__).parent.parent
RECORDS = Path(training_figures.__file__).parent / "records"
RUN, COMPARISON, STUDY = "run.json", "comparison.json", "study.json"  # what each kind of folder has


def main(words: Sequence[str]) -> None:
    """Write ``records/NAME.json`` and its log from the folders; the words are those of the command line."""
    if len(words) < 2 or words[0] not in training_figures.NAMES:
        raise InputError(f"Give a name ({', '.join(training_figures.NAMES)}) and the folders of the runs.")
    made, log = from_folders(words[0], [Path(word) for word in words[1:]])
    target, written = RECORDS / f"{made.name}.json", ROOT / made.log
    target.parent.mkdir(exist_ok=True)
    write_file(target, checked_json(made).encode())
    write_file(written, log.encode())
    print(f"{target}\n{written}")


def checked_json(made: training_figures.Figures) -> str:
    """The record as JSON, which reads back as the same record."""
    content = to_json(made)
    # a record that could not be read back must not be written
    training_figures.read(content, made.name)
    return content


def to_json(figures: training_figures.Figures) -> str:
    """The JSON text that reads back as these figures."""
    content = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures)}
    content |= {
        "runs": [dataclasses.asdict(run) for run in figures.runs],
        "comparison": _comparison_content(figures.comparison),
        "study": _study_content(figures.study),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _comparison_content(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    variants = [
        {
            "name": entry.name,
            "weights": entry.parameters,
            "cpu_seconds": round(entry.cpu_seconds, 1),
            "coverage": entry.coverage,
            "measures": {name: interval.values for name, interval in entry.measures.items()},
        }
        for entry in comparison.entries
    ]
    values = comparison.command, comparison.scored_on, comparison.seeds, variants
    return dict(zip(training_figures.COMPARISON_KEYS, values, strict=True))


def _study_content(study: Tuning | None) -> dict[str, Any] | None:
    if study is None:
        return None
    values = (
        study.searched_by,
        [[trial.state, trial.perplexity, trial.changes] for trial in study.trials],
        study.trials.index(study.best),
        None if study.default is None else study.trials.index(study.default),
        [[one.name, one.mean, one.low, one.high] for one in study.importance],
        _comparison_content(study.confirmation),
        round(study.cpu_seconds, 1),
    )
    return dict(zip(training_figures.STUDY_KEYS, values, strict=True))


def from_folders(name: str, folders: Sequence[Path]) -> tuple[training_figures.Figures, str]:
    """The record of these runs, comparisons and studies, and the log as text."""
    kinds = {kind: [f for f in folders if (f / kind).exists()] for kind in (RUN, COMPARISON, STUDY)}
    if strange := [str(f) for f in folders if not any(f in members for members in kinds.values())]:
        raise InputError(
            f"{strange[0]} has no {RUN}, {COMPARISON} or {STUDY}; give folders that train, compare or tune wrote."
        )
    if len(kinds[COMPARISON]) > 1 or len(kinds[STUDY]) > 1:
        raise InputError("A record has one comparison and one study at most; give one of each.")
    runs = [_read_finished_run(folder) for folder in kinds[RUN]]
    comparison = _comparison(kinds[COMPARISON][0]) if kinds[COMPARISON] else None
    study = _study(kinds[STUDY][0]) if kinds[STUDY] else None
    first, last = _any_run(folders[0]), max(_end_date(folder) for folder in folders)
    made = training_figures.Figures(
        name=name,
        date=last.isoformat(),
        log=f"docs/results/translator-{name}.txt",
        data=_corpus(first),
        versions=dict(first.about["versions"]),
        runs=[_run(run) for run in runs],
        comparison=comparison[0] if comparison else None,
        study=study[0] if study else None,
    )
    parts = [_run_log(run) for run in made.runs] + [part[1] for part in (comparison, study) if part]
    head = f"{made.data}\n" + ", ".join(f"{key} {value}" for key, value in made.versions.items())
    return made, "\n\n".join([head, *parts]) + "\n"


def portable_command(command: str) -> str:
    """The command without the folders of the machine it ran on: --data DIR, --out runs/NAME, files by name.

    >>> portable_command("regard translator train x.toml --data /home/m30k --with glove:/tmp/g.txt --out /tmp/runs/a")
    'regard translator train x.toml --data DIR --with glove:g.txt --out runs/a'
    >>> portable_command("regard translator compare --with source=word2vec:train+target=glove:/tmp/g.txt,bert:/tmp/m")
    'regard translator compare --with source=word2vec:train+target=glove:g.txt,bert:m'
    """
    command = re.sub(r"--data \S+", "--data DIR", command)
    command = re.sub(r"--out (?:\S*/)?(\S+)", r"--out runs/\1", command)
    return re.sub(r":[^\s,:]*/", ":", command)


def _read_finished_run(folder: Path) -> records.Record:
    from regard.translator.runs.records import read_record

    run = read_record(folder)
    if not run.finished:
        raise InputError(f"The run in {folder} is not finished; give its train command again first.")
    return run


def _run(run: records.Record) -> training_figures.RunFigures:
    from regard.translator.runs.settings import load_settings

    # told elsewhere, or without a say in the numbers
    ignored = ("data.path", "training.seed", "training.threads", "training.save_every")
    changes = [d for d in run.settings.differences(load_settings("coursework")) if not d.startswith(ignored)]
    return training_figures.RunFigures(
        command=portable_command(str(run.about.get("command", ""))),
        seed=run.settings.training.seed,
        changes=changes,
        weights=int(run.about["parameters"]),
        curve=[epoch.perplexity for epoch in run.epochs],
        without_sos=[epoch.perplexity_without_sos for epoch in run.epochs],
        cpu_seconds=round(run.cpu_seconds, 1),
    )


def _comparison(folder: Path) -> tuple[Comparison, str]:
    from regard.translator.studies.comparison_record import read_comparison

    comparison = read_comparison(folder)
    return _with_portable_command(comparison), str(comparison)


def _study(folder: Path) -> tuple[Tuning, str]:
    from regard.translator.studies.search_record import read_study

    study = read_study(folder)
    confirmed = None if study.confirmation is None else _with_portable_command(study.confirmation)
    made = dataclasses.replace(study, searched_by=portable_command(study.searched_by), confirmation=confirmed)
    return made, str(study).partition("\n\nTrain it:")[0]


def _with_portable_command(comparison: Comparison) -> Comparison:
    return dataclasses.replace(comparison, command=portable_command(comparison.command))


def _any_run(folder: Path) -> records.Record:
    """A run of the folder, which knows the corpus and the versions."""
    from regard.translator.runs.records import read_record

    return read_record(min(folder.rglob(RUN)).parent)


def _end_date(folder: Path) -> datetime.date:
    """The day on which the last log in the folder was written, UTC."""
    seconds = max(path.stat().st_mtime for path in folder.rglob("log.jsonl"))
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()


def _corpus(run: records.Record) -> str:
    about: dict[str, Any] = run.about
    corpus, pairs, words = about["corpus"], about["pairs"], about["words"]
    return (
        f"{corpus['name']}, {corpus['source_language']} to {corpus['target_language']}: {pairs['train']:,} training "
        f"and {pairs['validation']:,} validation pairs of at most {corpus['maximum_tokens']} tokens, "
        f"{words['source']:,} source and {words['target']:,} target words"
    )


def _run_log(run: training_figures.RunFigures) -> str:
    lines = [f"$ {run.command}", f"seed {run.seed}, {run.weights:,} weights, {run.cpu_seconds:,.0f} CPU-seconds"]
    if run.changes:
        lines.append("changed: " + ", ".join(run.changes))
    lines += ["epoch  validation perplexity  without <sos>"]
    for number, (counted, without) in enumerate(zip(run.curve, run.without_sos, strict=True), 1):
        best = "  best" if number == run.best_epoch else ""
        lines.append(f"{number:5}  {counted:21.2f}  {without:13.2f}{best}")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RegardError as error:
        sys.exit(f"record: {error}")
