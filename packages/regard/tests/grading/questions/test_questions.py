"""Questions besides the claims: the teacher's own, statements, perplexity, words; and the students' files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from regard.coursework.catalogue import claims
from regard.errors import InputError
from regard.grading.assignments.assignment_check import Trial
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.template import file_name, write_template
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.manual_marks import gather_decisions
from regard.grading.gradebook.marks import mark_outcome
from regard.grading.gradebook.secret import Secret
from regard.grading.questions import statements
from regard.grading.questions.examination import Status, StudentAnswer, examine
from regard.grading.questions.perplexity import perplexity_of, read_hidden_sentences, share
from regard.grading.questions.statements import decide_statement, draw_statements, families
from regard.grading.reports.grades_folder import marking_page, write_marks
from regard.grading.reports.pages import class_page
from regard.grading.submissions.notebooks import code_of, defined_names
from regard.grading.submissions.students import Student
from regard.grading.submissions.submission import read_submissions
from regard.sandbox.jail import Tier

SECRET = Secret(b"a secret of the tests")
OWN = '''
"""Twice the sum."""
import numpy as np
ARGUMENTS = {"x": "an array"}
RETURNS = "one number"
def instance(rng, level): return {"x": rng.integers(-9, 9, level)}
def judge(given, answer): return abs(answer - 2 * given["x"].sum()) < 1e-9, f"it is not {2 * given['x'].sum()}"
def right(x): return 2 * np.sum(x)
def wrong_once(x): return np.sum(x)
'''


def read(tmp_path, text, **files):
    for name, content in files.items():
        (tmp_path / name.replace("_", ".")).write_text(content)
    (tmp_path / "a.toml").write_text(text)
    return read_assignment(tmp_path / "a.toml")


def run(task, code, *, seed=3):
    given = StudentAnswer(name="a.py", source=code.encode(), seed=seed)
    from regard.grading.questions.assignment import Limits

    return examine(task, given, limits=Limits(seconds=120), jail=Tier.NONE)


# the teacher's own


def test_a_question_of_the_teachers_own(tmp_path) -> None:
    task = read(tmp_path, '[[question]]\nid = "own"\nfile = "mine.py"\nfunction = "twice"', mine_py=OWN).tasks[0]
    assert run(task, "def twice(x): return 2 * x.sum()").status is Status.PASSED
    wrong = run(task, "def twice(x): return x.sum()")
    assert wrong.status is Status.FAILED
    assert wrong.reason.startswith("it is not ")
    assert wrong.counterexample["setting"] == {"level": 1}  # the smallest instance there is


def test_a_judge_that_fails_is_nobodys_zero(tmp_path) -> None:
    own = OWN.replace("return abs", "return {}[3] or abs")
    task = read(tmp_path, '[[question]]\nfile = "mine.py"\nfunction = "twice"', mine_py=own).tasks[0]
    found = run(task, "def twice(x): return 2 * x.sum()")
    assert found.status is Status.NOT_RUN
    assert "judge failed: KeyError: 3" in found.reason
    assert mark_outcome(task, found).open


# statements


@pytest.mark.slow
def test_every_statement_is_decided_by_its_claims_check() -> None:
    rng = np.random.default_rng(0)
    for family in families():
        assert any(reading.name == family.reading for reading in claims[family.claim].readings)
        values = tuple((name, options[rng.integers(len(options))]) for name, options in family.options.items())
        found = decide_statement(family, values)
        assert found is not None, family.sentence
        assert "{" not in found.text


@pytest.mark.parametrize(
    ("sentence", "values", "holds"),
    [
        ("Unit keys", {"factor": 2.0}, True),
        ("Unit keys", {"factor": 1.5}, False),
        ("For every number n >= 2 of keys and eps", {"eps": 0.1, "shift": 0.0}, True),
        ("For every number n >= 2 of keys and eps", {"eps": 0.1, "shift": -0.1}, False),
        ("{n} keys, affinely", {"n": 2}, False),
        ("{n} keys, affinely", {"n": 3}, True),
        ("For every matrix A: sigma", {"k": 3, "factor": 0.9}, False),
    ],
)
def test_a_changed_constant_is_a_false_neighbour(sentence, values, holds) -> None:
    family = next(family for family in families() if family.sentence.startswith(sentence))
    assert decide_statement(family, tuple(values.items())).holds is holds


def test_a_dropped_condition_is_a_false_neighbour() -> None:
    both = [decide_statement(family, ()) for family in families("extract-from-sum")]
    assert [one.holds for one in both] == [True, False]


@pytest.mark.slow
def test_students_have_other_statements_and_marks_by_right_minus_wrong(tmp_path) -> None:
    text = '[[question]]\nid = "s"\nkind = "statements"\nclaim = "copying-condition"\ncount = 4\nfunction = "holds"'
    task = read(tmp_path, text).tasks[0]
    mine, others = draw_statements(task, 1), draw_statements(task, 2)
    assert mine == draw_statements(task, 1)
    assert [one.text for one in mine] != [one.text for one in others]
    assert len({one.text for one in mine}) == 4
    truth = [int(one.holds) for one in mine]

    def got(answers):
        return run(task, f"def holds(): return {answers}", seed=1).share

    assert got(truth) == 1
    assert got([1 - truth[0], *truth[1:]]) == 0.5
    assert got([-1, *truth[1:]]) == 0.75
    assert got([1 - t for t in truth]) == 0
    bad = run(task, "def holds(): return [1, 0]", seed=1)
    assert "must return a list of 4 numbers, each 1, 0 or -1" in bad.reason
    assert bad.status is Status.FAILED


def test_points_of_statements_are_plain_numbers(tmp_path, monkeypatch) -> None:
    """Of another kind, ``regard assignment check`` took every wrong answer for one that passes."""
    text = '[[question]]\nkind = "statements"\nclaim = "copying-condition"\ncount = 4\nfunction = "holds"\npoints = 4'
    task = read(tmp_path, f'name = "s"\n{text}').tasks[0]
    one = SimpleNamespace(text="", holds=True)
    monkeypatch.setattr(statements, "draw_statements", lambda task, seed: [one] * 4)
    runner = SimpleNamespace(name="x.py:holds", call=lambda given, most: {"array": np.array([1.0, 1.0, 1.0, 0.0])})
    points = mark_outcome(task, statements.judge_statements(task, runner, 7)).points
    assert (points, type(points)) == (2.0, float)
    assert Trial(question="1", given="", right=False, points=points, of=task.points).is_as_expected


def test_too_many_statements_are_refused(tmp_path) -> None:
    text = '[[question]]\nkind = "statements"\nclaim = "extract-from-sum"\ncount = 9\nfunction = "holds"'
    with pytest.raises(InputError, match="extract-from-sum has 2 statements, and question '1' asks for 9"):
        draw_statements(read(tmp_path, text).tasks[0], 0)
    with pytest.raises(InputError, match="There are no statements about singular-energy"):
        draw_statements(read(tmp_path, text.replace("extract-from-sum", "singular-energy")).tasks[0], 0)
    assert statements.families("singular-energy") == []


# perplexity


HIDDEN = json.dumps({"words": 4, "pairs": [[[1, 2], [3, 0]], [[2], [1, 1, 0]]]})
PERPLEXITY = (
    '[[question]]\nid = "p"\nkind = "perplexity"\nfile = "hidden.json"\nfunction = "scores"\ngood = 2\nbad = 4\n'
)


@pytest.mark.slow
def test_perplexity_is_computed_from_scores(tmp_path) -> None:
    task = read(tmp_path, PERPLEXITY, hidden_json=HIDDEN).tasks[0]
    uniform = run(task, "import numpy as np\ndef scores(source, prefix): return np.zeros(4)")
    assert (uniform.status, uniform.share) == (Status.FAILED, 0.0)
    assert "perplexity on the hidden sentences is 4" in uniform.reason
    boast = run(task, "import numpy as np\ndef scores(source, prefix): return np.full(4, 1e6)")
    assert boast.share == 0.0  # scores that are large for every word say nothing
    short = run(task, "def scores(source, prefix): return [0.0]")
    assert "must return 4 finite numbers" in short.reason
    knows = "import numpy as np\ndef scores(source, prefix): return np.eye(4)[0] * (50 if len(prefix) == 2 else 0)"
    assert 0 < run(task, knows).share < 1


def test_perplexity_against_the_definition(tmp_path) -> None:
    (tmp_path / "h.json").write_text(HIDDEN)
    hidden = read_hidden_sentences(tmp_path / "h.json")
    table = np.random.default_rng(0).standard_normal((3, 4))
    found = perplexity_of(hidden, lambda source, prefix: table[len(prefix)])
    logs = [
        math.log(math.exp(table[place][word]) / sum(math.exp(x) for x in table[place]))
        for _, target in hidden.pairs
        for place, word in enumerate(target)
    ]
    assert found == pytest.approx(math.exp(-sum(logs) / 5))
    assert share(3, good=2, bad=4) == pytest.approx(math.log(4 / 3) / math.log(2))


@pytest.mark.parametrize(
    "text", ["", "[]", '{"words": 4}', '{"words": 2, "pairs": [[[1], [2]]]}', '{"words": 0, "pairs": []}']
)
def test_what_is_no_hidden_set(text, tmp_path) -> None:
    (tmp_path / "h.json").write_text(text)
    with pytest.raises(InputError, match=r"h\.json"):
        read_hidden_sentences(tmp_path / "h.json")


# the students' files


TWO = """
name = "week 3"
[[question]]
id = "1"
claim = "average-of-two"
[[question]]
id = "2"
text = "Why?"
checklist = [{text = "says why", points = 3, key = "because"}, "says when"]
"""


def test_the_template_asks_and_does_not_answer(tmp_path) -> None:
    written = write_template(read(tmp_path, TWO), tmp_path / "out")
    assert [path.rpartition("/")[2] for path in written.files] == ["week_3.py", "week_3.ipynb"]
    text = (tmp_path / "out" / "week_3.py").read_text()
    assert defined_names(text) == ["np", "average_of_two"]
    assert "average_of_two(np.eye(2), 0, 1, 0.5)" in text
    assert "log" not in text
    assert "T (k_a + k_b)" not in text
    book = code_of((tmp_path / "out" / "week_3.ipynb").read_bytes())
    assert "average_of_two" in book.names
    with pytest.raises(InputError, match="exists and is not overwritten"):
        write_template(read(tmp_path, TWO), tmp_path / "out")


def test_each_student_has_a_sheet_of_statements(tmp_path) -> None:
    text = 'name = "s"\n[[question]]\nkind = "statements"\nfunction = "f"\ncount = 3\nclaim = "copying-condition"'
    assignment = read(tmp_path, text)
    with pytest.raises(InputError, match="give --secret FILE and --students FILE"):
        write_template(assignment, tmp_path / "out")
    listed = {"ada": Student(id="ada"), "bob": Student(id="bob")}
    write_template(assignment, tmp_path / "out", secret=SECRET, students=listed)
    ada, bob = ((tmp_path / "out" / name / "s.py").read_text() for name in ("ada", "bob"))
    assert ada != bob
    seed = SECRET.seed("s", "ada", "1")
    for one in draw_statements(assignment.tasks[0], seed):
        assert " ".join(one.text.split()) in " ".join(ada.replace("# ", "").split())


def test_names_of_files_never_meet_and_never_lead_away() -> None:
    names = ["ada", "Ada", "../ada", "..", "a/b", "a_b", "é", "e\u0301", "x" * 300, "CON\x00"]
    made = [file_name(name) for name in names]
    assert all("/" not in name and not name.startswith(".") and len(name) < 80 and name for name in made)
    assert len({name.casefold() for name in made}) >= len(names) - 2  # two of them are the same student


# words


def words(submission, assignment) -> str:
    """What a student wrote on the second question."""
    return submission.words(assignment.tasks[1].id, [task.id for task in assignment.tasks])


def test_written_answers_are_marked_with_a_form(tmp_path) -> None:
    assignment = read(tmp_path, TWO)
    book = {
        "cells": [
            {"cell_type": "markdown", "source": "## 1\nnothing"},
            {"cell_type": "markdown", "source": "## 2 (1 point)\n\nBecause </script><script>alert(1)"},
        ]
    }
    (tmp_path / "subs").mkdir()
    (tmp_path / "subs" / "ada.ipynb").write_text(json.dumps(book))
    found = read_submissions([str(tmp_path / "subs")])
    assert words(found[0], assignment) == "(1 point)\n\nBecause </script><script>alert(1)"
    pile = pile_of(assignment, found, secret=SECRET)
    marks = grade(pile, tmp_path / "grades", jail=Tier.NONE)
    page = marking_page(pile, marks)
    assert "<script>alert(1)" not in page
    assert "connect-src" not in page
    assert "default-src 'none'" in page
    assert marks.rows[0].open == 1
    twice = replace(marks, rows=(marks.rows[0], replace(marks.rows[0], student="bob", by="ada")))
    assert "2: 1 written, to be marked" in class_page(twice)  # of a group, once
    assert ": no mark stands yet" in class_page(marks)
    saved = {"assignment": "week 3", "marks": [{"student": "ada", "question": "2", "ticks": [True, False]}]}
    (tmp_path / "written.json").write_text(json.dumps(saved))
    decided, _ = gather_decisions(tmp_path / "grades", assignment, tmp_path / "written.json")
    pile = pile_of(assignment, found, secret=SECRET, by_hand=decided)
    marks = write_marks(tmp_path / "grades", pile, grade(pile, tmp_path / "grades", jail=Tier.NONE))
    assert marks.rows[0].questions[1].points == 0.75
    assert marks.rows[0].open == 0
    assert '"marks": {"ada\\u00002": {"ticks": [true, false]}}' in (tmp_path / "grades" / "marking.html").read_text()


def test_an_answer_of_nothing_but_lines_is_read_at_once(tmp_path) -> None:
    """Each empty line once: where a heading may begin some lines before its name, a megabyte of them takes days."""
    assignment = read(tmp_path, TWO)
    (tmp_path / "subs" / "eve").mkdir(parents=True)
    (tmp_path / "subs" / "eve" / "words.md").write_text("## 2\nso" + "\n" * 1_000_000 + "  ## 1\nx\n\t## 2: and so")
    (eve,) = read_submissions([str(tmp_path / "subs")])
    assert words(eve, assignment)[:3] == "so\n"


def test_words_in_the_students_own_files_are_found(tmp_path) -> None:
    """In the plain file and in the notebook, filled in where the template says so; and without what it says itself."""
    assignment = read(tmp_path, TWO)
    python, notebook = (Path(path) for path in write_template(assignment, tmp_path / "out").files)
    (tmp_path / "subs" / "ada").mkdir(parents=True)
    (tmp_path / "subs" / "ben").mkdir()
    text = python.read_text() + "# Because the sum\n#   grows.\nx = 1  # no answer\n"
    (tmp_path / "subs" / "ada" / "hw.py").write_text(text)
    book = json.loads(notebook.read_text())
    for cell in book["cells"]:
        if "".join(cell["source"]).startswith("Your answer to 2"):
            cell["source"] = [*cell["source"], "\n\nBecause it does."]
    (tmp_path / "subs" / "ben" / "hw.ipynb").write_text(json.dumps(book))
    ada, ben = read_submissions([str(tmp_path / "subs")])
    assert words(ada, assignment) == "Because the sum\n  grows."
    assert words(ben, assignment) == "Because it does."
    (tmp_path / "subs" / "ada" / "more.md").write_text("## 2\nand this")
    (more, _) = read_submissions([str(tmp_path / "subs")])
    assert "Because the sum" in words(more, assignment)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("no", "is not what the marking form saves"),
        ('{"assignment": "other", "marks": []}', "is about the assignment 'other', not about 'week 3'"),
        (
            '{"assignment": "week 3", "marks": [{"student": "a", "question": "2", "ticks": [true]}]}',
            "do not fit its checklist",
        ),
        (
            '{"assignment": "week 3", "marks": [{"student": "a", "question": "1", "ticks": []}]}',
            "do not fit its checklist",
        ),
    ],
)
def test_what_the_form_did_not_save(data, said, tmp_path) -> None:
    (tmp_path / "w.json").write_text(data)
    with pytest.raises(InputError, match=said):
        gather_decisions(tmp_path / "grades", read(tmp_path, TWO), tmp_path / "w.json")


PLAIN = Path(__file__).parents[2] / "coursework" / "checker" / "styles" / "plain.py"


@pytest.mark.slow
def test_what_a_transformer_gets(tmp_path) -> None:
    pytest.importorskip("torch")
    assignment = read(tmp_path, '[[question]]\nid = "2"\nclaim = "translator"\nfunction = "Translator"\npoints = 7\n')
    (task,), text, total = assignment.tasks, PLAIN.read_text(), "y + self.linear2(hidden)"
    doubled = run(task, text.replace(total, f"2 * ({total})"))
    assert (doubled.status, doubled.share) == (Status.PASSED, 1)
    assert [note.partition(" the sum")[0] for note in doubled.notes] == ["2 times"]
    drops = run(task, text.replace(total, f"torch.nn.functional.dropout({total}, 0.1)"))
    assert (drops.status, drops.share) == (Status.FAILED, 6 / 7)  # all parts are right, and the whole is not
    assert drops.mistakes == ("dropout that stays on in eval()",)
