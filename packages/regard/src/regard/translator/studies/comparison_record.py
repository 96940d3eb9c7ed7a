"""A comparison as its folder tells it; reading it needs no torch. What is in the folder: see
:mod:`regard.translator.studies.comparison`, which fills it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.translator.runs.files import explain_errors, read_json
from regard.translator.runs.records import Record, read_record
from regard.translator.studies.summary import Comparison, Results, summarise

PLAN = "comparison.json"


def read_comparison(folder: str | Path) -> Comparison:
    """The comparison in a folder that :func:`compare` has finished."""
    with explain_errors(Path(folder), "comparison"):
        plan = read_plan(Path(folder))
        notes = [str(v["note"]) for v in plan["variants"] if v["note"]]
        return summarise(
            comparison_results(folder),
            [int(seed) for seed in plan["seeds"]],
            folder=str(folder),
            scored_on=str(plan["scored_on"]),
            notes=notes,
            command=str(plan.get("command", "")),
        )


def comparison_results(folder: str | Path) -> Results:
    """Each variant's runs, seed by seed: the record and the scores."""
    folder = Path(folder)
    plan = read_plan(folder)
    return {
        str(v["name"]): [_result(folder, f"{v['slug']}-seed{seed}") for seed in plan["seeds"]] for v in plan["variants"]
    }


def read_plan(folder: Path) -> dict[str, Any]:
    """What a comparison's folder says it compares."""
    if not (folder / PLAN).exists():
        raise InputError(f"{folder} is not a comparison: it has no {PLAN}; give another folder.")
    plan = read_json(folder / PLAN, otherwise="give another --out")
    wanted = {"settings", "fingerprint", "scored_on", "seeds", "variants"}
    if not isinstance(plan, dict) or not wanted <= plan.keys():
        raise InputError(f"{folder / PLAN} does not describe a comparison; restore it from a copy.")
    return plan


def _result(folder: Path, name: str) -> tuple[Record, dict[str, Any]]:
    run, scores = folder / "runs" / name, folder / "scores" / f"{name}.json"
    if not run.exists() or not scores.exists():
        raise InputError(f"The comparison in {folder} is not finished: {name} is missing; give its command again.")
    content = read_json(scores, otherwise="remove it and give the compare command again")
    if not isinstance(content, dict) or not {"perplexity", "all", "by_length", "by_phenomenon"} <= content.keys():
        raise InputError(f"{scores} is damaged; remove it and give the compare command again.")
    return read_record(run), content
