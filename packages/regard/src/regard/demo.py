"""The tour: the main verbs on what is built in, run as a newcomer would, ending in one page of pictures."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regard.errors import InputError
from regard.extras import require
from regard.files import write_file
from regard.markup import Html, element, join
from regard.progress import Notify
from regard.strict_json import parse_json


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: what to look at, the command as one would type it, and what it writes."""

    title: str  # without one, the stop belongs to the one before
    prose: str
    command: str
    picture: str | None = None
    files: tuple[str, ...] = ()  # that the page links
    scores: str | None = None  # a folder of a comparison's scores, shown by phenomenon
    needs: str | None = None  # a package without which the stop is left out


TOUR = (
    Stop(
        "Copy one key",
        "The shortest query that gives key 2 of three keys 99 % of the attention; that no shorter one does is proved.",
        'regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01 --plot copy.svg',
        "copy.svg",
    ),
    Stop(
        "Share a set",
        "Two neighbouring corners of a hexagon share the attention, each with just under one half.",
        "regard design share example:hexagon 0 1 --eps 0.01 --plot share.svg",
        "share.svg",
    ),
    Stop(
        "The textbook beside the optimum",
        "For orthonormal keys there is a textbook query. It is not the shortest.",
        "regard design share example:orthonormal 1 4 9 --eps 0.01",
    ),
    Stop(
        "Never",
        "The centre of a square: whatever the query, some corner scores at least as high. It can have one fifth.",
        "regard design ceiling example:square 4 --plot never.svg",
        "never.svg",
    ),
    Stop(
        "Most keys in a crowd",
        "Of 200 random keys in the plane only the corners of the hull can ever win.",
        "regard design winnable example:crowded",
    ),
    Stop(
        "As close as possible",
        "A target distribution, and the best that a query of norm 2 can do.",
        'regard design match example:hexagon "0.4,0.3,0.1,0.1,0.05,0.05" --max-norm 2 --plot match.svg',
        "match.svg",
    ),
    Stop(
        "A certificate, rechecked",
        "Saved, then verified from the keys alone, by code of its own.",
        "regard design copy example:gaussian 7 --eps 0.001 --out certificate.json",
        files=("certificate.json",),
    ),
    Stop("", "", "regard design verify certificate.json --keys example:gaussian"),
    Stop(
        "A vector out of a sum",
        "The matrix that recovers v_a from v_a + v_b for two lines 45 degrees apart, and what it does to noise.",
        'regard subspace extract "1; 0" "1; 1"',
    ),
    Stop(
        "One head or two?",
        "With noisy keys one head swings between two values; two heads, one for each value, stay near the middle.",
        "regard noise compare --keys 10 --spread 0.5 --iso 0.01 --scale 20 --plot noise.svg",
        "noise.svg",
    ),
    Stop(
        "When two positions coincide",
        "Sinusoidal positions are distinct in real arithmetic. In bfloat16 and two dimensions they are not.",
        "regard positions --dim 2 --length 1000 --format bfloat16 --plot positions.svg",
        "positions.svg",
    ),
    Stop(
        "How low is the rank?",
        "Singular values of 200 keys in 16 dimensions, with the coursework's bound beside the truth.",
        "regard lowrank example:gaussian --rank 4 --plot rank.svg",
        "rank.svg",
    ),
    Stop(
        "Is the textbook right?",
        "Every statement of five problem sets with a verdict for each way to read it. One of them with its proof "
        "and its picture: regard claims average-within-budget --proof --plot claim.svg",
        "regard claims --check",
    ),
    Stop(
        "The coursework's translator in one plain file",
        "Tokens, embedding, attention, feed-forward, training and perplexity in 150 lines that need torch alone. It "
        "learns a toy language; on real captions this model reaches a perplexity of 14, not 3.",
        "python -m regard.translator.one_layer",
        needs="torch",
    ),
    Stop(
        "A translator, with positions and without",
        "The coursework's one-layer encoder learns the built-in German-English corpus twice, a good minute in all. "
        "Without positions it cannot tell who did what to whom.",
        "regard translator compare builtin --with learned,positions=none --seeds 1 --set epochs=3 --out translator",
        needs="torch",
    ),
    Stop(
        "What it gets right, and what wrong",
        "Below, where positions matter most. The report has every phenomenon, learning curves, sample translations "
        "with their errors marked, and what attention looked at.",
        "regard translator report translator --out translator.html --replace",
        files=("translator.html",),
        scores="translator/scores",
        needs="torch",
    ),
)


def demo(out: str | os.PathLike[str], *, say: Notify = print) -> Path:
    """Run the tour, write everything into the folder `out`, and return the page that links it all."""
    require("The tour", "matplotlib")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the demo writes a folder: name another with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{len(TOUR)} stops, about three minutes in all, most of them for the last three; Ctrl-C stops it.")
    parts = []
    for number, stop in enumerate(TOUR, start=1):
        begun = time.monotonic()
        if stop.needs is not None and find_spec(stop.needs) is None:
            output = "Left out: it needs  pip install 'regard[translator]'"
            say(f"[{number}/{len(TOUR)}] {stop.command}  ({output})")
        else:
            output = _run(stop.command, folder, say)
            say(f"[{number}/{len(TOUR)}] {stop.command}  ({time.monotonic() - begun:.1f} s)")
        parts.append(_section(stop, output, folder))
    page = folder / "index.html"
    filled = (
        PAGE.replace("CONTENTS", _contents()).replace("NEXT", _next_steps(folder)).replace("SECTIONS", "\n".join(parts))
    )
    write_file(page, filled.encode())
    return page


def _run(command: str, folder: Path, say: Notify) -> str:
    """The command's output; an answer of "no" (exit code 1) is an answer like any other."""
    program, *rest = shlex.split(command)
    words = [sys.executable, *(["-m", "regard"] if program == "regard" else []), *rest]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        with subprocess.Popen(words, stdout=output, stderr=subprocess.PIPE, text=True, cwd=folder) as running:
            said = _relay(running, say)
        if running.returncode not in (0, 1):
            raise InputError(f"The tour stopped at `{command}`: {said}")
        output.seek(0)
        return output.read().rstrip()


def _relay(running: subprocess.Popen[str], say: Notify, *, every: float = 5.0) -> str:
    """Pass on how far a long command is, a line every few seconds; returns its last line."""
    last, shown = "", time.monotonic()
    for line in running.stderr or ():
        last = line.strip() or last
        if time.monotonic() - shown > every:
            say(f"    {last}")
            shown = time.monotonic()
    return last


def _contents() -> Html:
    titles = [stop.title for stop in TOUR if stop.title]
    return join(*(element("a", title, href=f"#{_anchor(title)}") for title in titles))


def _anchor(title: str) -> str:
    """A title as a place in the page.

    >>> _anchor("One head or two?")
    'one-head-or-two'
    """
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())


def _section(stop: Stop, output: str, folder: Path) -> Html:
    title = element("h2", stop.title, id=_anchor(stop.title)) if stop.title else None
    prose = element("p", stop.prose) if stop.prose else None
    parts = [title, prose, _terminal(stop.command, output)]
    if stop.picture is not None:
        drawing = (folder / stop.picture).read_text(encoding="utf-8")
        parts.append(element("figure", Html(drawing[drawing.index("<svg") :])))
    if stop.scores is not None:
        parts.append(phenomenon_table(folder / stop.scores))
    written = [name for name in (stop.picture, *stop.files) if name is not None and (folder / name).exists()]
    if written:
        links = Html(", ".join(element("a", name, href=name) for name in written))
        parts.append(element("p", "Open ", links))
    return element("section", *parts)


def _terminal(command: str, output: str) -> Html:
    """The command and what it said; of a long answer the end, and the whole to unfold."""
    lines, asked = output.splitlines(), element("b", f"$ {command}")
    if len(lines) <= LONGEST:
        return element("pre", asked, f"\n{output}")
    whole = element("details", element("summary", f"All {len(lines)} lines"), element("pre", output))
    return join(element("pre", asked, f"\n...\n{lines[-1]}"), whole)


def phenomenon_table(scores: Path, *, shown: int = 8) -> Html:
    """A table of how many sentences two variants translate exactly, for the phenomena that they differ most in."""
    read = [parse_json(file.read_bytes()) for file in sorted(scores.glob("*.json"))]
    if len(read) != 2:
        return Html()  # the stop was left out
    names = [Path(one["run"]).name.rpartition("-seed")[0] for one in read]
    second = {row["name"]: row for row in read[1]["by_phenomenon"]}
    pairs = [(row, second[row["name"]]) for row in read[0]["by_phenomenon"] if row["name"] in second]
    pairs.sort(key=lambda pair: -abs(pair[0]["exact"] - pair[1]["exact"]))
    head = element("tr", *(element("th", word) for word in ("phenomenon", "sentences", *names)))
    cells = [(a["name"], f"{a['pairs']:,}", f"{a['exact']:.0%}", f"{b['exact']:.0%}") for a, b in pairs[:shown]]
    rows = [element("tr", *(element("td", cell) for cell in row)) for row in cells]
    return element("table", element("caption", "Translated exactly as in the test set"), head, *rows)


def _next_steps(folder: Path) -> Html:
    """What one can do now: a list of wishes, and the commands that grant them."""
    here = shlex.quote(str(folder))
    run = f"{here}/translator/runs/learned-seed0"
    check = "regard claims average-of-two --template my.py\nregard claims average-of-two --answer my.py:query"
    wishes = [
        ("Drag a key, slide the noise, watch these runs", f"regard lab --runs {here}"),
        ("Design a query for keys of your own", "regard design copy your-keys.npy 0 --eps 0.01"),
        ("Have your own homework answer checked", check),
        ("Translate with the run above", f"regard translator translate {run} 'der Hund sieht die Katze'"),
        ("Train on sentences of your own", "regard translator train coursework --data DIR --source de --target en"),
        ("Read on: tutorial, teacher's guide, the problem sets", "make docs    # then open site/index.html"),
        ("Work in a notebook: results draw themselves", "pip install jupyterlab\njupyter lab docs/notebooks"),
        ("See every verb", "regard --help"),
    ]
    return join(*(join(element("dt", wish), element("dd", element("pre", line))) for wish, line in wishes))


LONGEST = 40  # lines of an answer that are shown at once
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Regard: a tour</title>
<style>
 body { font: 17px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; color: #1b1b1b }
 h1 { font-size: 1.9rem; margin-bottom: .2rem } h2 { margin: 2.4rem 0 .3rem; font-size: 1.25rem }
 a { color: #0064a0 } nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .95rem }
 pre { background: #f4f5f7; padding: .8rem 1rem; border-radius: 6px; white-space: pre-wrap; font-size: .82rem }
 figure { margin: .8rem 0 } svg { max-width: 100%; height: auto; background: white; border-radius: 6px }
 summary { cursor: pointer } table { border-collapse: collapse; font-size: .92rem }
 caption { text-align: left; padding-bottom: .3rem; color: #555 }
 th, td { padding: .15rem 1.4rem .15rem 0; text-align: right; border-bottom: 1px solid #d8dcdf }
 th:first-child, td:first-child { text-align: left }
 dl { display: grid; grid-template-columns: minmax(14rem, 1fr) 2fr; gap: .5rem 1.2rem; align-items: center }
 dd, dd pre { margin: 0 } dd pre { padding: .5rem .8rem }
 @media (max-width: 45rem) { dl { grid-template-columns: 1fr } th, td { padding-right: .6rem }
  table { display: block; overflow-x: auto; font-size: .85rem } }
 @media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #e6e6e6 } pre { background: #22262b } a { color: #6bbcf0 }
  caption { color: #aaa } th, td { border-color: #3a4046 }
  svg { filter: invert(0.91) hue-rotate(180deg) } }
</style>
<main>
<h1>Regard: a tour</h1>
<p>A <b>key</b> is a vector that says what an item offers, a <b>query</b> a vector that says what is sought; each
key's share of the attention is softmax of the dot products between the two, and the answer is the items' values
averaged with these shares. Every layer of a Transformer does this for every word, so which shares a query can give
at all, and how long it must be, decides what such a model can copy, average or ignore. <b>eps</b> is how much the
others may keep: copying a key within eps = 0.01 means giving it 1/(1 + 0.01) of the attention or more.</p>
<p>Every block below is a command that you can run yourself, and what it answered. Keys are counted from 0.</p>
<nav aria-label="Stops">CONTENTS<a href="#next"><b>What to do next</b></a></nav>
SECTIONS
<h2 id="next">What to do next</h2>
<dl>NEXT</dl>
</main>
</html>
"""
