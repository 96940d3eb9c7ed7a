"""Pages that open offline: one for each student, one for the class. No script, no request; every word of others
goes through :func:`regard.markup.element`, which escapes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib import resources
from urllib.parse import quote

from regard.grading.assignments.template import file_name, text_of
from regard.grading.gradebook.marks import ClassMarks, StudentMarks, TaskMark, student_view
from regard.grading.questions.assignment import Assignment, Reveal, Task
from regard.grading.questions.examination import Status
from regard.markup import Html, element, escape, join

NO_REQUEST = "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'; base-uri 'none'; form-action 'none'"


def html_page(title: str, body: Iterable[Html], *, policy: str = NO_REQUEST) -> str:
    """A whole page; the policy keeps it from asking anybody for anything, whatever a submission wrote into it.

    Without one, it is for the desk's server, which has its own and serves the style."""
    css = (resources.files("regard.grading.reports") / "page.css").read_text(encoding="utf-8")
    served = join(element("link", rel="stylesheet", href="/page.css"), element("link", rel="icon", href="data:,"))
    head = [
        Html('<!doctype html><html lang="en"><head><meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else ""),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        join(element("title", title), element("style", Html(css)) if policy else served, Html("</head><body><main>")),
    ]
    return "\n".join(map(escape, [*head, *body, Html("</main></body></html>\n")]))


# one student


def student_page(assignment: Assignment, row: StudentMarks, *, policy: str = NO_REQUEST) -> str:
    """Marks, and for each lost point what may be told."""
    waiting = join(" ", element("span", f"+ {row.open} open", class_="wait")) if row.open else None
    body = [
        element("h1", assignment.title),
        element("p", " · ".join(word for word in (row.student, row.name) if word), class_="soft"),
        element("p", f"{row.points:g} ", element("span", f"of {row.of:g}", class_="soft"), waiting, class_="total"),
        *(element("p", line) for line in submission_notes(assignment, row)),
        *(_card(assignment.task(one.question), one) for one in row.questions),
        element(
            "p",
            "Each answer was tried on instances drawn for this student, and by an adversary that looks for a "
            "failure. That nothing was found is no proof that it is right.",
            class_="soft",
        ),
    ]
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


def _card(task: Task, one: TaskMark) -> Html:
    kind = "wait" if one.open else "good" if one.points >= one.of else "bad"
    points = "open" if one.open else f"{one.points:g} of {one.of:g}"
    title = element("h2", question_title(task))
    parts = [element("header", title, element("span", points, class_=f"points {kind}"))]
    parts += [element("p", line) for line in student_view(task, one)]
    example = one.counterexample
    if task.reveal is Reveal.COUNTEREXAMPLE and example is not None and one.has_lost_points:
        setting = "".join(f", {name} = {value:g}" for name, value in example["setting"].items())
        parts.append(element("p", f"The smallest counterexample found{setting}:"))
        parts.append(element("pre", example["code"]))
    parts += [element("p", f"Note: {note}", class_="soft") for note in one.notes]
    if one.printed:
        parts.append(element("details", element("summary", "It printed"), element("pre", one.printed)))
    work = f" Tried: {one.work}." if one.work else ""
    ran = f" Ran in: {one.tier}." if one.tier else ""
    rule = element("p", task.rule() + work + ran)
    parts.append(element("details", element("summary", "How points are given"), rule))
    return element("section", *parts, class_=f"card {kind}")


def question_title(task: Task) -> str:
    """A question as a heading: its number and its text."""
    return f"{task.id}. {' '.join(text_of(task).split())}"


# the class


def class_page(marks: ClassMarks) -> str:
    """The table, a histogram for each question, what is often wrong, and what waits for a person."""
    title = marks._assignment.title
    return html_page(title, [element("h1", title), *class_sections(marks)])


def class_sections(marks: ClassMarks, *, links: bool = False) -> list[Html]:
    """What the class's page has below its title; ``links``: from each mark to its place at the desk."""
    assignment, totals = marks._assignment, marks.totals()
    body = [element("p", marks._summary())]
    pictures = [histogram(f"All questions, of {assignment.points:g}", totals, assignment.points)]
    for task in assignment.tasks:
        points = [one.points for row in marks.rows for one in row.questions if one.question == task.id and not one.open]
        none = "" if points else ": no mark stands yet"
        pictures.append(histogram(f"{task.id}, of {task.points:g}{none}", points, task.points))
    body.append(join(element("h2", "How the points fell"), element("div", *pictures, class_="grid")))
    if marks.changed:
        body.append(_line_list("Changed since the marks before", marks.changed))
    if marks.mistakes:
        rows = [
            element("tr", element("td", q), element("td", n, class_="n"), element("td", m))
            for q, m, n in marks.mistakes[:25]
        ]
        head = (element("th", "question"), element("th", "students", class_="n"), element("th", "what was found"))
        body.append(join(element("h2", "Most frequent mistakes"), _wide_table(element("tr", *head), *rows)))
    overruled = _line_list("Given by a person instead", marks.overruled_lines)
    return [*body, _waiting_section(marks), overruled, _table(marks, links=links)]


def _line_list(title: str, lines: Iterable[str]) -> Html:
    """Lines under a heading; nothing where there are none."""
    points = [element("li", line) for line in lines]
    return join(element("h2", title), element("ul", *points)) if points else Html()


def _wide_table(*rows: Html) -> Html:
    """A table that may be wider than the window."""
    return element("div", element("table", *rows), class_="scroll", tabindex=0)


def _waiting_section(marks: ClassMarks) -> Html:
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
    return _line_list("Waiting for a person", lines)


def _table(marks: ClassMarks, *, links: bool) -> Html:
    tasks = marks._assignment.tasks
    rows = []
    for row in marks.rows:
        cells = [
            element("td", _mark_link(row, one) if links else f"{one.points:g}{one.sign}", class_=f"n {_tone(one)}")
            for one in row.questions
        ]
        cells = cells or [element("td", "-", class_="n")] * len(tasks)
        notes = "; ".join([*([f"late, {row.kept:.0%} kept"] if row.kept < 1 else []), *row.problems])
        link = element("a", row.student, href=f"students/{file_name(row.student)}.html")
        total = element("td", element("b", f"{row.points:g}"), class_="n")
        last = element("td", notes, class_="note")
        rows.append(element("tr", element("td", link), element("td", row.name), *cells, total, last))
    head = [element("th", task.id, class_="n") for task in tasks]
    names = (element("th", "student"), element("th", "name"))
    top = element("tr", *names, *head, element("th", "total", class_="n"), element("th", "notes"))
    return join(element("h2", "Everybody"), _wide_table(top, *rows))


def _mark_link(row: StudentMarks, one: TaskMark) -> Html:
    place = "/".join(quote(word, safe="") for word in (row.by or row.student, one.question))
    return element("a", f"{one.points:g}{one.sign}", class_="mark", href=f"#at={place}")


def _tone(one: TaskMark) -> str:
    return "wait" if one.open else "good" if one.points >= one.of else "bad" if not one.points else ""


def histogram(title: str, values: list[float], most: float, *, bins: int = 10) -> Html:
    """How many got how much, as bars; all points have a bar of their own."""
    counts = [0] * (bins + 1)
    for value in values:
        counts[min(int(bins * value / most + 1e-9), bins) if most else bins] += 1
    highest, width = max([1, *counts]), 20
    bars = []
    for i, count in enumerate(counts):
        tall = 70 * count / highest
        x = 4 + i * (width + 2)
        bars.append(element("rect", class_="bar", x=x, y=f"{84 - tall:.1f}", width=width, height=f"{tall:.1f}"))
        if count:
            bars.append(_words(count, x + width / 2, f"{80 - tall:.1f}", "middle"))
    wide = 4 + (bins + 1) * (width + 2)
    label = f"{title}: {', '.join(map(str, counts))}"
    ends = element("text", "0", x=4, y=97), _words(f"{most:g}", wide - 4, 97, "end")
    picture = element("svg", *bars, *ends, viewBox=f"0 0 {wide} 100", role="img", aria_label=label)
    return element("figure", picture, element("figcaption", title))


def _words(text: object, x: object, y: object, anchor: str) -> Html:
    return element("text", text, x=x, y=y, text_anchor=anchor)
