"""Comparisons: intervals against textbook numbers, resuming, pairing, and refusing what does not compare."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from processes import PATIENCE
from regard.errors import InputError
from regard.translator.models.run import load_run
from regard.translator.runs.files import json_file, read_json
from regard.translator.runs.records import read_record
from regard.translator.runs.settings import Settings
from regard.translator.scoring.scores import score
from regard.translator.scoring.significance import holm, paired_differences, paired_p, t_interval
from regard.translator.studies.comparison import (
    _check_plan,
    compare,
    compare_runs,
    cpu_seconds_a_run,
    read_variants,
    split_variants,
)
from regard.translator.studies.comparison_record import NLL, PLAN, read_comparison, summarise
from regard.translator.training.loop import train
from regard.translator.training.preparation import prepare
from toy_translator import StopError, stop_at, tiny, write_corpus

torch.set_num_threads(1)

QUICK = ["epochs=1", "width=8", "feed_forward=11", "batch=16"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("comparison") / "toy")


@pytest.fixture(scope="module")
def found(toy):
    """Two ways to place words, three seeds."""
    settings = tiny(toy, *QUICK)
    return settings, compare(settings, ["learned", "positions=none"], toy.parent / "compared", seeds=3, command="x y")


T_QUANTILES = {2: 12.7062, 3: 4.3027, 5: 2.7764}  # 97.5 % of Student's t with one degree fewer: any table


@pytest.mark.parametrize("count", T_QUANTILES)
def test_t_interval_against_a_printed_table(count):
    values = [1.5, -2.0, 4.0, 0.25, 3.0][:count]
    half = T_QUANTILES[count] * statistics.stdev(values) / math.sqrt(count)
    got = t_interval(values)
    assert got.mean == pytest.approx(statistics.mean(values))
    assert got.high - got.mean == pytest.approx(half, rel=1e-4)
    assert got.mean - got.low == pytest.approx(half, rel=1e-4)


def test_t_interval_covers_as_often_as_it_says():
    """Valid and tight: of many samples of 3, the 95 % interval covers the truth in 95 %."""
    draw = np.random.default_rng(0).normal(7.0, 2.0, size=(4000, 3))
    covered = sum(i.low <= 7.0 <= i.high for i in map(t_interval, draw.tolist()))
    assert 0.94 < covered / 4000 < 0.96


def test_intervals_refuse_nothing_and_infinity():
    with pytest.raises(InputError, match="needs one value or more"):
        t_interval([])
    with pytest.raises(InputError, match="needs finite numbers, not inf"):
        t_interval([1.0, math.inf])
    assert t_interval([3.0]).low is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_against_its_definition(p):
    """adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j))."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    want = [0.0] * len(p)
    for rank, i in enumerate(order):
        want[i] = max(min(1.0, (len(p) - k) * p[order[k]]) for k in range(rank + 1))
    assert holm(p) == pytest.approx(want)
    assert all(a >= b for a, b in zip(holm(p), p, strict=True))


def test_paired_p_and_verdicts():
    assert paired_p([1.0]) is None
    assert paired_p([0.0, 0.0]) == 1.0
    assert paired_p([2.0, 2.0]) == 0.0
    values = {"a": [10.0, 12.0, 14.0], "b": [9.0, 11.01, 12.99], "c": [10.1, 11.8, 14.2]}
    ab, ac, _ = paired_differences("perplexity", values)
    assert ab.verdict == "b is better"  # the scatter between seeds cancels in pairs
    assert ab.interval.mean == pytest.approx(-1.0, abs=0.01)
    assert ac.verdict == "within noise"
    (bleu,) = paired_differences("BLEU", {"a": values["a"], "b": values["b"]}, lower_is_better=False)
    assert bleu.verdict == "b is worse"
    (one,) = paired_differences("BLEU", {"a": [1.0], "b": [2.0]})
    assert one.verdict == "one seed: nothing is known of the noise"


def test_a_difference_that_several_looks_explain_is_called_so():
    values = {"a": [0.0, 0.0, 0.0], "b": [1.0, 1.3, 0.7], "c": [0.1, -1.5, 2.0]}  # b - a: t = 5.77, p = 0.029
    first, *_ = paired_differences("perplexity", values)
    assert first.interval.low > 0
    assert first.p == pytest.approx(0.0287, abs=1e-3)
    assert first.holm == pytest.approx(3 * first.p)
    assert first.verdict == "b is worse, but not beyond chance among 3 pairs"


def test_variants_read(toy, tmp_path):
    settings = tiny(toy)
    data = prepare(settings)
    (tmp_path / "english.txt").write_text("".join(f"{w} {i} 1 2\n" for i, w in enumerate(["a", "dog", "man", "sees"])))
    (tmp_path / "german.txt").write_text("".join(f"{w} {i} 1 2\n" for i, w in enumerate(["ein", "hund", "a"])))
    glove, german = (f"glove:{tmp_path / name}.txt" for name in ("english", "german"))
    texts = split_variants(
        f"learned,{german},target={glove},both=word2vec:train+frozen=true,positions=none,word2vec:train"
    )
    with pytest.raises(InputError, match="no word of the source, and a bare name is the input embedding; wrong file"):
        read_variants([glove], settings, data)
    got = read_variants(texts, settings, data)
    assert [v.name for v in got][1:4] == ["glove:german", "target=glove:english", "both=word2vec:train+frozen=true"]
    sides = [(v.settings.embedding.source, v.settings.embedding.target) for v in got]
    assert sides == [
        ("learned", "learned"),
        (german, "learned"),
        ("learned", glove),
        ("word2vec:train", "word2vec:train"),
        ("learned", "learned"),
        ("word2vec:train", "learned"),
    ]
    assert re.search(
        r"for [1-9][0-9.]+% of the source's and [0-9.]+% of the target's .*it is the input embedding", got[1].note
    )
    assert got[3].settings.embedding.frozen
    assert got[4].settings.embedding.positions == "none"
    one_table = settings.with_changes(
        ["model.kind=encoder-decoder", "decoder_layers=1", "vocabulary.joint=true", "model.tied=true"]
    )
    (tied,) = read_variants(["word2vec:train"], one_table, data)
    assert tied.settings.embedding.source == tied.settings.embedding.target == "word2vec:train"


def test_a_finished_run_that_a_name_no_longer_means_is_refused(toy, tmp_path):
    """0.2.0 took a bare name for both sides: its comparisons are read, and not mixed with new runs."""
    settings = tiny(toy, *QUICK)
    old = compare(settings, ["learned", "both=word2vec:train"], tmp_path / "old", seeds=1)
    plan = tmp_path / "old" / PLAN
    named = json.dumps(read_json(plan)).replace("both=word2vec", "word2vec")
    plan.write_bytes(json_file(json.loads(named)))
    for folder in ("runs", "scores"):
        for path in (tmp_path / "old" / folder).glob("both=*"):
            path.rename(path.with_name(path.name.removeprefix("both=")))
    read = read_comparison(tmp_path / "old")
    assert read.entries[1].measures == old.entries[1].measures
    with pytest.raises(InputError, match=r"other settings \(asked for, there: embedding.target: 'learned', 'word2vec"):
        compare(settings, ["learned", "word2vec:train"], tmp_path / "old", seeds=1)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "nothing to compare"),
        (["learned", "learned"], "'learned' is the same embedding as 'learned'; name every one once"),
        (["fasttext"], "must be learned, glove:FILE"),
        (["positions=sideways"], r"embedding\.positions must be one of"),
        (["glove:/nowhere/x.txt"], r"There is no file .*x\.txt. with GloVe vectors"),
    ],
)
def test_variants_refused(toy, texts, message):
    settings = tiny(toy)
    with pytest.raises(InputError, match=message):
        read_variants(texts, settings, prepare(settings))


@pytest.mark.slow
def test_the_runs_are_ordinary_and_the_numbers_theirs(found):
    _, result = found
    assert [e.name for e in result.entries] == ["learned", "positions=none"]
    for entry, positions in zip(result.entries, ["learned", "none"], strict=True):
        records = [read_record(folder) for folder in entry.runs]
        assert [r.settings.training.seed for r in records] == [0, 1, 2]
        assert {r.settings.embedding.positions for r in records} == {positions}
        assert all(r.finished and r.about["command"] == "x y" for r in records)
        assert entry.measures["validation perplexity"].values == [r.best.perplexity for r in records]
    scores = json.loads((Path(result.folder) / "scores" / "learned-seed1.json").read_text())
    assert result.entries[0].measures["BLEU"].values[1] == scores["all"]["bleu"]
    gap = result.difference("perplexity", "learned", "positions=none")
    first, second = (e.measures["perplexity"].values for e in result.entries)
    assert gap.interval.values == pytest.approx([b - a for a, b in zip(first, second, strict=True)])
    assert "95 % t-interval over seeds 0, 1, 2" in str(result)
    assert json.loads(result.to_json())["scored_on"] == "the test set of toy (13 pairs)"


def test_a_run_alone_gives_the_same_numbers(found, tmp_path):
    settings, result = found
    alone = train(settings.with_changes(["seed=1"]), tmp_path / "alone")
    assert alone.best.perplexity == result.entries[0].measures["validation perplexity"].values[1]


def test_again_trains_nothing_and_a_seed_more_trains_only_it(found, toy, tmp_path):
    settings, result = found
    lines: list[str] = []
    again = compare(settings, ["learned", "positions=none"], result.folder, seeds=3, say=lines.append)
    assert again.to_json() == result.to_json()
    assert not [line for line in lines if line.startswith(("run ", "scoring "))]
    small = tmp_path / "small"
    compare(settings, ["learned"], small, seeds=1)
    lines.clear()
    more = compare(settings, ["learned", "positions=none"], small, seeds=2, say=lines.append)
    assert sum(line.startswith("run ") for line in lines) == 3
    assert more.entries[0].measures["BLEU"].values == result.entries[0].measures["BLEU"].values[:2]
    with pytest.raises(InputError, match=r"holds a comparison of learned, positions=none with 2 seeds; ask for at"):
        compare(settings, ["learned"], small, seeds=2)


@pytest.mark.slow
def test_stopped_and_resumed_ends_with_the_same_numbers(found, tmp_path):
    settings, result = found
    out = tmp_path / "stopped"
    with pytest.raises(StopError):
        compare(settings, ["learned", "positions=none"], out, seeds=3, watch=stop_at(2))
    with pytest.raises(InputError, match="is not finished: "):
        read_comparison(out)
    resumed = compare(settings, ["learned", "positions=none"], out, seeds=3)
    drop = {"folder", "entries", "command"}
    assert {k: v for k, v in resumed.to_dict().items() if k not in drop} == {
        k: v for k, v in result.to_dict().items() if k not in drop
    }


def test_one_seed_says_so(toy, tmp_path):
    got = compare(tiny(toy, *QUICK), ["learned", "positions=none"], tmp_path / "one", seeds=1)
    assert got.entries[0].measures["BLEU"].low is None
    assert "One seed says nothing about noise" in str(got)


def test_a_setting_that_an_earlier_version_lacked_was_at_its_default(tmp_path):
    settings = Settings()
    plan = {"settings": settings.to_dict()}
    del plan["settings"]["training"]["optimiser"]
    _check_plan(plan, settings, tmp_path)
    with pytest.raises(InputError, match=r"training\.optimiser: asked for 'muon', there 'adamw'"):
        _check_plan(plan, settings.with_changes(["optimiser=muon"]), tmp_path)


def test_other_settings_data_or_folder_are_refused(found, toy, tmp_path):
    settings, result = found
    with pytest.raises(InputError, match=r"other settings \(training\.batch: asked for 5, there 16\)"):
        compare(settings.with_changes(["training.batch=5"]), ["learned", "positions=none"], result.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing").write_text("mine")
    with pytest.raises(InputError, match=rf"is not a comparison: it has no {PLAN}"):
        compare(settings, ["learned"], tmp_path / "other")
    assert (tmp_path / "other" / "thing").read_text() == "mine"
    with pytest.raises(InputError, match="is a file; give another"):
        compare(settings, ["learned"], tmp_path / "other" / "thing")
    with pytest.raises(InputError, match="seeds must be 1 or more, not 0"):
        compare(settings, ["learned"], tmp_path / "new", seeds=0)


def test_other_data_under_the_same_name_is_refused(tmp_path):
    data = write_corpus(tmp_path / "toy")
    settings = tiny(data, *QUICK)
    compare(settings, ["learned"], tmp_path / "out", seeds=1)
    with open(data / "train.de", "a") as de, open(data / "train.en", "a") as en:
        de.write("ein hund\n")
        en.write("a dog\n")
    with pytest.raises(InputError, match="holds a comparison on other data than there is now"):
        compare(settings, ["learned"], tmp_path / "out", seeds=1)


@pytest.mark.slow
def test_finished_runs_compare_as_the_comparison_did(found):
    _, result = found
    got = compare_runs([run for e in result.entries for run in e.runs])
    assert [e.name for e in got.entries] == ["learned", "positions=none"]
    assert [d.interval for d in got.differences] == [d.interval for d in result.differences]


def test_runs_that_do_not_compare_are_refused(found, toy, tmp_path):
    settings, result = found
    run = result.entries[0].runs[0]
    data = tmp_path / "toy2"
    shutil.copytree(toy, data)
    for side, word in (("de", "hund"), ("en", "dog")):
        (data / f"val.{side}").write_text(f"{word} {word}\n")  # the same vocabulary, another validation set
    train(settings.with_changes([f'data.path="{data}"']), tmp_path / "elsewhere")
    with pytest.raises(InputError, match="do not compare: they were trained and validated on different data; compare"):
        compare_runs([run, tmp_path / "elsewhere"])
    train(settings.with_changes(["longest=3"]), tmp_path / "shorter")
    with pytest.raises(InputError, match=r"validated on different data \(of up to 6 and 3 tokens\)"):
        compare_runs([run, tmp_path / "shorter"])
    with pytest.raises(InputError, match="are the same run twice"):
        compare_runs([run, run])
    with pytest.raises(InputError, match="There is no run folder"):
        compare_runs([tmp_path / "missing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is empty; give a folder that train"):
        compare_runs([tmp_path / "empty"])
    with pytest.raises(StopError):
        train(settings.with_changes(["seed=9"]), tmp_path / "half", watch=stop_at(2))
    with pytest.raises(InputError, match="is not finished; give its train command again"):
        compare_runs([tmp_path / "half"])


def test_a_smaller_vocabulary_buys_perplexity_but_no_likelihood(found, tmp_path):
    settings, result = found
    run = result.entries[0].runs[0]
    train(settings.with_changes(["vocabulary.minimum_frequency=32"]), tmp_path / "smaller")
    got = compare_runs([run, tmp_path / "smaller"], samples=50)
    large, small = got.entries
    assert "perplexity" not in large.measures
    assert small.measures[NLL].mean > large.measures[NLL].mean
    assert {d.measure for d in got.differences} == {NLL, "BLEU"}
    assert [d.measure for d in got.bootstrap.differences] == ["BLEU", "chrF", NLL]
    assert got.bootstrap.differences[-1].difference == pytest.approx(
        small.measures[NLL].mean - large.measures[NLL].mean
    )
    assert not any(group.perplexity for group in got.groups)
    text = str(got)
    assert re.search(r"No perplexity is compared: target vocabularies differ \(11 and \d tokens\), and a smaller", text)
    assert got.bleu_signature in text
    assert got.chrf_signature in text
    perplexities = [score(load_run(r), prepare(settings).corpus.test).perplexity for r in (run, tmp_path / "smaller")]
    assert perplexities[1].without_sos < perplexities[0].without_sos  # which is why it is not compared


def test_pieces_and_words_compare_over_the_pairs_that_both_read(found, tmp_path):
    settings, result = found
    run = result.entries[0].runs[0]
    pieces = settings.with_changes(["vocabulary.kind=bpe", "vocabulary.size=30", "seed=5"])
    train(pieces, tmp_path / "pieces")
    got = compare_runs([run, tmp_path / "pieces"], samples=20)
    assert got.differences == []  # other seeds
    both = [score(load_run(r), prepare(settings).corpus.test).likelihood for r in (run, tmp_path / "pieces")]
    assert both[1].pairs < both[0].pairs == 13
    rows = [i for i in range(13) if both[1].nats[i] is not None]
    assert f"NLL per character is of the {len(rows)} of 13 pairs that all of these runs can read." in str(got)
    for entry, one in zip(got.entries, both, strict=True):
        want = sum(one.nats[i] for i in rows) / sum(one.lengths[i] for i in rows)
        assert entry.measures[NLL].mean == pytest.approx(want)
    assert [g.name for g in got.groups] == [g.name for g in result.groups]


def test_runs_that_keep_case_and_runs_that_do_not(found, tmp_path):
    settings, result = found
    train(settings.with_changes(["vocabulary.lowercase=false"]), tmp_path / "cased")
    got = compare_runs([result.entries[0].runs[0], tmp_path / "cased"], samples=20)
    assert "case:lc" in got.bleu_signature
    assert NLL not in got.entries[0].measures
    assert "BLEU and chrF ignore case, because some of these runs do." in str(got)
    assert "some runs write upper and lower case and some do not" in str(got)
    assert [d.measure for d in got.bootstrap.differences] == ["BLEU", "chrF"]
    alone = [score(load_run(r), prepare(settings).corpus.test) for r in (result.entries[0].runs[0], tmp_path / "cased")]
    results = {str(i): [(read_record(result.entries[0].runs[0]), s.to_dict())] for i, s in enumerate(alone)}
    with pytest.raises(InputError, match=r"BLEU and chrF were not counted in the same way \(nrefs"):
        summarise(results, [0], folder="", scored_on="", notes=[])


def test_an_encoder_decoder_beside_the_one_layer_model(found, tmp_path):
    """Folders of one name in two places; the beam is for the one that searches."""
    settings, result = found
    first = Path(result.entries[0].runs[0])
    deep = settings.with_changes(["model.kind=encoder-decoder", "decoder_layers=1", "head_width=4", "width=8"])
    train(deep, tmp_path / first.name)
    got = compare_runs([first, tmp_path / first.name], beam=2, samples=20)
    assert [e.name for e in got.entries] == [str(first), str(tmp_path / first.name)]
    assert got.has("perplexity")
    assert "Runs that search their translations did it with a beam of 2." in got.notes
    want = score(load_run(tmp_path / first.name), prepare(settings).corpus.test, beam=2)
    assert got.entries[1].measures["BLEU"].mean == want.all.bleu
    with pytest.raises(InputError, match="The bootstrap needs 1 draw or more, not 0"):
        compare_runs([first, tmp_path / first.name], samples=0)


def test_scores_of_an_earlier_version_are_read(found, tmp_path):
    _, result = found
    shutil.copytree(result.folder, tmp_path / "old")
    for path in (tmp_path / "old" / "scores").iterdir():
        saved = read_json(path)
        del saved["likelihood"]
        path.write_text(json.dumps(saved))
    got = read_comparison(tmp_path / "old")
    assert NLL not in got.entries[0].measures
    assert got.entries[0].measures["BLEU"] == result.entries[0].measures["BLEU"]
    assert NLL in result.entries[0].measures


def test_a_damaged_score_is_named(found, tmp_path):
    settings, _ = found
    compare(settings, ["learned"], tmp_path / "c", seeds=1)
    (tmp_path / "c" / "scores" / "learned-seed0.json").write_text("{}")
    with pytest.raises(InputError, match=r"learned-seed0\.json is damaged; remove it and give the compare command"):
        read_comparison(tmp_path / "c")


def test_the_estimate_is_of_the_right_size(toy):
    settings = tiny(toy, "epochs=2")
    data = prepare(settings)
    guess = min(cpu_seconds_a_run(settings, data) for _ in range(3))
    spent = train(settings, toy.parent / "estimated", prepared=data).cpu_seconds
    assert spent / 8 < guess < spent * 4  # checkpoints cost a toy more than its training


@pytest.mark.slow
def test_the_command_line(found, tmp_path):
    settings, _ = found
    (tmp_path / "s.toml").write_text(settings.to_toml())

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "regard", "translator", "compare", *words],
            capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=PATIENCE,
        )  # fmt: skip

    done = run("s.toml", "--with", "learned,positions=sinusoidal", "--seeds", "1", "--out", "c", "--json")
    assert done.returncode == 0, done.stderr
    assert [e["name"] for e in json.loads(done.stdout)["entries"]] == ["learned", "positions=sinusoidal"]
    assert "2 of 2 runs to train, about" in done.stderr
    refused = run("s.toml", "--out", "d")
    assert refused.returncode == 2
    assert "--with says what to compare" in refused.stderr
    assert not (tmp_path / "d").exists()
