"""The report: the marking against a slow oracle, the pictures well-formed, the page whole, offline and honest."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.translator.reports import report
from regard.translator.reports.pieces import (
    Dot,
    Line,
    Point,
    attention_map,
    cloud,
    curves,
    dots,
    log_ticks,
    nice_ticks,
)
from regard.translator.reports.run_sections import common_subsequence, mark
from regard.translator.runs.files import BEST
from regard.translator.runs.records import LOG
from regard.translator.studies.comparison import compare, compare_runs
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import train
from toy_translator import StopError, stop_at, tiny, write_corpus

torch.set_num_threads(1)

QUICK = ["epochs=2", "width=8", "feed_forward=11", "batch=16"]
SPACE = "[model]\nwidth = [4, 8]\n[training]\nlearning_rate = {low = 1e-3, high = 1e-1, log = true}\n"
sentences = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, a comparison and a study."""
    folder = tmp_path_factory.mktemp("report")
    settings = tiny(write_corpus(folder / "toy"), *QUICK)
    train(settings, folder / "one", command="regard translator train x.toml --out <one>")
    compare(settings, ["learned", "positions=none"], folder / "compared", seeds=2, command="regard translator compare")
    (folder / "space.toml").write_text(SPACE)
    tune(settings, folder / "tuned", trials=3, space=folder / "space.toml", pruner="none", confirm=2)
    return folder, settings


class _Checker(HTMLParser):
    """Every tag closed by its own, and everything that could ask the network."""

    VOID = frozenset({"meta", "br", "img", "link", "line", "rect", "circle", "path", "polygon"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.requests: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID or tag in ("rect", "circle", "polygon"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data", "action", "xlink:href") or tag in ("script", "link", "iframe", "img"):
                self.requests.append(f"{tag} {name}={value}")
            if name == "href":
                self.links.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag


def checked(path) -> str:
    """The page's text, once it is sure to be well-formed and to ask for nothing."""
    text = path.read_text(encoding="utf-8")
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.requests == []
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert not re.search(r"https?://|url\(|@import", text)
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.S):
        ET.fromstring(svg)
    return text


def slow_longest(a, b) -> int:
    """The longest common subsequence by trying them all."""
    shorter, longer = sorted((list(a), list(b)), key=len)
    for size in range(len(shorter), 0, -1):
        for some in itertools.combinations(shorter, size):
            rest = iter(longer)
            if all(word in rest for word in some):
                return size
    return 0


@given(sentences, sentences)
def test_marks_against_a_slow_oracle(a, b):
    kept = common_subsequence(a, b)
    assert len(kept) == slow_longest(a, b)
    assert all(a[i] == b[j] for i, j in kept)
    assert all(i < k and j < m for (i, j), (k, m) in itertools.pairwise(kept))
    marked = mark(a, b)
    assert [w for w, _ in marked.translation] == a
    assert [w for w, _ in marked.reference] == b
    moved_here = sorted(w for w, m in marked.translation if m == "moved")
    assert moved_here == sorted(w for w, m in marked.reference if m == "moved")  # what moved is in both
    wrong = {w for w, m in marked.translation if m == "wrong"}
    assert not wrong & {w for w, m in marked.reference if m == "wrong"}  # or it would have moved
    assert (marked.share == 1) == (a == b and bool(a))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_inside_and_are_few(low, span):
    high = low + span
    ticks = nice_ticks(low, high)
    slack = (high - low) * 1e-6 + abs(low) * 1e-9
    assert all(low - slack <= t <= high + slack for t in ticks)
    assert len(ticks) <= 7
    positive = log_ticks(span, span * 30)
    assert 2 <= len(positive) <= 9
    assert all(span * 0.999 <= t <= span * 30.001 for t in positive)


def test_pictures_are_well_formed_and_escape_what_they_are_told():
    name = '<b>&"x"</b>'
    pictures = [
        curves([Line(name=name, y=[3.0, 2.0], members=[[3.0, 2.1]])], title=name, x_label=name, y_label=name),
        curves([Line(name="one epoch", y=[3.0])], title="t", x_label="x", y_label="y"),
        curves([Line(name="flat", y=[2.0, 2.0, math.inf])], title="t", x_label="x", y_label="y"),
        dots(
            [(name, [Dot(value=1, low=0.5, high=2), Dot(value=3)])], title=name, names=[name, "b"], note=lambda i: name
        ),
        dots([("same", [Dot(value=0.0)])], title="t", zero=True),
        cloud([Point(x=1, y=2, kind=k, title=name) for k in range(5)], title=name, x_label=name, y_label=name),
        attention_map([[0.2, 0.8]], [name], ["a", "b"], title=name),
    ]
    for picture in pictures:
        root = ET.fromstring(picture)
        assert "class=" not in picture  # a notebook has none of our styles
        numbers = [v for e in root.iter() for k, v in e.attrib.items() if k in ("x", "y", "cx", "cy", "x1", "y1", "d")]
        assert not any("nan" in v or "inf" in v for v in numbers)


def test_dots_are_where_their_values_are():
    """Equal steps in value are equal steps on the page, and the interval ends where it should."""
    root = ET.fromstring(dots([(str(v), [Dot(value=v, low=v - 1, high=v + 1)]) for v in (10, 20, 30)], title="t"))
    centres = [float(e.get("cx")) for e in root.iter("circle")]
    assert centres[1] - centres[0] == pytest.approx(centres[2] - centres[1], abs=0.2)
    scale = (centres[2] - centres[0]) / 20
    whiskers = [e for e in root.iter("line") if e.get("stroke-width") == "1.8"]
    spans = [float(e.get("x2")) - float(e.get("x1")) for e in whiskers]
    assert spans == pytest.approx([2 * scale] * 3, abs=0.2)


@pytest.mark.parametrize("name", ["learned", "source=word2vec:skipgram+frozen=true", "source=word2vec:train+" * 4])
def test_long_names_are_set_smaller_and_stay_inside(name):
    pictures = (
        dots([(name, [Dot(value=1.0)])], title="t"),
        curves([Line(name=name, y=[3.0, 2.0])], title="t", x_label="x", y_label="y"),
    )
    for picture in pictures:
        (label,) = [e for e in ET.fromstring(picture).iter("text") if e.text == name]
        wide, x = len(name) * float(label.get("font-size")) * 0.6, float(label.get("x"))
        left, right = (x - wide, x) if label.get("text-anchor") == "end" else (x, x + wide)
        assert 0 <= left < right <= 720
        assert wide < 360


def test_a_legend_of_many_names_takes_several_lines():
    names = [f"source=word2vec:train+seed={i}" for i in range(9)]
    root = ET.fromstring(dots([("all", [Dot(value=float(i)) for i in range(9)])], title="t", names=names))
    labels = [e for e in root.iter("text") if e.text in names]
    assert [e.text for e in labels] == names
    places = [(float(e.get("y")), float(e.get("x"))) for e in labels]
    assert places == sorted(places)
    assert len({y for y, _ in places}) > 2
    assert all(x + len(names[0]) * 12 * 0.6 < 720 for _, x in places)
    row = next(float(e.get("y")) for e in root.iter("text") if e.text == "all")
    assert max(y for y, _ in places) < row


def test_attention_is_darker_for_more():
    root = ET.fromstring(attention_map([[0.0, 0.5, 1.0]], ["r"], list("abc"), title="t"))
    shades = [int(e.get("fill")[1:3], 16) for e in root.iter("rect")]
    assert shades == sorted(shades, reverse=True)
    assert shades[0] > 240
    assert shades[2] == 0


@pytest.mark.slow
def test_everything_on_one_page(made, tmp_path):
    folder, _ = made
    got = report([folder / "one", folder / "compared", folder / "tuned"], tmp_path / "r.html", command="regard report")
    text = checked(tmp_path / "r.html")
    assert got.size == (tmp_path / "r.html").stat().st_size
    assert str(got).startswith(f"{tmp_path / 'r.html'}: 1 run, 1 comparison, 1 study, ")
    for wanted in [
        "Learning curve", "BLEU by source length", "Translations, from the best to the worst", "Attention:",
        "Differences, paired by seed", "What mattered", "Default beside best, on fresh seeds",
        "Everything that was tried", "[vocabulary]", "regard translator train x.toml --out &lt;one&gt;",
        "regard translator compare", "sha256",
    ]:  # fmt: skip
        assert wanted in text, wanted
    epochs = [json.loads(line) for line in (folder / "one" / LOG).read_text().splitlines()]
    best = min(e["perplexity"] for e in epochs if e["event"] == "epoch")
    assert f"<b>{best:.2f}</b><span>best validation perplexity" in text


def test_it_starts_with_its_conclusion_and_is_dark_on_screens_only(made, tmp_path):
    folder, out = made[0], tmp_path / "page.html"
    report([folder / "tuned", folder / "compared", folder / "one"], out)
    page = out.read_text(encoding="utf-8")
    said = re.findall(r'<p class="conclusion">(.*?)</p>', page)
    assert said[0].startswith("The best of ")
    assert re.search(r"translates .* with BLEU \d+\.\d and \d+\.\d% of the sentences exactly", said[-1])
    assert page.index('class="conclusion"') < page.index("<nav>") < page.index("<h2")
    assert "@media screen and (prefers-color-scheme: dark)" in page


def test_labels_of_the_built_in_corpus_are_shown(tmp_path):
    from regard.translator.runs.settings import load_settings

    changes = ["data.size=120", "epochs=1", "width=8", "feed_forward=8", "heads=1", "head_width=4", "threads=1"]
    train(load_settings("builtin", changes=changes), tmp_path / "run")
    report([tmp_path / "run"], tmp_path / "r.html")
    text = checked(tmp_path / "r.html")
    assert "BLEU by phenomenon" in text
    assert "separable verb" in text


@pytest.mark.slow
def test_runs_that_compare_are_compared(made, tmp_path):
    folder, _ = made
    runs = sorted((folder / "compared" / "runs").iterdir())
    report(runs, tmp_path / "r.html")
    text = checked(tmp_path / "r.html")
    assert "All runs" in text
    assert "Differences, paired by seed" in text
    found = compare_runs(runs)
    rows = text.split("Differences, paired by test sentence</h3>")[1].split("</table>")[0].split("<tr>")[2:]
    assert len(rows) == len(found.bootstrap.differences) == 3
    for row, d in zip(rows, found.bootstrap.differences, strict=True):
        digits = 4 if "character" in d.measure else 2
        assert f"<td>{d.measure}</td>" in row
        assert f">{d.difference:+.{digits}f}</td><td" in row
        assert f">{d.low:+.{digits}f} to {d.high:+.{digits}f}</td>" in row


@pytest.mark.slow
def test_runs_that_do_not_compare_are_listed_with_the_reason(made, tmp_path):
    folder, settings = made
    train(settings.with_changes(["longest=4"]), tmp_path / "shorter")
    report([folder / "one", tmp_path / "shorter"], tmp_path / "r.html")
    text = checked(tmp_path / "r.html")
    assert "Not compared: " in text
    assert "trained and validated on different data (of up to 6 and 4 tokens)" in text
    assert "Differences, paired by seed" not in text


def test_runs_of_different_tokens_are_compared_without_perplexity(made, tmp_path):
    folder, settings = made
    train(settings.with_changes(["vocabulary.minimum_frequency=40"]), tmp_path / "smaller")
    report([folder / "one", tmp_path / "smaller"], tmp_path / "r.html")
    text = checked(tmp_path / "r.html")
    together = text.split(">All runs</h2>")[1].split("</h2>")[0]
    assert "a smaller vocabulary alone lowers perplexity" in together
    assert "NLL per character" in together
    assert '<th class="n">perplexity</th>' not in together
    assert "Learning curves" not in together


def test_an_unfinished_run_says_so(made, tmp_path):
    _, settings = made
    with pytest.raises(StopError):
        train(settings, tmp_path / "half", watch=stop_at(6))
    report([tmp_path / "half"], tmp_path / "r.html")
    assert "This run is not finished: 1 of 2 epochs are done." in checked(tmp_path / "r.html")
    with pytest.raises(StopError):
        train(settings, tmp_path / "begun", watch=stop_at(1))
    with pytest.raises(InputError, match="has no finished epoch yet; go on with its train command"):
        report([tmp_path / "begun"], tmp_path / "r2.html")


def test_data_that_moved_is_noted_and_the_rest_shown(tmp_path):
    data = write_corpus(tmp_path / "toy")
    train(tiny(data, *QUICK), tmp_path / "run")
    data.rename(tmp_path / "away")
    got = report([tmp_path / "run"], tmp_path / "r.html")
    assert "not scored. There is no corpus" in got.notes[0]
    text = checked(tmp_path / "r.html")
    assert "Not scored: There is no corpus" in text
    assert "Learning curve" in text
    (tmp_path / "away").rename(data)
    with open(data / "train.de", "a") as de, open(data / "train.en", "a") as en:
        de.write("ein hund\n")
        en.write("a dog\n")
    got = report([tmp_path / "run"], tmp_path / "r.html", replace=True)
    assert "has other data now than when" in got.notes[0]


def damaged(made, tmp_path, what):
    shutil.copytree(made[0] / "one", tmp_path / "bad")
    what(tmp_path / "bad")
    return tmp_path / "bad"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda f: (f / "run.json").write_text("{"), r"run\.json is damaged"),
        (lambda f: (f / "run.json").write_text("[]"), r"run\.json does not describe a run"),
        (lambda f: (f / "settings.toml").write_text("["), r"settings\.toml is not valid TOML"),
        (lambda f: (f / "vocabulary.json").unlink(), r"There is no .*vocabulary\.json"),
        (lambda f: (f / BEST).write_bytes((f / BEST).read_bytes()[:-9]), r"best\.safetensors is damaged, cut short"),
        (lambda f: (f / "last.safetensors").write_bytes(b"x"), r"last\.safetensors is damaged, cut short"),
    ],
)
def test_a_damaged_run_is_refused_and_nothing_written(made, tmp_path, what, message):
    with pytest.raises(InputError, match=message):
        report([damaged(made, tmp_path, what)], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_folders_and_pages_refused(made, tmp_path):
    folder, _ = made
    with pytest.raises(InputError, match="There is nothing to report on"):
        report([], tmp_path / "r.html")
    with pytest.raises(InputError, match=r"There is no .*missing; give folders that train"):
        report([tmp_path / "missing"], tmp_path / "r.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty is empty; give folders that train"):
        report([tmp_path / "empty"], tmp_path / "r.html")
    with pytest.raises(InputError, match="toy is not a folder of ours"):
        report([folder / "toy"], tmp_path / "r.html")
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(InputError, match=r"r\.html is there already; give another --out, or --replace"):
        report([folder / "one"], tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "mine"
    with pytest.raises(InputError, match="give a file in a folder that exists"):
        report([folder / "one"], tmp_path / "nowhere" / "r.html")


@pytest.mark.slow
def test_the_command_line(made, tmp_path):
    folder, _ = made
    words = [sys.executable, "-m", "regard", "translator", "report", str(folder / "one"), "--out", "r.html"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["page"] == "r.html"
    again = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
