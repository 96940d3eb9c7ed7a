"""Write the record of training runs from their folders, so that no figure is typed.

    python -m regard.coursework.record defaults runs/default-seed0 runs/default-seed1
    python -m regard.coursework.record embeddings runs/vectors
    python -m regard.coursework.record tuned runs/tuned runs/best-seed0

The first word names the record; each folder is one that ``regard translator train``, ``compare`` or ``tune`` wrote, and
says itself which. The record goes to ``records/NAME.json`` beside this file, the log to
``docs/results/translator-NAME.txt``. See :mod:`regard.coursework.measured` for the format.
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

from regard.coursework import measured
from regard.errors import InputError, RegardError

if TYPE_CHECKING:
    from regard.translator.runs import records
    from regard.translator.studies.search_record import Tuning
    from regard.translator.studies.summary import Comparison

HERE = Path(__file__).parent
RUN, COMPARISON, STUDY = "run.json", "comparison.json", "study.json"


def main(words: Sequence[str]) -> None:
    """Write ``records/NAME.json`` and its log from the folders; the words are those of the command line."""
    if len(words) < 2 or words[0] not in measured.NAMES:
        raise InputError(f"Give a name ({', '.join(measured.NAMES)}) and the folders of the runs.")
    made, log = from_folders(words[0], [Path(word) for word in words[1:]])
    target, written = HERE / "records" / f"{made.name}.json", HERE.parents[2] / made.log
    target.parent.mkdir(exist_ok=True)
    target.write_text(text(made), encoding="utf-8")
    written.write_text(log, encoding="utf-8")
    print(f"{target}\n{written}")


def text(made: measured.Record) -> str:
    """The record as JSON, which reads back as the same record."""
    content = json.dumps(dataclasses.asdict(made), indent=1, ensure_ascii=False) + "\n"
    measured.read(content, made.name)
    return content


def from_folders(name: str, folders: Sequence[Path]) -> tuple[measured.Record, str]:
    """The record of these runs, comparisons and studies, and the log as text."""
    kinds = {kind: [f for f in folders if (f / kind).exists()] for kind in (RUN, COMPARISON, STUDY)}
    if strange := [str(f) for f in folders if not any(f in found for found in kinds.values())]:
        raise InputError(
            f"{strange[0]} has no {RUN}, {COMPARISON} or {STUDY}; give folders that train, compare or tune wrote."
        )
    if len(kinds[COMPARISON]) > 1 or len(kinds[STUDY]) > 1:
        raise InputError("A record has one comparison and one study at most; give one of each.")
    runs = [_finished(folder) for folder in kinds[RUN]]
    contest = _contest(kinds[COMPARISON][0]) if kinds[COMPARISON] else None
    study = _study(kinds[STUDY][0]) if kinds[STUDY] else None
    first, last = _one_run(folders[0]), max(_ended(folder) for folder in folders)
    made = measured.Record(
        name=name,
        date=last.isoformat(),
        log=f"docs/results/translator-{name}.txt",
        data=_corpus(first),
        versions=dict(first.about["versions"]),
        runs=[_run(run) for run in runs],
        comparison=contest[0] if contest else None,
        study=study[0] if study else None,
    )
    parts = [_run_log(run) for run in made.runs] + [found[1] for found in (contest, study) if found]
    head = f"{made.data}\n" + ", ".join(f"{key} {value}" for key, value in made.versions.items())
    return made, "\n\n".join([head, *parts]) + "\n"


def portable(command: str) -> str:
    """The command without the folders of the machine it ran on: --data DIR, --out runs/NAME, files by name.

    >>> portable("regard translator train x.toml --data /home/me/m30k --with glove:/tmp/g.txt --out /tmp/runs/a")
    'regard translator train x.toml --data DIR --with glove:g.txt --out runs/a'
    """
    command = re.sub(r"--data \S+", "--data DIR", command)
    command = re.sub(r"--out (?:\S*/)?(\S+)", r"--out runs/\1", command)
    return re.sub(r":[^\s,]*/", ":", command)


def _finished(folder: Path) -> records.Record:
    from regard.translator.runs.records import read_record

    found = read_record(folder)
    if not found.finished:
        raise InputError(f"The run in {folder} is not finished; give its train command again first.")
    return found


def _run(found: records.Record) -> measured.Run:
    from regard.translator.runs.settings import load_settings

    ignored = ("data.path", "training.seed", "training.threads", "training.save_every")
    changes = [d for d in found.settings.differences(load_settings("coursework")) if not d.startswith(ignored)]
    return measured.Run(
        command=portable(str(found.about.get("command", ""))),
        seed=found.settings.training.seed,
        changes=changes,
        weights=int(found.about["parameters"]),
        curve=[epoch.perplexity for epoch in found.epochs],
        without_sos=[epoch.perplexity_without_sos for epoch in found.epochs],
        cpu_seconds=round(found.cpu_seconds, 1),
    )


def _contest(folder: Path) -> tuple[measured.Contest, str]:
    from regard.translator.studies.comparison import read_comparison

    found = read_comparison(folder)
    return contest(found, _command(folder / COMPARISON)), str(found)


def contest(found: Comparison, command: str) -> measured.Contest:
    """A comparison as the record keeps it: values seed by seed."""
    return measured.Contest(
        command=command,
        scored_on=found.scored_on,
        seeds=found.seeds,
        variants=[
            measured.Variant(
                name=entry.name,
                weights=entry.parameters,
                cpu_seconds=round(entry.cpu_seconds, 1),
                coverage=entry.coverage,
                measures={name: interval.values for name, interval in entry.measures.items()},
            )
            for entry in found.entries
        ],
    )


def _study(folder: Path) -> tuple[measured.Study, str]:
    from regard.translator.studies.search_record import read_study

    found = read_study(folder)
    return study(found, _command(folder / STUDY)), str(found).partition("\n\nTrain it:")[0]


def study(found: Tuning, command: str) -> measured.Study:
    """A study as the record keeps it: every trial, what mattered, and its confirmation."""
    return measured.Study(
        command=command,
        trials=[(trial.state, trial.perplexity, trial.changes) for trial in found.trials],
        best=found.trials.index(found.best),
        started_from=None if found.default is None else found.trials.index(found.default),
        importance=[(one.name, one.mean, one.low, one.high) for one in found.importance],
        confirmation=None if found.confirmation is None else contest(found.confirmation, command),
        cpu_seconds=round(found.cpu_seconds, 1),
    )


def _command(path: Path) -> str:
    return portable(str(json.loads(path.read_text(encoding="utf-8")).get("command", "")))


def _one_run(folder: Path) -> records.Record:
    """A run of the folder, which knows the corpus and the versions."""
    from regard.translator.runs.records import read_record

    return read_record(min(folder.rglob(RUN)).parent)


def _ended(folder: Path) -> datetime.date:
    """The day on which the last log in the folder was written, UTC."""
    seconds = max(path.stat().st_mtime for path in folder.rglob("log.jsonl"))
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()


def _corpus(found: records.Record) -> str:
    about: dict[str, Any] = found.about
    corpus, pairs, words = about["corpus"], about["pairs"], about["words"]
    return (
        f"{corpus['name']}, {corpus['source_language']} to {corpus['target_language']}: {pairs['train']:,} training "
        f"and {pairs['validation']:,} validation pairs of at most {corpus['maximum_tokens']} tokens, "
        f"{words['source']:,} source and {words['target']:,} target words"
    )


def _run_log(run: measured.Run) -> str:
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
