"""The same model, data and budget with each embedding, several seeds: which differ, and which only seem to.

A comparison is a folder:

| file | what |
|---|---|
| ``comparison.json`` | the settings, variants, seeds and the data's fingerprint |
| ``runs/NAME-seedK/`` | ordinary run folders |
| ``scores/NAME-seedK.json`` | each run's scores on the test set (validation, where there is no test set) |

A comparison that was stopped goes on where it stopped. Two runs of one seed see the same pairs in the same order, so
differences are taken seed by seed; what the order of the data does to both cancels.

What is compared: ways to embed, written in one line each.

| written | means |
|---|---|
| ``learned``, ``word2vec:train``, ``glove:FILE``, ``word2vec:FILE``, ``bert:DIR`` | the input embedding, nothing else |
| ``target=SPEC``, ``both=SPEC``, ``source=SPEC`` | the output layer, both sides, the input once more |
| ``...+frozen=true``, ``...+positions=none`` | and more of the settings' [embedding] section |

A model that is tied has one table for both sides, which a bare name then is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.files import create_folder, write_file
from regard.progress import STOPPING, Notify, duration, ignore
from regard.translator.data.batches import epoch_plan
from regard.translator.data.corpus import Corpus, Pairs
from regard.translator.models.embeddings import initial_vectors
from regard.translator.models.encoder import seed_dropout
from regard.translator.models.own_translator import KIND, OwnCode
from regard.translator.models.run import load_run, uses_search
from regard.translator.models.translation import device_of
from regard.translator.runs.files import is_begun, json_file, lock_folder
from regard.translator.runs.records import Record, check_comparable, is_finished, read_record
from regard.translator.runs.settings import Settings, saved_settings
from regard.translator.scoring.scores import score
from regard.translator.scoring.significance import SAMPLES, SEED, Bootstrap, check_samples, paired_bootstrap
from regard.translator.studies.comparison_record import (
    PLAN,
    Comparison,
    Results,
    read_comparison,
    read_plan,
    shared_nll,
    summarise,
)
from regard.translator.training.loop import Watch, deterministic_algorithms, first_model, train, training_loss
from regard.translator.training.optimisers import build_optimiser
from regard.translator.training.preparation import PreparedData, load_data, prepare


def compare(
    settings: Settings,
    embeddings: Sequence[str],
    out: str | Path,
    *,
    seeds: int = 3,
    watch: Watch | None = None,
    say: Notify | None = None,
    command: str = "",
    own: OwnCode | None = None,
) -> Comparison:
    """Train ``settings`` with each of ``embeddings`` (:mod:`regard.translator.studies.comparison`) and ``seeds`` seeds.

    The first seed is the settings' own, the others follow it. A folder with another comparison is refused; more
    embeddings or more seeds may be added to one. Of somebody's ``own`` model, its own input table is exchanged.
    """
    if seeds < 1:
        raise InputError(f"seeds must be 1 or more, not {seeds}; 3 give an interval.")
    if is_begun(folder := Path(out)):  # a folder that cannot be right is refused before minutes of reading
        _check_plan(read_plan(folder), settings, folder)
    # vectors are read variant by variant: here only the words and the text count, which decide the side of a file
    data = prepare(settings.with_changes(['embedding.source="learned"', 'embedding.target="learned"']))
    variants = read_variants(embeddings, settings, data)
    first = settings.training.seed
    return compare_variants(
        settings, variants, list(range(first, first + seeds)), out, corpus=data.corpus, watch=watch, say=say,
        command=command, own=own,
    )  # fmt: skip


def compare_variants(
    base: Settings,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    *,
    corpus: Corpus | None = None,
    watch: Watch | None = None,
    say: Notify | None = None,
    command: str = "",
    own: OwnCode | None = None,
) -> Comparison:
    """Train and score every variant with every seed into the folder ``out``, then compare; goes on where it stopped."""
    folder, say = Path(out), say or ignore
    corpus = load_data(base) if corpus is None else corpus
    _open(folder, base, variants, seeds, corpus, command)
    with lock_folder(folder):
        for variant in variants:
            if variant.note:
                say(variant.note)
        jobs = [(variant, seed) for seed in seeds for variant in variants]  # whole seeds first
        for variant, seed in jobs:
            _check_finished(_run_folder(folder, variant, seed), _with_seed(variant.settings, seed), variant, own)
        ready = _estimate(folder, jobs, corpus, say, own)
        for number, (variant, seed) in enumerate(jobs, 1):
            run = _run_folder(folder, variant, seed)
            if not is_finished(run):
                say(f"run {number} of {len(jobs)}: {variant.name}, seed {seed}")
                wanted = _with_seed(variant.settings, seed)
                # popped, so that what was prepared for the estimate is let go of after its run
                data = ready.pop(wanted, None) or prepare(wanted, corpus)
                train(wanted, run, prepared=data, watch=watch, command=command, own=own)
        # after all training: the test set is read when nothing can be chosen by it any more
        for variant, seed in jobs:
            _score_once(folder, variant, seed, corpus, say, own)
    return read_comparison(folder)


def compare_runs(
    folders: Sequence[str | Path],
    *,
    beam: int = 1,
    samples: int = SAMPLES,
    seed: int = SEED,
    say: Notify | None = None,
    own: OwnCode | None = None,
    device: str = "auto",
) -> Comparison:
    """Compare finished runs: those that differ in the seed alone are one entry.

    Runs of different data are refused. Where target vocabularies differ, perplexity is left out and the others stand:
    BLEU, chrF, and nats per character. If one run ignores case, BLEU and chrF ignore it for all. Every two entries are
    also compared by a paired bootstrap with ``samples`` draws of the test sentences from ``seed``. Runs that search
    their translations do it with ``beam``. Runs of somebody's ``own`` model open with its code.
    """
    check_samples(samples)
    records, say = [read_record(folder) for folder in folders], say or ignore
    if not records:
        raise InputError("There is nothing to compare; give two run folders or more.")
    check_comparable(records)
    groups = group_by_seed(records)
    corpus = load_data(records[0].settings)
    pairs, scored_on = evaluation_pairs(corpus)
    check_same_data(records[0], corpus)
    lowercase = {r.settings.vocabulary.lowercase for r in records}
    results: Results = {name: [] for name in groups}
    for name, record in ((name, record) for name, members in groups.items() for record in members):
        say(f"scoring {record.folder}")
        run = load_run(record.folder, own=own, device=device)
        scores = score(run, pairs, beam=beam if uses_search(run.settings) else 1, lowercase=any(lowercase))
        results[name].append((record, scores.to_dict()))
    return summarise(
        results,
        sorted({r.settings.training.seed for r in records}),
        folder="",
        scored_on=scored_on,
        notes=[
            *(["BLEU and chrF ignore case, because some of these runs do."] if len(lowercase) > 1 else []),
            *([f"Runs that search their translations did it with a beam of {beam}."] if beam > 1 else []),
        ],
        bootstrap=bootstrap_of(results, pairs, lowercase=any(lowercase), samples=samples, seed=seed),
    )


def bootstrap_of(
    results: Results, pairs: Pairs, *, lowercase: bool, samples: int = SAMPLES, seed: int = SEED
) -> Bootstrap | None:
    """The paired bootstrap between every two variants, from their scored translations; None of a single one."""
    if len(results) < 2:
        return None
    compared, _ = shared_nll(results)
    nats = {name: [scores["likelihood"]["nats"] for _, scores in runs] for name, runs in results.items()}
    return paired_bootstrap(
        {name: [scores["translations"] for _, scores in runs] for name, runs in results.items()},
        pairs.target,
        lowercase=lowercase,
        nats=nats if compared else None,
        characters=next(iter(results.values()))[0][1]["likelihood"]["lengths"],
        samples=samples,
        seed=seed,
    )


def group_by_seed(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs that differ in the seed alone, together; named by their folders."""
    groups: list[list[Record]] = []
    for record in sorted(records, key=lambda r: r.settings.training.seed):
        if not record.finished:
            raise InputError(f"The run in {record.folder} is not finished; give its train command again first.")
        alike = [g for g in groups if _without_seed(g[0].settings) == _without_seed(record.settings)]
        mine = next((g for g in alike if all(r.settings != record.settings for r in g)), None)
        if alike and mine is None:
            raise InputError(f"{record.folder} and {alike[0][0].folder} are the same run twice; leave one out.")
        if mine is None:
            groups.append([record])
        else:
            mine.append(record)
    names = [_common_name(group) for group in groups]
    if len(set(names)) < len(names):  # folders of one name in different places
        names = [str(group[0].folder) for group in groups]
    return dict(zip(names, groups, strict=True))


def evaluation_pairs(corpus: Corpus) -> tuple[Pairs, str]:
    """The test pairs, or the validation pairs where there are none, and how to call them."""
    if corpus.test is not None:
        return corpus.test, f"the test set of {corpus.name} ({len(corpus.test):,} pairs)"
    return corpus.validation, f"the validation set of {corpus.name} ({len(corpus.validation):,} pairs)"


def _open(
    folder: Path, base: Settings, variants: Sequence[Variant], seeds: Sequence[int], corpus: Corpus, command: str
) -> None:
    plan = {
        "settings": base.to_dict(),
        "fingerprint": corpus.fingerprint,
        "scored_on": evaluation_pairs(corpus)[1],
        "seeds": list(seeds),
        "variants": [{"name": v.name, "slug": v.slug, "note": v.note} for v in variants],
        "command": command,
    }
    text = json_file(plan)
    if not is_begun(folder) and create_folder(folder, {PLAN: text}):  # else somebody has begun one in it meanwhile
        return
    old = read_plan(folder)
    _check_plan(old, base, folder)
    if old["fingerprint"] != corpus.fingerprint:
        raise InputError(f"{folder} holds a comparison on other data than there is now; give another --out.")
    missing = [v["name"] for v in old["variants"] if v["name"] not in {w.name for w in variants}]
    if missing or not set(old["seeds"]) <= set(seeds):
        had = ", ".join(v["name"] for v in old["variants"])
        raise InputError(
            f"{folder} holds a comparison of {had} with {len(old['seeds'])} seeds; ask for at least these, or give "
            "another --out."
        )
    # the same comparison may have been asked for by another command line
    if old | {"command": ""} != plan | {"command": ""}:
        write_file(folder / PLAN, text)  # more variants or seeds than before


def _check_plan(plan: dict[str, Any], settings: Settings, folder: Path) -> None:
    for key, (wanted, there) in settings.unequal_values(saved_settings(plan["settings"])).items():
        raise InputError(
            f"{folder} holds a comparison with other settings ({key}: asked for {wanted!r}, there {there!r}); give "
            "another --out."
        )


def _estimate(
    folder: Path, jobs: Sequence[tuple[Variant, int]], corpus: Corpus, say: Notify, own: OwnCode | None
) -> dict[Settings, PreparedData]:
    """Say the CPU time of what is left, from a few steps of each variant; returns what was prepared for that."""
    left = [(v, seed) for v, seed in jobs if not is_finished(_run_folder(folder, v, seed))]
    if not left:
        say(f"all {len(jobs)} runs are there")
        return {}
    seconds: dict[str, float] = {}
    ready: dict[Settings, PreparedData] = {}
    for variant, seed in left:
        if variant.name not in seconds:
            wanted = _with_seed(variant.settings, seed)
            ready[wanted] = prepare(wanted, corpus)
            seconds[variant.name] = cpu_seconds_a_run(wanted, ready[wanted], own=own)
    total = sum(seconds[v.name] for v, _ in left)
    say(f"{len(left)} of {len(jobs)} runs to train, about {duration(total)} of CPU time in all; {STOPPING}")
    return ready


def _check_finished(run: Path, wanted: Settings, variant: Variant, own: OwnCode | None) -> None:
    """Refuse a finished run that is not what its name means now: an earlier version, or another file, trained it."""
    if not is_finished(run):
        return
    record = read_record(run)
    if different := wanted.differences(record.settings):
        raise InputError(
            f"{run} was trained for {variant.name!r} with other settings (asked for, there: {different[0]}); a bare "
            "name is the input embedding alone: say both= or target= for what is there, or give another --out."
        )
    if own is not None and record.about.get("code", {}).get("sha256") != own.digest:
        raise InputError(f"{run} was trained with another {own.path}; give another --out.")


def _score_once(folder: Path, variant: Variant, seed: int, corpus: Corpus, say: Notify, own: OwnCode | None) -> None:
    run = _run_folder(folder, variant, seed)
    path = folder / "scores" / f"{run.name}.json"
    if path.exists():
        return
    say(f"scoring {run.name}")
    opened = load_run(run, own=own, device=variant.settings.training.device)
    scores = score(opened, evaluation_pairs(corpus)[0])
    path.parent.mkdir(exist_ok=True)
    write_file(path, json_file(scores.to_dict()))


def check_same_data(record: Record, corpus: Corpus) -> None:
    """Raise InputError where a run's data is not what it was."""
    if record.about["fingerprint"] != corpus.fingerprint:
        raise InputError(f"{record.settings.data.path} has other data now than when {record.folder} was trained.")


def _run_folder(folder: Path, variant: Variant, seed: int) -> Path:
    (folder / "runs").mkdir(exist_ok=True)
    return folder / "runs" / f"{variant.slug}-seed{seed}"


def _with_seed(settings: Settings, seed: int) -> Settings:
    return replace(settings, training=replace(settings.training, seed=seed))


def _without_seed(settings: Settings) -> Settings:
    """What runs that differ in the seed, or in where they were computed, have in common."""
    return replace(settings, training=replace(settings.training, seed=0, device="auto"))


def _common_name(group: Sequence[Record]) -> str:
    """The folder's name, without the part that numbers the seed."""
    name = str(group[0].folder)
    tail = f"-seed{group[0].settings.training.seed}"
    return Path(name.removesuffix(tail) if len(group) > 1 else name).name


_START = r"(?:learned\b|glove:|word2vec:|bert:|(?:source|target|both|frozen|positions)=)"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to do it: a name, the settings of it, and what was decided on the way."""

    name: str
    settings: Settings
    note: str = ""

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return re.sub(r"[^\w.=-]+", "-", self.name).strip("-.")


def split_variants(text: str) -> list[str]:
    """The variants of ``--with``: commas part them, but a comma inside a file name does not.

    >>> split_variants("learned,target=glove:a,b.txt,positions=none+source=learned")
    ['learned', 'target=glove:a,b.txt', 'positions=none+source=learned']
    """
    return [part.strip() for part in re.split(rf",\s*(?={_START})", text.strip()) if part.strip()]


def read_variants(texts: Sequence[str], settings: Settings, data: PreparedData) -> list[Variant]:
    """The variants that ``texts`` describe, on top of ``settings``; ``data`` decides the side of a file."""
    if not texts:
        raise InputError("There is nothing to compare; give for instance learned,word2vec:train.")
    variants = [_variant(text, settings, data) for text in texts]
    for i, one in enumerate(variants):
        for other in variants[:i]:
            if one.settings == other.settings:
                raise InputError(f"{texts[i]!r} is the same embedding as {other.name!r}; name every one once.")
            if one.slug == other.slug:
                variants[i] = one = Variant(name=f"{one.name} ({i + 1})", settings=one.settings, note=one.note)
    return variants


def _variant(text: str, settings: Settings, data: PreparedData) -> Variant:
    parts = re.split(rf"\+(?={_START})", text)
    changes: dict[str, str] = {}
    bare = ""  # a spec without a side
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not re.fullmatch(_START, f"{key}="):
            changes |= dict.fromkeys(("source", "target") if settings.model.tied else ("source",), part)
            bare = part
        elif key == "both":
            changes |= {"source": value, "target": value}
        else:
            changes[key] = value
    if settings.model.kind == KIND and "positions" in changes:
        raise InputError(f"{text!r}: a model of your own has its own positions; compare its embeddings only.")
    changed = settings.with_changes([f"embedding.{key}={_value(key, value)}" for key, value in changes.items()])
    note = _coverage_note(bare, settings, data) if bare else ""
    return Variant(name="+".join(_short(part) for part in parts), settings=changed, note=note)


def _coverage_note(spec: str, settings: Settings, data: PreparedData) -> str:
    """Of a vector file without a side: that it is for the input, and how much of the text it knows there and there."""
    kind, _, where = spec.partition(":")
    if settings.model.tied or kind in ("learned", "bert") or where == "train":
        return ""
    covered = {side: _coverage(spec, side, settings, data) for side in ("source", "target")}
    if not covered["source"]:
        raise InputError(
            f"{spec} has a vector for no word of the source, and a bare name is the input embedding; wrong file, or "
            f"the other language's: target={spec}?"
        )
    shares = " and ".join(f"{covered[side]:.1%} of the {side}'s" for side in covered)
    return f"{_short(spec)} has vectors for {shares} running words; it is the input embedding, the source's."


def _coverage(spec: str, side: str, settings: Settings, data: PreparedData) -> float:
    words, text = getattr(data, side), getattr(data.corpus.train, side)
    try:
        vectors = initial_vectors(spec, words, text, seed=settings.training.seed, width=settings.model.width)
    except InputError as error:
        if "has a vector for none" in str(error):
            return 0.0
        raise
    return vectors.tokens_covered / max(1, vectors.tokens)


def _value(key: str, value: str) -> str:
    return value if key == "frozen" else json.dumps(value, ensure_ascii=False)


def _short(part: str) -> str:
    """A file by its last name only.

    >>> _short("target=glove:vectors/glove.6B.100d.txt.gz")
    'target=glove:glove.6B.100d'
    """
    head, colon, where = part.rpartition(":")
    if not colon or where == "train":
        return part
    stem = re.sub(r"[.](txt|bin|vec|gz)\b", "", Path(where).name)
    return f"{head}:{stem}"


MEASURED_STEPS = 6


def cpu_seconds_a_run(settings: Settings, data: PreparedData, *, own: OwnCode | None = None) -> float:
    """CPU-seconds that all epochs of ``settings`` will take on this machine, to within a quarter or so.

    Some batches, spread over the first epoch's plan, are trained on; the first is not counted. Validation is
    taken to cost a third of a training step for each batch. Nothing of it is kept.
    """
    s = settings.training
    batches = epoch_plan(data.train, settings, 1)
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, MEASURED_STEPS).astype(int)]
    with deterministic_algorithms(s.threads):
        model = first_model(settings, data, own)
        device = device_of(model)
        optimiser = build_optimiser(settings, model, words=len(data.target))
        spent, tokens = 0.0, 0
        for number, rows in enumerate(chosen):
            batch = data.train.batch(rows).to(device)
            began = time.process_time()
            seed_dropout(model, s.seed, number)
            optimiser.zero_grad(set_to_none=True)
            training_loss(model, batch, s).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            # the first step also warms up caches and allocators
            if number:
                spent, tokens = spent + time.process_time() - began, tokens + len(batch.labels)
    a_token = spent / max(tokens, 1)
    return s.epochs * a_token * (data.train.target_tokens + data.validation.target_tokens / 3)
