"""Audit the text models of many releases of transformers: when was a silent fault born, and when did it die?

    python -m benchmarks.time_machine --listed             the faults of time_machine.toml, before and after their fix
    python -m benchmarks.time_machine --minutes 60         every text class of the last patch of every minor release
    python -m benchmarks.time_machine --releases 5.8.0     other patches, to bracket a birth or a death
    python -m benchmarks.time_machine --kernels eager      one kernel only, for twice as many classes in the same time
    python -m benchmarks.time_machine --table              write the table of what is there so far

Every release is installed into a folder of its own, beside the torch that is here. Models are built small and audited
as in :mod:`benchmarks.audit_in_the_wild`. Each audit is one line of docs/results/time-machine.jsonl, so that the same
command again goes on where it stopped; the table is docs/results/time-machine.txt.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from benchmarks.audit_in_the_wild import KERNELS, RESULTS, audited, in_a_child
from benchmarks.audit_in_the_wild import verdict as meaning
from benchmarks.small_models import classes

ROOT = Path(__file__).parent.parent
FAULTS = Path(__file__).with_suffix(".toml")
KEPT, TABLE = RESULTS / "time-machine.jsonl", RESULTS / "time-machine.txt"
FOLDER = ROOT / ".venv" / "peers" / "transformers"
FIRST = Version("4.48")
SWEPT = 30  # classes without settings from which on a release counts as swept, not as asked about listed faults only
PINNED = ("tokenizers", "huggingface-hub", "safetensors")  # transformers refuses to be imported with others
HUB_NEEDS = ("httpx", "httpcore", "h11", "anyio", "sniffio", "typer-slim")  # of huggingface-hub 1
Row = dict[str, Any]
Task = tuple[str, str, dict[str, Any]]  # class, kernel, what is added to the small configuration


def known_releases() -> list[str]:
    """Every release of transformers that pip can install."""
    said = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "transformers"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    found = re.search(r"Available versions: (.*)", said)
    return found[1].split(", ") if found else []


def last_patches(releases: Iterable[str]) -> list[str]:
    """The last patch of every minor release from the first on that is asked, oldest first.

    >>> last_patches(["5.0.0", "4.48.10", "4.48.9", "4.47.1", "5.1.0rc1"])
    ['4.48.10', '5.0.0']
    """
    versions = sorted(v for v in map(Version, releases) if v >= FIRST and not v.is_prerelease)
    return [str(v) for v in {v.release[:2]: v for v in versions}.values()]


def install(release: str, folder: Path) -> Path:
    """The release in a folder of its own, with those requirements that are not met here."""
    target = folder / release
    if not (target / "transformers").is_dir():
        _pip(target, [f"transformers=={release}"])
    missing = [r for r in requirements(target) if not list(target.glob(f"{r.name.replace('-', '_')}-*"))]
    if missing:
        hub_1 = release.startswith("5") and any(r.name == "huggingface-hub" for r in missing)
        _pip(target, [*map(str, missing), *(HUB_NEEDS if hub_1 else ())])
    return target


def requirements(target: Path) -> list[Requirement]:
    """What the release pins and this environment has in another version."""
    (about,) = target.glob("transformers-*.dist-info/METADATA")
    lines = [line.partition(":")[2].strip() for line in about.read_text().splitlines() if "Requires-Dist:" in line]
    pinned = [Requirement(line) for line in lines if "extra ==" not in line]
    return [r for r in pinned if r.name in PINNED and not r.specifier.contains(importlib.metadata.version(r.name))]


def _pip(target: Path, wanted: list[str]) -> None:
    print(f"installing {', '.join(wanted)}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(target)]
    subprocess.run([*command, *wanted], check=True)


def faults() -> list[dict[str, Any]]:
    """The list that was written before any run."""
    return list(tomllib.loads(FAULTS.read_text())["fault"])


def listed_tasks() -> dict[str, list[Task]]:
    """By release: the classes of the faults that a property can show, before and after the fix."""
    found: dict[str, list[Task]] = {}
    for fault in faults():
        for release in (fault["before"], fault["after"]) if "property" in fault else ():
            for name in fault["classes"]:
                task = (name, kernel_of(fault), fault.get("settings", {}))
                if task not in found.setdefault(release, []):
                    found[release].append(task)
    return found


def kernel_of(fault: dict[str, Any]) -> str:
    return str(fault.get("kernels", ["eager"])[0])


def read() -> list[Row]:
    """What is known so far; of two lines about one thing the later holds."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return list({key(row): row for row in map(json.loads, lines)}.values())


def key(row: Row) -> tuple[str, str, str, str]:
    return row["release"], row["class"], row["kernel"], json.dumps(row["settings"], sort_keys=True)


def run(release: str, folder: Path, tasks: list[Task] | None, seconds: float, kernels: Iterable[str] = KERNELS) -> None:
    """Audit classes of one release in a process that sees it first; no tasks: every text class."""
    paths = [str(install(release, folder)), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in paths if p), "TRANSFORMERS_OFFLINE": "1"}
    command = [sys.executable, "-m", "benchmarks.time_machine", "--inside", release, "--minutes", str(seconds / 60)]
    command += ["--kernels", *kernels]
    done = subprocess.run(command, input=json.dumps(tasks), text=True, env=environment, cwd=ROOT)
    if done.returncode:
        print(f"{release} could not be run here (exit {done.returncode})", file=sys.stderr)


def inside(release: str, tasks: list[Task] | None, minutes: float, kernels: Iterable[str]) -> None:
    """In the process of one release: a line as soon as it is known."""
    import transformers

    assert transformers.__version__ == release, f"{transformers.__version__} was imported, not {release}"
    until = time.monotonic() + 60 * minutes
    configs = dict(classes())
    wanted = tasks if tasks is not None else [(name, kernel, {}) for name in configs for kernel in kernels]
    done = {key(row) for row in read()}
    audited("LlamaForCausalLM", "LlamaConfig", "eager")  # imports what the children share
    for number, (name, kernel, settings) in enumerate(wanted, 1):
        about = {"release": release, "class": name, "kernel": kernel, "settings": settings}
        if key(about) in done or time.monotonic() > until:
            continue
        row = about | in_a_child(name, configs.get(name, ""), kernel, settings)
        with KEPT.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(f"{release} {number}/{len(wanted)} {name} {kernel}: {summary(row)}", file=sys.stderr, flush=True)


def summary(row: Row) -> str:
    """What an audit said, in a few words."""
    if row["outcome"] != "audited":
        return f"{row['outcome']}: {row.get('why', '')}"
    return "fails " + ", ".join(sorted({f[0] for f in row["failed"]})) if row["failed"] else "no failure"


def fails(row: Row | None, prop: str) -> bool | None:
    """Whether an audit fails the property; None where it was not made."""
    if row is None or row["outcome"] != "audited":
        return None
    return any(failure[0] == prop for failure in row["failed"])


def verdict(fault: dict[str, Any], name: str, rows: dict[Any, Row]) -> str:
    """What became of a listed fault in one of its classes: caught, missed, still failing after the fix, or not run."""
    settings = fault.get("settings", {})
    seen = [{"release": fault[when], "class": name, "kernel": kernel_of(fault), "settings": settings}
            for when in ("before", "after")]  # fmt: skip
    before, after = (rows.get(key(about)) for about in seen)
    failed = fails(before, fault["property"]), fails(after, fault["property"])
    if None in failed:
        return "not run: " + "; ".join(f"{about['release']} {summary(row) if row else 'not asked'}"
                                       for about, row in zip(seen, (before, after), strict=True))  # fmt: skip
    if failed == (True, True):
        gone = checks(before, fault["property"]) - checks(after, fault["property"])
        left = ", ".join(sorted(checks(after, fault["property"])))
        return f"caught: {', '.join(sorted(gone))} (left: {left})" if gone else "fails after the fix too"
    return {(True, False): "caught", (False, False): "missed", (False, True): "fails after the fix only"}[failed]


def checks(row: Row | None, prop: str) -> set[str]:
    """The checks of a property that an audit fails."""
    return {failure[1] for failure in row["failed"] if failure[0] == prop} if row else set()


def lives(rows: list[Row]) -> list[tuple[str, str, str, str, str]]:
    """(class, kernel, property, born, died) of every failure; "by RELEASE": it fails in the first that was audited."""
    found = []
    ok = sorted(
        (r for r in rows if r["outcome"] == "audited" and not r["settings"]), key=lambda r: Version(r["release"])
    )
    for name, kernel, prop in sorted({(r["class"], r["kernel"], f[0]) for r in ok for f in r["failed"]}):
        story = [(r["release"], bool(fails(r, prop))) for r in ok if (r["class"], r["kernel"]) == (name, kernel)]
        found += [(name, kernel, prop, born, died) for born, died in spans(story)]
    return found


def spans(story: list[tuple[str, bool]]) -> list[tuple[str, str]]:
    """Births and deaths in a row of releases, oldest first.

    >>> spans([("1", False), ("2", True), ("3", True), ("4", False), ("5", True)])
    [('2', '4'), ('5', 'alive in 5')]
    """
    found: list[tuple[str, str]] = []
    born = ""
    for number, (release, failed) in enumerate(story):
        if failed and not born:
            born = release if number else f"by {release}"
        elif born and not failed:
            found, born = [*found, (born, release)], ""
    return [*found, (born, f"alive in {story[-1][0]}")] if born else found


def table() -> str:
    """The page of results."""
    rows = read()
    by_key = {key(row): row for row in rows}
    shown = [fault for fault in faults() if "property" in fault]
    told = [(fault, name, verdict(fault, name, by_key)) for fault in shown for name in fault["classes"]]
    lines = [*_figures(rows, told), "", *sweep_figures(rows), "", "Listed faults that a property can show:"]
    lines += [f"  {f['issue']:20} {name:36} {f['property']:10} {f['before']:>7} to {f['after']:7} {said}"
              for f, name, said in told]  # fmt: skip
    lines += ["", "Notes, added after the run (the list itself was not changed):"]
    lines += [f"  {f['issue']:20} {f['note']}" for f in faults() if "note" in f]
    lines += ["", "Listed faults that no property can show, and were not run:"]
    lines += [f"  {f['issue']:20} {f['why_not']}" for f in faults() if "why_not" in f]
    lines += ["", "Every failure, with the first audited release that has it and the first that has it no more",
              "(releases between two audited ones were not looked at):"]  # fmt: skip
    lines += [
        f"  {name:36} {kernel:6} {prop:12} born {born:10} died {died}" for name, kernel, prop, born, died in lives(rows)
    ]
    return "\n".join([*lines, "", "Not run:", *_not_run(rows)]) + "\n"


def _figures(rows: list[Row], told: list[tuple[dict[str, Any], str, str]]) -> list[str]:
    """What was run, and how many of the listed faults were caught."""
    ok = [row for row in rows if row["outcome"] == "audited"]
    run_faults = {f["issue"] for f, _, said in told if not said.startswith("not run")}
    caught = {f["issue"] for f, _, said in told if said.startswith("caught")}
    partly = {f["issue"] for f, _, said in told if f["issue"] in caught and not said.startswith("caught")}
    answered = [said.startswith("caught") for _, _, said in told if not said.startswith("not run")]
    return [
        "Time machine: releases of transformers, small random models, CPU.",
        f"{len(rows):,} combinations of release, class and kernel were tried, {len(ok):,} audited, "
        f"in {len({row['release'] for row in rows})} releases.",
        f"Of {len(faults())} listed faults a property should show {len({f['issue'] for f, _, _ in told})}; "
        f"{len(run_faults)} of these could be run before and after the fix, and {len(caught)} were caught "
        f"({len(partly)} of them not in every class). By class: {sum(answered)} of {len(answered)} caught. "
        "The first run, before the audit was mended: time-machine-first.txt.",
    ]


def sweep_figures(rows: list[Row]) -> list[str]:
    """What the sweep over all text classes found: pairs of class and release, and what their failures mean."""
    plain = [row for row in rows if not row["settings"]]
    classes_of = {r: {row["class"] for row in plain if row["release"] == r} for r in {row["release"] for row in plain}}
    swept = [row for row in plain if len(classes_of[row["release"]]) >= SWEPT]
    pairs: dict[tuple[str, str], set[str]] = {}
    for row in (row for row in swept if row["outcome"] == "audited"):
        kinds = {meaning(row["class"], failure)[0] for failure in row["failed"]}
        pairs.setdefault((row["release"], row["class"]), set()).update(kinds)
    clean = sum(not kinds for kinds in pairs.values())
    wrong = sum(kinds == {"ours"} for kinds in pairs.values())
    beside = sum("ours" in kinds and len(kinds) > 1 for kinds in pairs.values())
    unknown = sum("open" in kinds for kinds in pairs.values())
    counts = Counter(kind for kinds in pairs.values() for kind in kinds)
    tried = len({(row["release"], row["class"]) for row in swept})
    releases = Counter(release for release, _ in pairs)
    audited_in = ", ".join(f"{r} {releases[r]}" for r in sorted(releases, key=Version))
    return [
        f"Sweep over text classes: {tried:,} pairs of class and release were tried, {len(pairs):,} audited "
        f"({audited_in}).",
        f"{clean:,} showed no failure, {len(pairs) - clean:,} did: "
        + ", ".join(f"{kind} {n}" for kind, n in counts.most_common()) + " (one pair may have several kinds).",
        f"Healthy pairs that were accused: {wrong} of {clean + wrong:,}"
        + (f", {100 * wrong / (clean + wrong):.1f} %" if clean + wrong else "")
        + f"; {beside} more were accused wrongly beside a true failure, {unknown} have one that was not looked into.",
    ]  # fmt: skip


def _not_run(rows: list[Row]) -> list[str]:
    return [f"  {r['release']} {r['class']} {r['kernel']}: {summary(r)}" for r in rows if r["outcome"] != "audited"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--listed", action="store_true", help="only the faults of time_machine.toml")
    parser.add_argument("--releases", nargs="+", help="these and no others")
    parser.add_argument("--kernels", nargs="+", default=KERNELS, choices=KERNELS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where releases are installed")
    parser.add_argument("--table", action="store_true", help="write the table and run nothing")
    parser.add_argument("--inside", metavar="RELEASE", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        return inside(chosen.inside, json.load(sys.stdin), chosen.minutes, chosen.kernels)
    until = time.monotonic() + 60 * chosen.minutes
    listed = listed_tasks()
    wanted = chosen.releases or (sorted(listed, key=Version) if chosen.listed else last_patches(known_releases()))
    for release in wanted if not chosen.table else ():
        if (left := until - time.monotonic()) > 0:
            run(release, chosen.folder, listed.get(release, []) if chosen.listed else None, left, chosen.kernels)
    TABLE.write_text(table())
    print(TABLE.read_text().split("Listed faults that no")[0])


if __name__ == "__main__":
    main()
