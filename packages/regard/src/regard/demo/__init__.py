"""The tour: the main verbs on what is built in, run as a newcomer would, ending in one page of pictures.

``tour.toml`` has the stops, ``page.html`` the page around them. It may import everything, and imports little: the
commands run in processes of their own. Begin with :func:`demo`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regard.errors import InputError
from regard.extras import require
from regard.files import write_file
from regard.markup import Html, element, join
from regard.progress import Notify
from regard.strict_json import parse_json
from regard.toml import package_table

HERE = Path(__file__).parent
LONGEST = 40  # lines of an answer that are shown at once
EVERY = 5.0  # seconds between two lines on how far a long command is


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One stop of the tour, as ``tour.toml`` describes it."""

    title: str = ""
    prose: str = ""
    command: str
    picture: str | None = None
    files: Sequence[str] = ()
    scores: str | None = None
    needs: str | None = None


TOUR = tuple(Stop(**stop) for stop in package_table("regard.demo", "tour.toml")["stop"])


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
    page, filled = folder / "index.html", (HERE / "page.html").read_text(encoding="utf-8")
    for place, text in (("CONTENTS", _contents()), ("NEXT", _next_steps(folder)), ("SECTIONS", "\n".join(parts))):
        filled = filled.replace(place, text)
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


def _relay(running: subprocess.Popen[str], say: Notify) -> str:
    """Pass on how far a long command is, a line every few seconds; returns its last line."""
    last, shown = "", time.monotonic()
    for line in running.stderr or ():
        last = line.strip() or last
        if time.monotonic() - shown > EVERY:
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
    table = element("table", element("caption", "Translated exactly as in the test set"), head, *rows)
    return element("div", table, class_="wide", tabindex=0, role="group", aria_label="Translated exactly")


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
