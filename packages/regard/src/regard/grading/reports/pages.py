"""Pages that open offline: one for each student, one for the class. No script, no request; every word of others
escaped."""

from __future__ import annotations

import html
from collections import Counter
from importlib import resources
from urllib.parse import quote

from regard.grading.assignments.template import file_name, text_of
from regard.grading.gradebook.marks import ClassMarks, StudentMarks, TaskMark, student_view
from regard.grading.questions.assignment import Assignment, Reveal, Task
from regard.grading.questions.examination import Status

NO_REQUEST = "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'; base-uri 'none'; form-action 'none'"


def html_page(title: str, body: list[str], *, policy: str = NO_REQUEST) -> str:
    """A whole page; the policy keeps it from asking anybody for anything, whatever a submission wrote into it.

    Without one, it is for the desk's server, which has its own and serves the style."""
    css = (resources.files("regard.grading.reports") / "page.css").read_text(encoding="utf-8")
    served = '<link rel="stylesheet" href="/page.css"><link rel="icon" href="data:,">'
    style = f"<style>{css}</style>" if policy else served
    head = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else "",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape_html(title)}</title>{style}</head><body><main>",
    ]
    return "\n".join([*head, *body, "</main></body></html>\n"])


def escape_html(text: object) -> str:
    """Anything as text of a page."""
    return html.escape(str(text))


# one student


def student_page(assignment: Assignment, row: StudentMarks, *, policy: str = NO_REQUEST) -> str:
    """Marks, and for each lost point what may be told."""
    waiting = f" <span class=wait>+ {row.open} open</span>" if row.open else ""
    body = [
        f"<h1>{escape_html(assignment.title)}</h1>",
        f"<p class=soft>{escape_html(' · '.join(word for word in (row.student, row.name) if word))}</p>",
        f"<p class=total>{row.points:g} <span class=soft>of {row.of:g}</span>{waiting}</p>",
        *(f"<p>{escape_html(line)}</p>" for line in submission_notes(assignment, row)),
    ]
    body += [_card(assignment.task(one.question), one) for one in row.questions]
    body.append(
        "<p class=soft>Each answer was tried on instances drawn for this student, and by an adversary that looks for a "
        "failure. That nothing was found is no proof that it is right.</p>"
    )
    return html_page(f"{assignment.title}: {row.student}", body, policy=policy)


def submission_notes(assignment: Assignment, row: StudentMarks) -> list[str]:
    """What holds for the whole submission."""
    lines = []
    if row.refused:
        lines.append(f"Not graded: {row.refused}")
    if row.by:
        lines.append(f"Handed in by {row.by} for the group {row.group}.")
    if row.kept < 1:
        hours = row.late.total_seconds() / 3600
        lines.append(
            f"Late by {hours:.1f} hours: {row.kept:.0%} of {row.earned_points:g} points are kept. {assignment.late}"
        )
    return lines + [f"{problem[0].upper()}{problem[1:]}." for problem in row.problems if problem]


def _card(task: Task, one: TaskMark) -> str:
    kind = "wait" if one.open else "good" if one.points >= one.of else "bad"
    parts = [f'<section class="card {kind}"><header><h2>{escape_html(question_title(task))}</h2>']
    parts.append(
        f'<span class="points {kind}">{"open" if one.open else f"{one.points:g} of {one.of:g}"}</span></header>'
    )
    parts += [f"<p>{escape_html(line)}</p>" for line in student_view(task, one)]
    example = one.counterexample
    if task.reveal is Reveal.COUNTEREXAMPLE and example is not None and one.has_lost_points:
        setting = ", ".join(f"{name} = {value:g}" for name, value in example["setting"].items())
        parts.append(f"<p>The smallest counterexample found{escape_html(f', {setting}' if setting else '')}:</p>")
        parts.append(f"<pre>{escape_html(example['code'])}</pre>")
    parts += [f"<p class=soft>Note: {escape_html(note)}</p>" for note in one.notes]
    if one.printed:
        parts.append(f"<details><summary>It printed</summary><pre>{escape_html(one.printed)}</pre></details>")
    work = f" Tried: {one.work}." if one.work else ""
    ran = f" Ran in: {one.tier}." if one.tier else ""
    parts.append(
        "<details><summary>How points are given</summary>"
        f"<p>{escape_html(task.rule() + work + ran)}</p></details></section>"
    )
    return "".join(parts)


def question_title(task: Task) -> str:
    """A question as a heading: its number and its text."""
    return f"{task.id}. {' '.join(text_of(task).split())}"


# the class


def class_page(marks: ClassMarks) -> str:
    """The table, a histogram for each question, what is often wrong, and what waits for a person."""
    title = marks._assignment.title
    return html_page(title, [f"<h1>{escape_html(title)}</h1>", *class_sections(marks)])


def class_sections(marks: ClassMarks, *, links: bool = False) -> list[str]:
    """What the class's page has below its title; ``links``: from each mark to its place at the desk."""
    assignment, totals = marks._assignment, marks.totals()
    body = [f"<p>{escape_html(marks._summary())}</p>"]
    pictures = [histogram(f"All questions, of {assignment.points:g}", totals, assignment.points)]
    for task in assignment.tasks:
        points = [one.points for row in marks.rows for one in row.questions if one.question == task.id and not one.open]
        none = "" if points else ": no mark stands yet"
        pictures.append(histogram(f"{task.id}, of {task.points:g}{none}", points, task.points))
    body.append(f"<h2>How the points fell</h2><div class=grid>{''.join(pictures)}</div>")
    if marks.changed:
        body.append(
            "<h2>Changed since the marks before</h2><ul>"
            + "".join(f"<li>{escape_html(c)}</li>" for c in marks.changed)
            + "</ul>"
        )
    if marks.mistakes:
        rows = "".join(
            f"<tr><td>{escape_html(q)}</td><td class=n>{n}</td><td>{escape_html(m)}</td></tr>"
            for q, m, n in marks.mistakes[:25]
        )
        head = "<tr><th>question</th><th class=n>students</th><th>what was found</th></tr>"
        body.append(f"<h2>Most frequent mistakes</h2><div class=scroll tabindex=0><table>{head}{rows}</table></div>")
    return [*body, _waiting_section(marks), _overruled_section(marks), _table(marks, links=links)]


def _waiting_section(marks: ClassMarks) -> str:
    """What is written, counted; the others one by one, with the reason. What a group handed in is there once."""
    open_ones = [(row, one) for row in marks.rows if not row.by for one in row.questions if one.open]
    written = Counter(one.question for _, one in open_ones if one.status == Status.BY_HAND.value)
    lines = [f"{question}: {many} written, to be marked" for question, many in written.items()]
    lines += [
        f"{row.student}, {one.question}: {one.reason or one.status}"
        for row, one in open_ones
        if one.status != Status.BY_HAND.value
    ]
    lines += [f"{row.student}: {row.refused}" for row in marks.rows if row.refused]
    listed = "".join(f"<li>{escape_html(line)}</li>" for line in lines)
    return f"<h2>Waiting for a person</h2><ul>{listed}</ul>" if lines else ""


def _overruled_section(marks: ClassMarks) -> str:
    lines = "".join(f"<li>{escape_html(line)}</li>" for line in marks.overruled_lines)
    return f"<h2>Given by a person instead</h2><ul>{lines}</ul>" if lines else ""


def _table(marks: ClassMarks, *, links: bool) -> str:
    tasks = marks._assignment.tasks
    head = "".join(f"<th class=n>{escape_html(task.id)}</th>" for task in tasks)
    rows = []
    for row in marks.rows:
        cells = "".join(
            f'<td class="n {_tone(one)}">{_mark_text(row, one) if links else f"{one.points:g}{one.sign}"}</td>'
            for one in row.questions
        )
        cells = cells or "<td class=n>-</td>" * len(tasks)
        notes = "; ".join([*([f"late, {row.kept:.0%} kept"] if row.kept < 1 else []), *row.problems])
        link = f'<a href="students/{file_name(row.student)}.html">{escape_html(row.student)}</a>'
        total = f"<td class=n><b>{row.points:g}</b></td>"
        rows.append(
            f"<tr><td>{link}</td><td>{escape_html(row.name)}</td>{cells}{total}"
            f"<td class=note>{escape_html(notes)}</td></tr>"
        )
    top = f"<tr><th>student</th><th>name</th>{head}<th class=n>total</th><th>notes</th></tr>"
    return f"<h2>Everybody</h2><div class=scroll tabindex=0><table>{top}{''.join(rows)}</table></div>"


def _mark_text(row: StudentMarks, one: TaskMark) -> str:
    place = "/".join(quote(word, safe="") for word in (row.by or row.student, one.question))
    return f'<a class=mark href="#at={place}">{one.points:g}{one.sign}</a>'


def _tone(one: TaskMark) -> str:
    return "wait" if one.open else "good" if one.points >= one.of else "bad" if not one.points else ""


def histogram(title: str, values: list[float], most: float, *, bins: int = 10) -> str:
    """How many got how much, as bars; all points have a bar of their own."""
    counts = [0] * (bins + 1)
    for value in values:
        counts[min(int(bins * value / most + 1e-9), bins) if most else bins] += 1
    highest, width = max([1, *counts]), 20
    bars = []
    for i, count in enumerate(counts):
        tall = 70 * count / highest
        x = 4 + i * (width + 2)
        bars.append(f'<rect class=bar x="{x}" y="{84 - tall:.1f}" width="{width}" height="{tall:.1f}"/>')
        if count:
            bars.append(f'<text x="{x + width / 2}" y="{80 - tall:.1f}" text-anchor="middle">{count}</text>')
    wide = 4 + (bins + 1) * (width + 2)
    ends = f'<text x="4" y="97">0</text><text x="{wide - 4}" y="97" text-anchor="end">{most:g}</text>'
    label = f"{title}: {', '.join(map(str, counts))}"
    picture = f'<svg viewBox="0 0 {wide} 100" role="img" aria-label="{escape_html(label)}">{"".join(bars)}{ends}</svg>'
    return f"<figure>{picture}<figcaption>{escape_html(title)}</figcaption></figure>"
