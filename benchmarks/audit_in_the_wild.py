"""Audit every text model class of the installed transformers that can be built small from its configuration.

    python -m benchmarks.audit_in_the_wild --minutes 30          as many classes as fit; the same again goes on
    python -m benchmarks.audit_in_the_wild --again "Bart|T5"     forget what is known of some classes, then go on
    python -m benchmarks.audit_in_the_wild --table               write the table of what is there so far

Every class is built with random weights (:mod:`benchmarks.small_models`), in eager and in sdpa, and audited in a child
of one process that has imported everything before: a second or two each, and a class that dies takes only its child
with it. What was done is kept as one line of JSON for every class in docs/results/audit-in-the-wild.jsonl; the table
is docs/results/audit-in-the-wild.txt, its figures for the page audit-in-the-wild-figures.txt. What the failures mean
was looked into by hand: audit_in_the_wild.toml.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import select
import signal
import time
import tomllib
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.small_models import build, classes

RESULTS = Path(__file__).parent.parent / "docs" / "results"
KEPT, TABLE = RESULTS / "audit-in-the-wild.jsonl", RESULTS / "audit-in-the-wild.txt"
FIGURES = RESULTS / "audit-in-the-wild-figures.txt"  # a part of docs/models-wild.md
VERDICTS = Path(__file__).with_suffix(".toml")
SECONDS = 40  # of CPU time, for one class
MEMORY = 8 << 30  # bytes of address space, for one class
BACKSTOP = 1800.0  # seconds by the clock, for one that sleeps
KERNELS = ("eager", "sdpa")


def audited(name: str, config_name: str, attn: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """One line of the results."""
    about: dict[str, Any] = {"class": name, "kernel": attn}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            model = build(name, config_name, attn, settings)
            about["stage"] = "audit"
            found = _audit(model)
        about |= {
            "outcome": "audited",
            "arithmetic": found.arithmetic,
            "failed": [[f.property, f.check, f.sentence, _short(str(f.culprit or ""))] for f in found.failures],
            "notes": [[f.property, f.check, f.sentence] for f in found.findings if f.status == "note"],
            "open": [[f.property, f.check, f.sentence] for f in found.open_questions],
            "passed": sum(f.status == "pass" for f in found.findings),
        }
    except BaseException as error:
        said = " ".join(str(error).split())[:200]
        about |= {"outcome": "not run", "why": f"{type(error).__name__}: {said}"}
    return {**about, "seconds": round(time.process_time(), 1)}


def _audit(model: Any) -> Any:
    """The audit; where a model cannot do without a mask, or with its cache, of an example that says so."""
    import torch

    from regard.errors import InputError
    from regard_models import audit
    from regard_models.inputs.model_input import model_input

    try:
        return audit(model)
    except InputError:
        ids = model_input(model).inputs["input_ids"]
        return audit(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False})


def in_a_child(name: str, config_name: str, attn: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same in a forked child, with limits on its time and memory."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(audited(name, config_name, attn, settings)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = _read(stream, child)
    _, status = os.waitpid(child, 0)
    if said:
        return dict(json.loads(said))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return {"class": name, "kernel": attn, "outcome": "too long", "why": f"more than {SECONDS} s of CPU time"}
    return {"class": name, "kernel": attn, "outcome": "not run", "why": f"it ended the process ({status})"}


def _read(stream: Any, child: int) -> bytes:
    """All that a child says; one that says nothing for too long is ended."""
    parts: list[bytes] = []
    while select.select([stream], [], [], BACKSTOP)[0]:
        if not (part := os.read(stream.fileno(), 1 << 16)):
            return b"".join(parts)
        parts.append(part)
    os.kill(child, signal.SIGKILL)
    return b""


def read() -> list[dict[str, Any]]:
    """What is known so far; of two lines about one thing the later holds."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(r["class"], r["kernel"]): r for r in rows}.values())


def forget(pattern: str | None, *, earlier: bool) -> None:
    """Take out the classes whose name matches, or all rows of an earlier audit, so that they are audited again."""
    kept = [r for r in read() if not (pattern and re.search(pattern, r["class"])) and not (earlier and "earlier" in r)]
    KEPT.write_text("".join(json.dumps(r) + "\n" for r in kept))


def run(minutes: float) -> None:
    """Audit what is not there yet, a line as soon as it is known."""
    until = time.monotonic() + 60 * minutes
    done = {(r["class"], r["kernel"]) for r in read()}
    audited("LlamaForCausalLM", "LlamaConfig", "eager")  # imports what the children share
    for name, config in classes():
        for attn in KERNELS:
            if (name, attn) in done:
                continue
            if time.monotonic() > until:
                return
            line = json.dumps(in_a_child(name, config, attn))
            with KEPT.open("a") as stream:
                stream.write(line + "\n")


@cache
def verdicts() -> list[dict[str, Any]]:
    """What the failures mean: classes (a pattern), property, kind and words."""
    return list(tomllib.loads(VERDICTS.read_text())["verdict"]) if VERDICTS.exists() else []


def verdict(name: str, failure: list[str]) -> tuple[str, str]:
    """Kind and words for a failure of a class: the first that fits."""
    for known in verdicts():
        about = (known["property"], known.get("check", failure[1]))
        if re.search(known["classes"], name) and about == (failure[0], failure[1]):
            return known["kind"], known["words"]
    return "open", "not looked into yet"


def table() -> str:
    """The page of results."""
    import torch
    import transformers

    rows = read()
    ok = [r for r in rows if r["outcome"] == "audited"]
    clean = [r for r in ok if not r["failed"]]
    lines = [
        f"Audit in the wild: transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, CPU, "
        "small models with random weights.",
        tried(rows),
        "",
        "Failures by property (combinations that fail it):",
    ]
    counts = Counter(p for r in ok for p in {f[0] for f in r["failed"]})
    lines += [f"  {prop:12} {n}" for prop, n in counts.most_common()] or ["  none"]
    kinds = kinds_of(ok)
    lines += ["", "What they mean (combinations with a failure of the kind):"]
    lines += [f"  {kind:12} {n}" for kind, n in kinds.most_common()]
    lines += ["", "Each failure:", *_failures(ok), "", "Not run:", *_not_run(rows), "", "Without a failure:"]
    lines += [f"  {name} ({', '.join(kernels)})" for name, kernels in _kernels(clean).items()]
    return "\n".join(lines) + "\n"


def tried(rows: list[dict[str, Any]]) -> str:
    """How many combinations of class and kernel there are, were tried, ran, and failed nothing."""
    ok = [r for r in rows if r["outcome"] == "audited"]
    earlier = sum(bool(r.get("earlier")) for r in ok)
    left = len({(name, attn) for name, _ in classes() for attn in KERNELS} - {(r["class"], r["kernel"]) for r in rows})
    others = f"{left:,} are left" if left else "all there are"
    said = f"{len(rows):,} combinations of class and kernel were tried, {others}. "
    said += f"{len(ok):,} of them, of {len({r['class'] for r in ok}):,} classes, could be built and were "
    said += f"audited; {sum(not r['failed'] for r in ok):,} showed no failure."
    return said + (f" {earlier:,} of the audits were made before the last checks were added." if earlier else "")


def kinds_of(ok: list[dict[str, Any]]) -> Counter[str]:
    """How many combinations have a failure of each kind."""
    return Counter(k for r in ok for k in {verdict(r["class"], f)[0] for f in r["failed"]})


MEANING = {
    "fault": "transformers does not do what it says it does, and does not say so",
    "trap": "known or documented, and silent all the same",
    "meant": "the architecture is so (experts with a capacity, a Fourier transform over all places, picking keys by "
    "top-k)",
    "waste": "harmless: a pooler that runs in every forward and whose output is thrown away",
    "ours": "of our small configurations or of the audit; where the audit could be mended, it was",
}


def figures() -> str:
    """The figures of the page, in Markdown."""
    rows = read()
    kinds = kinds_of([r for r in rows if r["outcome"] == "audited"])
    reasons = Counter(_reason(r) for r in rows if r["outcome"] != "audited")
    lines = [tried(rows), "", "| why a combination did not run | how many |", "|---|---|"]
    lines += [f"| {why} | {n} |" for why, n in reasons.most_common()]
    lines += ["", "| a failure is | which means | combinations |", "|---|---|---|"]
    lines += [f"| {kind} | {MEANING.get(kind, 'not looked into yet')} | {kinds[kind]} |" for kind in (*MEANING, "open")
              if kinds[kind]]  # fmt: skip
    return "\n".join(lines) + "\n"


def _reason(row: dict[str, Any]) -> str:
    """Why a combination did not run, in a few words."""
    why = row.get("why", "")
    for words, short in (
        ("scaled_dot_product_attention", "the class has no sdpa"),
        ("stays large", "it stays large whatever its configuration says"),
        ("CPU time", f"more than {SECONDS} s of CPU time"),
        ("no example can be drawn", "it reads something else than text alone"),
    ):
        if words in why:
            return short
    return "it cannot be built small from its configuration, or does not run so"


def _kernels(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["class"], []).append(row["kernel"])
    return found


def _failures(rows: list[dict[str, Any]]) -> list[str]:
    """Every failure once for each class, with the kernels that show it."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for row in rows:
        for failure in row["failed"]:
            found.setdefault((row["class"], failure[0], failure[1]), []).append((row["kernel"], failure))
    lines = []
    for (name, prop, check), seen in found.items():
        failure = seen[0][1]
        kind, words = verdict(name, failure)
        lines.append(f"  {name}, {' and '.join(k for k, _ in seen)}: {prop}, {check}. {failure[2]}")
        lines += [f"    where: {failure[3]}"] if failure[3] else []
        lines.append(f"    {kind}: {words}")
    return lines


def _not_run(rows: list[dict[str, Any]]) -> list[str]:
    """By reason, with the classes that share it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["outcome"] != "audited":
            why = row.get("why", "").replace(row["class"], "it").partition(" when called with")[0]
            why = why.partition(". Please")[0]
            reasons.setdefault(why, []).append(f"{row['class']} ({row['kernel']})")
    return [f"  {why}\n    {', '.join(names)}" for why, names in reasons.items()]


def _short(where: str) -> str:
    """Paths from the package on."""
    head, found, tail = where.partition("site-packages/")
    return f"{head.rpartition('(')[0]}({tail}" if found else where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--again", metavar="PATTERN", help="classes to audit anew")
    parser.add_argument("--earlier", action="store_true", help="audit anew what an earlier audit found healthy")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.again or chosen.earlier:
        forget(chosen.again, earlier=chosen.earlier)
    if not chosen.table:
        run(chosen.minutes)
    TABLE.write_text(table())
    FIGURES.write_text(figures())
    print(TABLE.read_text().split("Each failure:")[0])


if __name__ == "__main__":
    main()
