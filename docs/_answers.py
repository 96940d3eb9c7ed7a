"""Answers in the walkthroughs: folded where the page links to them, or left out (``make docs ANSWERS=no``).

A walkthrough can be read as it is: under each question it has lines with the commands that check one's own answer and
show what a complete one contains, and ``[Our answer](answers/NAME.md)``. On the site these lines become folds: what to
construct and how to have it checked; the checklist, to tick; an answer that earns the marks; the text of that file with
the claim's verdicts and proof; and our verdict on each sentence of a published solution. Without answers these last
three are left out, and what the items of a checklist should come to, and so is whatever stands between
``<!-- answers -->`` and ``<!-- end of answers -->`` on any page; the claims' pictures are not copied.
"""

from __future__ import annotations

import html
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import regard
from regard.coursework import checklists
from regard.coursework.problem_sets import SETS
from regard.coursework.set_questions import VERDICTS, assertions_of
from regard.coursework.verdict import ClaimReport, ReadingVerdict, Status
from regard.lab.page import MEANINGS, typeset

FOLDER = Path(__file__).parent / "answers"
LINK = re.compile(r"^\[Our answer\]\(answers/([a-z0-9-]+)\.md\)$", flags=re.MULTILINE)
OWN = re.compile(r"^Check yours: `regard claims ([a-z0-9-]+) --answer.*\n\n", flags=re.MULTILINE)
COMPLETE = re.compile(r"^Checklist: (.*)$", flags=re.MULTILINE)
QUESTION = re.compile(r"`regard claims (\S+) ([^`]+)`")
PUBLISHED = re.compile(r"^Published solution: `regard claims (\S+) ([^`]+) --proof`$", re.MULTILINE)
SIGN = re.compile("<m[io][^>]*>([^<]+)</m[io]>")
PART = re.compile(r"<!-- answers -->.*?<!-- end of answers -->\n?", flags=re.DOTALL)


def wanted() -> bool:
    """Whether this build has answers: ANSWERS=no in the environment says that it has not."""
    return os.environ.get("ANSWERS", "yes").strip().lower() not in ("no", "0", "false")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return with_answers(markdown) if wanted() else without_answers(markdown)


def on_files(files: Any, **_: Any) -> Any:
    """Called by mkdocs with all files: a claim's picture is part of an answer."""
    if not wanted():
        for file in [one for one in files if one.src_uri.startswith("pictures/claim-")]:
            files.remove(file)
    return files


def without_answers(markdown: str) -> str:
    """The page without answers, and without the parts that are marked."""
    quiet = PUBLISHED.sub("", _with_checklists(markdown, keys=False))
    return PART.sub("", LINK.sub(lambda found: own(found[1]), quiet))


def with_answers(markdown: str) -> str:
    """The page with every link to an answer replaced by the answer, folded."""
    asked = QUESTION.search(markdown)
    of_set = asked[1] if asked is not None and asked[1] in SETS else ""
    told = PUBLISHED.sub(lambda found: published(found[1], found[2]), _with_checklists(markdown, keys=True))
    return LINK.sub(lambda found: own(found[1]) + "\n" + answer(found[1], of_set), told)


def _with_checklists(markdown: str, *, keys: bool) -> str:
    """The page with its checklists in full, and without the lines that the folds of :func:`own` replace."""
    return COMPLETE.sub(
        lambda found: "\n".join(checklist(*one, keys=keys) for one in QUESTION.findall(found[1])), OWN.sub("", markdown)
    )


def checklist(name: str, question: str, *, keys: bool) -> str:
    """What a complete answer contains, folded, an item a line; with keys, what each should come to in a fold inside."""
    found = checklists.of(name, question)
    items = "".join(f"<li>☐ {pretty(item.text)} ({item.worth})</li>" for item in found.items)
    marks = "".join(f"<li>{pretty(item.key)}</li>" for item in found.items)
    inside = f'<details class="abstract"><summary>What each should come to</summary><ol>{marks}</ol></details>'
    listed = (
        f'<details class="example"><summary>What a complete answer to {html.escape(found.question)} contains '
        f"({found.points} points)</summary><ol>{items}</ol>{inside if keys else ''}</details>\n"
    )
    if not (keys and found.full_answer):
        return listed
    full = f"<p>{pretty(found.full_answer)}</p>"
    return f'{listed}\n<details class="success"><summary>An answer that earns the marks</summary>{full}</details>\n'


def published(name: str, question: str) -> str:
    """What the published solution says, sentence by sentence: our verdict, why, and what shows it."""
    rows = ""
    for one in assertions_of(name, SETS[name].label(question)):
        shown = f"<code>{html.escape(one.evidence)}</code>" if one.shows else f"<pre>{html.escape(one.python)}</pre>"
        rows += (
            f"<li><p>“{pretty(one.says)}”<br><strong>{VERDICTS[one.verdict].lower()}</strong>. {pretty(one.why)}<br>"
        )
        rows += f"{shown}</p></li>" if one.shows else f"</p>{shown}</li>"
    said = "<summary>The published solution, sentence by sentence</summary>"
    return f'<details class="warning">{said}<ol>{rows}</ol></details>\n'


def own(name: str) -> str:
    """How to have one's own answer checked, folded; nothing where the claim asks for words."""
    claim = regard.claims[name]
    if not claim.is_checkable:
        return ""
    asked = claim.question
    task = f"`{asked.signature}`: {pretty(asked.task)}" if asked else "Your own model, or a part of it, part by part:"
    return f"""<details class="question" markdown>
<summary>Check your own answer</summary>

{task}

```bash
regard claims {name} --template my.py
regard claims {name} --answer my.py:{claim.function}
```

</details>
"""


def answer(name: str, of_set: str = "") -> str:
    """A claim's answer as one fold: our text, the verdict on each reading, the proof, the command."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8").replace("](../", "](")
    return "\n".join(
        [
            f'<details class="success answer" markdown>\n<summary>Our answer, and the finer points: {name}</summary>\n',
            text,
            verdicts(name, of_set),
            proof(name),
            f"\nAgain, for numbers of your own: `regard claims {name} --check --proof`{_parameters(name)}\n",
            "</details>\n",
        ]
    )


def _parameters(name: str) -> str:
    names = [parameter.name for parameter in regard.claims[name].parameters]
    return f" with `--set {names[0]}=...` (it has {', '.join(names)})." if names else "."


@cache
def verdicts(name: str, of_set: str = "") -> str:
    """One row per reading: what it says, the verdict, and what supports it; and one per set, where premises differ.

    The reading that has the premise of the page's own set comes first.
    """
    checked = regard.claims[name].check()
    mine = checked.for_set(of_set).deciding_reading if of_set else checked.judged[0]
    rows = "".join(_row(judged) for judged in sorted(checked.judged, key=lambda one: one is not mine))
    readings = f"<table><tr><th>Read as</th><th>Verdict</th></tr>{rows}</table>\n"
    return readings + (_by_set(checked) if checked.premises_differ else "")


def _by_set(checked: ClaimReport) -> str:
    rows = ""
    for source in checked.sources:
        judged = checked.reading_for_source(source)
        said = f"{html.escape(source.name)}, {html.escape(source.where)}</td><td>{pretty(judged.statement)}"
        rows += f"<tr><td>{said}</td><td><strong>{judged.verdict.status}</strong></td></tr>"
    return f"<table><tr><th>Set</th><th>Its premise</th><th>Verdict for it</th></tr>{rows}</table>\n"


def _row(judged: ReadingVerdict) -> str:
    verdict = judged.verdict
    if verdict.status is Status.REFUTED:
        why = f"{verdict.counterexample.rstrip('.')}. It holds {verdict.region.rstrip('.')}."
    elif verdict.status is Status.MEASURED:
        why = f"{verdict.because.rstrip('.')} ({verdict.by})."
    elif verdict.status in (Status.EXPLAINED, Status.UNDECIDED):
        why = verdict.because
    else:
        why = f"{'in' if verdict.status is Status.NOT_REFUTED else 'by'} {verdict.by}."
    return f"<tr><td>{pretty(judged.statement)}</td><td><strong>{verdict.status}</strong>: {pretty(why)}</td></tr>"


@cache
def proof(name: str) -> str:
    """The claim's proof, with the numbers of its default instance, in a fold of its own."""
    steps = [pretty(" ".join(step.split())) for step in regard.claims[name].proof().text.split("\n\n")]
    text = "</p><p>".join(steps)
    return f'<details class="abstract"><summary>In full, with numbers</summary><p>{text}</p></details>\n'


def pretty(text: str) -> str:
    """The claims' plain text as a page shows it: formulas in MathML, with what their signs mean under the pointer."""
    parts = typeset(text)
    return "".join(formula(part) if is_formula else _code(part) for part, is_formula in parts)


def formula(mathml: str) -> str:
    """MathML with what its signs mean as a title, which every browser shows under the pointer."""
    signs = dict.fromkeys(html.unescape(sign) for sign in SIGN.findall(mathml))
    said = "; ".join(f"{sign}: {MEANINGS[sign]}" for sign in signs if sign in MEANINGS)
    return f'<span title="{html.escape(said)}">{mathml}</span>' if said else mathml


def _code(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
